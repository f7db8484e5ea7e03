#include "kernels/matmul/cublaslt_library.h"

#include <dlfcn.h>

#include "base/check.h"
#include "base/opened_library.h"

namespace plimsoll {
namespace {

template <typename Function>
void find(void* library, Function& function, const char* name) {
  if (!find_library_function(library, name, function))
    throw_error(
        ErrorCode::kDevice,
        "the installed cuBLASLt has no function '{}' ({}); install the version that belongs to this driver",
        name, dlerror());
}

CublasLt open_library() {
  void* library = nullptr;
  std::string tried;
  for (const std::string& name : cublaslt_names()) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
  }
  if (library == nullptr) {
    throw_error(ErrorCode::kDevice,
                "cuBLASLt of CUDA 13 cannot be opened ({}). If pip installed Plimsoll, run pip install "
                "'plimsoll-train[cuda]'; otherwise install the package libcublas-13-0, or PyPI's "
                "nvidia-cublas with its "
                "folder in LD_LIBRARY_PATH. Without cuBLASLt, run with --use_cpu",
                tried);
  }
  CublasLt lt;
  find(library, lt.create, "cublasLtCreate");
  find(library, lt.version, "cublasLtGetVersion");
  find(library, lt.status_string, "cublasLtGetStatusString");
  find(library, lt.matmul, "cublasLtMatmul");
  find(library, lt.desc_create, "cublasLtMatmulDescCreate");
  find(library, lt.desc_destroy, "cublasLtMatmulDescDestroy");
  find(library, lt.desc_set, "cublasLtMatmulDescSetAttribute");
  find(library, lt.layout_create, "cublasLtMatrixLayoutCreate");
  find(library, lt.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(library, lt.preference_create, "cublasLtMatmulPreferenceCreate");
  find(library, lt.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(library, lt.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(library, lt.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(library, lt.algo_get, "cublasLtMatmulAlgoConfigGetAttribute");
  find(library, lt.algo_check, "cublasLtMatmulAlgoCheck");
  const cublasStatus_t status = lt.create(&lt.handle);
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw_error(ErrorCode::kDevice,
                "cuBLASLt cannot create a handle: {}; free memory of the GPU, or run with --use_cpu",
                lt.status_string(status));
  }
  return lt;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt library = open_library();
  return library;
}

void check_cublaslt(cublasStatus_t status, const char* call, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_error(ErrorCode::kDevice,
              "cuBLASLt reports '{}' in {} for {}; update the driver and the library, or run with --use_cpu",
              cublaslt().status_string(status), call, what);
}

}  // namespace plimsoll
