#include "train/weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/hash.h"
#include "base/philox.h"
#include "device/cpu/parallel.h"
#include "exec/quantized_weights.h"
#include "models/model.h"

namespace plimsoll {
namespace {

// Two normal numbers from two 32-bit numbers (Box and Muller, 1958).
std::pair<double, double> normal_pair(uint32_t a, uint32_t b) {
  const double u = (static_cast<double>(a) + 0.5) / 4294967296.0;
  const double v = static_cast<double>(b) / 4294967296.0;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Elements first .. first + count - 1 of a tensor; `first` is a multiple of 4. Runs on all threads: a number
// depends on its index alone.
void fill_normal(const View& view, int64_t first, int64_t count, const RandomSite& where, double deviation) {
  constexpr int64_t kChunk = 4096;
  parallel_for((count + kChunk - 1) / kChunk, [&](int64_t chunk, int /*thread*/) {
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; i += 4) {
      const auto numbers = philox_block(where, static_cast<uint64_t>((first + i) / 4));
      const auto [a, b] = normal_pair(numbers[0], numbers[1]);
      const auto [c, d] = normal_pair(numbers[2], numbers[3]);
      const double values[4] = {a, b, c, d};
      for (int64_t k = 0; k < 4 && i + k < end; ++k) view.store(i + k, deviation * values[k]);
    }
  });
}

// Likewise, uniform between -bound and bound.
void fill_uniform(const View& view, int64_t first, int64_t count, const RandomSite& where, double bound) {
  for (int64_t i = 0; i < count; ++i) {
    const double u =
        (static_cast<double>(philox_element(where, static_cast<uint64_t>(first + i))) + 0.5) / 4294967296.0;
    view.store(i, bound * (2.0 * u - 1.0));
  }
}

// What passes through the host's memory at a time, in elements.
constexpr int64_t kPieceElements = int64_t{1} << 18;

// The same numbers, quantized part by part.
void initialise_quantized(Executor& executor, const WeightSpec& spec, const RandomSite& where, double range) {
  for (size_t i = 0; i < spec.parts.size(); ++i) {
    std::vector<float> values(static_cast<size_t>(spec.parts[i].num_rows * spec.shape[1]));
    const View view{values.data(), DType::kF32};
    fill_normal(view, spec.parts[i].first_row * spec.shape[1], std::ssize(values), where, range);
    write_quantized(executor, spec, i, view);
  }
}

void initialise(Executor& executor, const WeightSpec& spec, uint64_t seed, double range) {
  const DType dtype = executor.plan().type_of(spec.name).dtype;
  const RandomSite where{.seed = seed, .step = 0xFFFFFFFFu, .site = static_cast<uint32_t>(hash64(spec.name))};
  if (is_quantized(executor.plan(), spec.name)) return initialise_quantized(executor, spec, where, range);
  const int64_t width = spec.elements() / spec.shape[0];
  std::vector<std::byte> bytes(
      static_cast<size_t>(std::min(kPieceElements, spec.elements()) * dtype_bytes(dtype)));
  const View piece{bytes.data(), dtype};
  for (int64_t first = 0; first < spec.elements(); first += kPieceElements) {
    const int64_t count = std::min(kPieceElements, spec.elements() - first);
    if (spec.initializer == Initializer::kNormal) {
      fill_normal(piece, first, count, where, range);
    } else if (spec.initializer == Initializer::kUniform) {
      fill_uniform(piece, first, count, where, 1.0 / std::sqrt(static_cast<double>(width)));
    } else {
      const double value = spec.initializer == Initializer::kOnes ? 1.0 : 0.0;
      for (int64_t i = 0; i < count; ++i) piece.store(i, value);
    }
    for (int64_t i = 0; spec.zero_row >= 0 && i < count; ++i) {
      if ((first + i) / width == spec.zero_row) piece.store(i, 0.0);
    }
    executor.write(spec.name, first * dtype_bytes(dtype),
                   std::span(bytes).first(static_cast<size_t>(count * dtype_bytes(dtype))));
  }
}

}  // namespace

void read_stored(Executor& executor, const std::string& name, int64_t first_row, const SafetensorsFile& file,
                 const StoredTensor& tensor) {
  const DType dtype = executor.plan().type_of(name).dtype;
  const int64_t rows = tensor.num_rows();
  int64_t width = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) width *= tensor.shape[i];
  const int64_t row_bytes = width * dtype_bytes(dtype);
  const int64_t piece_rows = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, width));
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(rows, piece_rows) * row_bytes));
  for (int64_t row = 0; row < rows; row += piece_rows) {
    const int64_t count = std::min(piece_rows, rows - row);
    file.read_rows(tensor, {row, count}, {bytes.data(), dtype});
    executor.write(name, (first_row + row) * row_bytes,
                   std::span(bytes).first(static_cast<size_t>(count * row_bytes)));
  }
}

