// Graphs as text, before and after a pass, for tests of passes. Thread-safe: values only.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "graph/analysis/tail.h"
#include "graph/ir/text.h"
#include "graph/ir/verify.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll::testing {

// The graph of this text, verified.
inline Graph graph_of(const std::string& text) {
  Graph graph = parse_graph(text, find_op);
  verify(graph, "in a test");
  return graph;
}

// The graph of this text after the pass, verified before and after; what lies behind the last row is allowed.
inline Graph after_pass(const std::string& text, const Pass& pass) {
  Graph graph = graph_of(text);
  pass.run(graph);
  verify(graph, "after the pass");
  find_tails(graph);
  return graph;
}

// The graph of this text as it is printed where a pass leaves it alone.
inline std::string unchanged(const std::string& text) {
  return print_graph(parse_graph(text, find_op));
}

// A weight and its bias that products of 16 bits and of fp32 read.
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

// The first `from` becomes `to`.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

}  // namespace plimsoll::testing
