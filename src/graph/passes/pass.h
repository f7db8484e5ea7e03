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
#include "graph/passes/recompute.h"
#include "graph/passes/saved_turns.h"
#include "graph/passes/state_turns.h"

namespace plimsoll {

// Whether a pass may change the numbers that a program computes. A preserving pass is tested bitwise.
enum class Numerics : uint8_t { kPreserving, kChanging };

struct Pass {
  std::string_view name;
  Numerics numerics = Numerics::kPreserving;
  std::string_view help;
  // Of a pass without which no program runs: what a run asks for that puts it into the pipeline. Such a pass
  // is never left out. "" for all others.
  std::string_view needed_for = {};
  std::function<void(Graph&)> run;
};

// Stops before the first pass.
inline constexpr std::string_view kStopAfterNone = "none";

struct PassOptions {
  std::set<std::string, std::less<>> disabled;  // names of passes to skip
  // Bisecting: what all_passes() lists behind this one is left out, but for what is needed; "" runs all.
  std::string stop_after;
  // Called with the pass's name and the text of the graph after every pass, when set.
  std::function<void(std::string_view pass, const std::string& text)> dump;

  // Whether a pass that is not needed runs. Requires: stop_after is "", kStopAfterNone or listed.
  bool is_on(std::string_view pass) const;
};

struct PassRecord {
  std::string name;
  double milliseconds = 0;
  bool ran = false;
  bool despite_stop = false;  // it is behind the one to stop after, and needed
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

// The passes by name, in the one order in which a program runs those that its run asks for: what
// --disable_pass and --stop_after_pass name.
struct PassInfo {
  std::string_view name;
  Numerics numerics;
  std::string_view help;
  std::string_view needed_for;
};
const std::vector<PassInfo>& all_passes();

// precision.cc: 16-bit activations in a forward graph whose weights stay as they are.
Pass precision_pass(DType activations);
// frozen_weights.cc: frozen weights that only products of `dtype` activations read are held in that type.
Pass frozen_weights_pass(DType dtype, std::vector<std::string> frozen);
// unread_rows.cc: rows that nobody reads are not computed: behind the last attention a classifier reads the
// first token of each sequence only. Draws of dropout there count those rows.
Pass unread_rows_pass();
// fuse.cc: forward patterns into fused ops.
Pass fuse_pass();
// weight_copies.cc: products of 16-bit activations read persistent 16-bit copies of fp32 weights and biases,
// for devices whose products take both operands in one type. Gradients of the copies have the type
// `gradients`.
Pass weight_copies_pass(DType gradients);
// weight_copies.cc: copies of matrices are made before each product that reads one, and die with it. The same
// bits as kept copies in fp16; in bf16, whose kept copies round ties away from zero, ties go to even.
Pass copies_at_use_pass(DType copies);
// split_weights.cc: weights that are read as copies only lose their masters; the optimizer keeps what the
// copies leave of fp32 (base/split_f32.h).
Pass split_weights_pass(DType copies);
// The name of the copy.
std::string weight_copy_name(std::string_view weight, DType dtype);
// common_subexpression.cc: two ops with equal inputs and attributes become one.
Pass common_subexpression_pass();
// linear_gelu.cc: in a program that takes no gradients, a product and the bias and GELU behind it become one
// op where `has_kernel` says that a kernel computes that.
Pass linear_gelu_pass(std::function<bool(const OpView&)> has_kernel);
// linear_norm.cc: likewise a product, its bias, the residual that is added and the norm behind them.
Pass linear_norm_pass(std::function<bool(const OpView&)> has_kernel);
// linear_add.cc: likewise a product and the residual that is added to it in the norm behind it.
Pass linear_add_pass(std::function<bool(const OpView&)> has_kernel);
// first_token_attention.cc: likewise attention of which only first tokens are read, and the product before
// it.
Pass first_token_attention_pass(std::function<bool(const OpView&)> has_kernel);
// chunked_loss.cc: where the logits of a training program take more than `most_bytes` in this bucket, they
// exist for some rows at a time: classifier and loss become one op.
Pass chunked_loss_pass(const Bucket& bucket, int64_t most_bytes);
// From so many bytes of logits on the pass is worth what it computes again, two products of the classifier: a
// plan is smaller by three quarters of them at least, 48 MiB. Where they are smaller, few plans are set by
// them; where they are as large, BERT-base over 8192 tokens computes 1.2 % more in a step.
inline constexpr int64_t kMostLogitsBytes = int64_t{64} << 20;
// Rows of a chunk: a quarter of all, but of no more than 16 MiB, down to 16 rows. Smaller chunks would save
// little more of the logits and read the weight and write its gradient more often.
int64_t loss_chunk_rows(int64_t rows, int64_t row_bytes);
// dead_code.cc: ops whose outputs nobody reads. `keep`: names of values that are read from outside.
Pass dead_code_pass(std::vector<std::string> keep);
// accumulate.cc: parameter gradients live across micro-batches and are added up in place by their producers.
Pass accumulate_pass();
// recompute.cc: values are computed again in the backward pass instead of being kept.
Pass recompute_pass(RecomputeChoice choice);
// reorder.cc: an order of ops with a lower peak.
Pass reorder_pass(const Bucket& bucket);
// slice_updates.cc: updates of parameters with more than `most_elements` become several, of some rows each:
// all of those that work on elements alone, or those whose gradient is that of a looked-up table and need
// then not exist as a whole.
enum class SlicedUpdates : uint8_t { kAll, kOfLookedUpTables };
Pass slice_updates_pass(int64_t most_elements, SlicedUpdates which);
// in_place.cc: an output takes over the bytes of an input that dies there.
Pass in_place_pass();
// offload_activations.cc: saved values of at least so many bytes are in the host's memory between the passes,
// but for those that stay where it is said what room a step leaves.
Pass offload_activations_pass(const Bucket& bucket, int64_t least_bytes, SavedRoom room = {});
// updates_at_use.cc: a step's updates run in the next step's forward pass, where weights are read first.
Pass updates_at_use_pass();
// offload_states.cc: what only updates read lives in the host's memory and is copied for each update, early
// where it is said what room a step leaves.
Pass offload_states_pass(StepRoom room = {});

}  // namespace plimsoll
