// Tests attention on a GPU: all families of kernels must agree with the reference within the contract's error bound and with each other,
// give the same bits in captured CUDA graphs, and refuse invalid arguments. attention_cuda_rows_test.cc tests the contract for single rows.
#include "kernels/attention/attention_cuda.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention/testing/attention_device_case.h"

namespace plimsoll::test {
namespace {

AttentionRounding rounding_of(const Kernels& kernels, DType dtype) {
  AttentionRounding rounding;
  if (dtype == DType::kF32 && !kernels.multiplies_16_bits) return rounding;
  if (dtype == DType::kF32) return {.u = 0x1p-22, .s = 0x1p-11, .t = 0x1p-11};
  rounding.r = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
  rounding.w = dtype == DType::kF16 ? 0x1p-25 : 0.0;
  if (kernels.multiplies_16_bits) {
    rounding.s = rounding.r;
    rounding.u = 0x1p-22;
  }
  return rounding;
}

// Compares values. The allowed error is `bound` plus `rounding`, the rounding of the result itself. Both are multiplied by 1.01, because
// the formulas of `bound` omit products of two rounding errors, which are less than a hundredth of the bound.
Comparison compare_values(const std::vector<double>& got, const std::vector<double>& want,
                          std::vector<double> bound, const AttentionRounding& rounding,
                          Zeros zeros = Zeros::kSuspicious) {
  for (double& limit : bound) limit *= 1.01;
  const ConstView view{got.data(), DType::kF64};
  Limit limit;
  limit.per_element = bound;
  limit.relative = 1.01 * rounding.r;
  limit.absolute = rounding.w;
  limit.zeros = zeros;
  return compare(view, want, limit);
}

// Runs both passes with each family of kernels (such as the tiled or the mma.sync kernels) and compares the results with the reference.
// Returns the number of compared families.
int expect_within_bounds(const AttentionProblem& problem, const std::vector<const Kernels*>& families) {
  SCOPED_TRACE(problem.name);
  AttentionCase inputs(problem);
  const std::unique_ptr<AttentionCase> exact = inputs.in_double();
  exact->forward(Implementation::kRef);
  exact->backward(Implementation::kRef);
  for (const Kernels* kernels : families) {
    SCOPED_TRACE(kernels->name);
    AttentionCase fast(problem);
    OnDevice(fast, *kernels).run();
    const AttentionRounding rounding = rounding_of(*kernels, problem.dtype);
    const AttentionBounds bounds = attention_bounds(*exact, rounding);
    const auto lse = compare_values(fast.lse.to_doubles(), exact->lse.to_doubles(), bounds.lse, {});
    EXPECT_TRUE(lse.ok()) << "lse: " << lse;
    const auto o = compare_values(fast.o.to_doubles(), exact->o.to_doubles(), bounds.o, {});
    EXPECT_TRUE(o.ok()) << "o: " << o;
    const std::vector<double>* part_bounds[] = {&bounds.d_q, &bounds.d_k, &bounds.d_v};
    for (int part = 0; part < 3; ++part) {
      // With a window of 1, every row sees only itself with probability 1, whatever its score is. All gradients of q and k are then zero.
      // Zeros::kExpected permits this; with the default, the comparison fails if more than half of the numbers are zero.
      const Zeros zeros = problem.window == 1 && part < 2 ? Zeros::kExpected : Zeros::kSuspicious;
      const auto d =
          compare_values(fast.gradient(part), exact->gradient(part), *part_bounds[part], rounding, zeros);
      EXPECT_TRUE(d.ok()) << "gradient of part " << part << ": " << d;
    }
  }
  return static_cast<int>(families.size());
}

// Returns the families of GPU kernels that accept an element type and a head size.
std::vector<const Kernels*> families_of(DType dtype, int64_t head_dim) {
  if (dtype == DType::kF32 && head_dim % 4 == 0) return {&kTiled, &kTf32, &kTf32Wgmma};
  if (dtype == DType::kF32 || head_dim % 8 != 0) return {&kTiled};
  return {&kTiled, &kMma, &kMmaSmall, &kWgmma};
}

struct HeadCase {
  DType dtype;
  int64_t head_dim;
};
class AttentionCuda : public testing::TestWithParam<HeadCase> {};

TEST_P(AttentionCuda, IsWithinItsBoundOfTheReference) {
  const auto [dtype, head_dim] = GetParam();
  int compared = 0;
  for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
    // Dropout is tested with only one of the two masks per head size, because the reference implementation takes most of the time.
    const bool dropped = (mask == AttentionMask::kCausal) == (head_dim % 32 != 0);
    AttentionProblem problem{
        .name = "", .lengths = kRagged, .tail = 5, .heads = 2, .head_dim = head_dim, .mask = mask};
    problem.dropout = dropped ? 0.1 : 0.0;
    problem.dtype = dtype;
    problem.layout = mask == AttentionMask::kCausal ? QkvLayout::kThreeTensors : QkvLayout::kOneTensor;
    problem.longest_slack = dropped ? 100 : 0;
    problem.name = test_name() + (mask == AttentionMask::kCausal ? "/causal" : "/bidirectional");
    compared += expect_within_bounds(problem, families_of(dtype, head_dim));
  }
  EXPECT_GE(compared, 2);
}
std::vector<HeadCase> head_cases() {
  std::vector<HeadCase> cases;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t head_dim : {8, 16, 32, 64, 80, 128}) cases.push_back({dtype, head_dim});
  }
  cases.push_back({DType::kF32, 3});
  cases.push_back({DType::kF32, 20});
  cases.push_back({DType::kBF16, 5});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, AttentionCuda, testing::ValuesIn(head_cases()), [](const auto& parameters) {
  return std::string(dtype_name(parameters.param.dtype)) + "_" + std::to_string(parameters.param.head_dim);
});

