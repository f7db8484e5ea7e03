#include "device/monitor/capabilities.h"

#include <fmt/format.h>

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
    {"fp8", 89, "; this program does not train in it"},
};

}  // namespace

std::vector<Capability> gpu_capabilities(int sm) {
  std::vector<Capability> capabilities;
  for (const Format& format : kFormats) {
    const bool is_there = sm >= format.first_sm;
    capabilities.push_back(
        {.format = format.name,
         .is_there = is_there,
         .why = fmt::format("tensor cores multiply it from compute capability {}.{} on, this is {}.{}{}",
                            format.first_sm / 10, format.first_sm % 10, sm / 10, sm % 10,
                            is_there ? format.remark : "")});
  }
  return capabilities;
}

}  // namespace plimsoll