namespace {

// The tensors of the weights that `is_wanted` chooses, under their names on disk with a prefix.
template <typename IsWanted>
std::vector<WantedTensor> wanted_tensors(Executor& executor, std::string_view prefix,
                                         const IsWanted& is_wanted) {
  std::vector<WantedTensor> wanted;
  for (const WeightSpec& spec : executor.plan().weights) {
    if (!is_wanted(spec)) continue;
    for (const WeightPart& part : spec.parts) {
      std::vector<int64_t> shape = spec.shape;
      shape[0] = part.num_rows;
      std::vector<std::string> names = part.disk_names;
      for (std::string& name : names) name.insert(0, prefix);
      wanted.push_back(
          {.names = std::move(names),
           .shape = std::move(shape),
           .first_row = part.first_row,
           .read = [&executor, &spec, &part](const SafetensorsFile& file, const StoredTensor& tensor) {
             if (is_quantized(executor.plan(), spec.name)) {
               std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
               file.read(tensor, {values.data(), DType::kF32});
               const auto index = static_cast<size_t>(&part - spec.parts.data());
               return write_quantized(executor, spec, index, View{values.data(), DType::kF32});
             }
             read_stored(executor, spec.name, part.first_row, file, tensor);
           }});
    }
  }
  return wanted;
}

// Whether a weight is loaded from a model's folder where that has it.
bool comes_from_model(const WeightSpec& spec, WeightsFrom from) {
  return spec.in_model && !(spec.in_adapter && from == WeightsFrom::kModelUnderAdapter);
}

bool is_stored_whole(const WeightSpec& spec, const ModelFolder& folder) {
  return std::ranges::all_of(spec.parts, [&](const WeightPart& part) {
    for (const std::string& name : part.disk_names) {
      const StoredTensor* tensor = folder.find(name).tensor;
      if (tensor == nullptr) continue;
      std::vector<int64_t> shape = spec.shape;
      shape[0] = part.num_rows;
      return tensor->shape == shape;
    }
    return false;
  });
}

}  // namespace

void initialise_weights(Executor& executor, uint64_t seed, double range, const ModelFolder* folder,
                        WeightsFrom from) {
  for (const WeightSpec& spec : executor.plan().weights) {
    if (folder != nullptr && comes_from_model(spec, from) && is_stored_whole(spec, *folder)) continue;
    initialise(executor, spec, seed, range);
  }
}

LoadReport load_weights(Executor& executor, const ModelFolder& folder, OnShapeMismatch on_mismatch,
                        WeightsFrom from) {
  const auto wanted =
      wanted_tensors(executor, "", [&](const WeightSpec& spec) { return comes_from_model(spec, from); });
  LoadReport report =
      folder.load(wanted, {.on_mismatch = on_mismatch, .ignored_suffixes = ignored_on_disk()});
  if (from == WeightsFrom::kModelUnderAdapter) {
    // What the adapter brings in its place is not left out.
    const auto adapted =
        wanted_tensors(executor, "", [](const WeightSpec& spec) { return spec.in_model && spec.in_adapter; });
    std::erase_if(report.unused, [&](const std::string& name) {
      return std::any_of(adapted.begin(), adapted.end(), [&](const WantedTensor& tensor) {
        return std::find(tensor.names.begin(), tensor.names.end(), name) != tensor.names.end();
      });
    });
  }
  return report;
}

