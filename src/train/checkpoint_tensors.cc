#include "train/weight_loading.h"

namespace plimsoll {
namespace {

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
      tensors.push_back(
          source_of(executor, spec.name, part.first_row * row_bytes, std::move(name), std::move(shape)));
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
