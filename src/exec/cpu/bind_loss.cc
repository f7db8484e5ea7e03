#include "exec/cpu/bind_cpu.h"
#include "exec/kernel_args.h"

namespace plimsoll {
namespace {

// The number of real rows is data.
template <typename Args>
std::function<void()> with_real_rows(void (*run)(const Args&), const Args& args, ConstView real_rows) {
  return given(run, args, [real_rows](Args& now) { now.num_real_rows = read_integer(real_rows); });
}

template <typename Args, typename Prepare>
std::function<void()> bind_loss_chunks(const BindContext& context, const Args& args,
                                       void (*reference)(const LinearCrossEntropyProblem&, const Args&),
                                       Prepare prepare) {
  const LinearCrossEntropyProblem problem = linear_cross_entropy_problem(context);
  if (context.is_reference()) return [=] { reference(problem, args); };
  std::shared_ptr<PreparedLossChunks<Args>> prepared = prepare(problem);
  return [prepared, args] { prepared->run(args); };
}

std::function<void()> bind_linear_cross_entropy_grad(const BindContext& context) {
  const LinearCrossEntropyProblem problem = linear_cross_entropy_problem(context);
  LinearCrossEntropyGradArgs args = linear_cross_entropy_grad_args(context);
  const ConstView flag = run_time_operands(context).accumulate;
  if (context.is_reference()) {
    return [problem, args, flag]() mutable {
      args.accumulate = read_flag(flag);
      linear_cross_entropy_grad_ref(problem, args);
    };
  }
  std::shared_ptr<PreparedLossChunks<LinearCrossEntropyGradArgs>> prepared =
      prepare_linear_cross_entropy_grad_cpu(problem);
  return [prepared, args, flag]() mutable {
    args.accumulate = read_flag(flag);
    prepared->run(args);
  };
}

std::function<void()> bind_linear_cross_entropy(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (name == "linear_cross_entropy") {
    return bind_loss_chunks(context, linear_cross_entropy_fwd_args(context), linear_cross_entropy_fwd_ref,
                            prepare_linear_cross_entropy_fwd_cpu);
  }
  if (name == "linear_cross_entropy_bwd") {
    return bind_loss_chunks(context, linear_cross_entropy_bwd_args(context), linear_cross_entropy_bwd_ref,
                            prepare_linear_cross_entropy_bwd_cpu);
  }
  if (name == "linear_cross_entropy_grad") return bind_linear_cross_entropy_grad(context);
  return {};
}

}  // namespace

std::function<void()> bind_loss_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (auto run = bind_linear_cross_entropy(context)) return run;
  const ConstView real_rows = run_time_operands(context).real_rows;
  if (name == "softmax_cross_entropy") {
    return given(context.pick(softmax_cross_entropy_fwd_ref, softmax_cross_entropy_fwd_cpu),
                 cross_entropy_fwd_args(context));
  }
  if (name == "softmax_cross_entropy_bwd") {
    return given(context.pick(softmax_cross_entropy_bwd_ref, softmax_cross_entropy_bwd_cpu),
                 cross_entropy_bwd_args(context));
  }
  if (name == "nll") return given(context.pick(nll_fwd_ref, nll_fwd_cpu), nll_fwd_args(context));
  if (name == "nll_bwd") return given(context.pick(nll_bwd_ref, nll_bwd_cpu), nll_bwd_args(context));
  if (name == "log_softmax") {
    return given(context.pick(log_softmax_fwd_ref, log_softmax_fwd_cpu), log_softmax_fwd_args(context));
  }
  if (name == "log_softmax_bwd") {
    return given(context.pick(log_softmax_bwd_ref, log_softmax_bwd_cpu), log_softmax_bwd_args(context));
  }
  if (name == "bce_with_logits") {
    return with_real_rows(context.pick(bce_with_logits_fwd_ref, bce_with_logits_fwd_cpu),
                          bce_fwd_args(context), real_rows);
  }
  if (name == "bce_with_logits_bwd") {
    return with_real_rows(context.pick(bce_with_logits_bwd_ref, bce_with_logits_bwd_cpu),
                          bce_bwd_args(context), real_rows);
  }
  if (name == "mse")
    return with_real_rows(context.pick(mse_fwd_ref, mse_fwd_cpu), mse_fwd_args(context), real_rows);
  if (name == "mse_bwd") {
    return with_real_rows(context.pick(mse_bwd_ref, mse_bwd_cpu), mse_bwd_args(context), real_rows);
  }
  return {};
}

}  // namespace plimsoll
