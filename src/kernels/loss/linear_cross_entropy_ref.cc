#include <type_traits>

#include "base/check.h"
#include "kernels/element_wise/add.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/matmul/matmul.h"

namespace plimsoll {
namespace {

View scratch_view(std::span<std::byte> scratch, int64_t offset, DType dtype) {
  return {scratch.data() + offset, dtype};
}

LinearCrossEntropyScratch checked_scratch(const LinearCrossEntropyProblem& problem,
                                          std::span<std::byte> scratch) {
  const LinearCrossEntropyScratch parts = linear_cross_entropy_ref_scratch(problem);
  PLIMSOLL_CHECK(static_cast<int64_t>(scratch.size()) >= parts.bytes,
                 "linear_cross_entropy needs {} bytes of scratch memory, but has {}", parts.bytes,
                 scratch.size());
  return parts;
}

// Computes the logits of a chunk of rows, which begins at row `first`.
template <typename Args>
void logits_ref(const LinearCrossEntropyProblem& problem, const MatmulProblem& product, const Args& args,
                int64_t first, View logits) {
  matmul_ref(
      product,
      {.a = view_from(args.x_BH, first * problem.hidden), .b = args.w_KH, .bias = args.bias_K, .c = logits});
}

template <typename Args>
void loss_ref(const LinearCrossEntropyProblem& problem, const Args& args, int64_t first, int64_t rows,
              View logits, View sum, View z_sum) {
  if (problem.is_divided()) {
    if constexpr (std::is_same_v<Args, LinearCrossEntropyFwdArgs>)
      class_sums_ref(class_sums_of_chunk(problem, args, logits, problem.classes, first, rows));
    return;
  }
  softmax_cross_entropy_fwd_ref({.logits_BK = logits,
                                 .labels_B = view_from(args.labels_B, first),
                                 .denominator = args.denominator,
                                 .loss = sum,
                                 .num_rows = rows,
                                 .num_classes = problem.classes,
                                 .label_smoothing = problem.label_smoothing,
                                 .accumulate = first > 0 ? Accumulate::kAdd : Accumulate::kOverwrite,
                                 .z_coefficient = problem.z_coefficient,
                                 .z_loss = z_sum});
}

// Returns the view in scratch memory that contains the sum of the z-loss, or a null view if the loss has no z-loss.
View z_sum_of(const LinearCrossEntropyProblem& problem, const LinearCrossEntropyScratch& parts,
              std::span<std::byte> scratch) {
  return problem.z_coefficient > 0.0 ? scratch_view(scratch, parts.z_losses, DType::kF64) : View();
}
template <typename Args>
void store_losses_ref(const LinearCrossEntropyProblem& problem, const Args& args, View sum, View z_sum) {
  if (problem.is_divided()) return;
  args.loss.store(0, sum.load(0));
  if (args.z_loss) args.z_loss.store(0, z_sum ? z_sum.load(0) : 0.0);
}

// Replaces the logits of a chunk with their gradients.
template <typename Args>
void replace_logits_ref(const LinearCrossEntropyProblem& problem, const Args& args, int64_t first,
                        int64_t rows, View logits) {
  if (problem.is_divided())
    return class_sums_bwd_ref(class_sums_bwd_of_chunk(problem, args, logits, problem.classes, first, rows));
  softmax_cross_entropy_bwd_ref({.logits_BK = logits,
                                 .labels_B = view_from(args.labels_B, first),
                                 .denominator = args.denominator,
                                 .d_loss = args.d_loss,
                                 .d_logits_BK = logits,
                                 .num_rows = rows,
                                 .num_classes = problem.classes,
                                 .label_smoothing = problem.label_smoothing,
                                 .z_coefficient = problem.z_coefficient});
}

template <typename Args>
void d_logits_ref(const LinearCrossEntropyProblem& problem, const Args& args, int64_t first, int64_t rows,
                  View logits) {
  logits_ref(problem, loss_chunk_products(problem, rows, problem.w).logits, args, first, logits);
  replace_logits_ref(problem, args, first, rows, logits);
}

template <typename Args>
void d_x_ref(const LinearCrossEntropyProblem& problem, const Args& args, int64_t first, int64_t rows,
             View d_logits) {
  matmul_ref(
      loss_chunk_products(problem, rows, problem.w).d_x,
      {.a = d_logits, .b = args.w_KH, .bias = {}, .c = view_from(args.d_x_BH, first * problem.hidden)});
}

template <typename Args>
void add_parameter_gradients_ref(const LinearCrossEntropyProblem& problem, const Args& args, int64_t first,
                                 int64_t rows, View d_logits) {
  const Accumulate accumulate = first > 0 ? Accumulate::kAdd : args.accumulate;
  if (args.d_w_KH) {
    matmul_ref(loss_chunk_products(problem, rows, problem.w).d_w,
               {.a = d_logits,
                .b = view_from(args.x_BH, first * problem.hidden),
                .bias = {},
                .c = args.d_w_KH,
                .accumulate = accumulate});
  }
  if (args.d_bias_K) {
    bias_grad_ref({.d_y = d_logits,
                   .d_b = args.d_bias_K,
                   .scratch = {},
                   .T = rows,
                   .C = problem.classes,
                   .accumulate = accumulate});
  }
}

}  // namespace

void linear_cross_entropy_fwd_ref(const LinearCrossEntropyProblem& problem,
                                  const LinearCrossEntropyFwdArgs& args) {
  const LinearCrossEntropyScratch parts = checked_scratch(problem, args.scratch);
  const View logits = scratch_view(args.scratch, parts.wide, problem.x);
  const View sum = scratch_view(args.scratch, parts.losses, DType::kF64);
  const View z_sum = z_sum_of(problem, parts, args.scratch);
  for_each_loss_chunk(problem.rows, problem.chunk_rows, [&](int64_t first, int64_t rows) {
    logits_ref(problem, loss_chunk_products(problem, rows, problem.w).logits, args, first, logits);
    loss_ref(problem, args, first, rows, logits, sum, z_sum);
    if (args.num_correct) count_correct_ref(count_of_chunk(args, logits, first, rows, problem.classes));
  });
  store_losses_ref(problem, args, sum, z_sum);
}

void linear_cross_entropy_bwd_ref(const LinearCrossEntropyProblem& problem,
                                  const LinearCrossEntropyBwdArgs& args) {
  const View d_logits = scratch_view(args.scratch, checked_scratch(problem, args.scratch).wide, problem.x);
  for_each_loss_chunk(problem.rows, problem.chunk_rows, [&](int64_t first, int64_t rows) {
    d_logits_ref(problem, args, first, rows, d_logits);
    d_x_ref(problem, args, first, rows, d_logits);
  });
}

void linear_cross_entropy_grad_ref(const LinearCrossEntropyProblem& problem,
                                   const LinearCrossEntropyGradArgs& args) {
  const View d_logits = scratch_view(args.scratch, checked_scratch(problem, args.scratch).wide, problem.x);
  for_each_loss_chunk(problem.rows, problem.chunk_rows, [&](int64_t first, int64_t rows) {
    d_logits_ref(problem, args, first, rows, d_logits);
    add_parameter_gradients_ref(problem, args, first, rows, d_logits);
  });
}

void linear_cross_entropy_with_gradients_ref(const LinearCrossEntropyProblem& problem,
                                             const LinearCrossEntropyWithGradientsArgs& args) {
  const LinearCrossEntropyScratch parts = checked_scratch(problem, args.scratch);
  const View logits = scratch_view(args.scratch, parts.wide, problem.x);
  const View sum = scratch_view(args.scratch, parts.losses, DType::kF64);
  const View z_sum = z_sum_of(problem, parts, args.scratch);
  for_each_loss_chunk(problem.rows, problem.chunk_rows, [&](int64_t first, int64_t rows) {
    logits_ref(problem, loss_chunk_products(problem, rows, problem.w).logits, args, first, logits);
    loss_ref(problem, args, first, rows, logits, sum, z_sum);
    replace_logits_ref(problem, args, first, rows, logits);
    if (args.d_x_BH) d_x_ref(problem, args, first, rows, logits);
    add_parameter_gradients_ref(problem, args, first, rows, logits);
  });
  store_losses_ref(problem, args, sum, z_sum);
}

}  // namespace plimsoll
