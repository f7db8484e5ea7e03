#include "exec/cuda/bind_cuda.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {

std::function<void()> bind_matmul_cuda(const BindContext& context, CudaStream stream) {
  if (context.op().def->name() != "matmul") return {};
  const Fp32Products fp32 = context.request().tf32 ? Fp32Products::kTf32 : Fp32Products::kF32;
  std::shared_ptr<CudaMatmul> matmul = prepare_matmul_cuda(matmul_problem(context), fp32);
  return [matmul, args = matmul_args(context), flag = accumulate_of(context), stream] {
    matmul->run(args, flag, stream);
  };
}

}  // namespace plimsoll
