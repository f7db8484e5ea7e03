#include "train/weight_loading.h"

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

namespace plimsoll {
namespace {

// Provides the transpose of a matrix of a buffer piece by piece. The matrix is held in memory from the first piece to the
// last.
std::function<void(int64_t, std::span<std::byte>)> transposed_bytes(Executor& executor,
                                                                    const std::string& buffer, int64_t offset,
                                                                    int64_t rows, int64_t columns,
                                                                    int64_t width) {
  return [=, &executor, matrix = std::make_shared<std::vector<std::byte>>()](int64_t from,
                                                                             std::span<std::byte> bytes) {
    if (matrix->empty()) {
      matrix->resize(static_cast<size_t>(rows * columns * width));
      executor.read(buffer, offset, *matrix);
    }
    for (int64_t at = 0; at < std::ssize(bytes); at += width) {
      const int64_t element = (from + at) / width;
      const int64_t row = element % rows;
      const int64_t column = element / rows;
      std::memcpy(bytes.data() + at, matrix->data() + (row * columns + column) * width,
                  static_cast<size_t>(width));
    }
    if (from + std::ssize(bytes) == std::ssize(*matrix)) std::vector<std::byte>().swap(*matrix);
  };
}

// Returns a tensor of a checkpoint that is stored in a persistent buffer, `offset` bytes from its start.
TensorSource source_of(Executor& executor, const std::string& buffer, int64_t offset, std::string name,
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

std::vector<TensorSource> weight_tensors(Executor& executor) {
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
      const int64_t offset = part.first_row * row_bytes;
      TensorSource source = source_of(executor, spec.name, offset, std::move(name), std::move(shape));
      if (spec.transposed) {
        source.data = nullptr;
        source.fill = transposed_bytes(executor, spec.name, offset, source.shape[0], source.shape[1],
                                       dtype_bytes(source.dtype));
        std::swap(source.shape[0], source.shape[1]);
      }
      tensors.push_back(std::move(source));
    }
  }
  return tensors;
}

std::vector<TensorSource> state_tensors(Executor& executor) {
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
