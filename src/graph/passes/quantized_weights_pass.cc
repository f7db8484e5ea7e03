#include "graph/passes/pass.h"

#include <map>
#include <optional>

#include "graph/ops/dequantize.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

bool only_products_read(const Graph& graph, ValueId weight) {
  bool any = false;
  for (const Op& op : graph.ops()) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] != weight) continue;
      if (op.def != &matmul_op() || i != MatmulOp::kB) return false;
      any = true;
    }
  }
  return any;
}

struct Arrays {
  const QuantizedWeight* weight = nullptr;
  ValueIds values;  // the codes, scales and further arrays, in the order of the inputs of a dequantize op
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t parts = 1;
};

// Returns how the ranks of a tensor-parallel group divide an array of `count` numbers (codes or scales) of a weight that they divide. The
// rows of the weight are quantized in `units` separate groups. The array is divided in the same way as the weight, if each number belongs
// to elements of one rank only. Otherwise every rank stores the complete array and the function returns nothing. An example is an array
// with one scale per row if the ranks divide the columns.
std::optional<TensorSplit> split_of_array(const TensorSplit& weight, int64_t count, int64_t units) {
  const int64_t elements_per_number = weight.whole_elements() / count;
  TensorSplit split{.ranks = weight.ranks, .parts = weight.parts, .whole = Shape{count}};
  for (int64_t& part : split.parts) {
    if (part / weight.ranks % elements_per_number != 0) return std::nullopt;
    part /= elements_per_number;
  }
  const bool is_flat = weight.whole_elements() / units % elements_per_number == 0;
  return is_flat ? std::optional(split) : std::nullopt;
}

// Replaces a weight that the ranks divide by its codes, which get the name of the weight, and by its scales. The ranks divide the codes,
// and also the scales if no scale belongs to two ranks.
Arrays make_divided_arrays(Graph& graph, ValueId id, const QuantizedWeight& weight) {
  const Value whole = graph.value(id);
  const auto codes = split_of_array(*whole.split, weight.num_codes, weight.parts);
  const auto scales = split_of_array(*whole.split, weight.num_scales, weight.parts);
  // With 8 bits, there is one scale per row.
  const bool has_scale_per_row = weight.num_codes == whole.split->whole_elements();
  PLIMSOLL_CHECK(codes && (scales || has_scale_per_row) && weight.num_second_scales == 0,
                 "the blocks of the quantized weight '{}' cannot be divided evenly among the ranks",
                 weight.name);
  const Shape& shape = whole.type.shape;
  Arrays arrays{.weight = &weight, .values = {id}, .rows = shape[0].offset, .columns = shape[1].offset};
  const auto set = [&](ValueId array, DType dtype, int64_t count, const std::optional<TensorSplit>& split) {
    Value& value = graph.value(array);
    value.type = {dtype, Shape{split ? split->elements() : count}};
    value.split = split ? SharedOptional<TensorSplit>(*split) : SharedOptional<TensorSplit>();
  };
  set(id, DType::kU8, weight.num_codes, codes);
  const ValueId added = graph.add_value(scales_name(weight.name), {DType::kF32, Shape{1}}, Storage::kWeight);
  graph.value(added).module = whole.module;
  set(added, DType::kF32, weight.num_scales, scales);
  arrays.values.insert(arrays.values.end(), {added, kNoValue, kNoValue});
  return arrays;
}

ValueId add_array(Graph& graph, const std::string& name, DType dtype, int64_t count, ModuleId module) {
  const ValueId id = graph.add_value(name, {dtype, Shape{count}}, Storage::kWeight);
  graph.value(id).module = module;
  return id;
}

Arrays make_arrays(Graph& graph, ValueId id, const QuantizedWeight& weight) {
  if (graph.value(id).split) return make_divided_arrays(graph, id, weight);
  const Shape shape = graph.value(id).type.shape;
  const ModuleId module = graph.value(id).module;
  Arrays arrays{.weight = &weight,
                .values = {id},
                .rows = shape[0].offset,
                .columns = shape[1].offset,
                .parts = weight.parts};
  graph.value(id).type = {DType::kU8, Shape{weight.num_codes}};
  const bool twice = weight.num_second_scales > 0;
  arrays.values.push_back(add_array(graph, scales_name(weight.name), twice ? DType::kU8 : DType::kF32,
                                    weight.num_scales, module));
  arrays.values.push_back(
      twice ? add_array(graph, second_scales_name(weight.name), DType::kF32, weight.num_second_scales, module)
            : kNoValue);
  arrays.values.push_back(
      twice ? add_array(graph, offsets_name(weight.name), DType::kF32, weight.parts, module) : kNoValue);
  return arrays;
}

void quantize(Graph& graph, const std::string& format, const std::vector<QuantizedWeight>& weights) {
  std::map<ValueId, Arrays> arrays_of;
  for (const QuantizedWeight& weight : weights) {
    const ValueId id = graph.find(weight.name);
    if (id == kNoValue || !only_products_read(graph, id)) continue;
    arrays_of.emplace(id, make_arrays(graph, id, weight));
  }
  const std::vector<Op> old_ops = graph.ops();
  graph.replace_ops({});
  for (Op op : old_ops) {
    const auto arrays = op.def == &matmul_op() ? arrays_of.find(op.inputs[MatmulOp::kB]) : arrays_of.end();
    if (arrays != arrays_of.end()) {
      graph.set_current_module(op.module);
      graph.set_segment(op.segment);
      const Arrays& held = arrays->second;
      op.inputs[MatmulOp::kB] =
          emit(graph, dequantize_op(), held.values,
               {{"format", format},
                {"rows", held.rows},
                {"columns", held.columns},
                {"parts", held.parts},
                {"dtype", std::string(dtype_name(graph.value(op.inputs[MatmulOp::kA]).type.dtype))}},
               held.weight->name + ".numbers");
    }
    graph.ops().push_back(std::move(op));
  }
  graph.replace_ops(graph.ops());
}

}  // namespace

Pass quantized_weights_pass(std::string format, std::vector<QuantizedWeight> weights) {
  return {.name = "quantized_weights",
          .numerics = Numerics::kChanging,
          .help =
              "stores the frozen weights of a model with adapters in 4 or 8 bits, and converts them back "
              "before each matrix product",
          .needed_for = "--load_in_4bit or --load_in_8bit",
          .run = [format = std::move(format), weights = std::move(weights)](Graph& graph) {
            quantize(graph, format, weights);
          }};
}

}  // namespace plimsoll
