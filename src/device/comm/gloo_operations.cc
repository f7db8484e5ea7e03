#include "device/comm/gloo_operations.h"

#include <cstring>
#include <numeric>

#include "base/check.h"
#include "device/comm/collectives.h"

namespace plimsoll {
namespace {

// Calls `work` with the elements as a std::span of their element type. Requires: a type whose elements can be summed.
template <typename Work>
void with_elements(View data, int64_t count, const Work& work) {
  const auto elements = [&]<typename T>(T* first) { return std::span<T>(first, static_cast<size_t>(count)); };
  switch (data.dtype) {
    case DType::kF32:
      return work(elements(data.as<float>()));
    case DType::kF64:
      return work(elements(data.as<double>()));
    case DType::kI32:
      return work(elements(data.as<int32_t>()));
    case DType::kI64:
      return work(elements(data.as<int64_t>()));
    case DType::kBF16:
      return work(elements(data.as<BF16>()));
    case DType::kF16:
      return work(elements(data.as<F16>()));
    case DType::kU8:
    case DType::kE4M3:
    case DType::kE5M2:
      break;
  }
  PLIMSOLL_CHECK(false, "cannot add elements of type {}", dtype_name(data.dtype));
}

}  // namespace

void GlooOperations::all_reduce(View data, int64_t count) {
  PLIMSOLL_CHECK(count >= 0 && (count == 0 || data),
                 "all_reduce needs data and a number of elements that is not negative, but has {} elements",
                 count);
  if (count == 0) return;
  run(fmt::format("all_reduce of {} {} elements", count, dtype_name(data.dtype)),
      [&](const Transfer& transfer) {
        with_elements(data, count,
                      [&](auto elements) { all_reduce_elements(transfer, elements, staging()); });
      });
}

void GlooOperations::reduce_scatter(View data, std::span<const int64_t> counts) {
  PLIMSOLL_CHECK(std::ssize(counts) == size(),
                 "reduce_scatter needs one number of elements per rank, but has {} for {} ranks",
                 counts.size(), size());
  const int64_t count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (count == 0) return;
  run(fmt::format("reduce_scatter of {} {} elements", count, dtype_name(data.dtype)),
      [&](const Transfer& transfer) {
        with_elements(data, count,
                      [&](auto elements) { reduce_scatter_elements(transfer, elements, counts, staging()); });
      });
}

void GlooOperations::broadcast(std::span<std::byte> bytes, int root) {
  PLIMSOLL_CHECK(root >= 0 && root < size(), "the rank that broadcasts must exist, but is rank {} of {}",
                 root, size());
  if (bytes.empty()) return;
  run(
      fmt::format("broadcast of {} bytes from rank {}", bytes.size(), root),
      [&](const Transfer& transfer) { chain_broadcast(transfer, bytes, root); },
      RankProgress::Kind::kSomeRanks);
}

void GlooOperations::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  PLIMSOLL_CHECK(all.size() == mine.size() * static_cast<size_t>(size()),
                 "all_gather of {} bytes from each of {} ranks needs an output of their total size, but has "
                 "one of {} bytes",
                 mine.size(), size(), all.size());
  if (mine.empty()) return;
  std::memmove(all.data() + mine.size() * static_cast<size_t>(rank()), mine.data(), mine.size());
  run(fmt::format("all_gather of {} bytes per rank", mine.size()),
      [&](const Transfer& transfer) { ring_all_gather(transfer, all); });
}

void GlooOperations::all_gather_parts(std::byte* all, std::span<const int64_t> part_bytes) {
  PLIMSOLL_CHECK(std::ssize(part_bytes) == size(),
                 "all_gather needs one number of bytes per rank, but has {} for {} ranks", part_bytes.size(),
                 size());
  const int64_t bytes = std::accumulate(part_bytes.begin(), part_bytes.end(), int64_t{0});
  if (bytes == 0) return;
  run(fmt::format("all_gather of {} bytes in parts", bytes), [&](const Transfer& transfer) {
    ring_all_gather_parts(transfer, {all, static_cast<size_t>(bytes)}, part_bytes);
  });
}

void GlooOperations::all_to_all(std::span<const std::byte> mine, std::span<std::byte> received) {
  PLIMSOLL_CHECK(mine.size() == received.size() && mine.size() % static_cast<size_t>(size()) == 0,
                 "all_to_all of {} ranks sends and receives one block of equal size per rank, but sends {} "
                 "bytes and receives {}",
                 size(), mine.size(), received.size());
  if (mine.empty()) return;
  const size_t block = mine.size() / static_cast<size_t>(size());
  run(fmt::format("all_to_all of {} bytes per pair of ranks", block),
      [&](const Transfer& transfer) { direct_all_to_all(transfer, mine, received); });
}

void GlooOperations::barrier() {
  run("barrier", [&](const Transfer& transfer) { dissemination_barrier(transfer); });
}

}  // namespace plimsoll
