#include "exec/arena_map.h"

#include <algorithm>

#include "base/check.h"

namespace plimsoll {
namespace {

// Returns the size of a transient buffer in bytes, without the padding that the arena adds after it.
int64_t exact_bytes(const ProgramPlan& program, const TransientBuffer& buffer) {
  return buffer.root == kNoValue ? program.ops[buffer.op].scratch_bytes
                                 : program.graph.value(buffer.root).bytes(program.bucket);
}

int64_t exact_bytes(const PersistentBuffer& buffer) {
  if (buffer.type.shape.depends_on_bucket()) return buffer.bytes;
  return buffer.elements() * dtype_bytes(buffer.type.dtype);
}

}  // namespace

ArenaMap::ArenaMap(const Plan& plan, Space space, const std::function<std::byte*(int64_t)>& take) {
  PLIMSOLL_CHECK(
      plan.request.separate_buffers,
      "each buffer can have its own memory block only if no two buffers of the plan share addresses, "
      "but buffers of this plan do");
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.space == space) blocks_.push_back({buffer.offset, exact_bytes(buffer)});
  }
  for (const ProgramPlan& program : plan.programs) {
    for (const TransientBuffer& buffer : space == Space::kDevice ? program.buffers : program.host.buffers) {
      blocks_.push_back({buffer.offset, exact_bytes(program, buffer)});
    }
  }
  // Buffers of zero bytes need no address.
  std::erase_if(blocks_, [](const Block& block) { return block.bytes <= 0; });
  std::sort(blocks_.begin(), blocks_.end(),
            [](const Block& a, const Block& b) { return a.offset < b.offset; });
  for (size_t i = 0; i + 1 < blocks_.size(); ++i) {
    PLIMSOLL_CHECK(blocks_[i].offset + blocks_[i].bytes <= blocks_[i + 1].offset,
                   "buffers of the arena must not overlap, but the one at offset {} with {} bytes overlaps "
                   "the one at offset {}",
                   blocks_[i].offset, blocks_[i].bytes, blocks_[i + 1].offset);
  }
  for (Block& block : blocks_) block.data = take(block.bytes);
}

std::byte* ArenaMap::at(int64_t offset) const {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                       [](int64_t wanted, const Block& block) { return wanted < block.offset; });
  PLIMSOLL_CHECK(after != blocks_.begin(), "the arena has no buffer at offset {}", offset);
  const Block& block = *(after - 1);
  PLIMSOLL_CHECK(offset < block.offset + block.bytes, "the arena has no buffer at offset {}", offset);
  return block.data + (offset - block.offset);
}

}  // namespace plimsoll
