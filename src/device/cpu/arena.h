// The one block of memory that a run takes on the CPU. Owns it; movable, not copyable. Not thread-safe while
// it is filled.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

// What an arena holds before anything is written: a byte pattern that reads as NaN in every floating-point
// type when it is 0xFF, so that a read before a write is seen.
inline constexpr uint8_t kArenaPoison = 0xFF;

class CpuArena {
 public:
  // Takes and fills `bytes` (rounded up to pages) with `fill` on all threads. Errors: kDevice when the system
  // has no such block; the message names the bytes.
  explicit CpuArena(int64_t bytes, uint8_t fill = kArenaPoison);
  ~CpuArena();
  CpuArena(CpuArena&& other) noexcept;
  CpuArena& operator=(CpuArena&& other) noexcept;
  CpuArena(const CpuArena&) = delete;
  CpuArena& operator=(const CpuArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // The end of the highest byte that differs from the fill pattern, up to the last page: what was really
  // used, as observed. More than bytes() shows a write beyond the plan.
  int64_t written_bytes() const;

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  uint8_t fill_ = kArenaPoison;
};

}  // namespace plimsoll
