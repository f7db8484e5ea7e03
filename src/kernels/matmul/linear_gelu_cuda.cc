#include "kernels/matmul/linear_gelu_cuda.h"

#include "base/check.h"
#include "kernels/element_wise/gelu_cuda.h"
#include "kernels/matmul/linear_cuda_wgmma.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {
namespace {

class OwnProduct final : public CudaLinearGelu {
 public:
  explicit OwnProduct(const LinearProblem& problem) : problem_(problem) {}
  void run(const LinearGeluArgs& args, CudaStream stream) override {
#ifdef PLIMSOLL_HAS_WGMMA
    linear_gelu_cuda_wgmma(problem_, args, stream);
#else
    PLIMSOLL_CHECK(false, "built without code for compute capability 9.0");
#endif
  }
  std::string description() const override {
    return "linear_gelu_cuda_wgmma";
  }

 private:
  LinearProblem problem_;
};

class ProductThenActivation final : public CudaLinearGelu {
 public:
  explicit ProductThenActivation(const LinearProblem& problem)
      : problem_(problem),
        product_(prepare_matmul_cuda({.m = problem.rows,
                                      .n = problem.columns,
                                      .k = problem.terms,
                                      .trans_b = Transpose::kYes,
                                      .a = problem.dtype,
                                      .b = problem.dtype,
                                      .c = problem.dtype},
                                     Fp32Products::kF32)) {}

  void run(const LinearGeluArgs& args, CudaStream stream) override {
    product_->run({.a = args.x_TK, .b = args.w_NK, .bias = {}, .c = args.y_TN, .scratch = args.scratch},
                  nullptr, stream);
    bias_gelu_fwd_cuda(
        {.h = args.y_TN, .b = args.bias_N, .y = args.y_TN, .T = problem_.rows, .C = problem_.columns},
        stream);
  }
  std::string description() const override { return "cuBLASLt, " + product_->description(); }

 private:
  LinearProblem problem_;
  std::unique_ptr<CudaMatmul> product_;
};

}  // namespace

std::unique_ptr<CudaLinearGelu> prepare_own_linear_gelu_cuda(const LinearProblem& problem) {
  return std::make_unique<OwnProduct>(problem);
}

std::unique_ptr<CudaLinearGelu> prepare_linear_gelu_cuda(const LinearProblem& problem) {
#ifdef PLIMSOLL_HAS_WGMMA
  if (linear_takes_own_product(problem)) return prepare_own_linear_gelu_cuda(problem);
#endif
  return std::make_unique<ProductThenActivation>(problem);
}

}  // namespace plimsoll
