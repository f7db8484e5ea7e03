#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "base/check.h"
#include "train/weight_loading.h"

namespace plimsoll {
namespace {

// Returns the buffer with this name. If this rank does not have it, returns the description of the buffer on another pipeline stage.
const PersistentBuffer& buffer_of_any_stage(const Plan& plan, const std::string& name) {
  if (!plan.is_pipelined() || plan.persistent_by_name.contains(name)) return plan.buffer(name);
  const PersistentBuffer* buffer = plan.tensor_of_stages(name);
  PLIMSOLL_CHECK(buffer != nullptr, "no stage of the pipeline has the tensor '{}'", name);
  return *buffer;
}

// Returns true if the buffer satisfies the condition. An fp32 weight that is stored in two buffers (its 16-bit copy and the remainder)
// satisfies the condition if one of the two buffers does.
template <typename Condition>
bool holds_for(const Plan& plan, const std::string& buffer, const Condition& condition) {
  const int64_t owner = plan.owner_of(buffer);
  const auto& split_weights =
      owner < 0 ? plan.split_weights : plan.stages[static_cast<size_t>(owner)].split_weights;
  const auto split = split_weights.find(buffer);
  if (split == split_weights.end()) return condition(buffer_of_any_stage(plan, buffer));
  return condition(buffer_of_any_stage(plan, split->second.high)) ||
         condition(buffer_of_any_stage(plan, split->second.remainder));
}

// Returns true if each rank stores one contiguous slice of the buffer. Ranks of pipeline stages without the buffer have empty slices.
bool has_slices(const Plan& plan, const std::string& name) {
  if (plan.is_pipelined())
    return !holds_for(plan, name,
                      [](const PersistentBuffer& buffer) { return static_cast<bool>(buffer.split); });
  return holds_for(plan, name,
                   [](const PersistentBuffer& buffer) { return buffer.divided && !buffer.split; });
}

// Returns true if this rank stores only a part of the buffer, so that reading all of it requires an exchange between ranks.
bool is_divided(const Plan& plan, const std::string& name) {
  if (plan.is_pipelined()) return true;
  return holds_for(plan, name, [](const PersistentBuffer& buffer) { return !buffer.is_whole(); });
}

// Returns true if a buffer is in a file on a disk and thus has no address.
bool is_on_disk(const Plan& plan, const std::string& name) {
  return holds_for(plan, name, [](const PersistentBuffer& buffer) { return buffer.space == Space::kDisk; });
}

// Provides the transpose of a matrix in a buffer piece by piece. The rows of the transpose are columns of the matrix.
// On a CPU, only some columns are copied at a time, so that saving stays within the planned memory. If each read of the
// matrix is expensive (a copy by the GPU driver, an exchange between ranks, or a transfer from a disk), the whole
// matrix is read at once.
class TransposedMatrix {
 public:
  TransposedMatrix(Executor& executor, std::string buffer, int64_t offset, const std::vector<int64_t>& shape,
                   int64_t element_bytes)
      : executor_(executor),
        buffer_(std::move(buffer)),
        offset_(offset),
        rows_(shape[0]),
        columns_(shape[1]),
        width_(element_bytes) {}

  void fill(int64_t from, std::span<std::byte> bytes) {
    for (int64_t at = 0; at < std::ssize(bytes); at += width_) {
      const int64_t element = (from + at) / width_;
      const int64_t column = element / rows_;
      if (column < first_ || column >= first_ + count_) read_columns(column);
      std::memcpy(bytes.data() + at, window_.data() + (element % rows_ * count_ + column - first_) * width_,
                  static_cast<size_t>(width_));
    }
    if (from + std::ssize(bytes) < rows_ * columns_ * width_) return;
    std::vector<std::byte>().swap(window_);
    count_ = 0;
  }

