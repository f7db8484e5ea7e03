#include "train/weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/hash.h"
#include "base/philox.h"
#include "device/cpu/parallel.h"

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

// What passes through the host's memory at a time, in elements.
constexpr int64_t kPieceElements = int64_t{1} << 18;

void initialise(Executor& executor, const WeightSpec& spec, uint64_t seed, double range) {
  const DType dtype = executor.plan().type_of(spec.name).dtype;
  const RandomSite where{.seed = seed, .step = 0xFFFFFFFFu, .site = static_cast<uint32_t>(hash64(spec.name))};
  const int64_t width = spec.elements() / spec.shape[0];
  std::vector<std::byte> bytes(
      static_cast<size_t>(std::min(kPieceElements, spec.elements()) * dtype_bytes(dtype)));
  const View piece{bytes.data(), dtype};
  for (int64_t first = 0; first < spec.elements(); first += kPieceElements) {
    const int64_t count = std::min(kPieceElements, spec.elements() - first);
    if (spec.initializer == Initializer::kNormal) {
      fill_normal(piece, first, count, where, range);
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

void initialise_weights(Executor& executor, uint64_t seed, double range) {
  for (const WeightSpec& spec : executor.plan().weights) initialise(executor, spec, seed, range);
}

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

LoadReport load_weights(Executor& executor, const ModelFolder& folder, OnShapeMismatch on_mismatch) {
  std::vector<WantedTensor> wanted;
  for (const WeightSpec& spec : executor.plan().weights) {
    for (const WeightPart& part : spec.parts) {
      std::vector<int64_t> shape = spec.shape;
      shape[0] = part.num_rows;
      wanted.push_back(
          {.names = part.disk_names,
           .shape = std::move(shape),
           .first_row = part.first_row,
           .read = [&executor, &spec, &part](const SafetensorsFile& file, const StoredTensor& tensor) {
             read_stored(executor, spec.name, part.first_row, file, tensor);
           }});
    }
  }
  return folder.load(wanted, {.on_mismatch = on_mismatch, .ignored_suffixes = {"position_ids"}});
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
  for (const WeightSpec& spec : executor.plan().weights) {
    const int64_t row_bytes =
        spec.elements() / spec.shape[0] * dtype_bytes(executor.plan().type_of(spec.name).dtype);
    for (const WeightPart& part : spec.parts) {
      std::vector<int64_t> shape = spec.shape;
      shape[0] = part.num_rows;
      tensors.push_back(source_of(executor, spec.name, part.first_row * row_bytes, part.disk_names.front(),
                                  std::move(shape)));
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
