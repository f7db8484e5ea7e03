// Measures the matrix products of a training step of BERT-large on this card in each precision: with the algorithm that
// the library (cuBLASLt) proposes first, and with the fastest of its proposals, which a run with --tuning_cache would
// choose. It prints both times per product and their sums over the step.
//
//   gpu_matmul_bench [tokens] [precision]     default: 2048 tokens, all of fp32, tf32, tf32x3, bf16
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/check.h"
#include "device/cuda/cuda_device.h"
#include "exec/cuda/measure_products.h"
#include "exec/tuning.h"
#include "hardware/gpu_target.h"
#include "kernels/matmul/matmul_catalog.h"
#include "plan/compile/kernel_choice.h"
#include "plan/compile/plan.h"

namespace plimsoll {
namespace {

PlanRequest request_of(const std::string& precision, int64_t tokens, const CudaDeviceInfo& card) {
  PlanRequest request;
  request.model.config = *find_preset("bert-large-uncased");
  request.evaluate = false;
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = gpu_target_of(card.name, card.sm, card.num_multiprocessors, card.total_bytes);
  request.batches.train = {.tokens = tokens, .sequences = (tokens + 511) / 512, .longest = 512};
  if (precision == "bf16") request.precision.activation_dtype = DType::kBF16;
  if (precision == "tf32") request.precision.fp32_products = Fp32Products::kTf32;
  if (precision == "tf32x3") request.precision.fp32_products = Fp32Products::kTf32x3;
  return request;
}

void measure(const std::string& precision, int64_t tokens, CudaDevice& device, const CudaArena& arena) {
  const Plan plan = build_plan(request_of(precision, tokens, device.info()));
  const auto measurer = make_cuda_measurer(device, arena.data(), arena.bytes());
  // Measures each product of the plan once, at the size that it has for the largest batch.
  const double start = measurer->seconds();
  const TuningTable table = tune_products(plan, *measurer, {.seconds = 0.0, .largest_seconds = 60.0});
  const double seconds = measurer->seconds() - start;
  fmt::print("\n{}, {} tokens: {} shapes in {:.2f} s\n", precision, tokens, table.products.size(), seconds);
  fmt::print("{:<54} {:>4} {:>9} {:>9} {:>6} {:>7}  {}\n", "product", "ops", "first ms", "best ms", "gain",
             "TFLOP/s", "best");
  double first = 0;
  double best = 0;
  double flops = 0;
  for (const auto& [key, planned] :
       list_matmuls(plan.programs.at(kTrainProgram), plan.programs.at(kTrainProgram).bucket, plan.request)) {
    const TunedProduct* tuned = table.find(key);
    const auto count = static_cast<double>(planned.count);
    if (tuned == nullptr) {
      fmt::print("{:<54} {:>4} not measured\n", format_product_key(key), planned.count);
      continue;
    }
    const auto operations = static_cast<double>(matmul_flops(planned.matmul.problem));
    fmt::print("{:<54} {:>4} {:>9.4f} {:>9.4f} {:>5.1f}% {:>7.1f}  {}\n", format_product_key(key),
               planned.count, tuned->first_ms, tuned->ms, 100.0 * (1.0 - tuned->ms / tuned->first_ms),
               1e-9 * operations / tuned->ms, tuned->words);
    first += count * tuned->first_ms;
    best += count * tuned->ms;
    flops += count * operations;
  }
  fmt::print("a step: first {:.2f} ms, best {:.2f} ms ({:.1f} % less), {:.1f} TFLOP/s\n", first, best,
             100.0 * (1.0 - best / first), 1e-9 * flops / best);
}

int run(int argc, char** argv) {
  const int64_t tokens = argc > 1 ? std::atoll(argv[1]) : 2048;
  CudaDevice device(0);
  fmt::print("device {}\n", device.info().name);
  const CudaArena arena(device, int64_t{4} << 30, 0);
  for (const std::string precision : {"fp32", "tf32", "tf32x3", "bf16"}) {
    if (argc <= 2 || precision == argv[2]) measure(precision, tokens, device, arena);
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  try {
    return plimsoll::run(argc, argv);
  } catch (const plimsoll::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
