#include "kernels/matmul/linear_norm.h"

#include "base/check.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/matmul/linear_cuda_wgmma.h"

namespace plimsoll {
namespace {

std::unique_ptr<CudaMatmul> product_with_addend(const LinearProblem& problem) {
  return prepare_matmul_wgmma_cuda({.m = problem.rows,
                                    .n = problem.columns,
                                    .k = problem.terms,
                                    .trans_b = Transpose::kYes,
                                    .a = problem.dtype,
                                    .b = problem.dtype,
                                    .c = problem.dtype,
                                    .writes = MatmulWrites::kAddend,
                                    .workspace_bytes = problem.workspace_bytes},
                                   problem.sm, nullptr);
}

bool takes_own([[maybe_unused]] const LinearProblem& problem) {
#ifdef PLIMSOLL_HAS_WGMMA
  return linear_norm_takes_own_product(problem);
#else
  return false;
#endif
}

}  // namespace

CudaLinearNorm::CudaLinearNorm(const LinearProblem& problem, Way way) : problem_(problem) {
  const bool own = way == Way::kOwn || (way == Way::kAsPrepared && takes_own(problem));
  if (!own) product_ = product_with_addend(problem);
}

void CudaLinearNorm::run(const LinearNormArgs& args, CudaStream stream) const {
  if (product_ == nullptr) {
#ifdef PLIMSOLL_HAS_WGMMA
    return linear_norm_cuda_wgmma(problem_, args, stream);
#else
    PLIMSOLL_CHECK(false,
                   "this kernel needs code for compute capability 9.0, which this program was built without");
#endif
  }
  product_->run(
      {.a = args.x, .b = args.w, .bias = {}, .c = args.y, .addend = args.residual, .scratch = args.scratch},
      nullptr, stream);
  bias_dropout_residual_norm_fwd_cuda({.x = args.y,
                                       .bias = args.bias,
                                       .residual = {},
                                       .gain = args.gain,
                                       .beta = args.beta,
                                       .y = args.y,
                                       .x_hat = {},
                                       .rstd = {},
                                       .sum = {},
                                       .T = problem_.rows,
                                       .C = problem_.columns,
                                       .eps = args.eps,
                                       .p = 0.0,
                                       .where = {}},
                                      nullptr, stream);
}

std::string CudaLinearNorm::description() const {
  return product_ == nullptr ? "linear_norm_cuda_wgmma" : product_->description() + ", followed by the norm";
}

}  // namespace plimsoll
