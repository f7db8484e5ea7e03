#include "exec/cpu/bind_cpu.h"
#include "exec/dequantize_args.h"
#include "exec/kernel_args.h"

namespace plimsoll {
namespace {

// Of ops that add column sums into a buffer under a flag.
template <typename Args>
std::function<void()> with_flag(void (*run)(const Args&), const Args& args, ConstView flag) {
  return given(run, args, [flag](Args& now) { now.accumulate = read_flag(flag); });
}

std::function<void()> bind_activation(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (name == "tanh") return given(context.pick(tanh_fwd_ref, tanh_fwd_cpu), activation_fwd_args(context));
  if (name == "relu") return given(context.pick(relu_fwd_ref, relu_fwd_cpu), activation_fwd_args(context));
  if (name == "gelu") return given(context.pick(gelu_fwd_ref, gelu_fwd_cpu), gelu_fwd_args(context));
  if (name == "tanh_bwd")
    return given(context.pick(tanh_bwd_ref, tanh_bwd_cpu), activation_bwd_args(context));
  if (name == "relu_bwd")
    return given(context.pick(relu_bwd_ref, relu_bwd_cpu), activation_bwd_args(context));
  if (name == "gelu_bwd") return given(context.pick(gelu_bwd_ref, gelu_bwd_cpu), gelu_bwd_args(context));
  return {};
}

std::function<void()> bind_with_column_sums(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  const ConstView flag = run_time_operands(context).accumulate;
  if (name == "bias_grad") {
    return with_flag(context.pick(bias_grad_ref, bias_grad_cpu), bias_grad_args(context), flag);
  }
  if (name == "bias_gelu_bwd") {
    return with_flag(context.pick(bias_gelu_bwd_ref, bias_gelu_bwd_cpu), bias_gelu_bwd_args(context), flag);
  }
  if (name == "scale_shift_bwd") {
    return with_flag(context.pick(scale_shift_bwd_ref, scale_shift_bwd_cpu), scale_shift_bwd_args(context),
                     flag);
  }
  return {};
}

std::function<void()> bind_dropout(const BindContext& context) {
  return given(context.pick(dropout_fwd_ref, dropout_fwd_cpu), dropout_args(context),
               [operands = run_time_operands(context)](DropoutFwdArgs& now) {
                 now.where = read_site(operands.rng, operands.site);
               });
}

std::function<void()> bind_accumulate(const BindContext& context) {
  const AddFwdArgs sum = accumulate_args(context);
  const CastFwdArgs copy{.x = sum.b, .y = sum.c, .n = sum.n};
  return
      [sum, copy, flag = run_time_operands(context).accumulate, add = context.pick(add_fwd_ref, add_fwd_cpu),
       overwrite = context.pick(cast_fwd_ref, cast_fwd_cpu)] {
        if (read_flag(flag) == Accumulate::kAdd) {
          add(sum);
        } else {
          overwrite(copy);
        }
      };
}

}  // namespace

std::function<void()> bind_element_wise_cpu(const BindContext& context) {
  if (auto run = bind_activation(context)) return run;
  if (auto run = bind_with_column_sums(context)) return run;
  const std::string_view name = context.op().def->name();
  if (name == "add") return given(context.pick(add_fwd_ref, add_fwd_cpu), add_args(context));
  if (name == "bias_add")
    return given(context.pick(bias_add_fwd_ref, bias_add_fwd_cpu), bias_add_args(context));
  if (name == "bias_gelu") {
    return given(context.pick(bias_gelu_fwd_ref, bias_gelu_fwd_cpu), bias_gelu_fwd_args(context));
  }
  if (name == "scale_shift") {
    return given(context.pick(scale_shift_fwd_ref, scale_shift_fwd_cpu), scale_shift_fwd_args(context));
  }
  if (name == "columns") return given(context.pick(columns_fwd_ref, columns_fwd_cpu), columns_args(context));
  if (name == "add_columns")
    return given(context.pick(add_columns_fwd_ref, add_columns_fwd_cpu), add_columns_args(context));
  if (name == "dequantize")
    return given(context.pick(dequantize_ref, dequantize_cpu), dequantize_args(context));
  if (name == "cast") return given(context.pick(cast_fwd_ref, cast_fwd_cpu), cast_args(context));
  if (name == "fill") return given(context.pick(fill_ref, fill_cpu), fill_args(context));
  if (name == "copy") {
    return [copies = copy_args(context), run = context.pick(copy_ref, copy_cpu)] {
      for (const CopyArgs& copy : copies) run(copy);
    };
  }
  if (name == "dropout") return bind_dropout(context);
  if (name == "accumulate") return bind_accumulate(context);
  return {};
}

}  // namespace plimsoll
