#include "kernels/loss/linear_cross_entropy.h"

#include <map>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "kernels/element_wise/add.h"
#include "kernels/loss/softmax_cross_entropy.h"
#include "kernels/matmul/matmul_cuda.h"
#include "kernels/matmul/one_cuda.h"

namespace plimsoll {
namespace {

// A range of consecutive classes, for which matrix products are computed separately.
struct ClassRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Returns the ranges of classes for which matrix products are computed separately. The fast algorithms of cuBLASLt need rows whose number
// of bytes is a multiple of 16. For rows of GPT-2's 50257 classes it uses slow ones: the three products over all classes of 16384 rows take
// 26 ms on an H100. The classes after the last multiple of kRangeClasses therefore form a range of their own. Its products are computed
// first, because a 16-bit d_x is rounded between the products of the two ranges, and this rounding then affects only the small sum over
// these few classes. With kRangeClasses = 128, this range begins at a multiple of 256 bytes in a row of 16-bit logits.
constexpr int64_t kRangeClasses = 128;
std::vector<ClassRange> class_ranges(const LinearCrossEntropyProblem& problem) {
  const int64_t whole = problem.classes / kRangeClasses * kRangeClasses;
  if (problem.classes * dtype_bytes(problem.x) % 16 == 0 || whole == 0) return {{0, problem.classes}};
  return {{whole, problem.classes - whole}, {0, whole}};
}

// The state that the loss and gradient computations share: the matrix products for full chunks and for the last chunk, and the offsets of
// the arrays in scratch memory.
class Chunks {
 public:
  Chunks(const LinearCrossEntropyProblem& problem, LossPart part)
      : problem_(problem),
        stride_(linear_cross_entropy_cuda_logit_stride(problem)),
        parts_(linear_cross_entropy_cuda_scratch(problem, part)) {
    PLIMSOLL_CHECK(problem.fp32 != Fp32Products::kTf32x3,
                   "linear_cross_entropy does not support fp32 matrix products that are computed as three "
                   "TF32 products");
    problem_.chunk_rows = linear_cross_entropy_cuda_chunk_rows(problem);
    for_each_loss_chunk(problem_.rows, problem_.chunk_rows, [&](int64_t, int64_t rows) {
      std::vector<Products>& prepared = prepared_[rows];
      if (!prepared.empty()) return;
      for (const ClassRange& range : class_ranges(problem_)) {
        LinearCrossEntropyProblem of_range = problem_;
        of_range.classes = range.count;
        LossChunkProducts products = loss_chunk_products(of_range, rows, problem_.w, stride_);
        // d_x is a sum over the ranges of classes. The product of the first range overwrites it, and those of the later ranges add to it.
        if (!prepared.empty()) products.d_x.writes = MatmulWrites::kOverwriteOrAdd;
        Products& own = prepared.emplace_back();
        own.range = range;
        own.logits = prepare_matmul_cuda(products.logits, problem_.fp32);
        if (computes_d_x(part)) own.d_x = prepare_matmul_cuda(products.d_x, problem_.fp32);
        if (computes_d_w(part)) own.d_w = prepare_matmul_cuda(products.d_w, problem_.fp32);
      }
    });
  }

 protected:
  struct Products {
    ClassRange range;
    std::unique_ptr<CudaMatmul> logits, d_x, d_w;
  };

  void check(std::span<std::byte> scratch) const {
    PLIMSOLL_CHECK(static_cast<int64_t>(scratch.size()) >= parts_.bytes,
                   "linear_cross_entropy needs {} bytes of scratch memory, but has {}", parts_.bytes,
                   scratch.size());
  }
  View logits(std::span<std::byte> scratch) const { return {scratch.data() + parts_.wide, problem_.x}; }
  View losses(std::span<std::byte> scratch) const { return {scratch.data() + parts_.losses, DType::kF64}; }
  View z_losses(std::span<std::byte> scratch) const {
    return problem_.z_coefficient > 0.0 ? View{scratch.data() + parts_.z_losses, DType::kF64} : View();
  }
  std::span<std::byte> workspace(std::span<std::byte> scratch) const {
    return scratch.subspan(static_cast<size_t>(parts_.workspace),
                           static_cast<size_t>(parts_.workspace_bytes));
  }
  std::vector<Products>& prepared(int64_t rows) { return prepared_.find(rows)->second; }

  template <typename Args>
  void compute_logits(const Args& args, int64_t first, int64_t rows, CudaStream stream) {
    for (const Products& products : prepared(rows)) {
      products.logits->run({.a = view_from(args.x_BH, first * problem_.hidden),
                            .b = view_from(args.w_KH, products.range.first * problem_.hidden),
                            .bias = view_from(args.bias_K, products.range.first),
                            .c = view_from(logits(args.scratch), products.range.first),
                            .scratch = workspace(args.scratch)},
                           nullptr, stream);
    }
  }