void load_adapter(Executor& executor, const ModelFolder& folder) {
  if (!folder.is_adapter()) {
    throw_error(
        ErrorCode::kBadData,
        "{}: it has no {}: it is a whole model and no adapter; give it as --model_name_or_path, or leave "
        "the settings of adapters out",
        folder.path(), kAdapterConfigFile);
  }
  const auto wanted =
      wanted_tensors(executor, kAdapterPrefix, [](const WeightSpec& spec) { return spec.in_adapter; });
  const LoadReport report =
      folder.load(wanted, {.on_mismatch = OnShapeMismatch::kTreatAsMissing, .ignored_suffixes = {}});
  if (!report.mismatched.empty()) {
    const ShapeMismatch& first = report.mismatched.front();
    throw_error(ErrorCode::kBadData,
                "{}: the tensor '{}' has the shape {}, this model needs {}: the adapter is of another base "
                "model, rank "
                "or number of labels; take the base that its {} names",
                folder.path(), first.stored_name, format_shape(first.found), format_shape(first.wanted),
                kAdapterConfigFile);
  }
  if (!report.missing.empty() || !report.unused.empty()) {
    const bool lacks = !report.missing.empty();
    throw_error(
        ErrorCode::kBadData,
        "{}: the tensor '{}' {}: the adapter is of another base model or has other modules than its {} says",
        folder.path(), lacks ? report.missing.front() : report.unused.front(),
        lacks ? "is missing" : "belongs to no module of this model", kAdapterConfigFile);
  }
}

void load_saved(Executor& executor, const ModelFolder& folder) {
  if (executor.plan().request.model.lora) return load_adapter(executor, folder);
  load_weights(executor, folder, OnShapeMismatch::kFail);
}

namespace {

// A tensor of a checkpoint out of a persistent buffer, `offset` bytes from its start.
TensorSource source_of(const Executor& executor, const std::string& buffer, int64_t offset, std::string name,
                       std::vector<int64_t> shape) {
  TensorSource source{
      .name = std::move(name), .dtype = executor.plan().type_of(buffer).dtype, .shape = std::move(shape)};
  if (executor.plan().is_on_gpu() || executor.plan().split_weights.contains(buffer)) {
    source.fill = [&executor, buffer, offset](int64_t from, std::span<std::byte> bytes) {
      executor.read(buffer, offset + from, bytes);
    };
  } else {
    source.data = static_cast<const std::byte*>(executor.tensor(buffer).data) + offset;
  }
  return source;
}

}  // namespace

std::vector<TensorSource> weight_tensors(const Executor& executor) {
  std::vector<TensorSource> tensors;
  const bool is_adapter = executor.plan().request.model.lora.has_value();
  for (const WeightSpec& spec : executor.plan().weights) {
    if (is_adapter && !spec.in_adapter) continue;
    const int64_t row_bytes =
        spec.elements() / spec.shape[0] * dtype_bytes(executor.plan().type_of(spec.name).dtype);
    for (const WeightPart& part : spec.parts) {
      std::vector<int64_t> shape = spec.shape;
      shape[0] = part.num_rows;
      std::string name = (is_adapter ? std::string(kAdapterPrefix) : std::string()) + part.disk_names.front();
      tensors.push_back(
          source_of(executor, spec.name, part.first_row * row_bytes, std::move(name), std::move(shape)));
    }
  }
  return tensors;
}

std::vector<TensorSource> state_tensors(const Executor& executor) {
  std::vector<TensorSource> tensors;
  for (const PersistentBuffer& buffer : executor.plan().persistent) {
    if (buffer.storage != Storage::kOptimizerState) continue;
    std::vector<int64_t> shape;
    for (const Dim& dim : buffer.type.shape.dims()) shape.push_back(dim.offset);
    tensors.push_back(source_of(executor, buffer.name, 0, buffer.name, std::move(shape)));
  }
  return tensors;
}

}  // namespace plimsoll
