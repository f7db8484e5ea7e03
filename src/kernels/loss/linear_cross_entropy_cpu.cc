#include <algorithm>
#include <map>

#include "base/check.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/matmul/matmul.h"

namespace plimsoll {
namespace {

// The weight w as it is read by the products for the logits, or by the products for d_x: in the layout in which it is stored, or as a copy
// in the layout that the matrix library needs (`packs`).
struct ChunkWeight {
  bool packs = false;
  int64_t packed_bytes = 0;
  ConstView view = {};
};

// The state that the loss and gradient computations share: the matrix products for full chunks and for the last chunk, and the offsets of
// the arrays in scratch memory.
class Chunks {
 public:
  Chunks(const LinearCrossEntropyProblem& problem, LossPart part)
      : problem_(problem),
        part_(part),
        parts_(linear_cross_entropy_cpu_scratch(problem, part)),
        copies_weight_(linear_cross_entropy_copies_weight(problem)) {
    for_each_loss_chunk(problem.rows, problem.chunk_rows, [&](int64_t first, int64_t rows) {
      Prepared& prepared = prepared_[rows];
      if (prepared.logits) return;
      const LossChunkProducts products = linear_cross_entropy_cpu_products(problem, rows);
      prepared.logits = prepare_matmul_cpu(products.logits);
      if (computes_d_x(part)) prepared.d_x = prepare_matmul_cpu(products.d_x);
      if (computes_d_w(part)) prepared.d_w = prepare_matmul_cpu(products.d_w);
      if (first > 0) return;
      w_of_logits_ = weight_of(products.logits);
      w_of_d_x_ = weight_of(products.d_x);
    });
  }

 protected:
  struct Prepared {
    std::unique_ptr<PreparedMatmul> logits, d_x, d_w;
  };

  void begin(ConstView w, std::span<std::byte> scratch) {
    PLIMSOLL_CHECK(static_cast<int64_t>(scratch.size()) >= parts_.bytes,
                   "linear_cross_entropy needs {} bytes of scratch memory, but has {}", parts_.bytes,
                   scratch.size());
    scratch_ = scratch.data();
    if (copies_weight_) {
      const View copy{scratch_ + parts_.weight, problem_.x};
      cast_fwd_cpu({.x = w, .y = copy, .n = problem_.classes * problem_.hidden});
      w = copy;
    }
    Prepared& first = prepared_.find(std::min(problem_.chunk_rows, problem_.rows))->second;
    read_weight(w, *first.logits, parts_.logits_weight, w_of_logits_);
    if (computes_d_x(part_)) read_weight(w, *first.d_x, parts_.d_x_weight, w_of_d_x_);
  }

  View sum() const { return {scratch_ + parts_.losses, DType::kF64}; }
  View z_sum() const {
    return problem_.z_coefficient > 0.0 ? View{scratch_ + parts_.z_losses, DType::kF64} : View();
  }
  View wide() const { return {scratch_ + parts_.wide, DType::kF32}; }
  View narrow() const {
    return problem_.x == DType::kF32 ? wide() : View{scratch_ + parts_.narrow, problem_.x};
  }
  std::span<std::byte> workspace() const {
    return {scratch_ + parts_.workspace, static_cast<size_t>(parts_.workspace_bytes)};
  }
  Prepared& prepared(int64_t rows) { return prepared_.find(rows)->second; }

  // Computes the logits of `rows` rows starting at `first`, in the type of x.
  template <typename Args>
  void compute_logits(const Args& args, int64_t first, int64_t rows) {
    prepared(rows).logits->run({.a = view_from(args.x_BH, first * problem_.hidden),
                                .b = w_of_logits_.view,
                                .bias = args.bias_K,
                                .c = narrow(),
                                .scratch = workspace()});
  }