  // Returns the arguments of the kernel that computes the loss of all rows.
  template <typename Args>
  SoftmaxCrossEntropyFwdArgs whole_loss(const Args& args) const {
    SoftmaxCrossEntropyFwdArgs loss{.logits_BK = logits(args.scratch),
                                    .labels_B = args.labels_B,
                                    .denominator = args.denominator,
                                    .loss = args.loss,
                                    .num_rows = problem_.rows,
                                    .num_classes = problem_.classes,
                                    .label_smoothing = problem_.label_smoothing,
                                    .z_coefficient = problem_.z_coefficient,
                                    .z_loss = problem_.z_coefficient > 0.0 ? args.z_loss : View(),
                                    .row_stride = stride_};
    loss.scratch = losses(args.scratch);
    loss.z_scratch = z_losses(args.scratch);
    return loss;
  }
  // Computes the losses of the rows of a chunk from its logits, or the class sums of its rows if the classes are divided among ranks.
  template <typename Args>
  void compute_losses(const Args& args, int64_t first, int64_t rows, CudaStream stream) {
    if (problem_.is_divided()) {
      if constexpr (std::is_same_v<Args, LinearCrossEntropyFwdArgs>)
        class_sums_cuda(class_sums_of_chunk(problem_, args, logits(args.scratch), stride_, first, rows),
                        stream);
      return;
    }
    SoftmaxCrossEntropyFwdArgs chunk = whole_loss(args);
    chunk.labels_B = view_from(chunk.labels_B, first);
    chunk.scratch = view_from(chunk.scratch, first);
    chunk.z_scratch = view_from(chunk.z_scratch, first);
    chunk.num_rows = rows;
    softmax_cross_entropy_rows_cuda(chunk, stream);
  }

  // Replaces the logits of a chunk with their gradients. Writes the losses of its rows to `row_losses` and `row_z_losses`, unless they are
  // null.
  template <typename Args>
  void compute_d_logits(const Args& args, int64_t first, int64_t rows, View row_losses, View row_z_losses,
                        CudaStream stream) {
    const View d_logits = logits(args.scratch);
    if (problem_.is_divided())
      return class_sums_bwd_cuda(class_sums_bwd_of_chunk(problem_, args, d_logits, stride_, first, rows),
                                 stream);
    softmax_cross_entropy_bwd_cuda({.logits_BK = d_logits,
                                    .labels_B = view_from(args.labels_B, first),
                                    .denominator = args.denominator,
                                    .d_loss = args.d_loss,
                                    .d_logits_BK = d_logits,
                                    .num_rows = rows,
                                    .num_classes = problem_.classes,
                                    .label_smoothing = problem_.label_smoothing,
                                    .z_coefficient = problem_.z_coefficient,
                                    .row_stride = stride_,
                                    .row_losses = row_losses,
                                    .row_z_losses = row_z_losses},
                                   stream);
  }

  // The functions below compute d_x, d_w and d_bias. Requires: the logits of the chunk have been replaced by their gradients.
  template <typename Args>
  void compute_d_x(const Args& args, int64_t first, int64_t rows, CudaStream stream) {
    const int32_t* adds = nullptr;
    for (const Products& products : prepared(rows)) {
      products.d_x->run({.a = view_from(logits(args.scratch), products.range.first),
                         .b = view_from(args.w_KH, products.range.first * problem_.hidden),
                         .bias = {},
                         .c = view_from(args.d_x_BH, first * problem_.hidden),
                         .scratch = workspace(args.scratch)},
                        adds, stream);
      adds = static_cast<const int32_t*>(one_on_device());
    }
  }
  template <typename Args>
  void compute_parameter_gradients(const Args& args, int64_t first, int64_t rows, const int32_t* accumulate,
                                   CudaStream stream) {
    const View d_logits = logits(args.scratch);
    const std::span<std::byte> work = workspace(args.scratch);
    const int32_t* adds = first > 0 ? static_cast<const int32_t*>(one_on_device()) : accumulate;
    if (args.d_w_KH) {
      for (const Products& products : prepared(rows)) {
        products.d_w->run({.a = view_from(d_logits, products.range.first),
                           .b = view_from(args.x_BH, first * problem_.hidden),
                           .bias = {},
                           .c = view_from(args.d_w_KH, products.range.first * problem_.hidden),
                           .scratch = work},
                          adds, stream);
      }
    }
    if (args.d_bias_K) {
      bias_grad_cuda({.d_y = d_logits,
                      .d_b = args.d_bias_K,
                      .scratch = {work.data(), DType::kU8},
                      .T = rows,
                      .C = problem_.classes,
                      .row_stride = stride_},
                     adds, stream);
    }
  }

  LinearCrossEntropyProblem problem_;
  int64_t stride_;

