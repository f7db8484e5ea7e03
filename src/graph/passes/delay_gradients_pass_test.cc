#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

// Returns the text of a graph after the pass. Computing the gradient of `u` takes `u_ms`, and every other op takes 1 ms. Exchanging the
// gradient of `t` takes `exchange_ms`, and other exchanges take no time.
std::string after(const std::string& text, double exchange_ms, double u_ms = 1.0) {
  return print_graph(testing::after_pass(
      text, delay_gradients_pass({.op_ms =
                                      [=](const OpView& view) {
                                        const ValueId first = view.op.outputs.front();
                                        return view.graph.value(first).name == "d_u" ? u_ms : 1.0;
                                      },
                                  .exchange_ms =
                                      [=](const Graph& graph) {
                                        std::vector<double> ms(graph.ops().size(), 0.0);
                                        for (size_t i = 0; i < ms.size(); ++i) {
                                          const ValueId first = graph.ops()[i].outputs.front();
                                          if (graph.value(first).name == "d_t.sum") ms[i] = exchange_ms;
                                        }
                                        return ms;
                                      },
                                  .bucket = {.tokens = 1000, .sequences = 1000, .longest = 1}})));
}

const std::string kInputs =
    "graph g {\n"
    "  input %dy: f32[B,4]\n"
    "  input %x: f32[B,4]\n"
    "  weight %w: f32[4,4]\n"
    "  backward @m\n";
const std::string kGradientOfWeight =
    "  %d_w: f32[4,4] !gradient = matmul(%dy, %x, _, _, _) {ta=1, tb=0}\n"
    "  %d_w.sum: f32[4,4] into %d_w !gradient = all_reduce(%d_w) {ranks=4}\n";
const std::string kGradientOfTable =
    "  %dx: f32[B,4] = matmul(%dy, %w, _, _, _) {ta=0, tb=0}\n"
    "  %d_t: f32[4,4] !gradient = matmul(%dx, %x, _, _, _) {ta=1, tb=0}\n"
    "  %d_t.sum: f32[4,4] into %d_t !gradient = all_reduce(%d_t) {ranks=4}\n";
const std::string kNorm =
    "  optimizer @\n"
    "  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%d_w.sum, %d_t.sum)\n"
    "}\n";

TEST(DelayGradients, AGradientIsComputedDuringTheLastExchange) {
  const std::string graph = kInputs + kGradientOfWeight + kGradientOfTable + kNorm;
  EXPECT_EQ(after(graph, 2), kInputs + kGradientOfTable + kGradientOfWeight + kNorm);
  EXPECT_EQ(after(graph, 0), graph) << "an exchange that takes no time";
}

// Ops are delayed until they take at least 1.5 times as long as the exchange of the table's gradient. An exchange of 1.2 ms thus delays two
// ops of 1 ms (2 >= 1.8), and one of 1.6 ms delays three (3 >= 2.4).
TEST(DelayGradients, AsManyAreDelayedAsTheExchangeTakes) {
  const auto gradient = [](const std::string& name) {
    return "  %d_" + name + ": f32[4,4] !gradient = matmul(%x, %x, _, _, _) {ta=1, tb=0}\n  %d_" + name +
           ".sum: f32[4,4] into %d_" + name + " !gradient = all_reduce(%d_" + name + ") {ranks=4}\n";
  };
  const std::string u = gradient("u"), v = gradient("v");
  EXPECT_EQ(after(kInputs + u + v + kGradientOfWeight + kGradientOfTable + kNorm, 1.2),
            kInputs + u + kGradientOfTable + v + kGradientOfWeight + kNorm);
  EXPECT_EQ(after(kInputs + u + v + kGradientOfWeight + kGradientOfTable + kNorm, 1.6),
            kInputs + kGradientOfTable + u + v + kGradientOfWeight + kNorm);
}