  // Adds the loss of the current chunk to sum(), and counts its correct predictions if they are requested. If the classes are divided among
  // ranks, stores the class sums of its rows instead.
  void add_loss(const LinearCrossEntropyFwdArgs& args, int64_t first, int64_t rows) {
    if (problem_.x != DType::kF32) cast_fwd_cpu({.x = narrow(), .y = wide(), .n = rows * problem_.classes});
    if (problem_.is_divided())
      return class_sums_cpu(class_sums_of_chunk(problem_, args, wide(), problem_.classes, first, rows));
    softmax_cross_entropy_fwd_cpu({.logits_BK = wide(),
                                   .labels_B = view_from(args.labels_B, first),
                                   .denominator = args.denominator,
                                   .loss = sum(),
                                   .num_rows = rows,
                                   .num_classes = problem_.classes,
                                   .label_smoothing = problem_.label_smoothing,
                                   .accumulate = first > 0 ? Accumulate::kAdd : Accumulate::kOverwrite,
                                   .z_coefficient = problem_.z_coefficient,
                                   .z_loss = z_sum()});
    if (args.num_correct) count_correct_cpu(count_of_chunk(args, wide(), first, rows, problem_.classes));
  }

  // Replaces the logits of the current chunk with their gradients, and adds the loss of the chunk to sum() if the loss is requested.
  template <typename Args>
  void compute_d_logits(const Args& args, int64_t first, int64_t rows) {
    if (problem_.is_divided()) {
      ClassSumsBwdArgs chunk =
          class_sums_bwd_of_chunk(problem_, args, narrow(), problem_.classes, first, rows);
      if (problem_.x != DType::kF32) chunk.wide_row = wide();
      return class_sums_bwd_cpu(chunk);
    }
    softmax_cross_entropy_in_place_cpu({.logits_BK = narrow(),
                                        .labels_B = view_from(args.labels_B, first),
                                        .denominator = args.denominator,
                                        .d_loss = args.d_loss,
                                        .loss = computes_loss(part_) ? sum() : View{},
                                        .z_loss = computes_loss(part_) ? z_sum() : View{},
                                        .num_rows = rows,
                                        .num_classes = problem_.classes,
                                        .label_smoothing = problem_.label_smoothing,
                                        .z_coefficient = problem_.z_coefficient,
                                        .accumulate = first > 0 ? Accumulate::kAdd : Accumulate::kOverwrite,
                                        .wide_row = problem_.x == DType::kF32 ? View{} : wide()});
  }

  template <typename Args>
  void store_losses(const Args& args) const {
    if (problem_.is_divided()) return;
    args.loss.store(0, sum().load(0));
    if (args.z_loss) args.z_loss.store(0, problem_.z_coefficient > 0.0 ? z_sum().load(0) : 0.0);
  }

  // The functions below compute d_x, d_w and d_bias. Requires: the logits of the current chunk have been replaced by their gradients.
  template <typename Args>
  void compute_d_x(const Args& args, int64_t first, int64_t rows) {
    prepared(rows).d_x->run({.a = narrow(),
                             .b = w_of_d_x_.view,
                             .bias = {},
                             .c = view_from(args.d_x_BH, first * problem_.hidden),
                             .scratch = workspace()});
  }
  template <typename Args>
  void compute_parameter_gradients(const Args& args, int64_t first, int64_t rows) {
    const Accumulate accumulate = first > 0 ? Accumulate::kAdd : args.accumulate;
    if (args.d_w_KH) {
      prepared(rows).d_w->run({.a = narrow(),
                               .b = view_from(args.x_BH, first * problem_.hidden),
                               .bias = {},
                               .c = args.d_w_KH,
                               .accumulate = accumulate,
                               .scratch = workspace()});
    }
    if (args.d_bias_K) {
      bias_grad_cpu({.d_y = narrow(),
                     .d_b = args.d_bias_K,
                     .scratch = {workspace().data(), DType::kU8},
                     .T = rows,
                     .C = problem_.classes,
                     .accumulate = accumulate});
    }
  }

  LinearCrossEntropyProblem problem_;

 private:
  static ChunkWeight weight_of(const MatmulProblem& product) {
    return {product.b_operand == MatmulOperand::kPacked, matmul_packed_b_bytes(product)};
  }
  void read_weight(ConstView w, PreparedMatmul& product, int64_t offset, ChunkWeight& weight) const {
    weight.view = w;
    if (!weight.packs) return;
    std::byte* packed = scratch_ + offset;
    product.pack_b(w, {packed, static_cast<size_t>(weight.packed_bytes)}, workspace());
    weight.view = {packed, problem_.x};
  }

