// Maps offsets in the arena to addresses. The arena is one block of memory or, if the plan keeps buffers separate
// (PlanRequest::separate_buffers), one block per buffer, so that a sanitizer sees an access past the end of a buffer. The
// map owns no memory: a backend allocates the blocks. Thread-safe after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

class ArenaMap {
 public:
  struct Block {
    int64_t offset = 0;  // distance of the first byte from the start of the arena
    int64_t bytes = 0;
    std::byte* data = nullptr;
  };

  // Maps the whole arena as one block.
  explicit ArenaMap(std::byte* data, int64_t bytes) : blocks_{{0, bytes, data}} {}
  // Calls take(bytes) for each buffer that the plan has in this memory space (device or host memory). take() returns the memory block to
  // which the buffer is mapped. `bytes` is the size of the buffer for the largest batches, without the padding that the arena adds after
  // it.
  ArenaMap(const Plan& plan, Space space, const std::function<std::byte*(int64_t)>& take);

  // Returns the address of the byte at this offset of the arena. Errors: kInternal if no buffer contains it. Cost: O(log blocks).
  std::byte* at(int64_t offset) const;

  // Calls body(offset, address, bytes) for each block that contains a part of the range [begin, end); the arguments describe this part.
  template <class Body>
  void for_each_part(int64_t begin, int64_t end, const Body& body) const {
    for (const Block& block : blocks_) {
      const int64_t from = block.offset > begin ? block.offset : begin;
      const int64_t to = block.offset + block.bytes < end ? block.offset + block.bytes : end;
      if (from < to) body(from, block.data + (from - block.offset), to - from);
    }
  }

 private:
  std::vector<Block> blocks_;  // in the order of their offsets in the arena
};

}  // namespace plimsoll
