// Attention on a GPU: both families of kernels against the references within the contract's bound, and what
// the contract promises about bits, tail rows, dropout and memory.
#include "kernels/attention/attention_cuda.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention/attention_case.h"
#include "tests/support/device_buffer.h"

namespace plimsoll::test {
namespace {

struct Kernels {
  const char* name;
  void (*forward)(const AttentionFwdArgs&, const int64_t*, CudaStream);
  void (*backward)(const AttentionBwdArgs&, const int64_t*, CudaStream);
  int64_t (*scratch_bytes)(const AttentionDims&);
  bool multiplies_16_bits;  // or 11
};
constexpr Kernels kTiled = {"tiled", attention_fwd_cuda_tiled, attention_bwd_cuda_tiled,
                            attention_bwd_cuda_tiled_scratch_bytes, false};

// With large blocks, and with small ones.
constexpr Kernels kMma = {"mma",
                          [](const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream) {
                            attention_fwd_cuda_mma_of(args, rng, {128, 128, 128}, stream);
                          },
                          [](const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream) {
                            attention_bwd_cuda_mma_of(args, rng, {128, 128, 128}, stream);
                          },
                          attention_bwd_cuda_mma_scratch_bytes, true};
constexpr Kernels kMmaSmall = {"mma of 64 rows",
                               [](const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream) {
                                 attention_fwd_cuda_mma_of(args, rng, {64, 64, 64}, stream);
                               },
                               [](const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream) {
                                 attention_bwd_cuda_mma_of(args, rng, {64, 64, 64}, stream);
                               },
                               attention_bwd_cuda_mma_scratch_bytes, true};

// By warpgroups where the device has them.
constexpr Kernels kWgmma = {"wgmma", attention_fwd_cuda_wgmma, attention_bwd_cuda_wgmma,
                            attention_bwd_cuda_mma_scratch_bytes, true};

constexpr Kernels kTf32 = {"tf32", attention_fwd_cuda_tf32_mma, attention_bwd_cuda_tf32_mma,
                           attention_bwd_cuda_mma_scratch_bytes, true};
constexpr Kernels kTf32Wgmma = {"tf32 wgmma", attention_fwd_cuda_tf32_wgmma, attention_bwd_cuda_tf32_wgmma,
                                attention_bwd_cuda_mma_scratch_bytes, true};

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

// The tensors of a case on the device. They are uploaded as they are when this is made.
class OnDevice {
 public:
  explicit OnDevice(AttentionCase& host, const Kernels& kernels)
      : host_(host),
        kernels_(kernels),
        host_rng_(host.problem().name + "/rng", DType::kI64, 2),
        host_scratch_(host.problem().name + "/scratch", DType::kU8, kernels.scratch_bytes(host.dims())),
        rng_((write_rng(host_rng_, host.options().random), host_rng_)),
        scratch_(host_scratch_),
        cu_seqlens_(host.cu_seqlens),
        o_(host.o),
        lse_(host.lse),
        d_o_(host.d_o) {
    const int slots = host.problem().layout == QkvLayout::kOneTensor ? 1 : 3;
    for (int slot = 0; slot < slots; ++slot) {
      qkv_.push_back(std::make_unique<DeviceBuffer>(host.qkv(slot)));
      d_qkv_.push_back(std::make_unique<DeviceBuffer>(host.d_qkv(slot)));
    }
  }

  AttentionFwdArgs fwd_args() {
    AttentionFwdArgs args = host_.fwd_args(Implementation::kCpu);
    args.q.view = part(qkv_, 0), args.k.view = part(qkv_, 1), args.v.view = part(qkv_, 2);
    args.cu_seqlens = cu_seqlens_.view(), args.o = o_.view(), args.lse = lse_.view();
    args.scratch = {}, args.scratch_bytes = 0;
    args.options.random = {0, 0, args.options.random.site};  // the rest is on the device
    return args;
  }
  AttentionBwdArgs bwd_args() {
    AttentionBwdArgs args = host_.bwd_args(Implementation::kCpu);
    args.q.view = part(qkv_, 0), args.k.view = part(qkv_, 1), args.v.view = part(qkv_, 2);
    args.d_q.view = part(d_qkv_, 0), args.d_k.view = part(d_qkv_, 1), args.d_v.view = part(d_qkv_, 2);
    args.cu_seqlens = cu_seqlens_.view(), args.o = o_.view(), args.lse = lse_.view();
    args.d_o = d_o_.view(), args.scratch = scratch_.view(), args.scratch_bytes = host_scratch_.size_bytes();
    args.options.random = {0, 0, args.options.random.site};
    return args;
  }
  void forward() { kernels_.forward(fwd_args(), rng(), nullptr); }
  void backward() { kernels_.backward(bwd_args(), rng(), nullptr); }
  const int64_t* rng() const { return host_.options().dropout > 0 ? rng_.as<int64_t>() : nullptr; }
  // Into the case that this was made of.
  void download() {
    o_.download();
    lse_.download();
    scratch_.download();
    for (auto& buffer : d_qkv_) buffer->download();
    EXPECT_TRUE(host_.guards_intact());
    EXPECT_EQ(host_scratch_.broken_guard(), GuardedBuffer::kIntact);
  }
  void run() {
    forward();
    backward();
    download();
  }

