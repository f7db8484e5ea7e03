#include "graph/passes/rewriter.h"

#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::graph_of;

// %a has one reader, %b has two, and the host reads %d and %e.
constexpr const char* kText = R"(graph g {
  input %x: f32[T,4]
  forward @m
  %a: f32[T,4] = tanh(%x)
  %b: f32[T,4] = gelu(%a)
  %c: f32[T,4] = add(%b, %b)
  %d: f32[T,4] !output = relu(%c)
  %e: f32[T,4] !output = add(%d, %b)
}
)";

TEST(Rewriter, FindsAProducerWithASingleReader) {
  Graph graph = graph_of(kText);
  const Rewriter rewriter(graph);
  EXPECT_EQ(rewriter.find_producer(1, graph.find("a"), tanh_op()), 0u);
  EXPECT_EQ(rewriter.find_producer(1, graph.find("a"), gelu_op()), std::nullopt) << "another definition";
  EXPECT_EQ(rewriter.find_producer(2, graph.find("a"), tanh_op()), std::nullopt) << "another reader";
  EXPECT_EQ(rewriter.find_producer(2, graph.find("b"), gelu_op()), std::nullopt) << "two readers";
  EXPECT_EQ(rewriter.find_producer(4, graph.find("d"), relu_op()), std::nullopt) << "the host reads it";
  EXPECT_EQ(rewriter.find_producer(0, graph.find("x"), tanh_op()), std::nullopt) << "no op produces it";
  EXPECT_EQ(rewriter.find_producer(0, kNoValue, tanh_op()), std::nullopt) << "an absent operand";
}

TEST(Rewriter, ARemovedOpIsNoLongerFound) {
  Graph graph = graph_of(kText);
  Rewriter rewriter(graph);
  EXPECT_TRUE(rewriter.is(0, tanh_op()));
  rewriter.remove(0);
  EXPECT_FALSE(rewriter.is(0, tanh_op()));
  EXPECT_EQ(rewriter.find_producer(1, graph.find("a"), tanh_op()), std::nullopt);
}

TEST(Rewriter, AppliesReplacementsInsertionsAndRemovals) {
  Graph graph = graph_of(kText);
  Rewriter rewriter(graph);
  // Lets gelu read %x instead of %a, and adds relu(%x) to %b instead of %b itself.
  rewriter.replace(1, op_instead_of(rewriter.op(1), gelu_op(), {graph.find("x")}));
  rewriter.remove(0);
  const ValueId f = graph.add_value("f", graph.value(graph.find("x")).type, Storage::kTransient);
  Op inserted = op_instead_of(rewriter.op(1), relu_op(), {graph.find("x")});
  inserted.outputs = {f};
  rewriter.replace(2, op_instead_of(rewriter.op(2), add_op(), {graph.find("b"), f}));
  rewriter.insert_before(2, std::move(inserted));
  rewriter.apply();
  verify(graph, "after the rewrite");
  EXPECT_EQ(print_graph(graph), R"(graph g {
  input %x: f32[T,4]
  forward @m
  %b: f32[T,4] = gelu(%x)
  %f: f32[T,4] = relu(%x)
  %c: f32[T,4] = add(%b, %f)
  %d: f32[T,4] !output = relu(%c)
  %e: f32[T,4] !output = add(%d, %b)
}
)");
}

TEST(Rewriter, UnreadValuesAreThoseThatNeitherOpsNorTheHostRead) {
  Graph graph = graph_of(kText);
  const ValueId unread = emit(graph, tanh_op(), {graph.find("x")});
  const Rewriter rewriter(graph);
  EXPECT_TRUE(rewriter.is_unread(unread));
  EXPECT_FALSE(rewriter.is_unread(graph.find("a")));
  EXPECT_FALSE(rewriter.is_unread(graph.find("e")));
}

}  // namespace
}  // namespace plimsoll
