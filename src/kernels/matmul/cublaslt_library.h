// cuBLASLt, opened at run time so that the program does not need the library on a machine without a GPU, and so that commands that do not
// compute, such as `plan`, do not spend time on loading it. Only for sources that are built with CUDA.
#pragma once

#include <cublasLt.h>

#include <string>

namespace plimsoll {

// Pointers to the functions of cuBLASLt that Plimsoll calls, with the types of its header.
struct CublasLt {
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtGetVersion) version = nullptr;
  decltype(&::cublasLtGetStatusString) status_string = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&::cublasLtMatmulAlgoConfigGetAttribute) algo_get = nullptr;
  decltype(&::cublasLtMatmulAlgoCheck) algo_check = nullptr;
  cublasLtHandle_t handle = nullptr;
};

// Returns the functions of cuBLASLt. The first call opens the library and creates a handle on the current device. Errors: kDevice.
// Thread-safe.
const CublasLt& cublaslt();

// Throws kDevice with the name of the call and the library's error text if the status is an error. `what` describes the matrix product, for
// the message.
void check_cublaslt(cublasStatus_t status, const char* call, const std::string& what);

}  // namespace plimsoll
