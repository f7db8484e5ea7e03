#include "exec/bound_op.h"
#include "kernels/element_wise/activation.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {
namespace {

template <typename Args>
std::function<void()> ready(void (*run)(const Args&), const Args& args) {
  return [run, args] { run(args); };
}

std::function<void()> bind_activation(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  const int64_t n = context.output_elements(0);
  const ActivationFwdArgs fwd{.x = context.input(0), .y = context.output(0), .n = n};
  if (name == "tanh") return ready(context.pick(tanh_fwd_ref, tanh_fwd_cpu), fwd);
  if (name == "relu") return ready(context.pick(relu_fwd_ref, relu_fwd_cpu), fwd);
  if (name == "gelu") {
    return ready(context.pick(gelu_fwd_ref, gelu_fwd_cpu),
                 {.x = context.input(0), .y = context.output(0), .n = n});
  }
  const ActivationBwdArgs bwd{
      .y = context.input(0), .d_y = context.input(1), .d_x = context.output(0), .n = n};
  if (name == "tanh_bwd") return ready(context.pick(tanh_bwd_ref, tanh_bwd_cpu), bwd);
  if (name == "relu_bwd") return ready(context.pick(relu_bwd_ref, relu_bwd_cpu), bwd);
  if (name == "gelu_bwd") {
    return ready(context.pick(gelu_bwd_ref, gelu_bwd_cpu),
                 {.x = context.input(0), .d_y = context.input(1), .d_x = context.output(0), .n = n});
  }
  return {};
}

// Ops that add column sums into a buffer under a flag.
std::function<void()> bind_with_column_sums(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (name == "bias_grad") {
    BiasGradArgs args{.d_y = context.input(0),
                      .d_b = context.output(0),
                      .scratch = context.scratch(),
                      .T = context.input_size(0, 0),
                      .C = context.input_size(0, 1)};
    return [args, flag = context.input(2), run = context.pick(bias_grad_ref, bias_grad_cpu)]() mutable {
      args.accumulate = read_flag(flag);
      run(args);
    };
  }
  if (name == "bias_gelu_bwd") {
    BiasGeluBwdArgs args{.h = context.input(0),
                         .b = context.input(1),
                         .d_y = context.input(2),
                         .d_h = context.output(0),
                         .d_b = context.output(1),
                         .scratch = context.scratch(),
                         .T = context.input_size(0, 0),
                         .C = context.input_size(0, 1)};
    return
        [args, flag = context.input(4), run = context.pick(bias_gelu_bwd_ref, bias_gelu_bwd_cpu)]() mutable {
          args.accumulate = read_flag(flag);
          run(args);
        };
  }
  if (name == "scale_shift_bwd") {
    ScaleShiftBwdArgs args{.d_y = context.input(2),
                           .x_hat = context.input(0),
                           .gain = context.input(1),
                           .d_x_hat = context.output(0),
                           .d_gain = context.output(1),
                           .d_bias = context.output(2),
                           .scratch = context.scratch(),
                           .T = context.input_size(0, 0),
                           .C = context.input_size(0, 1)};
    return [args, flag = context.input(5),
            run = context.pick(scale_shift_bwd_ref, scale_shift_bwd_cpu)]() mutable {
      args.accumulate = read_flag(flag);
      run(args);
    };
  }
  return {};
}

}  // namespace

std::function<void()> bind_element_wise_cpu(const BindContext& context) {
  if (auto run = bind_activation(context)) return run;
  if (auto run = bind_with_column_sums(context)) return run;
  const std::string_view name = context.op().def->name();
  if (name == "add") {
    return ready(context.pick(add_fwd_ref, add_fwd_cpu), {.a = context.input(0),
                                                          .b = context.input(1),
                                                          .c = context.output(0),
                                                          .n = context.output_elements(0)});
  }
  if (name == "bias_add") {
    return ready(context.pick(bias_add_fwd_ref, bias_add_fwd_cpu), {.x = context.input(0),
                                                                    .b = context.input(1),
                                                                    .y = context.output(0),
                                                                    .T = context.output_size(0, 0),
                                                                    .C = context.output_size(0, 1)});
  }
  if (name == "bias_gelu") {
    return ready(context.pick(bias_gelu_fwd_ref, bias_gelu_fwd_cpu), {.h = context.input(0),
                                                                      .b = context.input(1),
                                                                      .y = context.output(0),
                                                                      .T = context.output_size(0, 0),
                                                                      .C = context.output_size(0, 1)});
  }
  if (name == "scale_shift") {
    return ready(context.pick(scale_shift_fwd_ref, scale_shift_fwd_cpu), {.x_hat = context.input(0),
                                                                          .gain = context.input(1),
                                                                          .bias = context.input(2),
                                                                          .y = context.output(0),
                                                                          .T = context.output_size(0, 0),
                                                                          .C = context.output_size(0, 1)});
  }
  if (name == "cast") {
    return ready(context.pick(cast_fwd_ref, cast_fwd_cpu),
                 {.x = context.input(0), .y = context.output(0), .n = context.output_elements(0)});
  }
  if (name == "fill") {
    return ready(context.pick(fill_ref, fill_cpu), {.x = context.output(0),
                                                    .count = context.output_elements(0),
                                                    .value = context.attributes().number("value")});
  }
  if (name == "dropout") {
    DropoutFwdArgs args{.x = context.input(0),
                        .y = context.output(0),
                        .n = context.output_elements(0),
                        .p = context.attributes().number("p"),
                        .where = {}};
    return [args, rng = context.input(1), site = context.attributes().integer("site"),
            run = context.pick(dropout_fwd_ref, dropout_fwd_cpu)]() mutable {
      args.where = read_site(rng, site);
      run(args);
    };
  }
  if (name == "accumulate") {
    // into = flag ? into + d : d. The output has the bytes of `into`.
    const AddFwdArgs sum{.a = context.input(0),
                         .b = context.input(2),
                         .c = context.output(0),
                         .n = context.output_elements(0)};
    const CastFwdArgs copy{.x = context.input(2), .y = context.output(0), .n = context.output_elements(0)};
    return [sum, copy, flag = context.input(1), add = context.pick(add_fwd_ref, add_fwd_cpu),
            overwrite = context.pick(cast_fwd_ref, cast_fwd_cpu)] {
      if (read_flag(flag) == Accumulate::kAdd) {
        add(sum);
      } else {
        overwrite(copy);
      }
    };
  }
  return {};
}

}  // namespace plimsoll