 private:
  LinearCrossEntropyScratch parts_;
  // The prepared matrix products, by the number of rows of a chunk. There are at most two entries: full chunks and the last chunk.
  std::map<int64_t, std::vector<Products>> prepared_;
};

class Forward final : public CudaLossChunks<LinearCrossEntropyFwdArgs>, private Chunks {
 public:
  explicit Forward(const LinearCrossEntropyProblem& problem) : Chunks(problem, LossPart::kLoss) {}

  void run(const LinearCrossEntropyFwdArgs& args, const int32_t*, CudaStream stream) override {
    check(args.scratch);
    for_each_loss_chunk(problem_.rows, problem_.chunk_rows, [&](int64_t first, int64_t rows) {
      compute_logits(args, first, rows, stream);
      compute_losses(args, first, rows, stream);
      if (args.num_correct) {
        CountCorrectArgs count = count_of_chunk(args, logits(args.scratch), first, rows, problem_.classes);
        count.row_stride = stride_;
        count_correct_cuda(count, stream);
      }
    });
    if (!problem_.is_divided()) softmax_cross_entropy_total_cuda(whole_loss(args), stream);
  }
};

class Backward final : public CudaLossChunks<LinearCrossEntropyBwdArgs>, private Chunks {
 public:
  explicit Backward(const LinearCrossEntropyProblem& problem) : Chunks(problem, LossPart::kInput) {}

  void run(const LinearCrossEntropyBwdArgs& args, const int32_t*, CudaStream stream) override {
    check(args.scratch);
    for_each_loss_chunk(problem_.rows, problem_.chunk_rows, [&](int64_t first, int64_t rows) {
      compute_logits(args, first, rows, stream);
      compute_d_logits(args, first, rows, {}, {}, stream);
      compute_d_x(args, first, rows, stream);
    });
  }
};

class Gradient final : public CudaLossChunks<LinearCrossEntropyGradArgs>, private Chunks {
 public:
  explicit Gradient(const LinearCrossEntropyProblem& problem) : Chunks(problem, LossPart::kParameters) {}

  void run(const LinearCrossEntropyGradArgs& args, const int32_t* accumulate, CudaStream stream) override {
    check(args.scratch);
    for_each_loss_chunk(problem_.rows, problem_.chunk_rows, [&](int64_t first, int64_t rows) {
      compute_logits(args, first, rows, stream);
      compute_d_logits(args, first, rows, {}, {}, stream);
      compute_parameter_gradients(args, first, rows, accumulate, stream);
    });
  }
};

class WithGradients final : public CudaLossChunks<LinearCrossEntropyWithGradientsArgs>, private Chunks {
 public:
  explicit WithGradients(const LinearCrossEntropyProblem& problem) : Chunks(problem, LossPart::kEverything) {}

  void run(const LinearCrossEntropyWithGradientsArgs& args, const int32_t* accumulate,
           CudaStream stream) override {
    check(args.scratch);
    const bool in_one_pass = problem_.label_smoothing == 0.0 && !problem_.is_divided();
    for_each_loss_chunk(problem_.rows, problem_.chunk_rows, [&](int64_t first, int64_t rows) {
      compute_logits(args, first, rows, stream);
      if (!in_one_pass) compute_losses(args, first, rows, stream);
      compute_d_logits(args, first, rows, in_one_pass ? view_from(losses(args.scratch), first) : View(),
                       in_one_pass ? view_from(z_losses(args.scratch), first) : View(), stream);
      if (args.d_x_BH) compute_d_x(args, first, rows, stream);
      compute_parameter_gradients(args, first, rows, accumulate, stream);
    });
    if (!problem_.is_divided()) softmax_cross_entropy_total_cuda(whole_loss(args), stream);
  }
};

}  // namespace

std::unique_ptr<CudaLossChunks<LinearCrossEntropyFwdArgs>> prepare_linear_cross_entropy_fwd_cuda(
    const LinearCrossEntropyProblem& problem) {
  return std::make_unique<Forward>(problem);
}
std::unique_ptr<CudaLossChunks<LinearCrossEntropyBwdArgs>> prepare_linear_cross_entropy_bwd_cuda(
    const LinearCrossEntropyProblem& problem) {
  return std::make_unique<Backward>(problem);
}
std::unique_ptr<CudaLossChunks<LinearCrossEntropyGradArgs>> prepare_linear_cross_entropy_grad_cuda(
    const LinearCrossEntropyProblem& problem) {
  return std::make_unique<Gradient>(problem);
}
std::unique_ptr<CudaLossChunks<LinearCrossEntropyWithGradientsArgs>>
prepare_linear_cross_entropy_with_gradients_cuda(const LinearCrossEntropyProblem& problem) {
  return std::make_unique<WithGradients>(problem);
}

}  // namespace plimsoll
