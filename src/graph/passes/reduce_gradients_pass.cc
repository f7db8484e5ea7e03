#include <algorithm>
#include <map>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/passes/pass.h"
#include "graph/passes/row_parts.h"

namespace plimsoll {
namespace {

// When a gradient is complete and can be summed over the ranks: after each micro-batch, or only after the last micro-batch of a step.
enum class Complete : uint8_t { kInMicroBatch, kInStep };

// The gradients that one collective operation sums over the ranks. They have one element type and are complete at the same time.
struct GradientBucket {
  ValueIds gradients;
  int64_t bytes = 0;
};

class GradientReduction {
 public:
  // With kData, sums all gradients over the ranks that read different batches. With kTensor, sums those gradients that each rank of a
  // tensor-parallel group computed from its own rows of the activations.
  GradientReduction(Graph& graph, int64_t num_ranks, int64_t bucket_bytes, MeshAxis axis)
      : graph_(graph), num_ranks_(num_ranks), bucket_bytes_(bucket_bytes), axis_(axis) {}

  void run() {
    num_values_ = graph_.values().size();
    sum_of_.assign(num_values_, kNoValue);
    std::vector<Op> old_ops = graph_.ops();
    for (Op& op : old_ops) {
      if (op.segment == Segment::kOptimizer) reduce_open();
      for (const ValueId id : op.inputs) {
        if (has_sum(id)) reduce_before_reader(id);
      }
      for (ValueId& id : op.inputs) {
        if (has_sum(id)) id = sum_of_[index_of(id)];
      }
      const ValueIds outputs = op.outputs;
      for (const ValueId id : outputs) {
        if (id != kNoValue && fills_a_bucket(id)) reduce_bucket_of(id);
      }
      ops_.push_back(std::move(op));
      for (const ValueId id : outputs) {
        if (id != kNoValue && is_summed(id)) add(id);
      }
    }
    reduce_open();
    graph_.replace_ops(std::move(ops_));
  }

 private:
  using BucketKind = std::pair<DType, Complete>;

  bool is_summed(ValueId id) const {
    return graph_.value(id).is_parameter_gradient &&
           (axis_ == MeshAxis::kData || is_part_of_rows(graph_, id));
  }

  bool has_sum(ValueId id) const {
    return id != kNoValue && index_of(id) < num_values_ && sum_of_[index_of(id)] != kNoValue;
  }

  // A gradient that is accumulated over micro-batches is persistent, and is only complete after the last one.
  BucketKind kind_of(ValueId gradient) const {
    const Value& value = graph_.value(gradient);
    return {value.type.dtype,
            value.storage == Storage::kGradient ? Complete::kInStep : Complete::kInMicroBatch};
  }

  // Returns true for a large gradient, which is summed alone so that the gradients before it do not wait for it.
  bool fills_a_bucket(ValueId id) const {
    const Value& value = graph_.value(id);
    return kind_of(id).second == Complete::kInMicroBatch && value.bytes({}) >= bucket_bytes_ && is_summed(id);
  }
  void reduce_bucket_of(ValueId gradient) {
    GradientBucket& bucket = open_[kind_of(gradient)];
    if (!bucket.gradients.empty()) reduce(std::exchange(bucket, {}), Segment::kBackward);
  }

  void add(ValueId gradient) {
    const Value value = graph_.value(gradient);
    PLIMSOLL_CHECK(
        !value.type.shape.has_token_rows(),
        "only the gradient of a weight can be summed over the ranks, but '{}' has one row per token",
        value.name);
    const bool is_of_rows = axis_ == MeshAxis::kTensor;
    const std::string name = value.name + (is_of_rows ? ".of_rows" : ".sum");
    const ValueId sum = graph_.add_value(graph_.unique_name(name), value.type, value.storage);
    // From here on, the sum counts as the gradient of the weight: later passes sum it over the ranks that read other batches.
    if (is_of_rows) graph_.value(gradient).is_parameter_gradient = false;
    graph_.value(sum).version_of = gradient;
    graph_.value(sum).is_parameter_gradient = true;
    graph_.value(sum).module = value.module;
    sum_of_[index_of(gradient)] = sum;
    const BucketKind kind = kind_of(gradient);
    GradientBucket& bucket = open_[kind];
    bucket.gradients.push_back(gradient);
    bucket.bytes += value.bytes({});
    if (bucket.bytes < bucket_bytes_) return;
    GradientBucket full = std::exchange(bucket, {});
    if (kind.second == Complete::kInStep) {
      full_in_step_.push_back(std::move(full));
    } else {
      reduce(full, Segment::kBackward);
    }
  }

  // The next op reads the sum of this gradient over the ranks. Therefore sums the bucket with this gradient (the gradients that one
  // operation sums) now, even if the bucket is still small. Does nothing if the gradient has been summed already.
  void reduce_before_reader(ValueId gradient) {
    const BucketKind kind = kind_of(gradient);
    if (kind.second == Complete::kInStep) return;
    GradientBucket& bucket = open_[kind];
    if (std::ranges::find(bucket.gradients, gradient) == bucket.gradients.end()) return;
    reduce(std::exchange(bucket, {}), Segment::kBackward);
  }

  // At the end of the backward pass, sums over the ranks all gradients that have not been summed yet.
  void reduce_open() {
    for (auto& [kind, bucket] : open_) {
      if (bucket.gradients.empty()) continue;
      GradientBucket last = std::exchange(bucket, {});
      if (kind.second == Complete::kInStep) {
        full_in_step_.push_back(std::move(last));
      } else {
        reduce(last, Segment::kBackward);
      }
    }
    for (const GradientBucket& bucket : std::exchange(full_in_step_, {})) reduce(bucket, Segment::kOptimizer);
  }

  void reduce(const GradientBucket& bucket, Segment segment) {
    ValueIds sums;
    for (const ValueId gradient : bucket.gradients) sums.push_back(sum_of_[index_of(gradient)]);
    Attributes attributes;
    attributes.set("ranks", num_ranks_);
    set_mesh_axis(attributes, axis_);
    ops_.push_back({.def = &all_reduce_op(),
                    .inputs = bucket.gradients,
                    .outputs = std::move(sums),
                    .attributes = std::move(attributes),
                    .segment = segment,
                    .module = graph_.value(bucket.gradients.back()).module});
  }

  Graph& graph_;
  int64_t num_ranks_;
  int64_t bucket_bytes_;
  MeshAxis axis_;
  size_t num_values_ = 0;
  std::vector<ValueId> sum_of_;  // per gradient, its sum over the ranks
  std::map<BucketKind, GradientBucket> open_;
  std::vector<GradientBucket> full_in_step_;
  std::vector<Op> ops_;
};

}  // namespace

Pass reduce_gradients_pass(int64_t num_ranks, int64_t bucket_bytes) {
  return {
      .name = "reduce_gradients",
      .numerics = Numerics::kPreserving,
      .help = "sums gradients over the ranks, several in one exchange, while the backward pass runs",
      .needed_for = "several ranks",
      .run = [=](Graph& graph) { GradientReduction(graph, num_ranks, bucket_bytes, MeshAxis::kData).run(); }};
}

Pass context_gradients_pass(int64_t num_ranks, int64_t bucket_bytes) {
  return {
      .name = "context_gradients",
      .numerics = Numerics::kChanging,
      .help = "sums gradients over the ranks that divide rows, several in one exchange, in the backward pass",
      .needed_for = "--cp_size above 1",
      .run = [=](Graph& graph) {
        if (num_ranks > 1) GradientReduction(graph, num_ranks, bucket_bytes, MeshAxis::kTensor).run();
      }};
}

}  // namespace plimsoll
