#include "exec/quantized_weights.h"

#include <algorithm>
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

}  // namespace

bool is_quantized(const Plan& plan, const std::string& weight) {
  return plan.request.model.lora && plan.request.model.lora->base_weights != BaseWeights::kAsLoaded &&
         plan.type_of(weight).dtype == DType::kU8;
}

namespace {

// The range of quantization units that contains the rows of one part of a fused weight (for example the query part of a matrix for query,
// key and value). A unit is a group of rows that is quantized separately.
struct PartUnits {
  PartUnits(const WeightSpec& spec, size_t part)
      : rows_per_unit(spec.rows_per_unit()),
        first(spec.parts[part].first_row / rows_per_unit),
        count(spec.parts[part].num_rows / rows_per_unit) {}
  int64_t rows_per_unit;
  int64_t first;
  int64_t count;
};

// The arrays of a quantized weight (codes, scales and offsets), for some of its quantization units.
struct QuantizedUnits {
  QuantizedUnits(const Plan& plan, const WeightSpec& spec, int64_t units)
      : is_double(plan.request.model.lora->double_quant && format_of(plan) != QuantizedFormat::kInt8),
        rows(units * spec.rows_per_unit()) {
    const QuantizedSizes sizes =
        quantized_sizes(format_of(plan), is_double ? ScaleQuantization::kDouble : ScaleQuantization::kNone,
                        rows, spec.shape[1], units);
    const auto bytes = [](int64_t count, int64_t width) {
      return std::vector<std::byte>(static_cast<size_t>(count * width));
    };
    codes = bytes(sizes.codes, 1);
    scales = bytes(sizes.scales, is_double ? 1 : 4);
    second = bytes(sizes.second_scales, 4);
    offsets = bytes(sizes.offsets, 4);
  }
  DType scale_type() const { return is_double ? DType::kU8 : DType::kF32; }

  bool is_double;
  int64_t rows;
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  std::vector<std::byte> second;
  std::vector<std::byte> offsets;  // one fp32 number per unit
};

// Quantizes all rows of `stored` together. If the scales are quantized with an offset, this offset is stored for the first unit only.
void quantize_as_one(const Plan& plan, const WeightSpec& spec, ConstView values, QuantizedUnits& stored) {
  quantize_weight({.w = values,
                   .codes = {stored.codes.data(), DType::kU8},
                   .scales = {stored.scales.data(), stored.scale_type()},
                   .second_scales = {stored.second.data(), DType::kF32},
                   .offset = {stored.offsets.data(), DType::kF32},
                   .rows = stored.rows,
                   .columns = spec.shape[1],
                   .format = format_of(plan)});
}

// Writes `units` quantization units from `stored` into the buffers of the weight, starting at unit number `first` of the weight.
void write_units(Executor& executor, const WeightSpec& spec, int64_t first, int64_t units,
                 const QuantizedUnits& stored) {
  const auto write = [&](const std::string& array, const std::vector<std::byte>& bytes) {
    executor.write(array, first * (std::ssize(bytes) / units), bytes);
  };
  write(spec.name, stored.codes);
  write(scales_name(spec.name), stored.scales);
  if (!stored.is_double) return;
  write(second_scales_name(spec.name), stored.second);
  write(offsets_name(spec.name), stored.offsets);
}

}  // namespace

void write_quantized(Executor& executor, const WeightSpec& spec, size_t part, ConstView values) {
  const Plan& plan = executor.plan();
  const PartUnits part_units(spec, part);
  const int64_t elements = part_units.rows_per_unit * spec.shape[1];
  const int64_t block = format_of(plan) == QuantizedFormat::kInt8 ? 1 : kQuantizationBlock * kScaleBlock;
  if (part_units.count == 1 || elements % block == 0) {
    // The values are stored in units (rows that are quantized together). If there is only one unit, or if every unit ends at the end of a
    // quantization block, all values can be quantized at once, as bitsandbytes does. The quantization of the scales then has a single
    // offset (their mean), which is copied to every unit.
    QuantizedUnits stored(plan, spec, part_units.count);
    quantize_as_one(plan, spec, values, stored);
    for (size_t at = 4; at < stored.offsets.size(); at += 4)
      std::copy_n(stored.offsets.begin(), 4, stored.offsets.begin() + static_cast<std::ptrdiff_t>(at));
    write_units(executor, spec, part_units.first, part_units.count, stored);
    return;
  }
  // Quantization blocks would cross the boundaries between the parts of a weight that are quantized separately (units), so each unit is
  // quantized alone.
  for (int64_t unit = 0; unit < part_units.count; ++unit) {
    QuantizedUnits stored(plan, spec, 1);
    const auto* bytes =
        static_cast<const std::byte*>(values.data) + unit * elements * dtype_bytes(values.dtype);
    quantize_as_one(plan, spec, {bytes, values.dtype}, stored);
    write_units(executor, spec, part_units.first + unit, 1, stored);
  }
}

void read_quantized(Executor& executor, const WeightSpec& spec, size_t part, View values) {
  const PartUnits part_units(spec, part);
  QuantizedUnits stored(executor.plan(), spec, part_units.count);
  const auto read = [&](const std::string& array, std::vector<std::byte>& bytes) {
    executor.read(array, part_units.first * (std::ssize(bytes) / part_units.count), bytes);
  };
  read(spec.name, stored.codes);
  read(scales_name(spec.name), stored.scales);
  DequantizeArgs args{.codes = {stored.codes.data(), DType::kU8},
                      .scales = {stored.scales.data(), stored.scale_type()},
                      .second_scales = {},
                      .offsets = {},
                      .w = values,
                      .rows = stored.rows,
                      .columns = spec.shape[1],
                      .parts = part_units.count,
                      .format = format_of(executor.plan())};
  if (stored.is_double) {
    read(second_scales_name(spec.name), stored.second);
    read(offsets_name(spec.name), stored.offsets);
    args.second_scales = {stored.second.data(), DType::kF32};
    args.offsets = {stored.offsets.data(), DType::kF32};
  }
  dequantize_ref(args);
}

}  // namespace plimsoll
