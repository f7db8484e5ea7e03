#include "plan/compile/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <tuple>

#include "base/philox.h"
#include "graph/ir/graph_text.h"
#include "graph/ops/ops.h"
#include "tests/spine/plan_grid.h"

namespace plimsoll {
namespace {

constexpr int64_t kBytesPerOp = 4096;

PlanRequest request_on_card(int64_t accumulation) {
  GridPoint point = full_batch("MiniLM-L6-H384-uncased", 32, 512);
  point.gpu = "h200";
  point.accumulation = accumulation;
  return request_of(point);
}

int64_t num_ops(const ProgramPlan& program, Segment segment) {
  return std::ranges::count_if(program.graph.ops(), [&](const Op& op) { return op.segment == segment; });
}

TEST(CapturedGraphs, CountEachSegmentByTheBucketsThatItRunsInAgain) {
  PlanRequest request = request_on_card(4);
  const Plan plan = build_plan(request);
  const int64_t micro_batch = num_ops(plan.programs.at(kTrainProgram), Segment::kForward) +
                              num_ops(plan.programs.at(kTrainProgram), Segment::kBackward);
  const int64_t update = num_ops(plan.programs.at(kTrainProgram), Segment::kOptimizer);
  const int64_t evaluation = num_ops(plan.programs.at(kEvaluateProgram), Segment::kForward);
  ASSERT_GT(micro_batch, update);
  const auto of = [&](const CapturedBuckets& buckets) {
    request.captured_buckets = buckets;
    return build_plan(request).gpu_constant;
  };
  EXPECT_EQ(of({0, 0, 0}).graph_bytes(), 0);
  const GpuConstant all = of({9, 2, 5});
  EXPECT_EQ(all.graphs_of(kTrainProgram),
            (CapturedGraphs{9 * 2 + 2, (9 * micro_batch + 2 * update) * kBytesPerOp}));
  EXPECT_EQ(all.graphs_of(kEvaluateProgram), (CapturedGraphs{5, 5 * evaluation * kBytesPerOp}));
  EXPECT_EQ(all.total(), request.device.gpu.constant_bytes + all.graph_bytes());
  EXPECT_EQ(of({2, 9, 0}).graphs_of(kTrainProgram), of({2, 2, 0}).graphs_of(kTrainProgram))
      << "a step ends with a micro-batch";
  request.batches.accumulation_steps = 1;
  EXPECT_EQ(of({2, 0, 0}).graphs_of(kTrainProgram).count, 6) << "each micro-batch is a step";
  request.batches.train = {.tokens = 40, .sequences = 1, .longest = 40};
  EXPECT_EQ(of({8, 8, 0}).graphs_of(kTrainProgram).count, 9) << "the ladder has three";
  // On a CPU no CUDA graphs are planned.
  request.device.kind = KernelDevice::kCpu;
  EXPECT_EQ(of({8, 8, 8}), GpuConstant{});
}

// A quantization to fp8 takes three kernel launches, or only one if the scale is known from the forward pass.
TEST(CapturedGraphs, CountEveryLaunchOfAQuantization) {
  PlanRequest request = request_on_card(1);
  request.precision.activation_dtype = DType::kBF16;
  request.precision.fp8 = true;
  request.captured_buckets = {1, 1, 0};
  const Plan plan = build_plan(request);
  int64_t launches = 0, again = 0;
  for (const Op& op : plan.programs.at(kTrainProgram).graph.ops()) {
    const bool quantizes = op.def == &quantize_fp8_op();
    const bool is_known = quantizes && op.inputs[QuantizeFp8Op::kKnown] != kNoValue;
    launches += quantizes && !is_known ? 3 : 1;
    again += is_known ? 1 : 0;
  }
  EXPECT_GT(again, 0);
  EXPECT_EQ(plan.gpu_constant.graphs_of(kTrainProgram).bytes, launches * kBytesPerOp);
}

// norm_linear launches a norm and a matrix product. The activation after the product takes one more kernel, and so does a bias of another
// data type. Up to three more kernels copy the inputs and outputs of a program that generates text.
TEST(CapturedGraphs, CountEveryLaunchOfANormWithItsLayer) {
  const auto bytes_of = [](const std::string& bias_type, const std::string& end) {
    Plan plan;
    plan.programs.add(
        {.name = std::string(kGenerateProgram),
         .graph = parse_graph("graph g {\n"
                              "  input %x: bf16[T,4]\n"
                              "  weight %gain: f32[4]\n"
                              "  weight %w: bf16[6,4]\n"
                              "  weight %b: " +
                                  bias_type +
                                  "[6]\n"
                                  "  forward @layer\n"
                                  "  %y: bf16[T,6] !output = norm_linear(%x, %w, %b, _, _, %gain, _) "
                                  "{end=\"" +
                                  end + "\", eps=1e-06, norm=\"rms\"}\n}\n",
                              find_op),
         .bucket = {.tokens = 8, .sequences = 1, .longest = 8},
         .ladder = {Bucket{.tokens = 8, .sequences = 1, .longest = 8}}});
    return captured_graphs(plan).graphs_of(kGenerateProgram).bytes;
  };
  EXPECT_EQ(bytes_of("bf16", "product"), (3 + 2) * kBytesPerOp);
  EXPECT_EQ(bytes_of("f32", "product"), (3 + 3) * kBytesPerOp);
  EXPECT_EQ(bytes_of("bf16", "activation"), (3 + 3) * kBytesPerOp);
  EXPECT_EQ(bytes_of("f32", "activation"), (3 + 4) * kBytesPerOp);
}

// Simulates how the GPU backend keeps CUDA graphs: it captures a segment (forward, backward or optimizer) of a program when it runs for the
// second time, and drops the least recently used graph if there are more than 96.
class BackEnd {
 public:
  using Key = std::tuple<char, int, Segment>;  // identifies a graph by program, batch size and segment