 private:
  static void write_rng(GuardedBuffer& rng, const RandomSite& random) {
    auto* numbers = rng.view().as<int64_t>();
    numbers[0] = static_cast<int64_t>(random.seed);
    numbers[1] = random.step;
  }
  View part(const std::vector<std::unique_ptr<DeviceBuffer>>& buffers, int which) const {
    const size_t slot = buffers.size() == 1 ? 0 : static_cast<size_t>(which);
    return buffers[slot]->view_from(host_.index(which, 0, 0, 0));
  }

  AttentionCase& host_;
  const Kernels& kernels_;
  GuardedBuffer host_rng_, host_scratch_;
  DeviceBuffer rng_, scratch_, cu_seqlens_, o_, lse_, d_o_;
  std::vector<std::unique_ptr<DeviceBuffer>> qkv_, d_qkv_;
};

const std::vector<int64_t> kRagged = {7, 0, 64, 1, 129, 2, 65};

std::string test_name() {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

// The gradients of one part as [T, H, D] doubles.
std::vector<double> gradient(AttentionCase& some, int part) {
  const AttentionDims& dims = some.dims();
  std::vector<double> values;
  for (int64_t t = 0; t < dims.tokens; ++t) {
    for (int64_t h = 0; h < dims.heads; ++h) {
      for (int64_t d = 0; d < dims.head_dim; ++d)
        values.push_back(some.d_qkv(part).load(some.index(part, t, h, d)));
    }
  }
  return values;
}

// `bound` without the rounding of the result itself, which is `rounding`'s. Products of two roundings are
// left out of the bound: they are below a hundredth of it.
Comparison compare_values(const std::vector<double>& got, const std::vector<double>& want,
                          std::vector<double> bound, const AttentionRounding& rounding) {
  for (double& limit : bound) limit *= 1.01;
  const ConstView view{got.data(), DType::kF64};
  Limit limit;
  limit.per_element = bound;
  limit.relative = 1.01 * rounding.r;
  limit.absolute = rounding.w;
  return compare(view, want, limit);
}

// Both passes of both families that take the type, each against the reference.
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
      const auto d =
          compare_values(gradient(fast, part), gradient(*exact, part), *part_bounds[part], rounding);
      EXPECT_TRUE(d.ok()) << "gradient of part " << part << ": " << d;
    }
  }
  return static_cast<int>(families.size());
}

// The families that take a type and head size.
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
    // Half of the combinations for each head size, as the reference takes most of the time.
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

// What a type is tried with.
struct Family {
  const Kernels* kernels;
  DType dtype;
};
const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {&kTiled, DType::kF32},  {&kTiled, DType::kBF16},    {&kMma, DType::kBF16},
      {&kMma, DType::kF16},    {&kMmaSmall, DType::kBF16}, {&kTf32, DType::kF32},
      {&kWgmma, DType::kBF16}, {&kWgmma, DType::kF16},     {&kTf32Wgmma, DType::kF32}};
  return all;
}

TEST(AttentionCudaRows, TailRowsAndNothingElseAreZero) {
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{
        .name = test_name(), .lengths = {9, 0, 20}, .tail = 11, .heads = 3, .head_dim = 8};
    problem.dtype = dtype;
    AttentionCase some(problem);
    OnDevice(some, *kernels).run();
    const int64_t columns = 3 * 8;
    const std::vector<double> o = some.o.to_doubles();
    int64_t zeros = 0;
    for (int part = 0; part < 3; ++part) {
      const std::vector<double> d = gradient(some, part);
      for (int64_t i = 0; i < some.o.count(); ++i) {
        const size_t at = static_cast<size_t>(i);
        EXPECT_EQ(o[at] == 0, i >= some.used_rows() * columns) << i;
        EXPECT_EQ(d[at] == 0, i >= some.used_rows() * columns) << part << " " << i;
        zeros += d[at] == 0;
      }
    }
    EXPECT_EQ(zeros, 3 * 11 * columns);
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t t = some.used_rows(); t < some.dims().tokens; ++t) {
        EXPECT_EQ(some.lse.load(h * some.dims().tokens + t), 0);
      }
    }
  }
}

