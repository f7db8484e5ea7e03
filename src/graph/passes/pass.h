// A pass: graph in, graph out; and the manager that runs passes by name with the verifier before and after
// each, and that can switch one off, stop after one, time and dump them. Not thread-safe. Passes know no
// device and no optimizer.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/recompute_pass.h"
#include "graph/passes/saved_transfers.h"
#include "graph/passes/transfer_schedule.h"

namespace plimsoll {

// Whether a pass may change the numbers that a program computes. A preserving pass is tested bitwise.
enum class Numerics : uint8_t { kPreserving, kChanging };

struct Pass {
  std::string_view name;
  Numerics numerics = Numerics::kPreserving;
  std::string_view help;
  // Some passes cannot be left out, because a run asks for what they do and could not be executed without
  // them. For those this says what the run asked for; "" for all others.
  std::string_view needed_for = {};
  std::function<void(Graph&)> run;
};

// Stops before the first pass.
inline constexpr std::string_view kStopAfterNone = "none";

struct PassOptions {
  std::set<std::string, std::less<>> disabled;  // names of passes to skip
  // For bisecting: passes that all_passes() lists behind this one do not run, unless they are needed. "" runs
  // all.
  std::string stop_after;
  // Called with the pass's name and the text of the graph after every pass, when set.
  std::function<void(std::string_view pass, const std::string& text)> dump;

  // Whether a pass that is not needed runs. Requires: stop_after is "", kStopAfterNone or listed.
  bool is_on(std::string_view pass) const;

  // Returns true if both run the same passes. `dump` does not change what they do.
  friend bool operator==(const PassOptions& a, const PassOptions& b) {
    return a.disabled == b.disabled && a.stop_after == b.stop_after;
  }
};

struct PassRecord {
  std::string name;
  double milliseconds = 0;
  bool ran = false;
  bool despite_stop = false;  // ran though it is behind stop_after, because it is needed
  std::string_view needed_for = {};
  size_t ops_before = 0;
  size_t ops_after = 0;
};

class PassManager {
 public:
  explicit PassManager(PassOptions options) : options_(std::move(options)) {}

  // Runs one pass unless it is switched off or behind the one to stop after. Requires: passes come in the
  // order of all_passes(). Errors: kUsage for a needed pass that is switched off; kInternal naming the pass
  // after which the graph does not verify.
  void run(Graph& graph, const Pass& pass);
  const std::vector<PassRecord>& records() const { return records_; }