  void run(char program, int bucket, Segment segment, int64_t bytes) {
    const Key key{program, bucket, segment};
    if (++runs_[key] < 2) return;
    const auto it = std::ranges::find(held_, key, &std::pair<Key, int64_t>::first);
    if (it != held_.end()) {
      held_.splice(held_.end(), held_, it);
      return;
    }
    if (std::ssize(held_) == kMaxCapturedSegments) {
      bytes_ -= held_.front().second;
      held_.pop_front();
    }
    held_.emplace_back(key, bytes);
    bytes_ += bytes;
    most_bytes = std::max(most_bytes, bytes_);
    most_graphs = std::max(most_graphs, std::ssize(held_));
  }
  int num_again(char program, Segment segment) const {
    return static_cast<int>(std::ranges::count_if(runs_, [&](const auto& run) {
      return std::get<0>(run.first) == program && std::get<2>(run.first) == segment && run.second >= 2;
    }));
  }
  int64_t most_bytes = 0;
  int64_t most_graphs = 0;

 private:
  std::map<Key, int64_t> runs_;
  std::list<std::pair<Key, int64_t>> held_;
  int64_t bytes_ = 0;
};

// The planned number of graphs must be exact if all graphs fit, and must never be smaller than the number that the backend keeps.
TEST(CapturedGraphs, AreWhatTheBackEndHoldsAtMost) {
  int exact = 0;
  int bounded = 0;
  for (const int64_t accumulation : {1, 2, 7}) {
    PlanRequest request = request_on_card(accumulation);
    const Plan plan = build_plan(request);
    const auto bytes_of = [](const ProgramPlan& program, Segment segment) {
      return num_ops(program, segment) * kBytesPerOp;
    };
    for (const int train_buckets : {3, 20, 31, 45, 70, 110}) {
      for (const int evaluate_buckets : {0, 4, 30, 100}) {
        BackEnd back_end;
        uint64_t draws = 0;
        const auto draw = [&](int below) {
          return static_cast<int>(philox_element({7, 0, 11}, draws++) % static_cast<uint32_t>(below));
        };
        for (int step = 0; step < 300; ++step) {
          int bucket = 0;
          for (int64_t micro = 0; micro < accumulation; ++micro) {
            bucket = draw(train_buckets);
            for (const Segment segment : {Segment::kForward, Segment::kBackward})
              back_end.run('t', bucket, segment, bytes_of(plan.programs.at(kTrainProgram), segment));
          }
          back_end.run('t', bucket, Segment::kOptimizer,
                       bytes_of(plan.programs.at(kTrainProgram), Segment::kOptimizer));
          for (int i = 0; i < evaluate_buckets && step % 90 == 89; ++i)
            back_end.run('e', i, Segment::kForward,
                         bytes_of(plan.programs.at(kEvaluateProgram), Segment::kForward));
        }
        request.captured_buckets = {.train = back_end.num_again('t', Segment::kForward),
                                    .update = back_end.num_again('t', Segment::kOptimizer),
                                    .evaluate = back_end.num_again('e', Segment::kForward)};
        const GpuConstant planned = build_plan(request).gpu_constant;
        const int64_t graphs = planned.graph_count();
        SCOPED_TRACE(
            fmt::format("{} accumulated, {} and {} buckets", accumulation, train_buckets, evaluate_buckets));
        EXPECT_EQ(graphs, back_end.most_graphs);
        EXPECT_GE(planned.graph_bytes(), back_end.most_bytes);
        if (graphs < kMaxCapturedSegments) {
          EXPECT_EQ(planned.graph_bytes(), back_end.most_bytes);
          ++exact;
        } else {
          EXPECT_LE(planned.graph_bytes(), back_end.most_bytes * 5 / 4);
          ++bounded;
        }
      }
    }
  }
  EXPECT_GE(exact, 10);
  EXPECT_GE(bounded, 10);
}

}  // namespace
}  // namespace plimsoll
