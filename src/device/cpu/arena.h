// The single block of memory that a run allocates on the CPU. Owns it; movable, not copyable. Not thread-safe
// during construction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

// The byte pattern of unwritten memory. 0xFF reads as NaN in every floating-point type, so a read before a
// write is detected.
inline constexpr uint8_t kArenaPoison = 0xFF;

class CpuArena {
 public:
  // Allocates `bytes` (rounded up to pages) and fills them with `fill` on all threads. Errors: kDevice if the
  // system cannot provide the block; the message contains the size.
  explicit CpuArena(int64_t bytes, uint8_t fill = kArenaPoison);
  ~CpuArena();
  CpuArena(CpuArena&& other) noexcept;
  CpuArena& operator=(CpuArena&& other) noexcept;
  CpuArena(const CpuArena&) = delete;
  CpuArena& operator=(const CpuArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Returns the offset at which the written part of the memory ends: the end of the last byte that
  // differs from the fill pattern. The whole last page is checked, also beyond the planned size, so
  // a result above bytes() means that something was written beyond the planned size.
  int64_t written_bytes() const;

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  uint8_t fill_ = kArenaPoison;
};

}  // namespace plimsoll
