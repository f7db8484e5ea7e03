#include "device/cpu/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "device/cpu/parallel.h"

namespace plimsoll {
namespace {
constexpr int64_t kPage = 4096;
constexpr int64_t kFillChunk = int64_t{4} << 20;
}  // namespace

CpuArena::CpuArena(int64_t bytes, uint8_t fill) : bytes_(bytes), fill_(fill) {
  mapped_bytes_ = std::max<int64_t>((bytes + kPage - 1) / kPage * kPage, kPage);
  void* block = mmap(nullptr, static_cast<size_t>(mapped_bytes_), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    throw_error(ErrorCode::kDevice,
                "the system cannot provide {} bytes for the arena: {}. Free memory, or reduce the memory of "
                "the run (plimsoll plan shows how).",
                bytes, std::strerror(errno));
  }
  // Requests large pages. If the system provides them, there are fewer misses in address translation for the same amount of
  // memory.
  madvise(block, static_cast<size_t>(mapped_bytes_), MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(block);
  const int64_t chunks = (mapped_bytes_ + kFillChunk - 1) / kFillChunk;
  parallel_for(chunks, [&](int64_t chunk, int) {
    const int64_t first = chunk * kFillChunk;
    std::memset(data_ + first, fill_, static_cast<size_t>(std::min(kFillChunk, mapped_bytes_ - first)));
  });
}

CpuArena::~CpuArena() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(mapped_bytes_));
}

CpuArena::CpuArena(CpuArena&& other) noexcept {
  *this = std::move(other);
}

CpuArena& CpuArena::operator=(CpuArena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(fill_, other.fill_);
  return *this;
}

int64_t CpuArena::written_bytes() const {
  int64_t end = mapped_bytes_;
  while (end > 0 && data_[end - 1] == std::byte{fill_}) --end;
  return end;
}

}  // namespace plimsoll
