#include "kernels/matmul/onednn_facts.h"

#include <dnnl_debug.h>
#include <dnnl.hpp>

#include <string_view>

#include "base/check.h"

namespace plimsoll {

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string onednn_instruction_set() {
  // The library's own function for names returns "cpu_isa_avx2".
  std::string name = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
  constexpr std::string_view kPrefix = "cpu_isa_";
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  return name;
}

}  // namespace plimsoll
