#include "graph/autodiff/autodiff.h"

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Backward final : public GradientContext {
 public:
  Backward(Graph& graph, std::span<const ValueId> wanted) : graph_(graph) {
    // Marks the values that depend on a parameter; only these need gradients.
    reaches_.assign(graph.values().size(), false);
    for (ValueId id : wanted) reaches_[index_of(id)] = true;
    for (const Op& op : graph.ops()) {
      bool any = false;
      for (ValueId id : op.inputs) any = any || (id != kNoValue && reaches_[index_of(id)]);
      for (ValueId id : op.outputs) reaches_[index_of(id)] = reaches_[index_of(id)] || any;
    }
    terms_.resize(graph.values().size());
  }

  void run(ValueId loss, ValueId seed) {
    graph_.set_segment(Segment::kBackward);
    const size_t num_forward_ops = graph_.ops().size();
    graph_.set_current_module(graph_.op(graph_.value(loss).producer).module);
    terms_[index_of(loss)].push_back(
        seed != kNoValue ? seed : emit(graph_, fill_op(), {loss}, {{"value", 1.0}}, "d_loss"));
    run_ops(num_forward_ops);
  }

  void run(std::span<const BackwardSeed> seeds) {
    graph_.set_segment(Segment::kBackward);
    for (const BackwardSeed& seed : seeds) terms_[index_of(seed.value)].push_back(seed.gradient);
    run_ops(graph_.ops().size());
  }

  void run_ops(size_t num_forward_ops) {
    for (size_t i = num_forward_ops; i-- > 0;) {
      op_ = graph_.ops()[i];
      bool reached = false;
      bool useful = false;
      for (ValueId id : op_.outputs) reached = reached || !terms_[index_of(id)].empty();
      for (ValueId id : op_.inputs) useful = useful || (id != kNoValue && reaches_[index_of(id)]);
      if (!reached || !useful) continue;
      graph_.set_current_module(op_.module);
      schema_of(op_).gradient(*this);
    }
  }

  ValueId sum_of(ValueId id) {
    std::vector<ValueId>& terms = terms_[index_of(id)];
    while (terms.size() > 1) {
      // The terms of a gradient, one per use of the value, may have different types, because the gradient rule of an op can choose the
      // type. They are added in the wider type.
      const DType widest = wider(graph_.value(terms[0]).type.dtype, graph_.value(terms[1]).type.dtype);
      const ValueId sum = emit(graph_, add_op(), {in_type(terms[0], widest), in_type(terms[1], widest)}, {},
                               "d_" + graph_.value(id).name);
      terms.erase(terms.begin());
      terms[0] = sum;
    }
    return terms.empty() ? kNoValue : terms[0];
  }

  // Returns the gradients of the values in `wanted`, and marks them as gradients of parameters.
  std::vector<ValueId> gradients_of(std::span<const ValueId> wanted) {
    std::vector<ValueId> gradients;
    for (const ValueId id : wanted) {
      gradients.push_back(sum_of(id));
      if (gradients.back() != kNoValue) graph_.value(gradients.back()).is_parameter_gradient = true;
    }
    return gradients;
  }

  Graph& graph() override { return graph_; }
  const Op& op() const override { return op_; }
  ValueId d_output(int i) override { return sum_of(op_.outputs[static_cast<size_t>(i)]); }
  std::pair<ValueId, ValueId> d_output_terms(int i) override {
    std::vector<ValueId>& terms = terms_[index_of(op_.outputs[static_cast<size_t>(i)])];
    while (terms.size() > 2) {
      const ValueId sum = emit(graph_, add_op(), {terms[0], terms[1]}, {}, "d_sum");
      terms.erase(terms.begin());
      terms[0] = sum;
    }
    if (terms.empty()) return {kNoValue, kNoValue};
    return {terms[0], terms.size() > 1 ? terms[1] : kNoValue};
  }
  bool wants(int i) const override {
    const ValueId id = op_.inputs[static_cast<size_t>(i)];
    return id != kNoValue && reaches_[index_of(id)];
  }
  void set(int i, ValueId gradient) override {
    terms_[index_of(op_.inputs[static_cast<size_t>(i)])].push_back(gradient);
  }

 private:
  static DType wider(DType a, DType b) { return dtype_bytes(a) >= dtype_bytes(b) ? a : b; }
  ValueId in_type(ValueId id, DType dtype) {
    if (graph_.value(id).type.dtype == dtype) return id;
    return emit(graph_, cast_op(), {id}, {{"dtype", std::string(dtype_name(dtype))}});
  }

  Graph& graph_;
  Op op_;
  std::vector<bool> reaches_;
  // for each value of the forward pass: the terms of its gradient that have been found so far
  std::vector<std::vector<ValueId>> terms_;
};

}  // namespace

std::vector<ValueId> add_backward(Graph& graph, ValueId loss, std::span<const ValueId> wanted, ValueId seed) {
  PLIMSOLL_CHECK(graph.value(loss).producer != kNoOp,
                 "cannot differentiate the loss '{}': no op of the graph computes it",
                 graph.value(loss).name);
  PLIMSOLL_CHECK(seed == kNoValue || graph.value(seed).type == graph.value(loss).type,
                 "the seed '{}' of the backward pass must have the type of the loss, but has another",
                 graph.value(seed).name);
  Backward backward(graph, wanted);
  backward.run(loss, seed);
  return backward.gradients_of(wanted);
}

std::vector<ValueId> add_backward(Graph& graph, std::span<const BackwardSeed> seeds,
                                  std::span<const ValueId> wanted) {
  for (const BackwardSeed& seed : seeds) {
    PLIMSOLL_CHECK(graph.value(seed.gradient).type == graph.value(seed.value).type,
                   "the incoming gradient '{}' must have the type of the value '{}', but has another",
                   graph.value(seed.gradient).name, graph.value(seed.value).name);
  }
  Backward backward(graph, wanted);
  backward.run(seeds);
  return backward.gradients_of(wanted);
}

}  // namespace plimsoll
