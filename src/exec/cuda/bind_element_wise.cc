#include "exec/cuda/bind_cuda.h"
#include "exec/dequantize_args.h"
#include "kernels/element_wise/activation.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/column_range.h"
#include "kernels/element_wise/copy.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/optimizer/tensor_scan.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll {
namespace {

std::function<void()> bind_activation(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  if (name == "tanh") return given(stream, tanh_fwd_cuda, activation_fwd_args(context));
  if (name == "relu") return given(stream, relu_fwd_cuda, activation_fwd_args(context));
  if (name == "gelu") return given(stream, gelu_fwd_cuda, gelu_fwd_args(context));
  if (name == "tanh_bwd") return given(stream, tanh_bwd_cuda, activation_bwd_args(context));
  if (name == "relu_bwd") return given(stream, relu_bwd_cuda, activation_bwd_args(context));
  if (name == "gelu_bwd") return given(stream, gelu_bwd_cuda, gelu_bwd_args(context));
  return {};
}

}  // namespace

std::function<void()> bind_element_wise_cuda(const BindContext& context, CudaStream stream) {
  if (auto run = bind_activation(context, stream)) return run;
  const std::string_view name = context.op().def->name();
  const int32_t* flag = accumulate_of(context);
  if (name == "bias_grad") return given(stream, bias_grad_cuda, bias_grad_args(context), flag);
  if (name == "bias_gelu_bwd") return given(stream, bias_gelu_bwd_cuda, bias_gelu_bwd_args(context), flag);
  if (name == "scale_shift_bwd")
    return given(stream, scale_shift_bwd_cuda, scale_shift_bwd_args(context), flag);
  if (name == "accumulate") return given(stream, accumulate_cuda, accumulate_args(context), flag);
  if (name == "add") return given(stream, add_fwd_cuda, add_args(context));
  if (name == "bias_add") return given(stream, bias_add_fwd_cuda, bias_add_args(context));
  if (name == "bias_gelu") return given(stream, bias_gelu_fwd_cuda, bias_gelu_fwd_args(context));
  if (name == "scale_shift") return given(stream, scale_shift_fwd_cuda, scale_shift_fwd_args(context));
  if (name == "columns") return given(stream, columns_fwd_cuda, columns_args(context));
  if (name == "add_columns") return given(stream, add_columns_fwd_cuda, add_columns_args(context));
  if (name == "dequantize") return given(stream, dequantize_cuda, dequantize_args(context));
  if (name == "copy") {
    return [copies = copy_args(context), stream] {
      for (const CopyArgs& copy : copies) copy_cuda(copy, stream);
    };
  }
  if (name == "cast") return given(stream, cast_fwd_cuda, cast_args(context));
  if (name == "fill") return given(stream, fill_cuda, fill_args(context));
  if (name == "dropout") return given(stream, dropout_fwd_cuda, dropout_args(context), rng_of(context));
  return {};
}

}  // namespace plimsoll
