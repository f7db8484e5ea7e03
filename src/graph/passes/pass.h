// A pass takes a graph and changes it. The pass manager runs passes by name, with the
// verifier after each or after the last; it can skip a pass, stop after one, and time
// and dump them. Passes do not depend on a device or an optimizer. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/rank_mesh.h"
#include "graph/ir/graph.h"
#include "graph/passes/saved_transfers.h"
#include "graph/passes/transfer_schedule.h"

namespace plimsoll {

// RecomputeChoice determines which values the backward pass recomputes instead of keeping them. It is an input of the pass recompute.
// plan/search/budget.h chooses it for a given memory limit. Pure data; thread-safe.

enum class RecomputePolicy : uint8_t {
  kNone,   // every value that the backward pass reads is kept
  kCheap,  // values that are cheap to compute are computed again: GELU, scale and shift, dropout, biases
  kFull    // a block keeps only the values that the next block reads, and the statistics of its last norm
};
std::string_view recompute_policy_name(RecomputePolicy policy);
std::optional<RecomputePolicy> find_recompute_policy(std::string_view name);

struct RecomputeChoice {
  RecomputePolicy policy = RecomputePolicy::kCheap;
  // For each block (graph/analysis/analysis.h) to which the policy does not apply: the names of the forward values that it keeps. The
  // values that a block passes to the next are always kept; all others that the backward pass reads are recomputed.
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> kept_of_block = {};
  friend bool operator==(const RecomputeChoice&, const RecomputeChoice&) = default;
};

// States whether a pass may change the numbers that a program computes. Tests compare the results with and without a preserving pass bit by
// bit.
enum class Numerics : uint8_t { kPreserving, kChanging };

struct Pass {
  std::string_view name;
  Numerics numerics = Numerics::kPreserving;
  std::string_view help;
  // Set if a run needs this pass and it can therefore not be skipped:
  // the argument of the run that requires it. "" for all other passes.
  std::string_view needed_for = {};
  std::function<void(Graph&)> run;
};

// The value of PassOptions::stop_after that prevents all passes from running.
inline constexpr std::string_view kStopAfterNone = "none";

// Determines when the graph of a program is verified: after each pass, so that an error names the pass that broke an invariant; only after
// the last pass; or not at all, for a plan that is only shown and never executed. Verification after each pass takes a fifth of the time of
// planning.
enum class Verification : uint8_t { kAfterEachPass, kOnce, kNever };

struct PassOptions {
  std::set<std::string, std::less<>> disabled;  // names of passes to skip
  // For bisecting: passes that come after this one in all_passes() run only if an argument requires them. If empty, all passes may run.
  std::string stop_after;
  // If set, called after every pass with its name and the text of the graph.
  std::function<void(std::string_view pass, const std::string& text)> dump;
  // If passes are dumped, every graph is verified before it is dumped.
  Verification verification = Verification::kAfterEachPass;
  bool verifies_each_pass() const { return verification == Verification::kAfterEachPass || dump; }

  // Returns true if the options let any pass run in addition to those that an argument requires. Requires: stop_after is "", kStopAfterNone
  // or a name in all_passes().
  bool is_on(std::string_view pass) const;

  // Returns true if both options run the same passes. `dump` and `verification` are not compared, because they do not change the graph.
  friend bool operator==(const PassOptions& a, const PassOptions& b) {
    return a.disabled == b.disabled && a.stop_after == b.stop_after;
  }
};

struct PassRecord {
  std::string name;
  double milliseconds = 0;
  bool ran = false;
  bool despite_stop =
      false;  // true if the pass ran although it comes after stop_after, because an argument requires it
  std::string_view needed_for = {};
  size_t ops_before = 0;
  size_t ops_after = 0;
};

class PassManager {
 public:
  explicit PassManager(PassOptions options) : options_(std::move(options)) {}

