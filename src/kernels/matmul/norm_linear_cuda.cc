#include "kernels/matmul/norm_linear.h"

#include "base/check.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/glu.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/norm_few_rows.h"
#include "kernels/layer_norm/rms_norm.h"
#include "kernels/matmul/few_rows_cuda.h"

namespace plimsoll {
namespace {

class InOneLaunch final : public CudaNormLinear {
 public:
  InOneLaunch(const NormLinearProblem& problem, SecondOperand w) : problem_(problem), w_(w) {}
  void run(const NormLinearArgs& args, CudaStream stream) override {
    norm_linear_few_rows_cuda(problem_, args, NormIs::kPartOfLayer, w_, stream);
  }
  std::string description() const override { return "linear_few_rows_cuda"; }

 private:
  NormLinearProblem problem_;
  SecondOperand w_;
};

// Computes the normalized rows and writes them to h.
void normalize(const NormLinearProblem& problem, const NormLinearArgs& args, View h, CudaStream stream) {
  const int64_t rows = problem.product.m, columns = problem.product.k;
  if (problem.norm == NormKind::kRms) {
    PLIMSOLL_CHECK(!args.norm_bias && !args.beta,
                   "norm_linear with NormKind::kRms does not support norm_bias and beta");
    return rms_norm_fwd_cuda({.dims = {.T = rows, .N = columns, .C = columns},
                              .x = args.x,
                              .gain = args.gain,
                              .second_gain = {},
                              .y = h,
                              .rstd = {},
                              .eps = args.eps,
                              .residual = args.residual,
                              .sum = args.sum},
                             stream);
  }
  bias_dropout_residual_norm_fwd_cuda({.x = args.x,
                                       .bias = args.norm_bias,
                                       .residual = args.residual,
                                       .gain = args.gain,
                                       .beta = args.beta,
                                       .y = h,
                                       .x_hat = {},
                                       .rstd = {},
                                       .sum = args.sum,
                                       .T = rows,
                                       .C = columns,
                                       .eps = args.eps,
                                       .p = 0.0,
                                       .where = {}},
                                      nullptr, stream);
}

void check_scratch(const NormLinearArgs& args, int64_t bytes) {
  PLIMSOLL_CHECK(std::ssize(args.scratch) >= bytes,
                 "norm_linear needs {} bytes of scratch memory, but has {}", bytes, args.scratch.size());
}

class NormThenLayer final : public CudaNormLinear {
 public:
  NormThenLayer(const NormLinearProblem& problem, SecondOperand w) : problem_(problem), w_(w) {}
  void run(const NormLinearArgs& args, CudaStream stream) override {
    check_scratch(args, norm_linear_values_bytes(problem_));
    const View h{args.scratch.data(), problem_.product.a};
    const NormFewRowsArgs norm{.x = args.x,
                               .residual = args.residual,
                               .norm_bias = args.norm_bias,
                               .gain = args.gain,
                               .beta = args.beta,
                               .y = h,
                               .sum = args.sum,
                               .T = problem_.product.m,
                               .C = problem_.product.k,
                               .eps = args.eps,
                               .norm = problem_.norm,
                               .constant_parameters = w_ == SecondOperand::kConstant};
    if (norm_few_rows_fit(norm)) {
      norm_few_rows_cuda(norm, stream);
    } else {
      normalize(problem_, args, h, stream);
    }
    NormLinearArgs layer = args;
    layer.x = h;
    norm_linear_few_rows_cuda(problem_, layer, NormIs::kDone, w_, stream);
  }
  std::string description() const override { return "norm, linear_few_rows_cuda"; }

 private:
  NormLinearProblem problem_;
  SecondOperand w_;
};

class OneAfterTheOther final : public CudaNormLinear {
 public:
  OneAfterTheOther(const NormLinearProblem& problem, int sm, const TunedProduct* tuned) : problem_(problem) {
    // cuBLASLt can only add a bias of the type of the result. A bias of another type is added by a separate kernel.
    MatmulProblem product = problem.product;
    adds_bias_ = product.bias == MatmulBias::kRow && product.bias_dtype != product.c;
    if (adds_bias_) product.bias = MatmulBias::kNone;
    product_ = prepare_matmul_wgmma_cuda(product, sm, tuned);
  }

  // The scratch memory contains h, then z, and then the workspace of cuBLASLt.
  void run(const NormLinearArgs& args, CudaStream stream) override {
    const MatmulProblem& product = problem_.product;
    const int64_t values = norm_linear_values_bytes(problem_);
    check_scratch(args, values + product.workspace_bytes);
    const View h{args.scratch.data(), product.a};
    normalize(problem_, args, h, stream);
    const bool is_gated = problem_.end == LayerEnd::kGlu;
    const View z = is_gated ? View{args.scratch.data() + norm_linear_h_bytes(problem_), product.a} : args.y;
    product_->run({.a = h,
                   .b = args.w,
                   .bias = adds_bias_ ? ConstView{} : args.bias,
                   .c = z,
                   .scratch = args.scratch.subspan(static_cast<size_t>(values))},
                  nullptr, stream);
    if (adds_bias_) {
      bias_add_fwd_cuda({.x = z, .b = args.bias, .y = z, .T = product.m, .C = product.n}, stream);
    }
    if (is_gated) {
      glu_fwd_cuda(
          {.x = z, .y = args.y, .T = product.m, .F = product.n / 2, .activation = problem_.activation},
          stream);
    } else if (problem_.end == LayerEnd::kActivation) {
      gelu_fwd_cuda({.x = z, .y = z, .n = product.m * product.n, .activation = problem_.activation}, stream);
    }
  }
  std::string description() const override { return "norm, " + product_->description(); }

 private:
  NormLinearProblem problem_;
  bool adds_bias_ = false;
  std::unique_ptr<CudaMatmul> product_;
};

}  // namespace

std::unique_ptr<CudaNormLinear> prepare_norm_linear_cuda(const NormLinearProblem& problem, int sm,
                                                         SecondOperand w, const TunedProduct* tuned,
                                                         NormLinearWay way) {
  if (way != NormLinearWay::kAsPrepared || !matmul_takes_few_rows_cuda(problem.product, sm))
    return std::make_unique<OneAfterTheOther>(problem, sm, tuned);
  if (!norm_linear_takes_few_rows_cuda(problem, sm)) return std::make_unique<NormThenLayer>(problem, w);
  return std::make_unique<InOneLaunch>(problem, w);
}

}  // namespace plimsoll
