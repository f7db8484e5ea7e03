#include "plan/compile/checkpoint_share.h"

#include <algorithm>
#include <optional>

namespace plimsoll {
namespace {

// The bytes of a tensor in a checkpoint, and the bytes of one rank's slice if the ranks divide the tensor.
struct StoredBytes {
  int64_t whole = 0;
  std::optional<int64_t> slice = {};
};

StoredBytes stored_bytes(const PersistentBuffer& buffer) {
  const int64_t width = dtype_bytes(buffer.type.dtype);
  StoredBytes bytes{.whole = buffer.whole_elements() * width};
  // The part of a value that a tensor-parallel rank stores is not contiguous in the file. Therefore all ranks write equal shares of such a
  // value, and not the parts that they store.
  if (buffer.divided && !buffer.split) bytes.slice = buffer.divided->size(buffer.whole_elements()) * width;
  return bytes;
}

StoredBytes stored_bytes(const Plan& plan, const std::string& weight) {
  const auto split = plan.split_weights.find(weight);
  if (split == plan.split_weights.end()) return stored_bytes(plan.buffer(weight));
  // A split weight is stored as two halves, each with half of the bytes of the fp32 weight.
  const StoredBytes high = stored_bytes(plan.buffer(split->second.high));
  const StoredBytes low = stored_bytes(plan.buffer(split->second.remainder));
  StoredBytes bytes{.whole = high.whole + low.whole};
  if (high.slice || low.slice)
    bytes.slice = 2 * std::min(high.slice.value_or(high.whole), low.slice.value_or(low.whole));
  return bytes;
}

// Returns the bytes of a tensor that a rank of a pipeline writes: only the ranks of the stage that stores the tensor write it.
StoredBytes stored_bytes_in_stages(const Plan& plan, const std::string& name) {
  const ValueType type = plan.type_of(name);
  const int64_t width = dtype_bytes(type.dtype), elements = type.shape.elements({});
  const int64_t ranks = plan.request.ranks.data_size();
  const bool is_own = plan.owner_of(name) == plan.request.ranks.stage;
  return {.whole = elements * width, .slice = is_own ? (elements + ranks - 1) / ranks * width : 0};
}

}  // namespace

int64_t checkpoint_share_bytes(const Plan& plan) {
  int64_t shared = 0;
  int64_t slices = 0;
  const auto add = [&](const StoredBytes& bytes, int64_t times) {
    if (bytes.slice) {
      slices += times * *bytes.slice;
    } else {
      shared += times * bytes.whole;
    }
  };
  const bool is_adapter = plan.request.model.lora.has_value();
  for (const WeightSpec& spec : plan.weights) {
    if (is_adapter && !spec.in_adapter) continue;
    size_t copies = 0;
    if (!is_adapter) {
      for (const WeightPart& part : spec.parts) copies = std::max(copies, part.copies.size());
    }
    StoredBytes bytes =
        plan.is_pipelined() ? stored_bytes_in_stages(plan, spec.name) : stored_bytes(plan, spec.name);
    // The checkpoint contains the transpose of this weight, so that the slice of a rank would not be contiguous in the file. Therefore
    // the ranks write equal shares of the weight instead of their slices.
    if (spec.transposed) bytes.slice.reset();
    add(bytes, 1 + static_cast<int64_t>(copies));
  }
  for (const std::string& name : plan.state_names())
    add(plan.is_pipelined() ? stored_bytes_in_stages(plan, name) : stored_bytes(plan.buffer(name)), 1);
  const int64_t ranks = std::max<int64_t>(plan.request.ranks.count, 1);
  return slices + (shared + ranks - 1) / ranks + (ranks > 1 ? kMostShareRounding : 0);
}

}  // namespace plimsoll