  // Runs one pass unless it is disabled or comes after PassOptions::stop_after. Requires: calls in the order of all_passes(). Errors:
  // kUsage if a pass is disabled that the run needs; kInternal naming the pass after which an invariant is broken, if each pass is
  // verified.
  void run(Graph& graph, const Pass& pass);
  // Verifies a graph that was changed by code outside the passes, if the options ask for verification after each pass. Errors: kInternal
  // with `when` in the message.
  void changed(const Graph& graph, std::string_view when) const;
  // Verifies the graph after the last pass of a program. Errors: kInternal.
  void finish(const Graph& graph) const;
  const std::vector<PassRecord>& records() const { return records_; }

 private:
  PassOptions options_;
  std::vector<PassRecord> records_;
  size_t next_ = 0;  // the first pass in all_passes() that may run next
};

// All passes in the order in which they run. The arguments of a run determine which of them a program uses. --disable_pass and
// --stop_after_pass take these names.
struct PassInfo {
  std::string_view name;
  Numerics numerics;
  std::string_view help;
  std::string_view needed_for;
};
const std::vector<PassInfo>& all_passes();

// tensor_parallel_pass.cc: divides the heads of attention, the columns of feed-forward layers and the vocabulary of a forward graph among
// the ranks of a tensor-parallel group. Requires: the number of ranks divides the heads and the columns. DividedHeads::kNo leaves
// language-model heads undivided. This is necessary in all programs of a plan if one of them outputs the logits.
enum class DividedHeads : uint8_t { kNo, kYes };
Pass tensor_parallel_pass(int64_t ranks, DividedHeads heads);
// sequence_parallel_pass.cc: the ranks of a tensor-parallel group divide the rows of activations wherever ops work on each row separately,
// between the matrix products that tensor_parallel has divided. Requires: tensor_parallel has run for the same number of ranks; this number
// divides the planned number of tokens of every batch.
Pass sequence_parallel_pass(int64_t ranks);
// context_parallel_pass.cc: the ranks of a group divide the rows of all activations, and store complete weights. Requires: the number of
// ranks divides the planned tokens of every batch, the heads, and the heads of keys and values; tensor_parallel has not run.
Pass context_parallel_pass(int64_t ranks);
// row_gradients_pass.cc: sums the gradients of weights that each rank has computed from its own rows. Requires: reduce_gradients has not
// run yet.
Pass row_gradients_pass(int64_t ranks);
// The stages of a pipeline. Stage s has the blocks of the model (graph/analysis/analysis.h) from first_blocks[s] up to the first block of
// the next stage. If a stage has several chunks of blocks, `first_blocks` has the first block of each chunk of the model, and with P stages
// stage s has the chunks s, s + P, s + 2 P, ...
struct PipelineDivision {
  int64_t stage = 0;  // the pipeline stage of this rank
  std::vector<int64_t> first_blocks = {0};
  int64_t chunks = 1;  // number of chunks of layers per stage
  int64_t num_stages() const { return static_cast<int64_t>(first_blocks.size()) / chunks; }
};
// pipeline_stage_pass.cc: keeps only those ops of a forward graph that one stage of a pipeline runs. Requires: there are at least as many
// blocks as stages.
Pass pipeline_stage_pass(PipelineDivision division);
// pipeline_chunks_pass.cc: puts the ops of each chunk of layers together, and records in an attribute of each op the chunk to which it
// belongs (chunk_of()). Requires: every op of the forward and of the backward pass belongs to one chunk.
Pass pipeline_chunks_pass();
// Returns the names of the model's blocks (graph/analysis/analysis.h) in the order of the ops.
std::vector<std::string> blocks_of(const Graph& graph);
// Returns the names of the weights that both the first and the last stage read. Errors: kInternal if other stages share a weight.
std::set<std::string> weights_of_both_ends(const Graph& graph, const std::vector<int64_t>& first_blocks);
// The module name of the ops by which pipeline stages exchange values.
inline constexpr std::string_view kPipelineModule = "pipeline";
// precision_pass.cc: converts the activations of a forward graph to 16 bits; weights keep their type.
Pass precision_pass(DType activations);
// frozen_weights_pass.cc: stores in `dtype` the frozen weights that are only read by matrix products with activations of that type.
Pass frozen_weights_pass(DType dtype, std::vector<std::string> frozen);
// unread_rows_pass.cc: removes the computation of rows that are not read: after the last attention a classifier reads only the first token
// of each sequence. A dropout op that then works on fewer rows draws random numbers by the indices of these rows, so that its mask changes.
Pass unread_rows_pass();
// fuse_pass.cc: replaces groups of ops of a forward graph, such as bias_add and gelu, by fused ops.
Pass fuse_pass();
// weight_copies_pass.cc: lets matrix products of 16-bit activations read persistent 16-bit copies of fp32 weights and biases, for devices
// on which both operands of a matrix product must have one type. Gradients of the copies have the type `gradients`.
Pass weight_copies_pass(DType gradients);
// weight_copies_pass.cc: makes a 16-bit copy of a matrix right before each matrix product that reads it, instead of keeping the copies. In
// fp16 the copies have the same bits as kept ones; in bf16 they round ties to even, while kept copies round ties away from zero.
Pass copies_at_use_pass(DType copies);
// weight_copies_pass.cc: removes the fp32 master of a weight if ops only read its 16-bit copy. Next to the copy, the optimizer then stores
// the other 16 bits of the fp32 value (base/split_f32.h).
Pass split_weights_pass(DType copies);
// Returns the name of the 16-bit copy of a weight.
std::string weight_copy_name(std::string_view weight, DType dtype);
// common_subexpression_pass.cc: merges two ops with equal inputs and attributes.
Pass common_subexpression_pass();
// norm_linear_pass.cc: in programs that generate text, fuses a norm, the matrix product that reads it, and the activation or gated
// activation after the product into one op if `has_kernel` returns true for that op. With few tokens, most of the time of these ops is the
// start of their kernels.
Pass norm_linear_pass(std::function<bool(const OpView&)> has_kernel);
// The passes linear_gelu, linear_norm, linear_add and first_token_attention run in programs without gradients, and
// fuse ops if `has_kernel` returns true for the fused op. linear_gelu_pass.cc: a matrix product and the bias and GELU that follow it become
// one op.
Pass linear_gelu_pass(std::function<bool(const OpView&)> has_kernel);
// linear_norm_pass.cc: a matrix product, its bias, the addition of a residual and the norm that follow become one op.
Pass linear_norm_pass(std::function<bool(const OpView&)> has_kernel);
// linear_add_pass.cc: a matrix product adds the residual that the norm after it would add; the norm remains an op.
Pass linear_add_pass(std::function<bool(const OpView&)> has_kernel);
// first_token_attention_pass.cc: an attention of which only the first token of each sequence is read, and the matrix product before it,
// become one op.
Pass first_token_attention_pass(std::function<bool(const OpView&)> has_kernel);
// chunked_loss_pass.cc: if the logits of a program take more than `most_bytes` for batches of the size `bucket`, classifier, loss and the
// count of correct predictions become one op, which computes the logits of a few rows at a time: a quarter of the rows of a batch of the
// size `usual`, the size of most batches.
Pass chunked_loss_pass(const Bucket& bucket, int64_t most_bytes, std::optional<Bucket> usual = {});
// loss_with_gradients_pass.cc: a loss that is computed in chunks of rows and the ops that compute its gradients become one op, which
// computes the logits once instead of three times.
Pass loss_with_gradients_pass(const Bucket& bucket);
// After the pass chunked_loss, the backward pass computes the logits again. This is worth the time for logits of more than 64 MiB: the
// planned memory shrinks by at least three quarters of them, 48 MiB, and BERT-base over 8192 tokens computes 1.2 % more per step. Smaller
// logits rarely determine the planned memory.
inline constexpr int64_t kMostLogitsBytes = int64_t{64} << 20;
// Returns the rows of a chunk: a quarter of all rows, but at least 16 rows, and at most as many as fit into `chunk_bytes`. Smaller chunks
// would save little more memory, and would read the weight and write its gradient more often.
int64_t loss_chunk_rows(int64_t rows, int64_t row_bytes, int64_t chunk_bytes = int64_t{16} << 20);
// fp8_products_pass.cc: computes the matrix products of linear layers from 8-bit floating-point codes (ops/scaled_matmul.cc): the forward
// products from e4m3, the backward ones from gradients in e5m2. The first and the last linear layer of the model, layers whose sizes are
// not multiples of 16, and layers that do not work on rows of tokens remain in 16 bits.
struct Fp8Choice {
  // Names of the weights of adapters. Their matrix products are too small for fp8 and remain in 16 bits.
  std::set<std::string, std::less<>> adapters = {};
  // If micro-batches are accumulated: keeps the fp8 codes of weights until the next update, instead of computing them in each micro-batch.
  // The codes take 2 bytes per weight.
  bool keeps_weights = true;
};
Pass fp8_products_pass(Fp8Choice choice);
// dead_code_pass.cc: removes ops whose outputs are not read. `keep`: names of values that code outside of the graph reads.
Pass dead_code_pass(std::vector<std::string> keep);
// accumulate_pass.cc: stores the gradients of parameters in persistent buffers, to which the ops that compute them add in every
// micro-batch.
Pass accumulate_pass();
// reduce_gradients_pass.cc: sums every gradient of a parameter over the ranks, in buckets (gradients that are summed by one operation) of
// at least `bucket_bytes`; only the last bucket may be smaller. Gradients that accumulate over micro-batches are summed once per step, at
// the beginning of the optimizer segment. Requires: num_ranks >= 1.
Pass reduce_gradients_pass(int64_t num_ranks, int64_t bucket_bytes);
// Also in reduce_gradients_pass.cc: in a context-parallel group, each rank computes gradients from its own part of each sequence. This pass
// sums them over the ranks of the group, in buckets of at least `bucket_bytes`. Requires: context_parallel has run for the same number of
// ranks; the passes reduce_gradients and shard_states run later.
Pass context_gradients_pass(int64_t num_ranks, int64_t bucket_bytes);
// shard_states_pass.cc: each rank stores the optimizer states of its own slice of every parameter and updates this slice; the ranks then
// exchange the new slices. Requires: reduce_gradients has run for the same number of ranks.
struct ShardOptions {
  int64_t num_ranks = 1;
  bool gradients = false;  // each rank also keeps only its slice of the sums of gradients
  // Adds the slices of gradients up over micro-batches. Requires: the graph has the input "accumulate".
  bool accumulates = false;
  // If set, each rank also stores only its slice of every weight that has at least this number of elements. Requires: `gradients` is true.
  std::optional<int64_t> least_divided_elements = {};
  bool all_on_first = false;  // the first rank stores all elements, and the other ranks none
};
Pass shard_states_pass(const ShardOptions& options);
// tensor_states_pass.cc: divides the optimizer states of the weights that the pass tensor_parallel has divided, and computes the norm of
// all gradients of a tensor-parallel group. Requires: reduce_gradients has run, if the mesh has several ranks on the data axis, and then
// shard_states, if these ranks divide states.
Pass tensor_states_pass(int64_t ranks);
// pipeline_states_pass.cc: sums the gradients of weights that the first and the last stage of a pipeline share, and computes the norm of
// all gradients of the model. `shared`: the names of these weights, or of their copies that the updates read. Requires: reduce_gradients
// has run, if the mesh has several ranks on the data axis.
Pass pipeline_states_pass(PipelineDivision division, std::set<std::string> shared);
// gather_weights_pass.cc: gathers the weights of a block of the model that are divided among the ranks, while the previous block computes,
// and frees them after the last op of the block. `divided`: weights that the training program of the plan divides. kGatheredAgain: the
// backward pass gathers the weights a second time. kKeptForBackward: they are kept from the forward pass.
enum class GatheredWeights : uint8_t { kGatheredAgain, kKeptForBackward };
Pass gather_weights_pass(std::map<std::string, RankSlices> divided,
                         GatheredWeights gathered = GatheredWeights::kGatheredAgain);
// gather_at_use_pass.cc: exchanges new weights of layers during the forward pass of the next step instead of after the updates. Requires:
// shard_states has run, a step has a single micro-batch, and updates run in the optimizer segment.
Pass gather_at_use_pass();
// map_peers_pass.cc: marks the collective operations along an axis of the mesh to be executed by kernels on GPUs that map each other's
// memory. Unmarked operations are executed by a communication library.
Pass map_peers_pass(MeshAxis axis);
// delay_gradients_pass.cc: computes gradients of weights while the ranks exchange the last gradients of the backward pass.
struct DelayOptions {
  // `op_ms` returns the estimated milliseconds of an op. `exchange_ms` returns the milliseconds of each collective operation of a graph, by
  // the position of its op.
  std::function<double(const OpView&)> op_ms = {};
  std::function<std::vector<double>(const Graph&)> exchange_ms = {};
  Bucket bucket = {};
};
Pass delay_gradients_pass(DelayOptions options);
// recompute_pass.cc: computes values again in the backward pass instead of keeping them.
Pass recompute_pass(RecomputeChoice choice);
// reorder_pass.cc: finds an order of ops with a lower peak.
Pass reorder_pass(const Bucket& bucket);
// slice_updates_pass.cc: cuts the update of a parameter with more than `most_elements` elements into several ops that each update some
// rows. kAll: applies to every update that treats each element separately. kOfLookedUpTables: applies only to embedding tables, whose
// gradient then never exists as a whole.
enum class SlicedUpdates : uint8_t { kAll, kOfLookedUpTables };
Pass slice_updates_pass(int64_t most_elements, SlicedUpdates which);
// in_place_pass.cc: an output of an op overwrites an input that no later op reads.
Pass in_place_pass();
// offload_activations_pass.cc: stores values of at least `least_bytes` that the forward pass saves for the backward pass in host memory
// until the backward pass needs them. If `room` states the free memory of the device, values that fit stay on the device.
Pass offload_activations_pass(const Bucket& bucket, int64_t least_bytes, ActivationHeadroom room = {});
// updates_at_use_pass.cc: runs the updates of a step in the forward pass of the next step, before weights are read.
Pass updates_at_use_pass();
// offload_states_pass.cc: stores values that only updates read in `place`, which is host memory or a file on a disk, and copies them to the
// device for each update. If `room` states the free memory of the device, the copies start earlier.
Pass offload_states_pass(MemoryHeadroom room = {}, Space place = Space::kHost);

// The pass of quantized_weights_pass.cc: matrices that no op updates are stored in 4 or 8 bits, and converted back to a floating-point type
// right before each matrix product that reads them. The persistent value with the name of the weight then contains the codes; the scales
// are separate persistent values.

// The arrays of a quantized matrix; kernels/quantization determines their sizes.
struct QuantizedWeight {
  std::string name;
  int64_t parts = 1;  // number of groups of rows that are quantized separately
  int64_t num_codes = 0;
  int64_t num_scales = 0;
  int64_t num_second_scales = 0;  // 0 if the scales are fp32 numbers
};

// Weights that any op other than a matrix product reads keep their type. `format` is a result of quantized_format_name(). The weights are
// converted back to the type of the activations that they are multiplied with.
Pass quantized_weights_pass(std::string format, std::vector<QuantizedWeight> weights);

}  // namespace plimsoll
