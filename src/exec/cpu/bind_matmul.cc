#include "exec/bound_op.h"
#include "kernels/matmul/matmul.h"

namespace plimsoll {

std::function<void()> bind_matmul_cpu(const BindContext& context) {
  if (context.op().def->name() != "matmul") return {};
  const bool ta = context.attributes().integer("ta") != 0;
  const bool tb = context.attributes().integer("tb") != 0;
  const MatmulProblem problem{
      .m = context.output_size(0, 0),
      .n = context.output_size(0, 1),
      .k = context.input_size(0, ta ? 0 : 1),
      .trans_a = ta ? Transpose::kYes : Transpose::kNo,
      .trans_b = tb ? Transpose::kYes : Transpose::kNo,
      .a = context.input(0).dtype,
      .b = context.input(1).dtype,
      .c = context.output(0).dtype,
      .bias_dtype = context.has_input(2) ? context.input(2).dtype : DType::kF32,
      .bias = context.has_input(2) ? MatmulBias::kRow : MatmulBias::kNone,
      .writes = context.has_input(3) ? MatmulWrites::kOverwriteOrAdd : MatmulWrites::kOverwriteOnly,
      .num_threads = context.request().num_threads,
      .isa = context.request().isa};
  MatmulArgs args{
      .a = context.input(0), .b = context.input(1), .bias = context.input(2), .c = context.output(0)};
  const ConstView flag = context.has_input(3) ? context.input(4) : ConstView{};
  if (context.is_reference()) {
    return [problem, args, flag]() mutable {
      args.accumulate = read_flag(flag);
      matmul_ref(problem, args);
    };
  }
  PLIMSOLL_CHECK(matmul_scratch_bytes(problem) <= context.scratch_bytes(),
                 "matmul needs {} bytes of scratch in a bucket of {} tokens, {} are planned",
                 matmul_scratch_bytes(problem), context.bucket().tokens, context.scratch_bytes());
  args.scratch = {static_cast<std::byte*>(context.scratch().data),
                  static_cast<size_t>(context.scratch_bytes())};
  std::shared_ptr<PreparedMatmul> prepared = prepare_matmul_cpu(problem);
  return [prepared, args, flag]() mutable {
    args.accumulate = read_flag(flag);
    prepared->run(args);
  };
}

}  // namespace plimsoll
