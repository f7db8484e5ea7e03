// Breaks each invariant of a graph by hand and expects the verifier to find and name it.
#include "graph/ir/graph.h"

#include <gtest/gtest.h>

#include <functional>

#include "graph/ir/graph_text.h"
#include "graph/ir/testing/test_ops.h"

namespace plimsoll {
namespace {

// The text of a training step that reads a weight and then updates it.
constexpr const char* kStep =
    "graph g {\n"
    "  input %x: f32[T,4]\n"
    "  weight %w: f32[T,4]\n"
    "  forward @m\n"
    "  %a: f32[T,4] = sum(%x, %w)\n"
    "  %b: f32[T,4] !output = sum(%a, %x)\n"
    "  optimizer @m\n"
    "  %w.1: f32[T,4] into %w = update(%w, %a)\n"
    "}\n";

Graph step() {
  return parse_graph(kStep, testing::find_test_op);
}

std::string violation(const std::function<void(Graph&)>& breaks) {
  Graph graph = step();
  breaks(graph);
  return find_violation(graph).value_or("none");
}

// Replaces the ops by those at the indices in `order`, which may omit or repeat ops.
void reorder(Graph& graph, const std::vector<size_t>& order) {
  std::vector<Op> ops;
  ops.reserve(order.size());
  for (size_t i : order) ops.push_back(graph.ops()[i]);
  graph.replace_ops(std::move(ops));
}

TEST(Verify, AGraphThatHoldsHasNoViolation) {
  const Graph graph = step();
  EXPECT_EQ(find_violation(graph), std::nullopt);
  verify(graph, "as it was parsed");
}

TEST(Verify, ReadingBeforeProducing) {
  EXPECT_EQ(violation([](Graph& graph) {
              reorder(graph, {1, 0, 2});
            }),
            "op 0 'sum' reads 'a' before it is produced");
}

TEST(Verify, ReadingAfterANewerVersionTookTheBytes) {
  EXPECT_EQ(violation([](Graph& graph) {
              graph.ops()[1].inputs[1] = graph.find("w");
              reorder(graph, {0, 2, 1});
            }),
            "op 2 'sum' reads 'w' after a newer version of this value overwrote it");
}

TEST(Verify, ProducingTwice) {
  EXPECT_EQ(violation([](Graph& graph) {
              Op again = graph.ops()[0];
              graph.ops().push_back(again);
              graph.ops()[3].inputs[1] = kNoValue;
            }),
            "value 'a' must record op 3 'sum' as its producer, but records another");
}

TEST(Verify, ReplacingTwice) {
  EXPECT_EQ(violation([](Graph& graph) { graph.value(graph.find("a")).version_of = graph.find("w"); }),
            "op 2 'update' reads 'w' after a newer version of this value overwrote it");
  EXPECT_EQ(violation([](Graph& graph) {
              graph.value(graph.find("a")).version_of = graph.find("x");
              graph.ops()[1].inputs[1] = kNoValue;
              graph.value(graph.find("b")).version_of = graph.find("x");
            }),
            "'x' can have one newer version, but two values take over its bytes");
}

TEST(Verify, ATypeThatIsNotInferred) {
  EXPECT_EQ(violation([](Graph& graph) { graph.value(graph.find("b")).type.dtype = DType::kBF16; }),
            "op 1 'sum': output 'b' has the type bf16[T,4], but the definition of the op infers f32[T,4]");
}

TEST(Verify, ANumberOfOutputsThatIsNotInferred) {
  EXPECT_EQ(violation([](Graph& graph) { graph.ops()[0].def = &testing::kSplit; }),
            "op 0 'split' has 1 outputs, but its definition infers 2");
}

TEST(Verify, APersistentValueThatAnOpProduces) {
  EXPECT_EQ(violation([](Graph& graph) { graph.value(graph.find("a")).storage = Storage::kWeight; }),
            "weight 'a' exists before the program runs, so an op may only produce it as a new version of an "
            "older value, but it is not marked as one");
}

TEST(Verify, AVersionThatDoesNotFit) {
  EXPECT_EQ(violation([](Graph& graph) {
              graph.value(graph.find("w")).type.shape = Shape{kDimT, 2};
            }),
            "'w.1' (f32[T,4]) cannot take over the bytes of 'w' (f32[T,2]), which has fewer bytes");
}

TEST(Verify, AVersionInAnotherMemory) {
  EXPECT_EQ(violation([](Graph& graph) { graph.value(graph.find("w.1")).space = Space::kHost; }),
            "'w.1' cannot take over the bytes of 'w', which is in another memory space");
}

TEST(Verify, OnlyCopiesReadTheHostsMemory) {
  const auto move = [](Graph& graph) { graph.value(graph.find("x")).space = Space::kHost; };
  EXPECT_EQ(violation(move),
            "op 0 'sum' can only work on values in device memory, but 'x' is in the memory space 'host'");
  EXPECT_EQ(violation([&](Graph& graph) {
              move(graph);
              graph.ops()[0] = {.def = &testing::kFetch,
                                .inputs = {graph.find("x")},
                                .outputs = graph.ops()[0].outputs,
                                .attributes = {}};
              graph.ops()[1].inputs[1] = kNoValue;
            }),
            "none");
}

TEST(Verify, ANameThatLeadsElsewhere) {
  EXPECT_EQ(violation([](Graph& graph) { graph.value(graph.find("a")).name = "x"; }),
            "looking up the name 'x' must return the value of that name, but returns another");
}

// The message names the pass, the graph and the violation.
TEST(Verify, ThrowsWithAllThatIsKnown) {
  Graph graph = step();
  reorder(graph, {1, 0, 2});
  try {
    verify(graph, "after the pass 'shuffle'");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("after the pass 'shuffle': graph 'g': op 0 'sum' reads 'a'"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
