#include "kernels/loss/loss_catalog.h"

#include <algorithm>
#include <numeric>

#include "kernels/catalog/catalog.h"

namespace plimsoll {
namespace {

constexpr int64_t kCpuAlignment = 64;
constexpr int64_t kCudaAlignment = 256;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The number of rows of each chunk but the last, and the number of rows of the last chunk, which may be smaller.
struct ChunkSizes {
  int64_t full = 0;
  int64_t last = 0;
};
ChunkSizes chunk_sizes(const LinearCrossEntropyProblem& problem, int64_t chunk_rows) {
  const int64_t full = std::min(chunk_rows, problem.rows);
  return {full, problem.rows % full == 0 ? full : problem.rows % full};
}

// Assigns offsets in scratch memory to arrays one after the other.
class Parts {
 public:
  explicit Parts(int64_t alignment) : alignment_(alignment) {}
  int64_t take(int64_t bytes) {
    const int64_t begin = end_;
    end_ += round_up(bytes, alignment_);
    return begin;
  }
  int64_t end() const { return end_; }

 private:
  int64_t alignment_;
  int64_t end_ = 0;
};

}  // namespace

LossChunkProducts loss_chunk_products(const LinearCrossEntropyProblem& problem, int64_t rows, DType w,
                                      int64_t logit_stride) {
  const MatmulProblem common{.m = rows,
                             .n = problem.hidden,
                             .k = problem.classes,
                             .a = problem.x,
                             .b = w,
                             .c = problem.x,
                             .num_threads = problem.num_threads,
                             .isa = problem.isa,
                             .workspace_bytes = problem.workspace_bytes};
  LossChunkProducts products{.logits = common, .d_w = common, .d_x = common};
  products.logits.n = problem.classes;
  products.logits.k = problem.hidden;
  products.logits.trans_b = Transpose::kYes;
  products.logits.bias = problem.bias;
  products.logits.bias_dtype = problem.bias_dtype;
  products.d_w.m = problem.classes;
  products.d_w.k = rows;
  products.d_w.trans_a = Transpose::kYes;
  products.d_w.b = problem.x;
  products.d_w.c = problem.d_w;
  products.d_w.writes = MatmulWrites::kOverwriteOrAdd;
  products.logits.c_stride = products.d_w.a_stride = products.d_x.a_stride = logit_stride;
  return products;
}

bool linear_cross_entropy_copies_weight(const LinearCrossEntropyProblem& problem) {
  return problem.w != problem.x && std::min(problem.chunk_rows, problem.rows) < kMatmulMinRowsToPack;
}

LossChunkProducts linear_cross_entropy_cpu_products(const LinearCrossEntropyProblem& problem, int64_t rows) {
  const DType w = linear_cross_entropy_copies_weight(problem) ? problem.x : problem.w;
  LossChunkProducts products = loss_chunk_products(problem, rows, w);
  const LossChunkProducts full = loss_chunk_products(problem, std::min(problem.chunk_rows, problem.rows), w);
  if (matmul_packs_b(full.logits)) products.logits.b_operand = MatmulOperand::kPacked;
  if (matmul_packs_b(full.d_x)) products.d_x.b_operand = MatmulOperand::kPacked;
  return products;
}

int64_t linear_cross_entropy_cuda_chunk_rows(const LinearCrossEntropyProblem& problem) {
  const int64_t row_bytes = problem.hidden * dtype_bytes(problem.x);
  return round_up(problem.chunk_rows, kCudaAlignment / std::gcd(kCudaAlignment, row_bytes));
}

int64_t linear_cross_entropy_cuda_logit_stride(const LinearCrossEntropyProblem& problem) {
  return round_up(problem.classes, kLogitRowBytes / dtype_bytes(problem.x));
}

LinearCrossEntropyScratch linear_cross_entropy_ref_scratch(const LinearCrossEntropyProblem& problem) {
  Parts parts(kCpuAlignment);
  LinearCrossEntropyScratch scratch;
  scratch.losses = parts.take(dtype_bytes(DType::kF64));
  scratch.z_losses = parts.take(problem.z_coefficient > 0.0 ? dtype_bytes(DType::kF64) : 0);
  scratch.wide =
      parts.take(chunk_sizes(problem, problem.chunk_rows).full * problem.classes * dtype_bytes(problem.x));
  scratch.bytes = parts.end();
  return scratch;
}

LinearCrossEntropyScratch linear_cross_entropy_cpu_scratch(const LinearCrossEntropyProblem& problem,
                                                           LossPart part) {
  const ChunkSizes sizes = chunk_sizes(problem, problem.chunk_rows);
  const int64_t chunk = sizes.full * problem.classes;
  const bool copies = linear_cross_entropy_copies_weight(problem);
  Parts parts(kCpuAlignment);
  LinearCrossEntropyScratch scratch;
  if (computes_loss(part) && !problem.is_divided()) {
    scratch.losses = parts.take(dtype_bytes(DType::kF64));
    scratch.z_losses = parts.take(problem.z_coefficient > 0.0 ? dtype_bytes(DType::kF64) : 0);
  }
  scratch.narrow = parts.take(problem.x == DType::kF32 ? 0 : chunk * dtype_bytes(problem.x));
  // The kernels that compute gradients convert only one row of logits per thread to fp32. The kernel that computes only the loss converts a
  // whole chunk, because the logits are read a second time to count the correct predictions.
  const bool keeps_rows = problem.x != DType::kF32 && part != LossPart::kLoss;
  const int64_t wide_rows =
      keeps_rows ? problem.num_threads * cross_entropy_wide_row_floats(problem.classes) : chunk;
  scratch.wide = parts.take(wide_rows * dtype_bytes(DType::kF32));
  scratch.weight = parts.take(copies ? problem.classes * problem.hidden * dtype_bytes(problem.x) : 0);
  const auto bytes_of_copy = [](const MatmulProblem& product) {
    return product.b_operand == MatmulOperand::kPacked ? matmul_packed_b_bytes(product) : 0;
  };
  const LossChunkProducts full = linear_cross_entropy_cpu_products(problem, sizes.full);
  scratch.logits_weight = parts.take(bytes_of_copy(full.logits));
  scratch.d_x_weight = parts.take(computes_d_x(part) ? bytes_of_copy(full.d_x) : 0);
  for (const int64_t rows : {sizes.full, sizes.last}) {
    const LossChunkProducts products = linear_cross_entropy_cpu_products(problem, rows);
    int64_t bytes = matmul_scratch_bytes(products.logits);
    if (computes_d_x(part)) bytes = std::max(bytes, matmul_scratch_bytes(products.d_x));
    if (computes_d_w(part)) {
      bytes = std::max(
          {bytes, matmul_scratch_bytes(products.d_w), column_sums_scratch_bytes(rows, problem.classes, 1)});
    }
    scratch.workspace_bytes = std::max(scratch.workspace_bytes, bytes);
  }
  scratch.workspace = parts.take(scratch.workspace_bytes);
  scratch.bytes = parts.end();
  return scratch;
}

LinearCrossEntropyScratch linear_cross_entropy_cuda_scratch(const LinearCrossEntropyProblem& problem,
                                                            LossPart part) {
  const ChunkSizes sizes = chunk_sizes(problem, linear_cross_entropy_cuda_chunk_rows(problem));
  Parts parts(kCudaAlignment);
  LinearCrossEntropyScratch scratch;
  if (computes_loss(part) && !problem.is_divided()) {
    scratch.losses = parts.take(row_loss_cuda_scratch_bytes(problem.rows));
    scratch.z_losses =
        parts.take(problem.z_coefficient > 0.0 ? row_loss_cuda_scratch_bytes(problem.rows) : 0);
  }
  scratch.wide =
      parts.take(sizes.full * linear_cross_entropy_cuda_logit_stride(problem) * dtype_bytes(problem.x));
  scratch.workspace_bytes = problem.workspace_bytes;
  if (computes_d_w(part)) {
    for (const int64_t rows : {sizes.full, sizes.last}) {
      scratch.workspace_bytes =
          std::max(scratch.workspace_bytes, column_sums_cuda_scratch_bytes(rows, problem.classes, 1));
    }
  }
  scratch.workspace = parts.take(scratch.workspace_bytes);
  scratch.bytes = parts.end();
  return scratch;
}

namespace catalog_rows {
namespace {

// Asks `supports` about each matrix product of a full chunk. Returns the first negative answer, or a positive one if there is none.
template <typename Supports>
Support products_support(const LinearCrossEntropyProblem& loss, const Supports& supports) {
  const LossChunkProducts products = loss_chunk_products(loss, std::min(loss.chunk_rows, loss.rows), loss.w);
  for (const MatmulProblem& product : {products.logits, products.d_w, products.d_x}) {
    if (Support answer = supports(product); !answer.ok) return answer;
  }
  return {};
}

}  // namespace

int64_t row_loss_cuda_scratch(const RowsProblem& rows) {
  return rows.sums_per_row * row_loss_cuda_scratch_bytes(rows.rows);
}

Support linear_cross_entropy_cpu_support(const LinearCrossEntropyProblem& loss) {
  return products_support(loss, matmul_cpu_onednn_support);
}
Support linear_cross_entropy_cuda_support(const Problem& problem, const LinearCrossEntropyProblem& loss) {
  return products_support(
      loss, [&](const MatmulProblem& product) { return matmul_cuda_cublaslt_support(problem, product); });
}
int64_t linear_cross_entropy_fwd_cpu_scratch(const LinearCrossEntropyProblem& loss) {
  return linear_cross_entropy_cpu_scratch(loss, LossPart::kLoss).bytes;
}
int64_t linear_cross_entropy_bwd_cpu_scratch(const LinearCrossEntropyProblem& loss) {
  return linear_cross_entropy_cpu_scratch(loss, LossPart::kInput).bytes;
}
int64_t linear_cross_entropy_grad_cpu_scratch(const LinearCrossEntropyProblem& loss) {
  return linear_cross_entropy_cpu_scratch(loss, LossPart::kParameters).bytes;
}
int64_t linear_cross_entropy_with_gradients_cpu_scratch(const LinearCrossEntropyProblem& loss) {
  return linear_cross_entropy_cpu_scratch(loss, LossPart::kEverything).bytes;
}
int64_t linear_cross_entropy_fwd_cuda_scratch(const LinearCrossEntropyProblem& loss) {
  return linear_cross_entropy_cuda_scratch(loss, LossPart::kLoss).bytes;
}
int64_t linear_cross_entropy_bwd_cuda_scratch(const LinearCrossEntropyProblem& loss) {
  return linear_cross_entropy_cuda_scratch(loss, LossPart::kInput).bytes;
}
int64_t linear_cross_entropy_grad_cuda_scratch(const LinearCrossEntropyProblem& loss) {
  return linear_cross_entropy_cuda_scratch(loss, LossPart::kParameters).bytes;
}
int64_t linear_cross_entropy_with_gradients_cuda_scratch(const LinearCrossEntropyProblem& loss) {
  return linear_cross_entropy_cuda_scratch(loss, LossPart::kEverything).bytes;
}
int64_t linear_cross_entropy_plain_scratch(const LinearCrossEntropyProblem& loss) {
  return linear_cross_entropy_ref_scratch(loss).bytes;
}
int64_t linear_cross_entropy_cpu_library(const LinearCrossEntropyProblem& loss) {
  const LossChunkProducts products =
      linear_cross_entropy_cpu_products(loss, std::min(loss.chunk_rows, loss.rows));
  return std::max({matmul_library_bytes(products.logits), matmul_library_bytes(products.d_w),
                   matmul_library_bytes(products.d_x)});
}

}  // namespace catalog_rows
}  // namespace plimsoll
