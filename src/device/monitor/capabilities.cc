#include "device/monitor/monitor_sample.h"

#include <fmt/format.h>

#include "hardware/gpu_target.h"

namespace plimsoll {
namespace {

// The first compute capability whose tensor cores support a format, from the section "Compute Capabilities"
// of NVIDIA's CUDA C++ Programming Guide.
struct Format {
  const char* name;
  int first_sm;
  const char* remark;
};
constexpr Format kFormats[] = {
    {"fp16", 70, ""},
    {"bf16", 80, ""},
    {"tf32", 80, ""},
    {"fp8", kOldestSmOfFp8, "; --fp8 uses it in training"},
};

}  // namespace

std::vector<Capability> gpu_capabilities(int sm) {
  std::vector<Capability> capabilities;
  for (const Format& format : kFormats) {
    const bool is_there = sm >= format.first_sm;
    capabilities.push_back(
        {.format = format.name,
         .is_there = is_there,
         .why = fmt::format(
             "tensor cores multiply this format from compute capability {}.{} on, and this GPU has {}.{}{}",
             format.first_sm / 10, format.first_sm % 10, sm / 10, sm % 10, is_there ? format.remark : "")});
  }
  return capabilities;
}

std::vector<Capability> cpu_capabilities(CpuIsa isa, bool multiplies_fp16) {
  const auto fp32 = [&]() -> const char* {
    if (isa == CpuIsa::kBaseline)
      return "the CPU lacks AVX2 and multiplies four numbers at a time; training is slow";
    return isa == CpuIsa::kAvx2 ? "AVX2 multiplies eight numbers at a time"
                                : "AVX-512 multiplies sixteen numbers at a time";
  };
  const auto bf16 = [&]() -> const char* {
    if (isa == CpuIsa::kAmx)
      return "AMX multiplies tiles of bf16, which is the fastest matrix product of a CPU: use --bf16";
    return isa == CpuIsa::kAvx512Bf16
               ? "AVX512_BF16 multiplies pairs of bf16 numbers, up to twice as fast as fp32: use --bf16"
               : "this CPU has neither AVX512_BF16 nor AMX, one of which --bf16 needs";
  };
  const std::string fp16 = std::string(multiplies_fp16 ? "AVX512_FP16 or AMX-FP16 multiplies fp16"
                                                       : "this CPU has neither AVX512_FP16 nor AMX-FP16") +
                           "; Plimsoll does not compute fp16 on a CPU" +
                           (has_bf16_products(isa) ? ": use --bf16" : "");
  return {
      {.format = "fp32", .is_there = true, .why = fp32()},
      {.format = "bf16", .is_there = has_bf16_products(isa), .why = bf16()},
      {.format = "fp16", .is_there = multiplies_fp16, .why = fp16},
      {.format = "tf32", .is_there = false, .why = "only tensor cores of NVIDIA GPUs multiply this format"},
      {.format = "fp8",
       .is_there = false,
       .why = "only tensor cores of NVIDIA GPUs multiply this format; --fp8 needs a GPU of compute "
              "capability 8.9 or later"}};
}

}  // namespace plimsoll