// Tests query heads that share heads of k and v, and windows around the sizes of the tiles. The warpgroup kernels for fp32 support neither
// and call other kernels, which is tested too.
TEST(AttentionCudaShared, IsWithinItsBoundOfTheReference) {
  struct Shared {
    int64_t heads, kv_heads, window, head_dim;
  };
  int compared = 0;
  for (const auto& [heads, kv_heads, window, head_dim] :
       {Shared{4, 1, 0, 64}, Shared{6, 2, 0, 128}, Shared{2, 2, 1, 32}, Shared{2, 1, 17, 64},
        Shared{4, 2, 63, 80}, Shared{2, 1, 64, 64}, Shared{2, 2, 65, 128}, Shared{2, 1, 128, 16}}) {
    for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        AttentionProblem problem{
            .name = "", .lengths = kRagged, .tail = 5, .heads = heads, .head_dim = head_dim, .mask = mask};
        problem.kv_heads = kv_heads;
        problem.window = window;
        problem.dtype = dtype;
        problem.dropout = mask == AttentionMask::kCausal ? 0.1 : 0.0;
        problem.layout = dtype == DType::kF32 ? QkvLayout::kThreeTensors : QkvLayout::kOneTensor;
        problem.name = test_name() + "/" + std::to_string(heads) + "/" + std::to_string(kv_heads) + "/" +
                       std::to_string(window) + (mask == AttentionMask::kCausal ? "/causal" : "");
        compared += expect_within_bounds(problem, families_of(dtype, head_dim));
      }
    }
  }
  EXPECT_GE(compared, 48);
}

// Tests a symmetric window as in ModernBERT's local attention: sequences consist of many tiles, and a row sees 64 (or 129) rows on both
// sides, so the kernels must skip tiles on both sides.
TEST(AttentionCudaShared, SymmetricWindowsSkipTilesOnBothSides) {
  int compared = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t window : {65, 130}) {
      AttentionProblem problem{.name = test_name() + "/" + std::to_string(window),
                               .lengths = {520, 70, 0, 1, 300},
                               .tail = 7,
                               .heads = 2,
                               .head_dim = 64};
      problem.dtype = dtype;
      problem.window = window;
      problem.dropout = window == 65 ? 0.1 : 0.0;
      problem.layout = QkvLayout::kOneTensor;
      compared += expect_within_bounds(problem, families_of(dtype, problem.head_dim));
    }
  }
  EXPECT_GE(compared, 6);
}

// Runs the tiled kernels, which compute in fp32, and the tensor-core kernels on one problem and compares the results. They may differ by a
// few random roundings to 16 bits, each with a relative error of at most 2^-9 on average.
void expect_families_agree(const AttentionProblem& problem) {
  AttentionCase tiled(problem), mma(problem);
  OnDevice(tiled, kTiled).run();
  OnDevice(mma, kMma).run();
  const auto expect_close = [&](const std::vector<double>& got, const std::vector<double>& want, int part) {
    double error = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      error += (got[i] - want[i]) * (got[i] - want[i]);
      size += want[i] * want[i];
    }
    EXPECT_GT(size, 0) << problem.name << " " << part;
    EXPECT_LT(std::sqrt(error / size), 0x1p-7) << problem.name << " " << part;
  };
  expect_close(mma.o.to_doubles(), tiled.o.to_doubles(), -1);
  for (int part = 0; part < 3; ++part) expect_close(mma.gradient(part), tiled.gradient(part), part);
}

