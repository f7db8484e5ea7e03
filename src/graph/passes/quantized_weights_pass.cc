#include "graph/passes/pass.h"

#include <map>

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
};

ValueId add_array(Graph& graph, const std::string& name, DType dtype, int64_t count, ModuleId module) {
  const ValueId id = graph.add_value(name, {dtype, Shape{count}}, Storage::kWeight);
  graph.value(id).module = module;
  return id;
}

Arrays make_arrays(Graph& graph, ValueId id, const QuantizedWeight& weight) {
  const Shape shape = graph.value(id).type.shape;
  const ModuleId module = graph.value(id).module;
  Arrays arrays{.weight = &weight, .values = {id}, .rows = shape[0].offset, .columns = shape[1].offset};
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
                {"parts", held.weight->parts},
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
