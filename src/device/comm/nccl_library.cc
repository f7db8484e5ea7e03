#include "device/comm/nccl_library.h"

#include <dlfcn.h>

#include "base/check.h"
#include "base/opened_library.h"

namespace plimsoll {
namespace {

constexpr int kOldestVersion = 21800;

template <typename Function>
void find(void* library, Function& function, const char* name) {
  if (!find_library_function(library, name, function))
    throw_error(ErrorCode::kDevice,
                "the installed NCCL has no function '{}' ({}); install NCCL 2.18 or later", name, dlerror());
}

NcclLibrary open_library() {
  void* library = nullptr;
  std::string tried;
  for (const std::string& name : nccl_names()) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
  }
  if (library == nullptr) {
    throw_error(ErrorCode::kDevice,
                "NCCL, through which several GPUs exchange gradients, cannot be opened ({}). If pip "
                "installed Plimsoll, run "
                "pip install 'plimsoll-train[cuda]'; otherwise install the package libnccl2, or PyPI's "
                "nvidia-nccl-cu13 with "
                "its folder in LD_LIBRARY_PATH. Without NCCL, train on one GPU with --nproc_per_node 1",
                tried);
  }
  NcclLibrary nccl;
  find(library, nccl.get_version, "ncclGetVersion");
  int version = 0;
  nccl.get_version(&version);
  if (version < kOldestVersion) {
    throw_error(ErrorCode::kDevice, "the installed NCCL is {}.{}.{}; install 2.18 or later", version / 10000,
                version / 100 % 100, version % 100);
  }
  find(library, nccl.get_unique_id, "ncclGetUniqueId");
  find(library, nccl.comm_init, "ncclCommInitRankConfig");
  find(library, nccl.comm_destroy, "ncclCommDestroy");
  find(library, nccl.comm_stop, "ncclCommAbort");
  find(library, nccl.all_reduce, "ncclAllReduce");
  find(library, nccl.reduce_scatter, "ncclReduceScatter");
  find(library, nccl.all_gather, "ncclAllGather");
  find(library, nccl.reduce, "ncclReduce");
  find(library, nccl.broadcast, "ncclBroadcast");
  find(library, nccl.send, "ncclSend");
  find(library, nccl.receive, "ncclRecv");
  find(library, nccl.group_start, "ncclGroupStart");
  find(library, nccl.group_end, "ncclGroupEnd");
  find(library, nccl.error_string, "ncclGetErrorString");
  find(library, nccl.last_error, "ncclGetLastError");
  return nccl;
}

}  // namespace

const NcclLibrary& nccl() {
  static const NcclLibrary library = open_library();
  return library;
}

}  // namespace plimsoll
