#include "base/check.h"
#include "kernels/matmul/linear_cuda_wgmma.h"
#include "kernels/matmul/linear_gelu.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {
namespace {

class OwnProduct final : public CudaMatmul {
 public:
  OwnProduct(const LinearProblem& problem, LinearActivation activation)
      : problem_(problem), activation_(activation) {}

  void run(const MatmulArgs& args, const int32_t* accumulate, CudaStream stream) override {
    PLIMSOLL_CHECK(accumulate == nullptr,
                   "the matrix product {} x {} x {} by linear_cuda_wgmma cannot add to its output",
                   problem_.rows, problem_.columns, problem_.terms);
#ifdef PLIMSOLL_HAS_WGMMA
    linear_cuda_wgmma(problem_, activation_, args, stream);
#else
    static_cast<void>(args);
    static_cast<void>(stream);
    PLIMSOLL_CHECK(false,
                   "this kernel needs code for compute capability 9.0, which this program was built without");
#endif
  }
  std::string description() const override {
    return activation_ == LinearActivation::kGelu ? "linear_gelu_cuda_wgmma" : "linear_cuda_wgmma";
  }

 private:
  LinearProblem problem_;
  LinearActivation activation_;
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_own_matmul_cuda(const MatmulProblem& problem, int sm) {
  const std::optional<LinearProblem> linear = matmul_as_linear(problem, sm);
  PLIMSOLL_CHECK(linear.has_value(),
                 "linear_cuda_wgmma does not support the matrix product {} x {} x {} on sm_{}", problem.m,
                 problem.n, problem.k, sm);
  return std::make_unique<OwnProduct>(*linear, LinearActivation::kNone);
}

std::unique_ptr<CudaMatmul> prepare_own_linear_gelu_cuda(const LinearProblem& problem) {
  return std::make_unique<OwnProduct>(problem, LinearActivation::kGelu);
}

std::unique_ptr<CudaMatmul> prepare_matmul_wgmma_cuda(const MatmulProblem& problem, int sm,
                                                      const TunedProduct* tuned) {
#ifdef PLIMSOLL_HAS_WGMMA
  if (matmul_takes_own_product(problem, sm)) return prepare_own_matmul_cuda(problem, sm);
#else
  static_cast<void>(sm);
#endif
  return prepare_matmul_cuda(problem, Fp32Products::kF32, tuned);
}

}  // namespace plimsoll
