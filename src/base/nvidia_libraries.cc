#include "base/nvidia_libraries.h"

namespace plimsoll {
namespace {

constexpr const char* kSitePackages = "$ORIGIN/../../";
constexpr const char* kToolkit = "/usr/local/cuda/lib64/";

}  // namespace

std::vector<std::string> cublaslt_names() {
  const std::string soname = "libcublasLt.so.13";
  return {soname, kSitePackages + ("nvidia/cu13/lib/" + soname), kToolkit + soname, "libcublasLt.so"};
}

std::vector<std::string> nccl_names() {
  const std::string soname = "libnccl.so.2";
  return {soname, kSitePackages + ("nvidia/nccl/lib/" + soname), kToolkit + soname};
}

}  // namespace plimsoll