  LossPart part_;
  LinearCrossEntropyScratch parts_;
  bool copies_weight_;
  // The prepared matrix products, by the number of rows of a chunk. There are at most two entries: full chunks and the last chunk.
  std::map<int64_t, Prepared> prepared_;
  std::byte* scratch_ = nullptr;
  ChunkWeight w_of_logits_, w_of_d_x_;
};

class Forward final : public PreparedLossChunks<LinearCrossEntropyFwdArgs>, private Chunks {
 public:
  explicit Forward(const LinearCrossEntropyProblem& problem) : Chunks(problem, LossPart::kLoss) {}

  void run(const LinearCrossEntropyFwdArgs& args) override {
    begin(args.w_KH, args.scratch);
    for_each_loss_chunk(problem_.rows, problem_.chunk_rows, [&](int64_t first, int64_t rows) {
      compute_logits(args, first, rows);
      add_loss(args, first, rows);
    });
    store_losses(args);
  }
};

class Backward final : public PreparedLossChunks<LinearCrossEntropyBwdArgs>, private Chunks {
 public:
  explicit Backward(const LinearCrossEntropyProblem& problem) : Chunks(problem, LossPart::kInput) {}

  void run(const LinearCrossEntropyBwdArgs& args) override {
    begin(args.w_KH, args.scratch);
    for_each_loss_chunk(problem_.rows, problem_.chunk_rows, [&](int64_t first, int64_t rows) {
      compute_logits(args, first, rows);
      compute_d_logits(args, first, rows);
      compute_d_x(args, first, rows);
    });
  }
};

class Gradient final : public PreparedLossChunks<LinearCrossEntropyGradArgs>, private Chunks {
 public:
  explicit Gradient(const LinearCrossEntropyProblem& problem) : Chunks(problem, LossPart::kParameters) {}

  void run(const LinearCrossEntropyGradArgs& args) override {
    begin(args.w_KH, args.scratch);
    for_each_loss_chunk(problem_.rows, problem_.chunk_rows, [&](int64_t first, int64_t rows) {
      compute_logits(args, first, rows);
      compute_d_logits(args, first, rows);
      compute_parameter_gradients(args, first, rows);
    });
  }
};

class WithGradients final : public PreparedLossChunks<LinearCrossEntropyWithGradientsArgs>, private Chunks {
 public:
  explicit WithGradients(const LinearCrossEntropyProblem& problem) : Chunks(problem, LossPart::kEverything) {}

  void run(const LinearCrossEntropyWithGradientsArgs& args) override {
    begin(args.w_KH, args.scratch);
    for_each_loss_chunk(problem_.rows, problem_.chunk_rows, [&](int64_t first, int64_t rows) {
      compute_logits(args, first, rows);
      compute_d_logits(args, first, rows);
      if (args.d_x_BH) compute_d_x(args, first, rows);
      compute_parameter_gradients(args, first, rows);
    });
    store_losses(args);
  }
};

}  // namespace

std::unique_ptr<PreparedLossChunks<LinearCrossEntropyFwdArgs>> prepare_linear_cross_entropy_fwd_cpu(
    const LinearCrossEntropyProblem& problem) {
  return std::make_unique<Forward>(problem);
}
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyBwdArgs>> prepare_linear_cross_entropy_bwd_cpu(
    const LinearCrossEntropyProblem& problem) {
  return std::make_unique<Backward>(problem);
}
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyGradArgs>> prepare_linear_cross_entropy_grad_cpu(
    const LinearCrossEntropyProblem& problem) {
  return std::make_unique<Gradient>(problem);
}
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyWithGradientsArgs>>
prepare_linear_cross_entropy_with_gradients_cpu(const LinearCrossEntropyProblem& problem) {
  return std::make_unique<WithGradients>(problem);
}

}  // namespace plimsoll
