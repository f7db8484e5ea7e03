#include "exec/bound_op.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/sgd.h"

namespace plimsoll {
namespace {

View writable(ConstView view) {
  return {const_cast<void*>(view.data), view.dtype};
}

// The list of tensors of an update: `stride` operands per parameter after the four scalars.
std::vector<OptimizerTensor> tensors_of(const BindContext& context, int stride) {
  std::vector<OptimizerTensor> tensors;
  for (int i = 4; i < context.view().num_inputs(); i += stride) {
    tensors.push_back({.param = writable(context.input(i)),
                       .grad = context.input(i + 1),
                       .m = stride > 2 ? writable(context.input(i + 2)) : View{},
                       .v = stride > 3 ? writable(context.input(i + 3)) : View{},
                       .count = context.input_elements(i)});
  }
  return tensors;
}

}  // namespace

std::function<void()> bind_optimizer_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (name == "global_norm") {
    std::vector<OptimizerTensor> tensors;
    for (int i = 0; i < context.view().num_inputs(); ++i) {
      tensors.push_back({.grad = context.input(i), .count = context.input_elements(i)});
    }
    return [tensors, norm = context.output(0), finite = context.output(1),
            run = context.pick(global_norm_ref, global_norm_cpu)] {
      run({.tensors = tensors, .norm = norm, .finite = finite});
    };
  }
  if (name == "clip_coefficient") {
    const ClipCoefficientArgs args{.norm = context.input(0),
                                   .coefficient = context.output(0),
                                   .max_norm = context.attributes().number("max_norm")};
    return [args, run = context.pick(clip_coefficient_ref, clip_coefficient_cpu)] { run(args); };
  }
  if (name == "adamw") {
    AdamwArgs args{.learning_rate = context.input(0),
                   .step = context.input(1),
                   .clip_coefficient = context.input(2),
                   .finite = context.input(3),
                   .beta1 = context.attributes().number("beta1"),
                   .beta2 = context.attributes().number("beta2"),
                   .epsilon = context.attributes().number("epsilon"),
                   .weight_decay = context.attributes().number("weight_decay")};
    return [args, tensors = tensors_of(context, 4), run = context.pick(adamw_ref, adamw_cpu)]() mutable {
      args.tensors = tensors;
      run(args);
    };
  }
  if (name == "sgd") {
    const double momentum = context.attributes().number("momentum");
    SgdArgs args{.learning_rate = context.input(0),
                 .step = context.input(1),
                 .clip_coefficient = context.input(2),
                 .finite = context.input(3),
                 .momentum = momentum,
                 .weight_decay = context.attributes().number("weight_decay"),
                 .nesterov = context.attributes().integer("nesterov") != 0 ? Nesterov::kOn : Nesterov::kOff};
    return [args, tensors = tensors_of(context, momentum > 0.0 ? 3 : 2),
            run = context.pick(sgd_ref, sgd_cpu)]() mutable {
      args.tensors = tensors;
      run(args);
    };
  }
  return {};
}

}  // namespace plimsoll