TEST(AttentionCudaRows, FamiliesAgreeAtFullSize) {
  for (const double dropout : {0.0, 0.1}) {
    AttentionProblem problem{
        .name = test_name(), .lengths = {512, 512}, .tail = 3, .heads = 16, .head_dim = 64};
    problem.dropout = dropout;
    problem.dtype = DType::kBF16;
    expect_families_agree(problem);
  }
}

// Compares the tiled kernels with those of the tensor cores on a problem with few thread blocks, so that the test can run under slow tools
// that check every access to shared memory, such as compute-sanitizer.
TEST(AttentionCudaRows, FamiliesAgreeSmall) {
  for (const double dropout : {0.0, 0.1}) {
    AttentionProblem problem{
        .name = test_name(), .lengths = {130, 20}, .tail = 3, .heads = 2, .head_dim = 64};
    problem.dropout = dropout;
    problem.dtype = DType::kBF16;
    expect_families_agree(problem);
  }
}

// Tests sequences that are too long to store dropout bits. The kernel for d_k and d_v must then draw the same random numbers again that the
// kernel for d_q drew.
void expect_families_agree_on_dropout_drawn_again(AttentionProblem problem) {
  problem.dropout = 0.1;
  problem.dtype = DType::kBF16;
  for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
    problem.mask = mask;
    expect_families_agree(problem);
  }
}

TEST(AttentionCudaRows, DropoutOfLongSequencesIsDrawnAgain) {
  ASSERT_EQ(attention_cuda_keep_bytes({2130, 2, 2100, 1, 32}), 0);
  expect_families_agree_on_dropout_drawn_again(
      {.name = test_name(), .lengths = {30, 2100}, .heads = 1, .head_dim = 32});
}

// Tests that long sequences draw their dropout numbers again, with few thread blocks, so that the test can run under slow tools that check
// every access to shared memory.
TEST(AttentionCudaRows, DropoutIsDrawnAgainSmall) {
  ASSERT_EQ(attention_cuda_keep_bytes({160, 2, 2130, 1, 32}), 0);
  expect_families_agree_on_dropout_drawn_again(
      {.name = test_name(), .lengths = {30, 130}, .heads = 1, .head_dim = 32, .longest_slack = 2000});
}

TEST(AttentionCudaRows, AGraphReplaysTheSameBits) {
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{
        .name = test_name(), .lengths = {100, 33}, .tail = 3, .heads = 2, .head_dim = 64};
    problem.dropout = 0.1;
    problem.dtype = dtype;
    AttentionCase direct(problem), replayed(problem);
    OnDevice(direct, *kernels).run();
    OnDevice device(replayed, *kernels);
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    kernels->forward(device.fwd_args(), device.rng(), stream);
    kernels->backward(device.bwd_args(), device.rng(), stream);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    device.download();
    for (const auto& result :
         {compare_bits(replayed.o, direct.o), compare_bits(replayed.d_qkv(0), direct.d_qkv(0))}) {
      EXPECT_TRUE(result.ok()) << kernels->name << " " << result;
    }
    static_cast<void>(cudaGraphExecDestroy(executable));
    static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaStreamDestroy(stream));
  }
}

TEST(AttentionCudaRows, BrokenRequirementsAreNamed) {
  AttentionProblem problem{.name = test_name(), .lengths = {7, 5}, .heads = 2, .head_dim = 16};
  problem.dtype = DType::kBF16;
  AttentionCase some(problem);
  OnDevice device(some, kMma);
  const auto message = [&](auto change) -> std::string {
    AttentionBwdArgs args = device.bwd_args();
    change(args);
    try {
      attention_bwd_cuda_mma(args, nullptr, nullptr);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInternal);
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message([](AttentionBwdArgs& a) { a.scratch_bytes -= 1; }).find("scratch"), std::string::npos);
  EXPECT_NE(
      message([](AttentionBwdArgs& a) { a.dims.heads = 1, a.dims.head_dim = 136; }).find("rows of q are 96"),
      std::string::npos);
  EXPECT_NE(message([](AttentionBwdArgs& a) { a.k.row_stride = 31; }).find("rows of k"), std::string::npos);
  EXPECT_NE(message([](AttentionBwdArgs& a) { a.options.dropout = 0.5; }).find("needs the random state"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::test
