#include "plan/anatomy/anatomy.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph/ops/ops.h"
#include "plan/anatomy/operations.h"

namespace plimsoll {
namespace {

// Tensor cores read rows in groups of 16 bytes. If the rows of a matrix do not begin at multiples of 16 bytes, the matrix product takes
// longer by these factors. In 16 bits the factor is 3.1 if rows begin at multiples of 4 bytes and 5.8 otherwise. This was measured on an
// H200 in bf16 (cuBLASLt of CUDA 13.0) for the six products of a feed-forward layer, with 16384 tokens, hidden size 768, and widths 3066
// and 3065 compared with 3072. In tf32 the factor is 2.5 if rows begin at multiples of 8 bytes and 2.7 otherwise, measured in the same
// way on an H100.
constexpr int64_t kPieceBytes = 16;
struct Slowdown {
  double even_rows;
  double odd_rows;
};
constexpr Slowdown kIn16Bits{.even_rows = 3.1, .odd_rows = 5.8};
constexpr Slowdown kInTf32{.even_rows = 2.5, .odd_rows = 2.7};

// The caches of data-center GPUs are filled in lines of 128 bytes. A matrix product takes longer by the factor kTimesOfAMatrix for each of
// its three matrices whose rows do not begin at multiples of 128 bytes. Measured on an H100 (2026-11-25, cuBLAS of CUDA 13.0, 16384 tokens,
// medians of 9 rounds, twice) as the FLOP/s at the next multiple divided by the FLOP/s at the width itself. Of the three matrices of a
// product in a feed-forward layer, 1.5 on average have such rows: the ratio was 1.005 to 1.09 in bf16 for hidden size 768 (widths 3064 to
// 3128), 1.02 to 1.035 for hidden size 1024 (widths 4088 to 4152), and 1.00 to 1.06 in tf32. In layers of hidden size 1016 to 1080 all
// three matrices have such rows: the ratio was 1.03 to 1.06 in bf16 and 1.06 to 1.11 in tf32. On an H200 in bf16, width 3064 took 1.03
// times as long.
constexpr int64_t kLineBytes = 128;
constexpr double kTimesOfAMatrix = 1.02;

// The proposed width may exceed the current one by at most this fraction of the current one.
constexpr double kFurthest = 0.1;
// Gains below this are not reported, because the text would round them to zero.
constexpr double kLeastGain = 0.001;

bool is_tf32(const PlanRequest& request) {
  return request.precision.dtype == DType::kF32 && !request.precision.activation_dtype &&
         request.precision.fp32_products == Fp32Products::kTf32;
}

// Returns the number of bytes per element of the matrices that tensor cores multiply. Returns nothing if the plan does not use tensor
// cores, or computes with tf32x3, which represents each number by two tf32 numbers.
std::optional<int64_t> number_bytes(const PlanRequest& request) {
  if (request.device.kind != KernelDevice::kCuda) return std::nullopt;
  const DType dtype = request.precision.activation_dtype.value_or(request.precision.dtype);
  if (dtype != DType::kBF16 && dtype != DType::kF16 && !is_tf32(request)) return std::nullopt;
  return dtype_bytes(dtype);
}

// Returns true for GPUs on which matrix products are faster if rows begin at multiples of 128 bytes, the size of a cache line. NVIDIA's
// guide to matrix multiplication recommends multiples of 128 bytes for the A100; H100 and H200 were measured.
bool reads_lines(const GpuTarget& gpu) {
  return gpu.sm == 80 || gpu.sm == 90 || (gpu.sm >= 100 && gpu.sm < 110);
}

// linear_add has its two factors and its result at the same operand positions as matmul, so both can be read in the same way.
static_assert(int{LinearAddOp::kX} == int{MatmulOp::kA} && int{LinearAddOp::kW} == int{MatmulOp::kB} &&
              int{LinearAddOp::kY} == int{MatmulOp::kC});
bool is_product(const Op& op) {
  return op.def == &matmul_op() || op.def == &linear_add_op();
}

// Returns the factor by which a matrix product takes longer because of the row widths of its matrices.
double times_of_rows(const Graph& graph, const Op& op, const PlanRequest& request) {
  if (!is_product(op)) return 1.0;
  double pieces = 1.0;
  double lines = 1.0;
  for (const ValueId id : {op.inputs[MatmulOp::kA], op.inputs[MatmulOp::kB], op.outputs[MatmulOp::kC]}) {
    const ValueType& type = graph.value(id).type;
    const Dim width = type.shape[type.shape.rank() - 1];
    const int64_t size = dtype_bytes(type.dtype);
    const int64_t bytes = width.offset * size;
    if (!width.is_constant() || bytes % kLineBytes == 0) continue;
    if (bytes % kPieceBytes == 0) {
      if (reads_lines(request.device.gpu)) lines *= kTimesOfAMatrix;
      continue;
    }
    const Slowdown& slowdown = size == 2 ? kIn16Bits : kInTf32;
    pieces = std::max(pieces, bytes % (2 * size) == 0 ? slowdown.even_rows : slowdown.odd_rows);
  }
  return std::max(pieces, lines);
}

double step_ms(const Plan& plan) {
  const ProgramPlan& program = plan.programs.first();
  const std::vector<OpEstimate> ops = estimate_ops(plan, program);
  double ms = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    ms += times_of_rows(program.graph, program.graph.ops()[i], plan.request) * ops[i].ms *
          static_cast<double>(ops[i].runs_per_step);
  }
  return ms;
}

// Returns the estimated step time of the model with another width. Returns nothing if no kernel supports that width.
std::optional<double> other_step_ms(PlanRequest request, int64_t ModelConfig::*member, int64_t width) {
  request.model.config.*member = width;
  // For a run that trains, only training steps are compared, so the evaluation program is not planned.
  if (request.train) request.evaluate = false;
  try {
    return step_ms(build_plan(request));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return std::nullopt;
  }
}

// Returns the next larger width that is a multiple of `of` and of `and_of`, or 0 if it exceeds `width` by more than the share kFurthest.
int64_t next_width(int64_t width, int64_t of, int64_t and_of) {
  for (int64_t next = width + 1; static_cast<double>(next - width) <= kFurthest * static_cast<double>(width);
       ++next) {
    if (next % of == 0 && next % and_of == 0) return next;
  }
  return 0;
}

std::string numbers_of(const PlanRequest& request) {
  if (is_tf32(request)) return "tf32";
  return request.precision.activation_dtype.value_or(request.precision.dtype) == DType::kF16 ? "fp16"
                                                                                             : "bf16";
}

}  // namespace

