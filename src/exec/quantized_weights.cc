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

// Writes the elements of an array that belong to one part. All parts have the same number of elements in an array.
void write_share(Executor& executor, const std::string& array, size_t part,
                 const std::vector<std::byte>& bytes) {
  executor.write(array, static_cast<int64_t>(part * bytes.size()), bytes);
}

}  // namespace

bool is_quantized(const Plan& plan, const std::string& weight) {
  return plan.request.model.lora && plan.request.model.lora->base_weights != BaseWeights::kAsLoaded &&
         plan.type_of(weight).dtype == DType::kU8;
}

namespace {

// The stored arrays of one part of a weight.
struct QuantizedPart {
  QuantizedPart(const Plan& plan, const WeightSpec& spec, size_t part)
      : is_double(plan.request.model.lora->double_quant && format_of(plan) != QuantizedFormat::kInt8),
        rows(spec.parts[part].num_rows) {
    const QuantizedSizes sizes =
        quantized_sizes(format_of(plan), is_double ? ScaleQuantization::kDouble : ScaleQuantization::kNone,
                        rows, spec.shape[1], 1);
    const auto bytes = [](int64_t count, int64_t width) {
      return std::vector<std::byte>(static_cast<size_t>(count * width));
    };
    codes = bytes(sizes.codes, 1);
    scales = bytes(sizes.scales, is_double ? 1 : 4);
    second = bytes(sizes.second_scales, 4);
    offset = bytes(sizes.offsets, 4);
  }
  DType scale_type() const { return is_double ? DType::kU8 : DType::kF32; }

  bool is_double;
  int64_t rows;
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  std::vector<std::byte> second;
  std::vector<std::byte> offset;
};

}  // namespace

void write_quantized(Executor& executor, const WeightSpec& spec, size_t part, ConstView values) {
  QuantizedPart stored(executor.plan(), spec, part);
  quantize_weight({.w = values,
                   .codes = {stored.codes.data(), DType::kU8},
                   .scales = {stored.scales.data(), stored.scale_type()},
                   .second_scales = {stored.second.data(), DType::kF32},
                   .offset = {stored.offset.data(), DType::kF32},
                   .rows = stored.rows,
                   .columns = spec.shape[1],
                   .format = format_of(executor.plan())});
  write_share(executor, spec.name, part, stored.codes);
  write_share(executor, scales_name(spec.name), part, stored.scales);
  if (!stored.is_double) return;
  write_share(executor, second_scales_name(spec.name), part, stored.second);
  write_share(executor, offsets_name(spec.name), part, stored.offset);
}

void read_quantized(Executor& executor, const WeightSpec& spec, size_t part, View values) {
  QuantizedPart stored(executor.plan(), spec, part);
  const auto read_share = [&](const std::string& array, std::vector<std::byte>& bytes) {
    executor.read(array, static_cast<int64_t>(part * bytes.size()), bytes);
  };
  read_share(spec.name, stored.codes);
  read_share(scales_name(spec.name), stored.scales);
  DequantizeArgs args{.codes = {stored.codes.data(), DType::kU8},
                      .scales = {stored.scales.data(), stored.scale_type()},
                      .second_scales = {},
                      .offsets = {},
                      .w = values,
                      .rows = stored.rows,
                      .columns = spec.shape[1],
                      .format = format_of(executor.plan())};
  if (stored.is_double) {
    read_share(second_scales_name(spec.name), stored.second);
    read_share(offsets_name(spec.name), stored.offset);
    args.second_scales = {stored.second.data(), DType::kF32};
    args.offsets = {stored.offset.data(), DType::kF32};
  }
  dequantize_ref(args);
}

}  // namespace plimsoll
