#include "exec/cpu/bind_cpu.h"
#include "exec/update_args.h"

namespace plimsoll {
namespace {

// Args borrow the list of tensors, which lives in the closure.
template <typename Args, typename Tensor>
std::function<void()> over_tensors(void (*run)(const Args&), Args args, std::vector<Tensor> tensors) {
  return [run, args, tensors = std::move(tensors)]() mutable {
    args.tensors = tensors;
    run(args);
  };
}

}  // namespace

std::function<void()> bind_optimizer_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (name == "global_norm") {
    return over_tensors(context.pick(global_norm_ref, global_norm_cpu), global_norm_args(context),
                        norm_tensors(context));
  }
  if (name == "clip_coefficient") {
    return given(context.pick(clip_coefficient_ref, clip_coefficient_cpu), clip_coefficient_args(context));
  }
  if (name == "adjust_loss_scale") {
    return given(context.pick(adjust_loss_scale_ref, adjust_loss_scale_cpu), adjust_loss_scale_args(context));
  }
  if (name == "adamw") {
    return over_tensors(context.pick(adamw_ref, adamw_cpu), adamw_args(context), adamw_tensors(context));
  }
  if (name == "sgd") {
    return over_tensors(context.pick(sgd_ref, sgd_cpu), sgd_args(context), sgd_tensors(context));
  }
  if (name == "lion") {
    return over_tensors(context.pick(lion_ref, lion_cpu), lion_args(context), one_state_tensors(context));
  }
  if (name == "adagrad") {
    return over_tensors(context.pick(adagrad_ref, adagrad_cpu), adagrad_args(context),
                        one_state_tensors(context));
  }
  if (name == "adafactor") {
    return over_tensors(context.pick(adafactor_ref, adafactor_cpu), adafactor_args(context),
                        adafactor_tensors(context));
  }
  if (name == "adamw_8bit") {
    return over_tensors(context.pick(adamw_8bit_ref, adamw_8bit_cpu), adamw_args(context),
                        eight_bit_tensors(context));
  }
  if (name == "lion_8bit") {
    return over_tensors(context.pick(lion_8bit_ref, lion_8bit_cpu), lion_args(context),
                        eight_bit_tensors(context));
  }
  if (name == "sgd_8bit") {
    return over_tensors(context.pick(sgd_8bit_ref, sgd_8bit_cpu), sgd_args(context),
                        eight_bit_tensors(context));
  }
  if (name == "adagrad_8bit") {
    return over_tensors(context.pick(adagrad_8bit_ref, adagrad_8bit_cpu), adagrad_args(context),
                        eight_bit_tensors(context));
  }
  return {};
}

}  // namespace plimsoll