 private:
  void read_columns(int64_t first) {
    constexpr int64_t kColumnsOnCpu = 16;
    first_ = first;
    count_ = reads_at_once() ? columns_ : std::min(kColumnsOnCpu, columns_ - first);
    window_.resize(static_cast<size_t>(rows_ * count_ * width_));
    if (count_ == columns_) return executor_.read(buffer_, offset_, window_);
    const auto run = static_cast<size_t>(count_ * width_);
    for (int64_t row = 0; row < rows_; ++row) {
      executor_.read(buffer_, offset_ + (row * columns_ + first) * width_,
                     std::span(window_).subspan(static_cast<size_t>(row) * run, run));
    }
  }

  bool reads_at_once() const {
    const Plan& plan = executor_.plan();
    return plan.is_on_gpu() || is_divided(plan, buffer_) || is_on_disk(plan, buffer_);
  }

  Executor& executor_;
  std::string buffer_;
  int64_t offset_;
  int64_t rows_, columns_, width_;
  int64_t first_ = 0, count_ = 0;  // index of the first column in window_, and number of columns in it
  std::vector<std::byte> window_;
};

// Returns a tensor of a checkpoint whose values are read from a persistent buffer, beginning `offset` bytes after its start.
TensorSource source_of(Executor& executor, const std::string& buffer, int64_t offset, std::string name,
                       std::vector<int64_t> shape) {
  TensorSource source{
      .name = std::move(name), .dtype = executor.plan().type_of(buffer).dtype, .shape = std::move(shape)};
  const bool divided = is_divided(executor.plan(), buffer);
  if (executor.plan().is_on_gpu() || executor.plan().split_weights.contains(buffer) || divided ||
      is_on_disk(executor.plan(), buffer)) {
    source.fill = [&executor, buffer, offset](int64_t from, std::span<std::byte> bytes) {
      executor.read(buffer, offset + from, bytes);
    };
  } else {
    source.data = static_cast<const std::byte*>(executor.tensor(buffer).data) + offset;
  }
  // If the ranks of a tensor-parallel group divide a weight, the part of a rank is not contiguous in the file. The ranks then exchange the
  // values while they save the tensor.
  source.is_exchanged = divided && !has_slices(executor.plan(), buffer);
  if (divided && !source.is_exchanged) {
    const Executor::OwnBytes own = executor.own_bytes(buffer);
    const int64_t size = source.size_bytes();
    const int64_t begin = std::clamp<int64_t>(own.begin - offset, 0, size);
    source.own =
        TensorSource::OwnBytes{.begin = begin,
                               .end = std::clamp<int64_t>(own.end - offset, begin, size),
                               .fill = [&executor, buffer, offset](int64_t from, std::span<std::byte> bytes) {
                                 executor.read_own(buffer, offset + from, bytes);
                               }};
  }
  return source;
}

}  // namespace

void append_copies(const WeightPart& part, const TensorSource& source, std::vector<TensorSource>& tensors) {
  for (const std::string& name : part.copies) {
    tensors.push_back(source);
    tensors.back().name = name;
  }
}

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
        source.is_exchanged = is_divided(executor.plan(), spec.name);
        source.own.reset();
        source.fill = [matrix = std::make_shared<TransposedMatrix>(executor, spec.name, offset, source.shape,
                                                                   dtype_bytes(source.dtype))](
                          int64_t from, std::span<std::byte> bytes) { matrix->fill(from, bytes); };
        std::swap(source.shape[0], source.shape[1]);
      }
      if (!is_adapter) append_copies(part, source, tensors);
      tensors.push_back(std::move(source));
    }
  }
  return tensors;
}

std::vector<TensorSource> state_tensors(Executor& executor) {
  std::vector<TensorSource> tensors;
  for (const std::string& name : executor.plan().state_names()) {
    const ValueType type = executor.plan().type_of(name);
    std::vector<int64_t> shape;
    for (const Dim& dim : type.shape.dims()) shape.push_back(dim.offset);
    tensors.push_back(source_of(executor, name, 0, name, std::move(shape)));
  }
  return tensors;
}

}  // namespace plimsoll
