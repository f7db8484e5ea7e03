#include "graph/ir/graph_text.h"

#include <gtest/gtest.h>

#include "graph/ir/graph.h"
#include "graph/ir/testing/test_ops.h"

namespace plimsoll {
namespace {

// A graph with every element of the text form.
constexpr const char* kAll =
    "graph all {\n"
    "  input %x: f32[T,384]\n"
    "  input %cu: i32[B+1]\n"
    "  weight %w: bf16[4*T,2]\n"
    "  state %w/moment: f32[] !host\n"
    "  state %w/variance: f32[] !disk\n"
    "  gradient %g: f64[3]\n"
    "  cache %kv: bf16[8,2,16,384]\n"
    "  deferred %c: f32[2,2,2,2]\n"
    "  weight %q: f32[8,2] !split=2/8+16+8/16x2\n"
    "  forward @bert.layer.0\n"
    "  %a: f32[T,384] = sum(%x, _) {dtype=\"f32\", eps=1e-12, p=0.5, site=-3, whole=2.0}\n"
    "  %l: f32[T,384], %r: f32[T,384] !output = split(%a)\n"
    "  backward @bert.layer.0\n"
    "  %g.1: f64[3] into %g !gradient = update(%g, %g)\n"
    "  optimizer @\n"
    "  %q.1: f32[8,2] into %q !split=2/8+16+8/16x2 = update(%q, _)\n"
    "  %w.1: bf16[4*T,2] into %w = update(%w, %cu)\n"
    "  %w/moment.1: f32[] into %w/moment !host = update(%w/moment, _)\n"
    "  %w/variance.1: f32[] into %w/variance !disk = update(%w/variance, _)\n"
    "}\n";

TEST(GraphText, RoundTripsAllOfIt) {
  const Graph graph = parse_graph(kAll, testing::find_test_op);
  EXPECT_EQ(print_graph(graph), kAll);
  const Op& first = graph.ops().front();
  EXPECT_EQ(first.inputs[1], kNoValue);
  EXPECT_EQ(first.attributes.integer("site"), -3);
  EXPECT_EQ(first.attributes.number("eps"), 1e-12);
  EXPECT_EQ(first.attributes.number("whole"), 2.0);
  EXPECT_EQ(first.attributes.word("dtype"), "f32");
  EXPECT_EQ(graph.module_name(first.module), "bert.layer.0");
  EXPECT_EQ(graph.ops().back().segment, Segment::kOptimizer);
  EXPECT_EQ(graph.value(graph.find("g.1")).version_of, graph.find("g"));
  EXPECT_TRUE(graph.value(graph.find("g.1")).is_parameter_gradient);
  EXPECT_EQ(graph.value(graph.find("w/moment.1")).space, Space::kHost);
  EXPECT_EQ(graph.value(graph.find("w/variance.1")).space, Space::kDisk);
  EXPECT_EQ(graph.value(graph.find("q")).split,
            (TensorSplit{.ranks = 2, .parts = {8, 16, 8}, .whole = Shape{16, 2}}));
  EXPECT_EQ(graph.value(graph.find("w")).type.shape[0].at({.tokens = 5, .sequences = 2}), 20);
}

// Parses a graph whose only op is `line`, and returns the error message.
std::string refusal(const std::string& line) {
  const std::string text = "graph g {\n  input %x: f32[T,4]\n" + line + "\n}\n";
  try {
    parse_graph(text, testing::find_test_op);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "nothing was wrong";
}

TEST(GraphText, SaysWhichLineIsWrongAndWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {"  %y: f32[T,4] = sun(%x, _)", "line 3: unknown op 'sun'"},
      {"  %y: f32[T,4] = sum(%z, _)", "line 3: unknown value '%z'"},
      {"  %y: f32[T,5] = sum(%x, _)",
       "the text gives '%y' the type f32[T,5], but the op 'sum' infers f32[T,4]"},
      {"  %y: f32[T,4] = split(%x)", "the text lists 1 outputs, but the op 'split' has 2"},
      {"  %y: f33[T,4] = sum(%x, _)", "unknown element type 'f33'"},
      {"  %y: f32[Q,4] = sum(%x, _)", "cannot read a dimension of the shape"},
      {"  %y: f32[T,4] into %z = sum(%x, _)", "unknown value '%z'"},
      {"  %y: f32[T,4] !host = sum(%x, _)",
       "places '%y' in the memory space 'host', but it is in 'device' according to the op 'sum'"},
      {"  %y: f32[T,4] = sum(%x, _) {p=one}", "an attribute must be a number"},
      {"  %y: f32[T,4] = sum(%x, _", "'%' expected"},
      {"  y: f32[T,4] = sum(%x, _)", "'%' expected"},
  };
  for (const auto& [line, words] : cases) {
    const std::string said = refusal(line);
    EXPECT_NE(said.find("graph text, line 3: "), std::string::npos) << line << "\n" << said;
    EXPECT_NE(said.find(words), std::string::npos) << line << "\n" << said;
  }
}

TEST(GraphText, HasDividedRows) {
  const Dim half = kDimT.divided(2);
  EXPECT_EQ(format_dim(half), "T/2");
  EXPECT_EQ(parse_dim("T/2"), half);
  EXPECT_EQ(parse_dim("3*T/4"), Dim(3, Symbol::kTokens).divided(4));
  for (const char* text : {"T/0", "T/-2", "T/", "B/2", "8/2", "T/x"})
    EXPECT_EQ(parse_dim(text), std::nullopt) << text;
  EXPECT_EQ(half.at({.tokens = 48}), 24);
  EXPECT_EQ(half.whole(), kDimT);
  EXPECT_NE(half, kDimT);
  EXPECT_THROW(static_cast<void>(kDimB.divided(2)), Error);
  EXPECT_THROW(static_cast<void>(half.divided(2)), Error);
}

TEST(GraphText, AGraphEndsWithItsBrace) {
  EXPECT_THROW(parse_graph("graph g {\n  input %x: f32[T,4]\n", testing::find_test_op), Error);
  EXPECT_THROW(parse_graph("", testing::find_test_op), Error);
}

}  // namespace
}  // namespace plimsoll
