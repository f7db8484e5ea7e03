#include "kernels/attention/testing/attention_device_case.h"

namespace plimsoll::test {
namespace {

void write_rng(GuardedBuffer& rng, const RandomSite& random) {
  auto* numbers = rng.view().as<int64_t>();
  numbers[0] = static_cast<int64_t>(random.seed);
  numbers[1] = random.step;
}

}  // namespace

OnDevice::OnDevice(AttentionCase& host, const Kernels& kernels)
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

AttentionFwdArgs OnDevice::fwd_args() {
  AttentionFwdArgs args = host_.fwd_args(Implementation::kCpu);
  args.q.view = part(qkv_, 0), args.k.view = part(qkv_, 1), args.v.view = part(qkv_, 2);
  args.cu_seqlens = cu_seqlens_.view(), args.o = o_.view(), args.lse = lse_.view();
  args.scratch = {}, args.scratch_bytes = 0;
  // Sets the seed and the number of the micro-batch in the host's arguments to 0, because GPU kernels must read them from device memory.
  args.options.random = {0, 0, args.options.random.site};
  return args;
}

AttentionBwdArgs OnDevice::bwd_args() {
  AttentionBwdArgs args = host_.bwd_args(Implementation::kCpu);
  args.q.view = part(qkv_, 0), args.k.view = part(qkv_, 1), args.v.view = part(qkv_, 2);
  args.d_q.view = part(d_qkv_, 0), args.d_k.view = part(d_qkv_, 1), args.d_v.view = part(d_qkv_, 2);
  args.cu_seqlens = cu_seqlens_.view(), args.o = o_.view(), args.lse = lse_.view();
  args.d_o = d_o_.view(), args.scratch = scratch_.view(), args.scratch_bytes = host_scratch_.size_bytes();
  args.options.random = {0, 0, args.options.random.site};
  return args;
}

void OnDevice::download() {
  o_.download();
  lse_.download();
  scratch_.download();
  for (auto& buffer : d_qkv_) buffer->download();
  EXPECT_TRUE(host_.guards_intact());
  EXPECT_EQ(host_scratch_.broken_guard(), GuardedBuffer::kIntact);
}

View OnDevice::part(const std::vector<std::unique_ptr<DeviceBuffer>>& buffers, int which) const {
  const size_t slot = buffers.size() == 1 ? 0 : static_cast<size_t>(which);
  return buffers[slot]->view_from(host_.index(which, 0, 0, 0));
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {&kTiled, DType::kF32},  {&kTiled, DType::kBF16},    {&kMma, DType::kBF16},
      {&kMma, DType::kF16},    {&kMmaSmall, DType::kBF16}, {&kTf32, DType::kF32},
      {&kWgmma, DType::kBF16}, {&kWgmma, DType::kF16},     {&kTf32Wgmma, DType::kF32}};
  return all;
}

}  // namespace plimsoll::test
