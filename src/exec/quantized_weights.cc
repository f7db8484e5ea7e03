#include "exec/quantized_weights.h"

#include <vector>

#include "graph/ops/dequantize.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll {
namespace {

QuantizedFormat format_of(const Plan& plan) {
  const BaseWeights held = plan.request.model.lora->base_weights;
  return held == BaseWeights::kInt8  ? QuantizedFormat::kInt8
         : held == BaseWeights::kFp4 ? QuantizedFormat::kFp4
                                     : QuantizedFormat::kNf4;
}

// Writes the part's share of an array. All parts have shares of the same size.
void write_share(Executor& executor, const std::string& array, size_t part,
                 const std::vector<std::byte>& bytes) {
  executor.write(array, static_cast<int64_t>(part * bytes.size()), bytes);
}

}  // namespace

bool is_quantized(const Plan& plan, const std::string& weight) {
  return plan.request.model.lora && plan.request.model.lora->base_weights != BaseWeights::kAsLoaded &&
         plan.type_of(weight).dtype == DType::kU8;
}

void write_quantized(Executor& executor, const WeightSpec& spec, size_t part, ConstView values) {
  const bool twice = executor.plan().request.model.lora->double_quant &&
                     format_of(executor.plan()) != QuantizedFormat::kInt8;
  const int64_t rows = spec.parts[part].num_rows;
  const QuantizedSizes sizes =
      quantized_sizes(format_of(executor.plan()),
                      twice ? ScaleQuantization::kDouble : ScaleQuantization::kNone, rows, spec.shape[1], 1);
  const auto bytes = [](int64_t count, int64_t width) {
    return std::vector<std::byte>(static_cast<size_t>(count * width));
  };
  std::vector<std::byte> codes = bytes(sizes.codes, 1);
  std::vector<std::byte> scales = bytes(sizes.scales, twice ? 1 : 4);
  std::vector<std::byte> second = bytes(sizes.second_scales, 4);
  std::vector<std::byte> offset = bytes(sizes.offsets, 4);
  quantize_weight({.w = values,
                   .codes = {codes.data(), DType::kU8},
                   .scales = {scales.data(), twice ? DType::kU8 : DType::kF32},
                   .second_scales = {second.data(), DType::kF32},
                   .offset = {offset.data(), DType::kF32},
                   .rows = rows,
                   .columns = spec.shape[1],
                   .format = format_of(executor.plan())});
  write_share(executor, spec.name, part, codes);
  write_share(executor, scales_name(spec.name), part, scales);
  if (!twice) return;
  write_share(executor, second_scales_name(spec.name), part, second);
  write_share(executor, offsets_name(spec.name), part, offset);
}

}  // namespace plimsoll
