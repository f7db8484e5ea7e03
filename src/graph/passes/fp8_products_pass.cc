#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Tensor cores read rows of fp8 that begin at multiples of 16 bytes.
constexpr int64_t kMultiple = 16;

// Runs on a differentiated graph. A linear layer y = x W^T has three matrix products: y, dX = dY W and dW = dY^T x. In the layers that
// choose_layers() selects, these products read fp8 codes. Each of x, dY and W is quantized once, with and without transposition, because
// two products read it.
class Fp8Products {
 public:
  Fp8Products(Graph& graph, const Fp8Choice& choice)
      : graph_(graph), choice_(choice), flag_(graph.find("accumulate")) {
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const Value& value = graph.values()[i];
      if (value.storage == Storage::kInput && value.input.content == InputContent::kSequenceStarts)
        cu_seqlens_ = static_cast<ValueId>(i);
    }
  }

  void run() {
    choose_layers();
    std::vector<Op> old_ops = graph_.ops();
    for (Op& op : old_ops) {
      const Product product = product_of(op);
      if (product != Product::kOther) to_codes(op, product);
      ops_.push_back(std::move(op));
    }
    graph_.replace_ops(std::move(ops_));
    graph_.drop_unused_values();
  }

 private:
  enum class Product : uint8_t { kOther, kForward, kOfInput, kOfWeight };

  // The fp8 codes of a value, the transposed codes, and their scale.
  struct Codes {
    ValueId q, q_t, scale;
  };

  bool is_weight(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.storage == Storage::kWeight && value.type.shape.rank() == 2;
  }

  // If the op is the matrix product of a linear layer that is not an adapter, returns the weight of the layer, and otherwise kNoValue.
  // Layers too small for fp8 are included, because one of them may be the first or the last layer.
  ValueId weight_of_layer(const Op& op) const {
    ValueId weight = kNoValue;
    if (op.segment != Segment::kForward) return kNoValue;
    if (op.def == &matmul_op() && op.attributes.integer("tb") == 1) weight = op.inputs[MatmulOp::kB];
    if (op.def == &linear_cross_entropy_op() || op.def == &linear_cross_entropy_with_gradients_op())
      weight = op.inputs[LinearCrossEntropyOp::kW];
    if (weight == kNoValue || !is_weight(weight) || choice_.adapters.contains(graph_.value(weight).name))
      return kNoValue;
    return weight;
  }

  bool can_quantize(const Op& op) const {
    if (op.def != &matmul_op() || op.attributes.integer("ta") != 0) return false;
    const Value& x = graph_.value(op.inputs[MatmulOp::kA]);
    const Shape& w = graph_.value(op.inputs[MatmulOp::kB]).type.shape;
    return dtype_bytes(x.type.dtype) == 2 && x.type.shape.has_token_rows() && !w.depends_on_bucket() &&
           w[0].offset % kMultiple == 0 && w[1].offset % kMultiple == 0;
  }

  // Chooses the layers that read fp8 codes: those whose sizes allow it, except the first and the last layer of the model.
  void choose_layers() {
    std::vector<const Op*> layers;
    for (const Op& op : graph_.ops()) {
      if (weight_of_layer(op) != kNoValue) layers.push_back(&op);
    }
    for (size_t i = 1; i + 1 < layers.size(); ++i) {
      const Op& op = *layers[i];
      if (!can_quantize(op)) continue;
      weights_.emplace(op.module, op.inputs[MatmulOp::kB]);
      inputs_.emplace(op.module, op.inputs[MatmulOp::kA], columns_of(op.inputs[MatmulOp::kB]));
    }
    for (const Op& op : graph_.ops()) {
      if (product_of(op) == Product::kOfInput) weights_in_backward_.insert(op.inputs[MatmulOp::kB]);
    }
  }

  // Returns the number of output columns of the layer, given its weight or the gradient of its weight.
  int64_t columns_of(ValueId weight) const { return graph_.value(weight).type.shape[0].offset; }

  // Returns which of the three matrix products of a selected layer the op computes, or kOther. A backward op has the module of its forward
  // op, which identifies the layer. An adapter in the same module may read the same x, so the number of columns must match too.
  Product product_of(const Op& op) const {
    if (op.def != &matmul_op()) return Product::kOther;
    const bool ta = op.attributes.integer("ta") != 0, tb = op.attributes.integer("tb") != 0;
    const std::pair key(op.module, op.inputs[MatmulOp::kB]);
    const bool forward = op.segment == Segment::kForward;
    if (forward && !ta && tb && weights_.contains(key)) return Product::kForward;
    if (forward || tb) return Product::kOther;
    if (!ta && weights_.contains(key)) return Product::kOfInput;
    if (ta && inputs_.contains({op.module, op.inputs[MatmulOp::kB], columns_of(op.outputs[MatmulOp::kC])}))
      return Product::kOfWeight;
    return Product::kOther;
  }

  void to_codes(Op& op, Product product) {
    const DType format = product == Product::kForward ? DType::kE4M3 : DType::kE5M2;
    const ValueId left = op.inputs[MatmulOp::kA], right = op.inputs[MatmulOp::kB];
    const Codes a = codes_of(left, format, op), b = codes_of(right, DType::kE4M3, op);
    const DType dtype = graph_.value(op.outputs[MatmulOp::kC]).type.dtype;
    op.inputs = {product == Product::kOfWeight ? a.q_t : a.q,
                 product == Product::kForward ? b.q : b.q_t,
                 op.inputs[MatmulOp::kBias],
                 op.inputs[MatmulOp::kInto],
                 op.inputs[MatmulOp::kFlag],
                 a.scale,
                 b.scale};
    op.def = &scaled_matmul_op();
    op.attributes = {{"dtype", std::string(dtype_name(dtype))}};
  }

  // Returns the codes of a value, and inserts the op that computes them before the first matrix product that reads them.
  const Codes& codes_of(ValueId id, DType format, const Op& reader) {
    const auto [found, is_new] = codes_.try_emplace({id, format});
    if (!is_new) return found->second;
    const std::string name = graph_.value(id).name + "." + std::string(dtype_name(format));
    const bool kept = choice_.keeps_weights && flag_ != kNoValue && is_weight(id);
    Op op{.def = &quantize_fp8_op(),
          .inputs = ValueIds(QuantizeFp8Op::kCuSeqlens + 1, kNoValue),
          .outputs = {},
          .attributes = {{"format", std::string(dtype_name(format))}},
          .segment = reader.segment,
          .module = reader.module};
    op.inputs[QuantizeFp8Op::kX] = id;
    if (graph_.value(id).type.shape.has_token_rows()) op.inputs[QuantizeFp8Op::kCuSeqlens] = cu_seqlens_;
    if (kept) op.inputs[QuantizeFp8Op::kFlag] = flag_;
    const std::vector<ValueType> types = op.def->infer({graph_, op});
    graph_.set_current_module(reader.module);
    constexpr std::array kSuffixes{"", ".transposed", ".scale"};
    for (int i = 0; i < static_cast<int>(kSuffixes.size()); ++i) {
      const bool is_read = i != QuantizeFp8Op::kQT || weights_in_backward_.contains(id);
      op.outputs.push_back(add_output(op, i, name + kSuffixes[static_cast<size_t>(i)],
                                      types[static_cast<size_t>(i)], kept && is_read));
    }
    found->second = {op.outputs[QuantizeFp8Op::kQ], op.outputs[QuantizeFp8Op::kQT],
                     op.outputs[QuantizeFp8Op::kScale]};
    ops_.push_back(std::move(op));
    return found->second;
  }

  // Declares an output of a quantize op. If the output is kept across micro-batches, it is declared as the new version of a persistent
  // value.
  ValueId add_output(Op& op, int output, const std::string& name, const ValueType& type, bool kept) {
    if (!kept) return graph_.add_value(graph_.unique_name(name), type, Storage::kTransient);
    const ValueId buffer = graph_.add_value(name, type, Storage::kWeight);
    op.inputs[static_cast<size_t>(QuantizeFp8Op::kIntoQ + output)] = buffer;
    const ValueId written = graph_.add_value(graph_.unique_name(name + ".new"), type, Storage::kWeight);
    graph_.value(written).version_of = buffer;
    return written;
  }

  Graph& graph_;
  const Fp8Choice& choice_;
  ValueId flag_;  // the input flag that is 0 in the first micro-batch of a step and 1 in the others
  ValueId cu_seqlens_ = kNoValue;
  std::set<std::pair<ModuleId, ValueId>> weights_;  // weights of the selected layers, by module
  std::set<std::tuple<ModuleId, ValueId, int64_t>>
      inputs_;  // inputs of the selected layers, with the module and the number of output columns of the layer
  std::set<ValueId> weights_in_backward_;
  std::map<std::pair<ValueId, DType>, Codes> codes_;
  std::vector<Op> ops_;
};

}  // namespace

Pass fp8_products_pass(Fp8Choice choice) {
  return {.name = "fp8_products",
          .numerics = Numerics::kChanging,
          .help =
              "computes the matrix products of all linear layers except the first and the last from 8-bit "
              "floating-point codes with a scale per tensor (--fp8)",
          .run = [choice = std::move(choice)](Graph& graph) { Fp8Products(graph, choice).run(); }};
}

}  // namespace plimsoll
