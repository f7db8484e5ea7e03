#include <gtest/gtest.h>

#include "graph/ir/graph_text.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

Graph stage_of(Graph graph, int64_t stage, std::vector<int64_t> first_blocks) {
  pipeline_stage_pass({.stage = stage, .first_blocks = std::move(first_blocks)}).run(graph);
  verify(graph, "after the pass");
  return graph;
}

// Two layers between an embedding and a head that reads the same table.
Graph model() {
  Graph graph;
  graph.add_input("ids", {DType::kI32, Shape{kDimT}});
  const ValueId table = graph.add_value("table", {DType::kF32, Shape{8, 8}}, Storage::kWeight);
  const ValueId w0 = graph.add_value("w0", {DType::kF32, Shape{8, 8}}, Storage::kWeight);
  const ValueId w1 = graph.add_value("w1", {DType::kF32, Shape{8, 8}}, Storage::kWeight);
  const ValueId x_input = graph.add_input("x", {DType::kF32, Shape{kDimT, 8}});
  const auto product = [&](ValueId a, ValueId b, std::string_view name) {
    return emit(graph, matmul_op(), {a, b, kNoValue, kNoValue, kNoValue},
                {{"ta", int64_t{0}}, {"tb", int64_t{1}}}, name);
  };
  graph.set_module("embeddings");
  const ValueId x = product(x_input, table, "embedded");
  graph.set_module("layer.0");
  const ValueId y = product(x, w0, "y");
  graph.set_module("layer.1");
  const ValueId z = product(y, w1, "z");
  graph.set_module("head");
  const ValueId logits = product(z, table, "logits");
  graph.value(logits).storage = Storage::kOutput;
  return graph;
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops())
    names.push_back(std::string(op.def->name()) + " " + graph.value(op.outputs[0]).name);
  return names;
}

TEST(PipelineStagePass, DividesAModelIntoStages) {
  const Graph graph = model();
  using Names = std::vector<std::string>;
  EXPECT_EQ(ops_of(stage_of(graph, 0, {0, 1})),
            (Names{"matmul embedded", "matmul y", "send message/y.sent"}));
  EXPECT_EQ(ops_of(stage_of(graph, 1, {0, 1})), (Names{"receive y", "matmul z", "matmul logits"}));
  EXPECT_EQ(blocks_of(graph), (Names{"layer.0", "layer.1"}));
  EXPECT_EQ(weights_of_both_ends(graph, {0, 1}), (std::set<std::string>{"table"}));
}

TEST(PipelineStagePass, KeepsItsOwnWeightsAndAllInputs) {
  const Graph first = stage_of(model(), 0, {0, 1});
  EXPECT_EQ(first.find("w1"), kNoValue);
  EXPECT_NE(first.find("w0"), kNoValue);
  const Graph second = stage_of(model(), 1, {0, 1});
  EXPECT_EQ(second.find("w0"), kNoValue);
  EXPECT_NE(second.find("table"), kNoValue);
  for (const Graph* stage : {&first, &second})
    EXPECT_EQ(stage->value(stage->input("ids")).type.dtype, DType::kI32);
  // The buffer from which a value is sent is persistent and has the type and the shape of the value.
  const Value& room = first.value(first.find("message/y"));
  EXPECT_EQ(room.storage, Storage::kMessage);
  EXPECT_EQ(room.type, second.value(second.find("y")).type);
}

// A stage in the middle forwards values of an earlier stage that a later stage reads.
TEST(PipelineStagePass, SendsValuesOfEarlierStagesOn) {
  Graph graph = model();
  graph.set_module("layer.2");
  const ValueId sum = emit(graph, add_op(), {graph.find("embedded"), graph.find("z")}, {}, "sum");
  graph.value(sum).storage = Storage::kOutput;
  using Names = std::vector<std::string>;
  EXPECT_EQ(ops_of(stage_of(graph, 1, {0, 1, 2})), (Names{"receive embedded", "send message/embedded.sent",
                                                          "receive y", "matmul z", "send message/z.sent"}));
  EXPECT_EQ(ops_of(stage_of(graph, 2, {0, 1, 2})),
            (Names{"receive embedded", "receive z", "matmul logits", "add sum"}));
}

TEST(PipelineStagePass, PrintsAndParsesMessages) {
  const Graph stage = stage_of(model(), 0, {0, 1});
  const std::string text = print_graph(stage);
  EXPECT_EQ(print_graph(parse_graph(text, find_op)), text);
  EXPECT_NE(text.find("message %message/y: f32[T,8]"), std::string::npos) << text;
  const std::string second = print_graph(stage_of(model(), 1, {0, 1}));
  EXPECT_NE(second.find("receive() {axis=\"pipeline\", dtype=\"f32\", from=0, shape=\"Tx8\"}"),
            std::string::npos)
      << second;
}

}  // namespace
}  // namespace plimsoll
