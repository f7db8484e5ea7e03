// CUDA kernels of losses that are a mean over the elements of the real rows (the rows with samples). The terms of a row are added in
// double; the gradient is computed element by element. The tensors have only samples x labels elements, so the kernels find out their
// element types at run time instead of being compiled for each type. Only for .cu files. Thread-safe: no state.
#pragma once

#include "kernels/loss/cuda/loss_rows.cuh"

namespace plimsoll::cuda {

struct ElementLoss {
  AnyFloats x, labels;
  Integer num_real_rows;
  int64_t num_rows = 0;
  int64_t num_classes = 0;
};

// Computes the loss of each real row. Form::term(x, label) must return the contribution of an element.
template <class Form>
__global__ void __launch_bounds__(kLossThreads)
    element_loss_fwd_kernel(const __grid_constant__ ElementLoss a, double* losses) {
  __shared__ double slots[kLossWarps];
  const int64_t row = loss_row();
  if (row >= a.num_rows) return;
  double sum = 0.0;
  if (row < a.num_real_rows.get()) {
    for (int64_t k = threadIdx.x; k < a.num_classes; k += blockDim.x) {
      const int64_t i = row * a.num_classes + k;
      sum += Form::term(a.x.at(i), a.labels.at(i));
    }
  }
  sum = block_sum(sum, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x) / 32, slots);
  if (threadIdx.x == 0) losses[row] = sum;
}

// Computes the gradient. Form::slope(x, label) times Form::kFactor must be the derivative of the term of an element. d_x may be the same
// array as x.
template <class Form>
__global__ void __launch_bounds__(kLossThreads)
    element_loss_bwd_kernel(const __grid_constant__ ElementLoss a, Scalar denominator, Scalar d_loss,
                            AnyFloatsOut d_x) {
  const int64_t row = loss_row();
  if (row >= a.num_rows) return;
  const bool real = row < a.num_real_rows.get();
  const auto scale = static_cast<float>(Form::kFactor * d_loss.get() /
                                        (denominator.get() * static_cast<double>(a.num_classes)));
  for (int64_t k = threadIdx.x; k < a.num_classes; k += blockDim.x) {
    const int64_t i = row * a.num_classes + k;
    d_x.store(i, real ? Form::slope(a.x.at(i), a.labels.at(i)) * scale : 0.0f);
  }
}

template <class Form, class Args>
ElementLoss element_loss(const char* kernel, const Args& args, const ConstView& num_real_rows) {
  check_cuda_operands(kernel, {{"x", args.x_BK}, {"labels", args.labels_BK}});
  return {any_floats(args.x_BK), any_floats(args.labels_BK),
          real_rows(kernel, num_real_rows, args.num_real_rows), args.num_rows, args.num_classes};
}

template <class Form, class Args>
void launch_element_loss_fwd(const char* kernel, const Args& args, const ConstView& num_real_rows,
                             CudaStream stream) {
  const ElementLoss operands = element_loss<Form>(kernel, args, num_real_rows);
  double* losses = row_losses(kernel, args.scratch, args.num_rows);
  if (args.num_rows > 0) {
    const LossGrid grid = loss_grid(args.num_rows, args.num_classes);
    element_loss_fwd_kernel<Form><<<grid.blocks, grid.block, 0, stream>>>(operands, losses);
    PLIMSOLL_CHECK_LAUNCH("a loss over elements");
  }
  add_row_losses(losses, args.num_rows,
                 {.loss = scalar_of(kernel, "loss", args.loss),
                  .denominator = scalar_of(kernel, "denominator", args.denominator),
                  .divisor = static_cast<double>(args.num_classes),
                  .adds = args.accumulate == Accumulate::kAdd},
                 stream);
}

template <class Form, class Args>
void launch_element_loss_bwd(const char* kernel, const Args& args, const ConstView& num_real_rows,
                             CudaStream stream) {
  const ElementLoss operands = element_loss<Form>(kernel, args, num_real_rows);
  check_cuda_operands(kernel, {{"d_x", args.d_x_BK}});
  if (args.num_rows <= 0) return;
  const LossGrid grid = loss_grid(args.num_rows, args.num_classes);
  element_loss_bwd_kernel<Form><<<grid.blocks, grid.block, 0, stream>>>(
      operands, scalar_of(kernel, "denominator", args.denominator), scalar_of(kernel, "d_loss", args.d_loss),
      any_floats_out(args.d_x_BK));
  PLIMSOLL_CHECK_LAUNCH("the gradient of a loss over elements");
}

}  // namespace plimsoll::cuda
