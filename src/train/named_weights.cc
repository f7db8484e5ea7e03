#include "train/named_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"
#include "exec/quantized_weights.h"
#include "io/ckpt/safetensors.h"
#include "models/freeze.h"
#include "models/lora.h"

namespace plimsoll {
namespace {

std::string describe_storage(const Plan& plan, const std::string& weight) {
  if (is_quantized(plan, weight)) {
    switch (plan.request.model.lora->base_weights) {
      case BaseWeights::kInt8:
        return "int8";
      case BaseWeights::kFp4:
        return "fp4";
      default:
        return "nf4";
    }
  }
  switch (plan.type_of(weight).dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
    default:
      return std::string(dtype_name(plan.type_of(weight).dtype));
  }
}

// Returns the number of columns of this weight's matrix in memory. If a checkpoint stores the transpose, it is the number of rows there.
int64_t columns_of(const NamedWeight& weight) {
  return weight.elements() / weight.spec->parts[weight.part].num_rows;
}

std::vector<float> transpose(std::span<const float> values, int64_t columns) {
  std::vector<float> result(values.size());
  for (int64_t i = 0; i < std::ssize(values); ++i)
    result[static_cast<size_t>(transposed_index(i, std::ssize(values) / columns, columns))] =
        values[static_cast<size_t>(i)];
  return result;
}

// Converts the values of a weight from their order in memory to their order in a checkpoint, which may store the
// transpose.
std::vector<float> as_stored(const NamedWeight& weight, std::vector<float> values) {
  return weight.spec->transposed ? transpose(values, columns_of(weight)) : std::move(values);
}

}  // namespace

int64_t NamedWeight::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::vector<NamedWeight> named_weights(const Plan& plan) {
  std::vector<NamedWeight> weights;
  for (const WeightSpec& spec : plan.weights) {
    for (size_t part = 0; part < spec.parts.size(); ++part) {
      NamedWeight weight{.name = spec.parts[part].disk_names.front(),
                         .shape = spec.shape,
                         .stored_as = describe_storage(plan, spec.name),
                         .spec = &spec,
                         .part = part};
      if (!spec.in_model) weight.name.insert(0, kAdapterPrefix);
      weight.shape.front() = spec.parts[part].num_rows;
      if (spec.transposed) std::swap(weight.shape[0], weight.shape[1]);
      weights.push_back(std::move(weight));
    }
  }
  return weights;
}

NamedWeight find_weight(const Plan& plan, std::string_view name) {
  std::vector<NamedWeight> weights = named_weights(plan);
  const auto found = std::ranges::find(weights, name, &NamedWeight::name);
  if (found != weights.end()) return std::move(*found);
  std::vector<std::string> names;
  names.reserve(weights.size());
  for (NamedWeight& weight : weights) names.push_back(std::move(weight.name));
  throw_error(ErrorCode::kUsage,
              "this model has no weight '{}'; the nearest names are {}; Trainer::weights() lists all", name,
              fmt::join(nearest_names(name, names), ", "));
}

std::vector<float> read_weight(Executor& executor, const NamedWeight& weight) {
  std::vector<float> values(static_cast<size_t>(weight.elements()));
  const View out{values.data(), DType::kF32};
  if (is_quantized(executor.plan(), weight.spec->name)) {
    read_quantized(executor, *weight.spec, weight.part, out);
    return as_stored(weight, std::move(values));
  }
  const DType dtype = executor.plan().type_of(weight.spec->name).dtype;
  const int64_t first = weight.spec->parts[weight.part].first_row * columns_of(weight);
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  executor.read(weight.spec->name, first * dtype_bytes(dtype), bytes);
  const View stored{bytes.data(), dtype};
  for (int64_t i = 0; i < weight.elements(); ++i) out.store(i, stored.load(i));
  return as_stored(weight, std::move(values));
}

void write_weight(Executor& executor, const NamedWeight& weight, std::span<const float> given) {
  if (std::ssize(given) != weight.elements()) {
    throw_error(ErrorCode::kUsage,
                "write_weight('{}'): {} given, but its shape [{}] has {}; give one value per element",
                weight.name, counted(given.size(), "value"), fmt::join(weight.shape, ", "),
                weight.elements());
  }
  // In a checkpoint the matrix is transposed: the rows in the file are the columns of the matrix in memory.
  const std::vector<float> transposed = weight.spec->transposed
                                            ? transpose(given, weight.spec->parts[weight.part].num_rows)
                                            : std::vector<float>();
  const std::span<const float> values = weight.spec->transposed ? transposed : given;
  const auto require_finite = [&](int64_t i, double value) {
    if (std::isfinite(value)) return;
    throw_error(ErrorCode::kUsage,
                "write_weight('{}'): value {} (from 0), {}, is not finite as {}; nothing was written",
                weight.name,
                weight.spec->transposed
                    ? transposed_index(i, weight.elements() / columns_of(weight), columns_of(weight))
                    : i,
                values[static_cast<size_t>(i)], weight.stored_as);
  };
  if (is_quantized(executor.plan(), weight.spec->name)) {
    for (int64_t i = 0; i < weight.elements(); ++i)
      require_finite(i, static_cast<double>(values[static_cast<size_t>(i)]));
    std::vector<float> copy(values.begin(), values.end());
    write_quantized(executor, *weight.spec, weight.part, View{copy.data(), DType::kF32});
    return;
  }
  const DType dtype = executor.plan().type_of(weight.spec->name).dtype;
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  const View stored{bytes.data(), dtype};
  for (int64_t i = 0; i < weight.elements(); ++i) {
    stored.store(i, static_cast<double>(values[static_cast<size_t>(i)]));
    require_finite(i, stored.load(i));
  }
  const int64_t first = weight.spec->parts[weight.part].first_row * columns_of(weight);
  executor.write(weight.spec->name, first * dtype_bytes(dtype), bytes);
}

}  // namespace plimsoll
