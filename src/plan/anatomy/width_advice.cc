#include "plan/anatomy/width_advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/anatomy/operations.h"

namespace plimsoll {
namespace {

// What a product in 16 bits takes whose rows do not begin at multiples of 16 bytes, over one whose rows
// do: 3.1 times where they begin at whole words, 5.8 times elsewhere. Measured on an H200 in bf16 (cuBLASLt
// of CUDA 13.0): the six products of a feed-forward layer, 16384 tokens by 768, of width 3066, 3068 and 3065
// against 3072. Multiples of 8 that are none of 64 (3064) took 1.03 times, which is not worth a word.
constexpr double kTimesOfEvenRows = 3.1;
constexpr double kTimesOfOddRows = 5.8;
// A better width is not further away than this share of the width.
constexpr double kFurthest = 0.1;
// Less than this is not worth another model.
constexpr double kLeastGain = 0.01;

constexpr int64_t kElementsOf16Bytes = 8;

bool uses_tensor_cores_in_16_bits(const PlanRequest& request) {
  const DType dtype = request.activation_dtype.value_or(request.dtype);
  return request.device == KernelDevice::kCuda && (dtype == DType::kBF16 || dtype == DType::kF16);
}

// How much longer a product takes for the widths of its operands' rows.
double times_of_rows(const Graph& graph, const Op& op) {
  if (op.def->name() != "matmul") return 1.0;
  double times = 1.0;
  for (const ValueId id : {op.inputs[0], op.inputs[1], op.outputs[0]}) {
    const ValueType& type = graph.value(id).type;
    const Dim width = type.shape[type.shape.rank() - 1];
    const int64_t bytes = width.offset * dtype_bytes(type.dtype);
    if (!width.is_constant() || bytes % 16 == 0) continue;
    times = std::max(times, bytes % 4 == 0 ? kTimesOfEvenRows : kTimesOfOddRows);
  }
  return times;
}

double step_ms(const Plan& plan) {
  const ProgramPlan& program = plan.train ? *plan.train : *plan.evaluate;
  const std::vector<OpEstimate> ops = estimate_ops(plan, program);
  double ms = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    ms += times_of_rows(program.graph, program.graph.ops()[i]) * ops[i].ms *
          static_cast<double>(ops[i].runs_per_step);
  }
  return ms;
}

// The next width that is a multiple of both, or 0 where it is too far.
int64_t next_width(int64_t width, int64_t of, int64_t and_of) {
  for (int64_t next = width + 1; static_cast<double>(next - width) <= kFurthest * static_cast<double>(width);
       ++next) {
    if (next % of == 0 && next % and_of == 0) return next;
  }
  return 0;
}

}  // namespace

std::vector<WidthAdvice> width_advice(const Plan& plan) {
  const PlanRequest& request = plan.request;
  if (!uses_tensor_cores_in_16_bits(request)) return {};
  std::vector<WidthAdvice> advices;
  const auto look_at = [&](const char* name, int64_t ModelConfig::*member, int64_t divisor) {
    const int64_t width = request.model.*member;
    if (width % kElementsOf16Bytes == 0) return;
    WidthAdvice best{.name = name, .width = width};
    for (const int64_t multiple : {int64_t{64}, kElementsOf16Bytes}) {
      const int64_t better = next_width(width, multiple, divisor);
      if (better == 0) continue;
      PlanRequest changed = request;
      changed.model.*member = better;
      const double gain = step_ms(plan) / step_ms(build_plan(changed));
      if (gain > best.gain) {
        best.better = better;
        best.gain = gain;
      }
    }
    if (best.gain >= 1.0 + kLeastGain) advices.push_back(best);
  };
  look_at("hidden_size", &ModelConfig::hidden_size, request.model.num_attention_heads);
  look_at("intermediate_size", &ModelConfig::intermediate_size, 1);
  return advices;
}

std::string advice_text(const WidthAdvice& advice) {
  return fmt::format(
      "{} {} is no multiple of {}: tensor cores read rows in pieces of 16 bytes, best in multiples of 64 "
      "numbers. With {} "
      "a step would be about {:.2f} times as fast (--config_overrides {}={}, for a model that is trained "
      "from scratch)",
      advice.name, advice.width, kElementsOf16Bytes, advice.better, advice.gain, advice.name, advice.better);
}

}  // namespace plimsoll
