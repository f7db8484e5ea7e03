// Graphs as text, before and after a pass, for tests of passes. Thread-safe: values only.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "graph/analysis/analysis.h"
#include "graph/ir/graph.h"
#include "graph/ir/graph_text.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll::testing {

// Parses the text of a graph, verifies the graph and returns it.
inline Graph graph_of(const std::string& text) {
  Graph graph = parse_graph(text, find_op);
  verify(graph, "in a test");
  return graph;
}

// Parses the text of a graph, runs the pass, verifies the graph before and after the pass, and returns it. Also throws if a reduction would
// read rows after the last token that are not zero.
inline Graph after_pass(const std::string& text, const Pass& pass) {
  Graph graph = graph_of(text);
  pass.run(graph);
  verify(graph, "after the pass");
  find_tails(graph);
  return graph;
}

// Returns the text that is printed if a pass does not change the graph.
inline std::string unchanged(const std::string& text) {
  return print_graph(parse_graph(text, find_op));
}

// A weight and its bias, which both a 16-bit and an fp32 matrix product read.
inline constexpr const char* kSharedWeight = R"(graph g {
  input %x: bf16[T,4]
  input %u: f32[T,4]
  weight %w: f32[4,4]
  weight %b: f32[4]
  forward @m
  %a: bf16[T,4] = matmul(%x, %w, %b, _, _) {ta=0, tb=1}
  %c: bf16[T,4] !output = matmul(%a, %w, _, _, _) {ta=0, tb=1}
  %d: f32[T,4] !output = matmul(%u, %w, %b, _, _) {ta=0, tb=1}
}
)";

// A 16-bit matrix product, whose sum with a residual is read by a norm.
inline constexpr const char* kProductAndNorm =
    "graph g {\n"
    "  input %x: bf16[T,4]\n"
    "  input %r: bf16[T,6]\n"
    "  weight %w: bf16[6,4]\n"
    "  weight %b: f32[6]\n"
    "  weight %gain: f32[6]\n"
    "  weight %beta: f32[6]\n"
    "  forward @layer\n"
    "  %h: bf16[T,6] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n"
    "  %z: bf16[T,6] = gelu(%r)\n"
    "  %y: bf16[T,6] !output, %n: bf16[T,6], %s: f32[T] = bias_dropout_residual_norm(%h, %b, %z, %gain, "
    "%beta, _) {eps=1e-05, p=0.0}\n"
    "}\n";

// Returns the text with the first `from` replaced by `to`.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Returns the graph kProductAndNorm with a dropout probability of 0.1, instead of 0, before the norm.
inline std::string product_dropout_and_norm() {
  const std::string drops = replaced(kProductAndNorm, "p=0.0", "p=0.1, site=1");
  return replaced(replaced(drops, "%beta, _)", "%beta, %rng)"), "  weight %w",
                  "  input %rng: i64[2]\n  weight %w");
}

}  // namespace plimsoll::testing