// Computing the gradient of the bias takes longer than exchanging it. Its computation is therefore delayed, like that of %d_w, until the
// exchange of the table's gradient has begun.
TEST(DelayGradients, GradientsAfterTheLargeOneAreDelayedToo) {
  const std::string dx = "  %dx: f32[B,4] = matmul(%dy, %w, _, _, _) {ta=0, tb=0}\n";
  const std::string table =
      "  %d_t: f32[4,4] !gradient = matmul(%dx, %x, _, _, _) {ta=1, tb=0}\n"
      "  %d_t.sum: f32[4,4] into %d_t !gradient = all_reduce(%d_t) {ranks=4}\n";
  const std::string bias =
      "  %d_b: f32[4] !gradient = bias_grad(%dx, _, _)\n"
      "  %d_b.sum: f32[4] into %d_b !gradient = all_reduce(%d_b) {ranks=4}\n";
  EXPECT_EQ(after(kInputs + kGradientOfWeight + dx + bias + table + kNorm, 1.2),
            kInputs + dx + table + kGradientOfWeight + bias + kNorm);
}

// Computing %d_u takes 4 ms, so delaying it is enough to cover the exchange of the table's gradient. But one all_reduce sums %d_u and %d_w
// together, so %d_w is delayed too.
TEST(DelayGradients, GradientsOfOneBucketStayTogether) {
  const std::string graph =
      kInputs + kGradientOfTable +
      "  %d_w: f32[4,4] !gradient = matmul(%dy, %x, _, _, _) {ta=1, tb=0}\n"
      "  %d_u: f32[4,4] !gradient = matmul(%x, %x, _, _, _) {ta=1, tb=0}\n"
      "  %d_w.sum: f32[4,4] into %d_w !gradient, %d_u.sum: f32[4,4] into %d_u !gradient = "
      "all_reduce(%d_w, %d_u) {ranks=4}\n" +
      kNorm;
  EXPECT_EQ(after(graph, 1.2, 4), graph);
}

// One all_reduce sums the last gradients. Delaying an op that computes one of them would delay this exchange, so nothing is delayed.
TEST(DelayGradients, GradientsOfTheLastExchangeAreNotDelayed) {
  const std::string graph =
      kInputs +
      "  %d_w: f32[4,4] !gradient = matmul(%dy, %x, _, _, _) {ta=1, tb=0}\n"
      "  %dx: f32[B,4] = matmul(%dy, %w, _, _, _) {ta=0, tb=0}\n"
      "  %d_t: f32[4,4] !gradient = matmul(%dx, %x, _, _, _) {ta=1, tb=0}\n"
      "  %d_w.sum: f32[4,4] into %d_w !gradient, %d_t.sum: f32[4,4] into %d_t !gradient = "
      "all_reduce(%d_w, %d_t) {ranks=4}\n" +
      kNorm;
  EXPECT_EQ(after(graph, 5), graph);
}

// Delaying the op that reads %wide would keep %wide live while %later, which is as large, is live too. The peak would rise, so nothing is
// delayed.
TEST(DelayGradients, ThePeakDoesNotRise) {
  const std::string graph =
      "graph g {\n"
      "  input %dy: f32[B,4]\n"
      "  weight %w: f32[4,64]\n"
      "  weight %v: f32[64,4]\n"
      "  backward @m\n"
      "  %wide: f32[B,64] = matmul(%dy, %w, _, _, _) {ta=0, tb=0}\n"
      "  %d_w: f32[64,4] !gradient = matmul(%wide, %dy, _, _, _) {ta=1, tb=0}\n"
      "  %d_w.sum: f32[64,4] into %d_w !gradient = all_reduce(%d_w) {ranks=4}\n"
      "  %narrow: f32[B,4] = matmul(%wide, %v, _, _, _) {ta=0, tb=0}\n"
      "  %later: f32[B,64] = matmul(%narrow, %w, _, _, _) {ta=0, tb=0}\n"
      "  %d_t: f32[64,4] !gradient = matmul(%later, %dy, _, _, _) {ta=1, tb=0}\n"
      "  %d_t.sum: f32[64,4] into %d_t !gradient = all_reduce(%d_t) {ranks=4}\n" +
      kNorm;
  EXPECT_EQ(after(graph, 5), graph);
}

}  // namespace
}  // namespace plimsoll