std::vector<WidthAdvice> width_advice(const Plan& plan) {
  const PlanRequest& request = plan.request;
  const std::optional<int64_t> size = number_bytes(request);
  if (!size) return {};
  const int64_t piece = kPieceBytes / *size;
  const int64_t line = kLineBytes / *size;
  std::vector<WidthAdvice> advices;
  double now_ms = 0;
  const auto look_at = [&](const char* name, int64_t ModelConfig::*member, int64_t divisor) {
    const int64_t width = request.model.config.*member;
    const bool is_ragged = width % piece != 0;
    if (!is_ragged && (width % line == 0 || !reads_lines(request.device.gpu))) return;
    if (now_ms == 0) now_ms = step_ms(plan);
    WidthAdvice best{
        .name = name, .numbers = numbers_of(request), .width = width, .multiple = is_ragged ? piece : line};
    for (const int64_t multiple : {line, piece}) {
      const int64_t better = next_width(width, multiple, divisor);
      if (better == 0 || (multiple == piece && !is_ragged)) continue;
      const std::optional<double> ms = other_step_ms(request, member, better);
      if (!ms || now_ms / *ms <= best.gain) continue;
      best.better = better;
      best.gain = now_ms / *ms;
    }
    if (best.gain >= 1.0 + kLeastGain) advices.push_back(best);
  };
  look_at("hidden_size", &ModelConfig::hidden_size, request.model.config.num_attention_heads);
  look_at("intermediate_size", &ModelConfig::intermediate_size, 1);
  return advices;
}

std::string describe_batch_shape(const PlanRequest& request) {
  const DType dtype = request.precision.activation_dtype.value_or(request.precision.dtype);
  if (!request.train || (dtype != DType::kBF16 && dtype != DType::kF16 && !is_tf32(request))) return "";
  const Bucket& batch = request.batches.train;
  const bool has_one_length = batch.tokens == batch.sequences * batch.longest;
  std::string odd;
  if (batch.sequences % 8 != 0) odd = fmt::format("a batch of {}", batch.sequences);
  if (has_one_length && batch.longest % 8 != 0)
    odd += fmt::format("{}a length of {}", odd.empty() ? "" : " and ", batch.longest);
  if (odd.empty()) return "";
  return odd +
         ": this is not a multiple of 8, and need not be. Sequences are stored end to end without padding, "
         "so every matrix product has one row per token, and only the widths of the model determine how fast "
         "rows are read";
}

std::string format_advice(const WidthAdvice& advice) {
  const bool is_line = advice.multiple % 32 == 0;
  const std::string why =
      is_line ? fmt::format("in {} this GPU reads rows fastest if their length is a multiple of 128 bytes",
                            advice.numbers)
              : fmt::format("in {} tensor cores read rows in groups of 16 bytes", advice.numbers);
  const std::string gain = advice.gain < 1.1 ? fmt::format("{:.1f} % faster", 100.0 * (advice.gain - 1.0))
                                             : fmt::format("{:.2f} times as fast", advice.gain);
  return fmt::format(
      "{} {} is not a multiple of {}: {}. With {} a step would be about {} according to the estimate of the "
      "plan (--config_overrides {}={}, for a model that is trained from scratch)",
      advice.name, advice.width, advice.multiple, why, advice.better, gain, advice.name, advice.better);
}

}  // namespace plimsoll
