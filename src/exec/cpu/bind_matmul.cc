#include "exec/kernel_args.h"

namespace plimsoll {

std::function<void()> bind_matmul_cpu(const BindContext& context) {
  if (context.op().def->name() == "linear_gelu") {
    return
        [problem = linear_problem(context), args = matmul_args(context)] { linear_gelu_ref(problem, args); };
  }
  if (context.op().def->name() == "linear_norm") {
    return [problem = linear_problem(context), args = linear_norm_args(context)] {
      linear_norm_ref(problem, args);
    };
  }
  if (context.op().def->name() == "linear_add") {
    return [problem = matmul_problem(context), args = matmul_args(context)] { matmul_ref(problem, args); };
  }
  if (context.op().def->name() != "matmul") return {};
  const MatmulProblem problem = matmul_problem(context);
  MatmulArgs args = matmul_args(context);
  const ConstView flag = run_time_operands(context).accumulate;
  if (context.is_reference()) {
    return [problem, args, flag]() mutable {
      args.accumulate = read_flag(flag);
      matmul_ref(problem, args);
    };
  }
  PLIMSOLL_CHECK(matmul_scratch_bytes(problem) <= context.scratch_bytes(),
                 "matmul needs {} bytes of scratch in a bucket of {} tokens, {} are planned",
                 matmul_scratch_bytes(problem), context.bucket().tokens, context.scratch_bytes());
  std::shared_ptr<PreparedMatmul> prepared = prepare_matmul_cpu(problem);
  return [prepared, args, flag]() mutable {
    args.accumulate = read_flag(flag);
    prepared->run(args);
  };
}

}  // namespace plimsoll
