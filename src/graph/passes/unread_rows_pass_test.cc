#include <gtest/gtest.h>

#include "graph/analysis/analysis.h"
#include "graph/ir/graph.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// The model: tokens -> product (works row by row) -> attention (mixes rows) -> two ops that work row by row, with a
// residual -> first token.
struct Model {
  Graph graph{"g"};
  ValueId cu_seqlens =
      graph.add_value("cu_seqlens", {DType::kI32, Shape{Dim(1, Symbol::kSequences, 1)}}, Storage::kInput);
  ValueId x = graph.add_value("x", {DType::kF32, Shape{kDimT, 8}}, Storage::kInput);
  ValueId weight = graph.add_value("w", {DType::kF32, Shape{8, 8}}, Storage::kWeight);
  ValueId bias = graph.add_value("b", {DType::kF32, Shape{8}}, Storage::kWeight);

  ValueId product(ValueId a, const char* name) {
    return emit_matmul(graph, a, MatmulTranspose::kNo, weight, MatmulTranspose::kYes, name);
  }
  ValueId first(ValueId a) { return emit(graph, first_token_op(), {a, cu_seqlens}, {}, "first"); }
  void run() {
    unread_rows_pass().run(graph);
    verify(graph, "after the pass");
    find_tails(graph);
  }
  int count(const OpSchema& def) const {
    int n = 0;
    for (const Op& op : graph.ops()) n += op.def == &def ? 1 : 0;
    return n;
  }
  bool is_narrow(const char* name) const { return graph.value(graph.find(name)).type.shape[0] == kDimB; }
};

TEST(UnreadRows, FirstTokenMovesUpThroughOpsThatWorkRowByRow) {
  Model model;
  const ValueId hidden = model.product(model.x, "hidden");
  const ValueId biased = emit(model.graph, bias_add_op(), {hidden, model.bias}, {}, "biased");
  const ValueId activated = emit(model.graph, gelu_op(), {biased}, {}, "activated");
  const ValueId sum = emit(model.graph, add_op(), {activated, model.x}, {}, "sum");
  const ValueId logits = model.product(model.first(sum), "logits");
  model.graph.value(logits).storage = Storage::kOutput;
  model.run();
  for (const char* name : {"hidden", "biased", "activated", "sum", "logits"}) {
    EXPECT_TRUE(model.is_narrow(name)) << name;
  }
  // The product and the residual read the same first_token of x.
  EXPECT_EQ(model.count(first_token_op()), 1);
}

TEST(UnreadRows, RowsThatAnotherOpReadsAreComputed) {
  Model model;
  const ValueId hidden = model.product(model.x, "hidden");
  const ValueId other = emit(model.graph, gelu_op(), {hidden}, {}, "other");
  model.graph.value(other).storage = Storage::kOutput;
  const ValueId activated = emit(model.graph, gelu_op(), {hidden}, {}, "activated");
  model.graph.value(model.first(activated)).storage = Storage::kOutput;
  model.run();
  EXPECT_FALSE(model.is_narrow("hidden"));
  EXPECT_FALSE(model.is_narrow("other"));
  EXPECT_TRUE(model.is_narrow("activated"));
}

TEST(UnreadRows, StopsAtOpsThatMixRows) {
  Model model;
  // The product x^T x adds up all rows of x. It must still read all rows after the pass, because each row of y depends on it.
  const ValueId mixed =
      emit_matmul(model.graph, model.x, MatmulTranspose::kYes, model.x, MatmulTranspose::kNo, "mixed");
  const ValueId y = emit_matmul(model.graph, model.x, MatmulTranspose::kNo, mixed, MatmulTranspose::kNo, "y");
  model.graph.value(model.first(y)).storage = Storage::kOutput;
  EXPECT_EQ(model.count(first_token_op()), 1);
  unread_rows_pass().run(model.graph);
  verify(model.graph, "after the pass");
  EXPECT_EQ(model.graph.value(mixed).type.shape[0], Dim(8));
  EXPECT_TRUE(model.is_narrow("y"));
}

TEST(UnreadRows, LeavesAGraphWithoutFirstTokensAlone) {
  Model model;
  const ValueId hidden = model.product(model.x, "hidden");
  model.graph.value(hidden).storage = Storage::kOutput;
  model.run();
  EXPECT_FALSE(model.is_narrow("hidden"));
  EXPECT_EQ(model.graph.ops().size(), 1U);
}

}  // namespace
}  // namespace plimsoll
