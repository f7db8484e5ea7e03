#include "kernels/matmul/linear_gelu.h"

#include "base/check.h"
#include "kernels/element_wise/gelu.h"

namespace plimsoll {
namespace {

class ProductThenActivation final : public CudaMatmul {
 public:
  explicit ProductThenActivation(const LinearProblem& problem)
      : problem_(problem),
        product_(prepare_matmul_cuda({.m = problem.rows,
                                      .n = problem.columns,
                                      .k = problem.terms,
                                      .trans_b = Transpose::kYes,
                                      .a = problem.dtype,
                                      .b = problem.dtype,
                                      .c = problem.dtype,
                                      .workspace_bytes = problem.workspace_bytes},
                                     Fp32Products::kF32)) {}

  void run(const MatmulArgs& args, const int32_t* accumulate, CudaStream stream) override {
    PLIMSOLL_CHECK(accumulate == nullptr,
                   "the matrix product {} x {} x {} with GELU cannot add to its output", problem_.rows,
                   problem_.columns, problem_.terms);
    product_->run({.a = args.a, .b = args.b, .bias = {}, .c = args.c, .scratch = args.scratch}, nullptr,
                  stream);
    bias_gelu_fwd_cuda({.h = args.c, .b = args.bias, .y = args.c, .T = problem_.rows, .C = problem_.columns},
                       stream);
  }
  std::string description() const override { return "cuBLASLt, " + product_->description(); }

 private:
  LinearProblem problem_;
  std::unique_ptr<CudaMatmul> product_;
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_linear_gelu_cuda(const LinearProblem& problem) {
#ifdef PLIMSOLL_HAS_WGMMA
  if (linear_takes_own_product(problem)) return prepare_own_linear_gelu_cuda(problem);
#endif
  return std::make_unique<ProductThenActivation>(problem);
}

}  // namespace plimsoll
