#include "base/check.h"
#include "kernels/matmul/matmul_cuda.h"
#include "kernels/matmul/split_tf32.h"

namespace plimsoll {
namespace {

// Computes an fp32 matrix product as one TF32 product with three times as many terms (split_tf32.h). Every run splits the operands again.
class Tf32x3Matmul final : public CudaMatmul {
 public:
  Tf32x3Matmul(const MatmulProblem& problem, const TunedProduct* tuned)
      : problem_(problem),
        product_(prepare_matmul_cuda(library_product(problem, Fp32Products::kTf32x3), Fp32Products::kTf32,
                                     tuned)) {}

  void run(const MatmulArgs& args, const int32_t* accumulate, CudaStream stream) override {
    const int64_t a_bytes = tf32x3_operand_bytes(problem_.m * problem_.k);
    const int64_t split_bytes = tf32x3_split_bytes(problem_);
    PLIMSOLL_CHECK(std::ssize(args.scratch) >= split_bytes + problem_.workspace_bytes,
                   "a matrix product that is computed as three TF32 products needs {} bytes of scratch "
                   "memory, but has {}",
                   split_bytes + problem_.workspace_bytes, args.scratch.size());
    const View a{args.scratch.data(), DType::kF32};
    const View b{args.scratch.data() + a_bytes, DType::kF32};
    // The terms of a sum are adjacent in the stored rows of A if A is not transposed, and in those of B if B is transposed.
    split(args.a, a, problem_.m, Tf32PartOrder::kLowHighHigh, problem_.trans_a == Transpose::kNo, stream);
    split(args.b, b, problem_.n, Tf32PartOrder::kHighLowHigh, problem_.trans_b == Transpose::kYes, stream);
    MatmulArgs split_args = args;
    split_args.a = a;
    split_args.b = b;
    split_args.scratch = args.scratch.subspan(static_cast<size_t>(split_bytes));
    product_->run(split_args, accumulate, stream);
  }

  std::string description() const override {
    return "three TF32 products that are computed as one: " + product_->description();
  }

 private:
  void split(ConstView x, View out, int64_t others, Tf32PartOrder order, bool terms_in_rows,
             CudaStream stream) const {
    split_tf32_cuda({.x = x,
                     .out = out,
                     .rows = terms_in_rows ? others : problem_.k,
                     .columns = terms_in_rows ? problem_.k : others,
                     .order = order,
                     .place = terms_in_rows ? Tf32PartPlace::kAlongRows : Tf32PartPlace::kAlongColumns},
                    stream);
  }

  MatmulProblem problem_;
  std::unique_ptr<CudaMatmul> product_;
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_matmul_tf32x3_cuda(const MatmulProblem& problem,
                                                       const TunedProduct* tuned) {
  PLIMSOLL_CHECK(problem.a == DType::kF32 && problem.b == DType::kF32 && problem.c == DType::kF32,
                 "a matrix product that is computed as three TF32 products supports only f32 matrices");
  return std::make_unique<Tf32x3Matmul>(problem, tuned);
}

MatmulProblem library_product(const MatmulProblem& problem, Fp32Products fp32) {
  MatmulProblem product = problem;
  if (fp32 != Fp32Products::kTf32x3) return product;
  product.k *= 3;
  product.trans_a = Transpose::kNo;
  product.trans_b = Transpose::kYes;
  return product;
}

double matmul_tf32x3_error_bound(const MatmulProblem& problem, double abs_sum) {
  const double terms = 3.0 * static_cast<double>(problem.k) + 2.0;
  const double u = 4.0 * 0x1p-24;
  const double sums = terms * u / (1.0 - terms * u) * (1.0 + 0x1p-9) * abs_sum;
  return sums + kTf32x3SplitError * abs_sum + terms * 0x1p-126;
}

}  // namespace plimsoll