 private:
  PassOptions options_;
  std::vector<PassRecord> records_;
  size_t next_ = 0;  // the first in all_passes() that may come
};

// All passes, in the order in which they run; a program runs those that its run asks for. --disable_pass and
// --stop_after_pass take these names.
struct PassInfo {
  std::string_view name;
  Numerics numerics;
  std::string_view help;
  std::string_view needed_for;
};
const std::vector<PassInfo>& all_passes();

// precision_pass.cc: 16-bit activations in a forward graph whose weights stay as they are.
Pass precision_pass(DType activations);
// frozen_weights_pass.cc: frozen weights that only products of `dtype` activations read are held in that type.
Pass frozen_weights_pass(DType dtype, std::vector<std::string> frozen);
// unread_rows_pass.cc: rows that nobody reads are not computed. Behind the last attention a classifier reads only
// the first token of each sequence. There dropout numbers its draws by the rows that are left.
Pass unread_rows_pass();
// fuse_pass.cc: forward patterns into fused ops.
Pass fuse_pass();
// weight_copies_pass.cc: products of 16-bit activations read persistent 16-bit copies of fp32 weights and biases,
// for devices whose products take both operands in one type. Gradients of the copies have the type
// `gradients`.
Pass weight_copies_pass(DType gradients);
// weight_copies_pass.cc: 16-bit copies of matrices are made right before each product that reads one and live no
// longer, instead of being kept. In fp16 the copies have the same bits as kept ones; in bf16 they round ties
// to even, while kept ones round them away from zero.
Pass copies_at_use_pass(DType copies);
// split_weights_pass.cc: a weight of which only the 16-bit copy is read needs no fp32 master: the optimizer keeps
// just the 16 bits by which the copy differs from it (base/split_f32.h).
Pass split_weights_pass(DType copies);
// The name of a weight's 16-bit copy.
std::string weight_copy_name(std::string_view weight, DType dtype);
// common_subexpression_pass.cc: two ops with equal inputs and attributes become one.
Pass common_subexpression_pass();
// The next four run in programs that take no gradients, and fuse where `has_kernel` says that a kernel
// computes the fused op. linear_gelu_pass.cc: a product and the bias and GELU behind it become one op.
Pass linear_gelu_pass(std::function<bool(const OpView&)> has_kernel);
// linear_norm_pass.cc: so do a product, its bias, the residual that is added and the norm behind them.
Pass linear_norm_pass(std::function<bool(const OpView&)> has_kernel);
// linear_add_pass.cc: so do a product and the residual that the norm behind it would add; the norm stays.
Pass linear_add_pass(std::function<bool(const OpView&)> has_kernel);
// first_token_attention_pass.cc: so do an attention of which only first tokens are read, and the product before
// it.
Pass first_token_attention_pass(std::function<bool(const OpView&)> has_kernel);
// chunked_loss_pass.cc: where the logits of a training program take more than `most_bytes` in this bucket, they
// exist for some rows at a time: classifier and loss become one op.
Pass chunked_loss_pass(const Bucket& bucket, int64_t most_bytes);
// The least bytes of logits for which the pass is worth its price, which is computing two products of the
// classifier again: a plan then gets smaller by at least three quarters of them, 48 MiB, and BERT-base over
// 8192 tokens computes 1.2 % more in a step. Smaller logits rarely decide how large a plan is.
inline constexpr int64_t kMostLogitsBytes = int64_t{64} << 20;
// The rows of a chunk: a quarter of all rows, but at most as many as take 16 MiB, and at least 16. Smaller
// chunks would save little more, and would read the weight and write its gradient more often.
int64_t loss_chunk_rows(int64_t rows, int64_t row_bytes);
// dead_code_pass.cc: ops whose outputs nobody reads. `keep`: names of values that are read from outside.
Pass dead_code_pass(std::vector<std::string> keep);
// accumulate_pass.cc: parameter gradients live across micro-batches and are added up in place by their producers.
Pass accumulate_pass();
// recompute_pass.cc: values are computed again in the backward pass instead of being kept.
Pass recompute_pass(RecomputeChoice choice);
// reorder_pass.cc: an order of ops with a lower peak.
Pass reorder_pass(const Bucket& bucket);
// slice_updates_pass.cc: the update of a parameter with more than `most_elements` becomes several, of some rows
// each. kAll: every update that treats each element alone. kOfLookedUpTables: those of embedding tables,
// whose gradient then never exists as a whole.
enum class SlicedUpdates : uint8_t { kAll, kOfLookedUpTables };
Pass slice_updates_pass(int64_t most_elements, SlicedUpdates which);
// in_place_pass.cc: an output takes over the bytes of an input that dies there.
Pass in_place_pass();
// offload_activations_pass.cc: values of at least `least_bytes` that are saved for the backward pass lie in the
// host's memory until then. Where `room` says how much of the device a step leaves free, some of them stay.
Pass offload_activations_pass(const Bucket& bucket, int64_t least_bytes, ActivationHeadroom room = {});
// updates_at_use_pass.cc: a step's updates run in the next step's forward pass, where weights are read first.
Pass updates_at_use_pass();
// offload_states_pass.cc: what only updates read lives in the host's memory and is copied to the device for each
// update. Where `room` says how much of the device a step leaves free, it comes early.
Pass offload_states_pass(MemoryHeadroom room = {});

}  // namespace plimsoll