TEST(AttentionCudaRows, EmptyBatchesAreAllTail) {
  for (const auto& [kernels, dtype] : families()) {
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{}, std::vector<int64_t>{0, 0}}) {
      AttentionProblem problem{.name = test_name(), .lengths = lengths, .tail = 4, .heads = 2, .head_dim = 8};
      problem.dtype = dtype;
      AttentionCase some(problem);
      OnDevice(some, *kernels).run();
      for (const double value : some.o.to_doubles()) EXPECT_EQ(value, 0);
      for (int part = 0; part < 3; ++part) {
        for (const double value : gradient(some, part)) EXPECT_EQ(value, 0);
      }
    }
  }
}

// With v_j the unit vector of number j % 64 and 64 queries of zeros to a sequence, all probabilities of a row
// are equal and o_id counts the kept keys among d, d + 64 and so on.
TEST(AttentionCudaRows, DropsExactlyTheElementsOfPhilox) {
  int64_t checked = 0;
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{.name = test_name(), .lengths = {5, 192, 64}, .heads = 2, .head_dim = 64};
    problem.dropout = 0.3;
    problem.dtype = dtype;
    AttentionCase some(problem);
    for (size_t b = 0; b < problem.lengths.size(); ++b) {
      for (int64_t i = 0; i < problem.lengths[b]; ++i) {
        for (int64_t at = 0; at < 2 * 64; ++at) {
          const int64_t t = some.first_rows()[b] + i;
          some.qkv(0).view().store(some.index(0, t, at / 64, at % 64), 0);
          some.qkv(2).view().store(some.index(2, t, at / 64, at % 64), i % 64 == at % 64 ? 1 : 0);
        }
      }
    }
    OnDevice(some, *kernels).run();
    for (size_t b = 0; b < problem.lengths.size(); ++b) {
      const int64_t length = problem.lengths[b];
      for (int64_t at = 0; at < length * 2 * std::min<int64_t>(length, 64); ++at) {
        const int64_t d = at % std::min<int64_t>(length, 64), row = at / std::min<int64_t>(length, 64);
        const int64_t t = some.first_rows()[b] + row / 2, h = row % 2;
        int kept = 0;
        for (int64_t j = d; j < length; j += 64) {
          kept +=
              attention_number(some.options().random, attention_row(t, 2, h), j) >= dropout_threshold(0.3);
        }
        const double one = static_cast<double>(dropout_scale(0.3)) / static_cast<double>(length);
        ASSERT_NEAR(some.o.load((t * 2 + h) * 64 + d), kept * one, 0.02 * one)
            << kernels->name << " " << b << " " << t << " " << h << " " << d;
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, static_cast<int64_t>(families().size()) * 2 * (25 + 192 * 64 + 64 * 64));
}

TEST(AttentionCudaRows, TwoRunsGiveTheSameBits) {
  for (const auto& [kernels, dtype] : families()) {
    for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
      AttentionProblem problem{
          .name = test_name(), .lengths = {333, 20, 128}, .tail = 1, .heads = 3, .head_dim = 64};
      problem.mask = mask;
      problem.dropout = 0.1;
      problem.dtype = dtype;
      AttentionCase one(problem), other(problem);
      OnDevice(one, *kernels).run();
      OnDevice(other, *kernels).run();
      for (const auto& result : {compare_bits(other.o, one.o), compare_bits(other.lse, one.lse),
                                 compare_bits(other.d_qkv(0), one.d_qkv(0))}) {
        EXPECT_TRUE(result.ok()) << kernels->name << " " << result;
      }
    }
  }
}

// The rows of one sequence at different places of different batches.
TEST(AttentionCudaRows, ASequenceDoesNotDependOnTheBatchAroundIt) {
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem here{.name = test_name(), .lengths = {3, 77, 20}, .tail = 0, .heads = 2, .head_dim = 40};
    here.dropout = 0.1;  // the numbers follow the row in the batch, which is the same in both
    here.dtype = dtype;
    AttentionProblem there = here;
    there.lengths = {1, 2, 77};
    there.tail = 9;
    there.longest_slack = 300;
    AttentionCase a(here), b(there);
    b.options() = a.options();
    for (int64_t at = 0; at < 77 * 80; ++at) {
      const int64_t t = 3 + at / 80, column = at % 80;
      for (int part = 0; part < 3; ++part) {
        b.qkv(part).view().store(b.index(part, t, 0, column), a.load(part, t, 0, column));
      }
      b.d_o.view().store(t * 80 + column, a.d_o.load(t * 80 + column));
    }
    OnDevice(a, *kernels).run();
    OnDevice(b, *kernels).run();
    for (int64_t at = 0; at < 77 * 80; ++at) {
      const int64_t t = 3 + at / 80, column = at % 80;
      ASSERT_EQ(a.o.load(t * 80 + column), b.o.load(t * 80 + column)) << kernels->name << " " << at;
      for (int part = 0; part < 3; ++part) {
        ASSERT_EQ(a.d_qkv(part).load(a.index(part, t, 0, column)),
                  b.d_qkv(part).load(b.index(part, t, 0, column)))
            << kernels->name << " " << part << " " << at;
      }
    }
  }
}

