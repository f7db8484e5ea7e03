// Tests an evaluation whose weights are stored only in 16 bits, with 2 bytes per parameter. If all weights are exact
// in 16 bits, the results must have the same bits as with mixed precision. Otherwise they must be close to the
// results in fp32.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/spine/tiny_run.h"
#include "tests/support/keep_worst.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinyCase;

constexpr Bucket kBucket{.tokens = 16, .sequences = 4, .longest = 7};
const std::vector<int> kLengths{5, 1, 7, 3};

// Returns true if the reference kernels are needed: for fp16 on a CPU, which no other kernels support there.
bool needs_references(DType dtype) {
  return dtype == DType::kF16 && !testing::tests_run_on_gpu();
}

struct Outcome {
  std::vector<double> logits;
  double loss = 0;
};

enum class Weights : uint8_t { kAsTheyAre, kRoundedToBf16 };

// Evaluates a model whose weights are stored in the data type of the plan. The initial numbers are generated in fp32
// and then rounded, like those of a loaded checkpoint, so that all data types start from the same values.
Outcome evaluate(const TinyCase& test, Weights rounding = Weights::kAsTheyAre) {
  PlanRequest request = testing::tiny_request(test, kBucket);
  request.train = false;
  const Plan plan = build_plan(request);
  TinyCase source = test;
  source.dtype = DType::kF32;
  source.activations.reset();
  const Plan source_plan = build_plan(testing::tiny_request(source, kBucket));
  Executor exact(source_plan), executor(plan);
  testing::fill_weights(exact);
  for (const WeightSpec& spec : plan.weights) {
    const std::vector<double> values = testing::values_of(exact, spec.name);
    const DType dtype = plan.buffer(spec.name).type.dtype;
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
    const View view{bytes.data(), dtype};
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = rounding == Weights::kAsTheyAre
                               ? values[i]
                               : static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(values[i]))));
      view.store(static_cast<int64_t>(i), value);
    }
    executor.write(spec.name, 0, bytes);
  }
  testing::stage(executor, kEvaluateProgram, testing::tiny_batch(test, kLengths, 3), 4.0);
  executor.run(kEvaluateProgram, Segment::kForward);
  Outcome outcome{.logits = {}, .loss = executor.loss()};
  for (int i = 0; i < 4 * 3; ++i) outcome.logits.push_back(executor.tensor("logits").load(i));
  return outcome;
}

TEST(HalfEvaluation, HoldsTwoBytesAParameter) {
  for (const char* model : {"bert", "distilbert"}) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      TinyCase test{.model_type = model, .dtype = dtype, .activations = dtype};
      test.reference_kernels = needs_references(dtype);
      PlanRequest request = testing::tiny_request(test, kBucket);
      request.train = false;
      const Plan plan = build_plan(request);
      EXPECT_TRUE(plan.weight_copies.empty());
      EXPECT_FALSE(plan.scales_loss());
      int64_t bytes = 0;
      for (const PersistentBuffer& buffer : plan.persistent) {
        EXPECT_NE(buffer.storage, Storage::kOptimizerState) << buffer.name;
        if (buffer.storage != Storage::kWeight) continue;
        EXPECT_EQ(buffer.type.dtype, dtype) << buffer.name;
        bytes += buffer.type.shape.elements({}) * dtype_bytes(buffer.type.dtype);
      }
      EXPECT_EQ(bytes, 2 * plan.num_parameters());
      // The statistics of norms must not be stored in 16 bits.
      for (const Op& op : plan.programs.at(kEvaluateProgram).graph.ops()) {
        if (op.def->name() != "normalize" && op.def->name() != "bias_dropout_residual_norm") continue;
        for (size_t i = 1; i < op.outputs.size(); ++i) {
          const Value& value = plan.programs.at(kEvaluateProgram).graph.value(op.outputs[i]);
          if (value.type.shape.rank() != 1) continue;
          EXPECT_EQ(value.type.dtype, DType::kF32) << value.name;
        }
      }
    }
  }
}

// Mixed precision rounds the weights of matrix products to 16 bits before each product, and reads all other weights in
// fp32. If all weights are exact in bf16, this rounding changes nothing, so an evaluation with bf16 weights must
// compute the same results, from two bytes per weight instead of four.
TEST(HalfEvaluation, IsMixedPrecisionWhereWeightsAreExact) {
  for (const char* model : {"bert", "distilbert"}) {
    const TinyCase mixed{.model_type = model, .activations = DType::kBF16};
    TinyCase half = mixed;
    half.dtype = DType::kBF16;
    const Outcome want = evaluate(mixed, Weights::kRoundedToBf16);
    const Outcome got = evaluate(half, Weights::kRoundedToBf16);
    EXPECT_EQ(got.logits, want.logits) << model;
    EXPECT_EQ(got.loss, want.loss) << model;
  }
}

// Rounding to 16 bits changes a value by at most a factor u: 2^-8 in bf16 and 2^-11 in fp16. Between two
// norms, which scale every row to size 1, a value is rounded at most ten times: weight, bias and result of up
// to three products, the result of attention, of GELU, of the sum, and of the norm itself. A norm divides by
// a deviation that is not below 1 here, since it adds its branch to a row of size 1, so earlier errors are
// not amplified: after N norms an element has an error of at most 10 N u times the largest element of a row,
// about 3. The pooler and the classifier are two more products over C = 16 elements with weights of deviation
// 0.1 and of size at most 0.18. In the worst case each multiplies errors by 16 x 0.18 = 3, and each adds its
// own roundings.
TEST(HalfEvaluation, IsNearFp32) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    TinyCase exact{.dropout = 0.0};
    TinyCase half{.dtype = dtype, .dropout = 0.0, .activations = dtype};
    half.reference_kernels = exact.reference_kernels = needs_references(dtype);
    const Outcome want = evaluate(exact);
    const Outcome got = evaluate(half);
    const double u = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    constexpr int kNorms = 5;  // one norm for the embeddings and two per layer
    const double limit = 3.0 * 3.0 * (10 * kNorms * u * 3.0);
    double largest = 0, spread = 0;
    for (size_t i = 0; i < want.logits.size(); ++i) {
      test::keep_worst(largest, std::abs(got.logits[i] - want.logits[i]));
      test::keep_worst(spread, std::abs(want.logits[i] - want.logits[0]));
    }
    EXPECT_LE(largest, limit);
    // The limit above is the worst case, in which all rounding errors have the same sign. Errors with random
    // signs add up to about the square root of their number, so a correct result stays below a tenth of the
    // limit. This stricter limit also detects a broken kernel.
    EXPECT_LE(largest, limit / 10);
    EXPECT_GT(spread, 2 * largest);
    EXPECT_GT(largest, 0.0);
    EXPECT_NEAR(got.loss, want.loss, 2 * largest);
  }
}

}  // namespace
}  // namespace plimsoll
