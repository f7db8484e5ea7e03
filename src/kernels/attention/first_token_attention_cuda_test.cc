#include "kernels/attention/first_token_attention.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/device_buffer.h"

namespace plimsoll {
namespace {

using test::DeviceBuffer;
using test::GuardedBuffer;

struct Case {
  std::vector<int64_t> lengths;
  int64_t tail = 0;
  int64_t heads = 2;
  int64_t head_dim = 32;
  int64_t columns = 384;
  DType dtype = DType::kBF16;
  int64_t longest = 0;  // upper bound of the lengths given to the kernel; 0 means the longest of `lengths`
  double spread = 1.0;  // factor of the random weights; larger values give scores that are further apart
};

bool is_hopper() {
  int major = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  return major == 9;
}

void check(const Case& c) {
  const auto sequences = static_cast<int64_t>(c.lengths.size());
  const int64_t rows = std::reduce(c.lengths.begin(), c.lengths.end()) + c.tail;
  const int64_t width = c.heads * c.head_dim;
  const std::string name = fmt::format("first_token/{} rows {} sequences {} x {} heads {} columns {}", rows,
                                       sequences, c.heads, c.head_dim, c.columns, dtype_name(c.dtype));
  SCOPED_TRACE(name);
  GuardedBuffer x(name + "/x", c.dtype, rows * c.columns), w(name + "/w", c.dtype, 3 * width * c.columns);
  GuardedBuffer bias(name + "/bias", c.dtype, 3 * width), cu(name + "/cu", DType::kI32, sequences + 1);
  GuardedBuffer o(name + "/o", c.dtype, sequences * width), want(name + "/want", DType::kF64, o.count());
  x.fill_normal();
  w.fill_normal(0.0, c.spread / std::sqrt(static_cast<double>(c.columns)));
  bias.fill_uniform();
  AttentionDims dims{.tokens = rows, .sequences = sequences, .heads = c.heads, .head_dim = c.head_dim};
  dims.longest = c.longest;
  cu.view().store(0, 0);
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t length = c.lengths[static_cast<size_t>(b)];
    cu.view().store(b + 1, cu.load(b) + static_cast<double>(length));
    dims.longest = std::max(dims.longest, length);
  }
  const auto used = static_cast<int64_t>(cu.load(sequences)) * c.columns;
  for (int64_t i = used; i < x.count(); ++i) x.view().store(i, std::numeric_limits<double>::quiet_NaN());
  const int64_t scratch_bytes = first_token_attention_cuda_scratch_bytes(dims, c.columns);
  GuardedBuffer scratch(name + "/scratch", DType::kU8, scratch_bytes);
  DeviceBuffer dx(x), dw(w), dbias(bias), dcu(cu), d_o(o), dscratch(scratch);
  FirstTokenAttentionArgs args{.dims = dims,
                               .columns = c.columns,
                               .scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim)),
                               .x_TC = dx.view(),
                               .w_3HDC = dw.view(),
                               .bias_3HD = dbias.view(),
                               .cu_seqlens = dcu.view(),
                               .o_BHD = d_o.view(),
                               .scratch = dscratch.view(),
                               .scratch_bytes = scratch_bytes};
  first_token_attention_cuda(args, nullptr);
  d_o.download();
  dscratch.download();
  EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
  args.x_TC = x.view(), args.w_3HDC = w.view(), args.bias_3HD = bias.view(), args.cu_seqlens = cu.view();
  args.o_BHD = want.view();
  first_token_attention_ref(args);
  const std::vector<double> bounds = first_token_attention_error_bounds(args);
  const auto result = test::compare(
      o, want, {.per_element = bounds, .zeros = test::Zeros::kExpected, .shape = {sequences, width}});
  EXPECT_TRUE(result.ok()) << result;
  GuardedBuffer again(name + "/again", c.dtype, o.count());
  DeviceBuffer d_again(again);
  args.x_TC = dx.view(), args.w_3HDC = dw.view(), args.bias_3HD = dbias.view(), args.cu_seqlens = dcu.view();
  args.o_BHD = d_again.view();
  first_token_attention_cuda(args, nullptr);
  d_again.download();
  EXPECT_TRUE(test::compare_bits(o, again).ok());
}

#define PLIMSOLL_NEEDS_HOPPER() \
  if (!is_hopper()) GTEST_SKIP() << "needs compute capability 9.0"

TEST(FirstTokenAttentionCuda, LengthsThatDoNotFillATile) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.lengths = {1, 31, 32, 33, 7}, .tail = 5});
  check({.lengths = {1, 31, 32, 33, 7}, .tail = 5, .dtype = DType::kF16});
}

TEST(FirstTokenAttentionCuda, EmptySequencesGiveZeros) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.lengths = {0, 9, 0, 0, 12, 0}, .tail = 3});
  check({.lengths = {3, 0}});
}

TEST(FirstTokenAttentionCuda, PartsOfASequence) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.lengths = {300, 256, 513, 2}});
  check({.lengths = {40}, .longest = 600});
}

TEST(FirstTokenAttentionCuda, LongSequencesHaveLongerParts) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.lengths = {300, 70}, .heads = 1, .longest = 12000});
}

TEST(FirstTokenAttentionCuda, ColumnsAndHeads) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.lengths = {20, 50}, .heads = 12, .head_dim = 32, .columns = 384});
  check({.lengths = {20}, .heads = 4, .head_dim = 128, .columns = 512});
  check({.lengths = {20, 40}, .heads = 12, .head_dim = 64, .columns = 768, .dtype = DType::kF16});
  check({.lengths = {37}, .heads = 16, .head_dim = 64, .columns = 1024});
  check({.lengths = {37}, .heads = 3, .head_dim = 96, .columns = 1024});
}

TEST(FirstTokenAttentionCuda, MoreSequencesThanABlockTakes) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.lengths = std::vector<int64_t>(37, 11), .tail = 1, .heads = 1});
}

TEST(FirstTokenAttentionCuda, ScoresThatAreFarApart) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.lengths = {60, 90}, .spread = 3.0});
}

}  // namespace
}  // namespace plimsoll