// Scores of up to 1e6 in the exponent: every query picks one key, whose probability is 1, to the last bit
// where nothing is rounded to 16 bits on the way. (f16 holds no such scores.)
TEST(AttentionCudaRows, LargeScoresStayExact) {
  for (const auto& [kernels, dtype] : families()) {
    if (dtype == DType::kF16) continue;
    const double limit = kernels->multiplies_16_bits ? 0x1p-7 : 0.0;
    for (const double size : {8192, -8192}) {
      AttentionProblem problem{.name = test_name(), .lengths = {64}, .heads = 1, .head_dim = 64};
      problem.dtype = dtype;
      AttentionCase some(problem);
      for (int64_t i = 0; i < 64; ++i) {
        for (int64_t d = 0; d < 64; ++d) {
          some.qkv(0).view().store(some.index(0, i, 0, d), d == (i * 7) % 64 ? 1024 : 0);
          some.qkv(0).view().store(some.index(1, i, 0, d), i == d ? size + 1024 : size);
        }
      }
      OnDevice(some, *kernels).run();
      for (int64_t i = 0; i < 64; ++i) {
        for (int64_t d = 0; d < 64; ++d) {
          const double want = some.load(2, (i * 7) % 64, 0, d);
          EXPECT_NEAR(some.o.load(i * 64 + d), want, limit * std::abs(want)) << kernels->name;
          EXPECT_TRUE(std::isfinite(some.d_qkv(0).load(some.index(0, i, 0, d)))) << kernels->name;
        }
      }
    }
  }
}

TEST(AttentionCudaRows, NaNReachesTheRowsThatReadIt) {
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{.name = test_name(), .lengths = {70, 5}, .heads = 1, .head_dim = 16};
    problem.dtype = dtype;
    AttentionCase some(problem);
    some.qkv(0).view().store(some.index(0, 33, 0, 2), std::numeric_limits<double>::quiet_NaN());
    OnDevice(some, *kernels).run();
    for (int64_t t = 0; t < 75; ++t) {
      EXPECT_EQ(std::isnan(some.o.load(t * 16)), t == 33) << kernels->name << " " << t;
      EXPECT_EQ(std::isnan(some.d_qkv(1).load(some.index(1, t, 0, 0))), t < 70) << kernels->name << " " << t;
    }
  }
}

TEST(AttentionCudaRows, EvaluatingNeedsNoLse) {
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{.name = test_name(), .lengths = {70, 5}, .heads = 2, .head_dim = 16};
    problem.dtype = dtype;
    AttentionCase with(problem), without(problem);
    OnDevice(with, *kernels).run();
    OnDevice device(without, *kernels);
    AttentionFwdArgs args = device.fwd_args();
    args.lse = {};
    kernels->forward(args, nullptr, nullptr);
    device.download();
    const auto o = compare_bits(without.o, with.o);
    EXPECT_TRUE(o.ok()) << kernels->name << " " << o;
  }
}

// Both families on one problem. Their results differ by the roundings to 16 bits, each of a relative size of
// 2^-9 at most on average, of which a few add up at random.
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
  for (int part = 0; part < 3; ++part) expect_close(gradient(mma, part), gradient(tiled, part), part);
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

TEST(AttentionCudaRows, DropoutOfLongSequencesIsDrawnAgain) {
  AttentionProblem problem{.name = test_name(), .lengths = {30, 2100}, .heads = 1, .head_dim = 32};
  ASSERT_EQ(attention_cuda_keep_bytes({2130, 2, 2100, 1, 32}), 0);
  problem.dropout = 0.1;
  problem.dtype = DType::kBF16;
  expect_families_agree(problem);
  problem.mask = AttentionMask::kCausal;
  expect_families_agree(problem);
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
      attention_bwd_cuda(args, nullptr, nullptr);
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
  EXPECT_NE(message([](AttentionBwdArgs& a) { a.options.dropout = 0.5; }).find("numbers to draw from"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::test
