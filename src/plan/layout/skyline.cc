#include "plan/layout/skyline.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace plimsoll {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// Neighbouring positions, both ends included, over which the skyline has one height.
struct Stretch {
  uint32_t first = 0;
  uint32_t last = 0;
  int64_t height = 0;
};

// Stretches by the position at which they begin, and a heap in which the lowest is found. Heights only grow,
// so what a heap says of a stretch that has changed since is never true again.
class Skyline {
 public:
  Skyline(uint32_t last, std::span<const int64_t> floor)
      : stretches_(size_t{last} + 1), first_of_end_(size_t{last} + 1, kNone) {
    const auto height = [&](uint32_t p) { return p < floor.size() ? floor[p] : 0; };
    for (uint32_t first = 0; first <= last;) {
      uint32_t end = first + 1;
      while (end <= last && height(end) == height(first)) ++end;
      add({.first = first, .last = end - 1, .height = height(first)});
      first = end;
    }
  }

  // The lowest, of equally low ones the earliest.
  Stretch lowest() {
    while (!is_stretch(heap_.front())) {
      std::pop_heap(heap_.begin(), heap_.end(), is_after);
      heap_.pop_back();
    }
    return stretches_[heap_.front().first];
  }

  // Puts a buffer on a stretch, which holds all its positions.
  void put(const Stretch& below, const LiveBuffer& buffer) {
    if (buffer.first > below.first) {
      stretches_[below.first].last = buffer.first - 1;
      first_of_end_[buffer.first - 1] = below.first;
    }
    if (buffer.last < below.last) add({.first = buffer.last + 1, .last = below.last, .height = below.height});
    add({.first = buffer.first, .last = buffer.last, .height = below.height + buffer.bytes});
  }

  // Gives up a valley that no buffer fits into: it becomes as high as the lower of its sides.
  void raise(const Stretch& valley) {
    int64_t height = std::numeric_limits<int64_t>::max();
    if (valley.first > 0) height = stretches_[first_of_end_[valley.first - 1]].height;
    if (size_t{valley.last} + 1 < stretches_.size())
      height = std::min(height, stretches_[valley.last + 1].height);
    PLIMSOLL_CHECK(height != std::numeric_limits<int64_t>::max(),
                   "a buffer is live at no position of the skyline");
    add({.first = valley.first, .last = valley.last, .height = height});
  }

 private:
  struct Entry {
    int64_t height = 0;
    uint32_t first = 0;
  };
  static bool is_after(const Entry& a, const Entry& b) {
    return a.height != b.height ? a.height > b.height : a.first > b.first;
  }

  bool is_stretch(const Entry& entry) const {
    const Stretch& stretch = stretches_[entry.first];
    return stretch.first == entry.first && stretch.height == entry.height;
  }

  // Makes one stretch of a new one and of those beside it that are equally high, so that no wall divides a
  // valley.
  void add(Stretch stretch) {
    if (size_t{stretch.last} + 1 < stretches_.size()) {
      Stretch& right = stretches_[stretch.last + 1];
      if (right.first == stretch.last + 1 && right.height == stretch.height) {
        stretch.last = right.last;
        right.first = kNone;
      }
    }
    if (const uint32_t before = stretch.first > 0 ? first_of_end_[stretch.first - 1] : kNone;
        before != kNone) {
      const Stretch& left = stretches_[before];
      if (left.first == before && left.last == stretch.first - 1 && left.height == stretch.height) {
        stretches_[stretch.first].first = kNone;
        stretch.first = before;
      }
    }
    stretches_[stretch.first] = stretch;
    first_of_end_[stretch.last] = stretch.first;
    heap_.push_back({stretch.height, stretch.first});
    std::push_heap(heap_.begin(), heap_.end(), is_after);
  }

  std::vector<Stretch> stretches_;      // `first` is another position where none begins
  std::vector<uint32_t> first_of_end_;  // of the stretch that ends at a position
  std::vector<Entry> heap_;
};

// Buffers that wait for their places, by their first positions: those that are live inside a stretch lie
// beside each other. Most stretches are narrow; in a wide one most blocks hold nothing that comes before what
// was found.
class Waiting {
 public:
  Waiting(std::span<const LiveBuffer> buffers, std::span<const uint32_t> order, uint32_t last)
      : begin_(size_t{last} + 2, 0), last_(buffers.size()), rank_(buffers.size()), slot_(buffers.size()) {
    for (const LiveBuffer& buffer : buffers) ++begin_[size_t{buffer.first} + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
    for (size_t rank = 0; rank < order.size(); ++rank) {
      const LiveBuffer& buffer = buffers[order[rank]];
      const uint32_t slot = next[buffer.first]++;
      last_[slot] = buffer.last;
      rank_[slot] = static_cast<uint32_t>(rank);
      slot_[rank] = slot;
    }
    const size_t num_blocks = (buffers.size() + kBlock - 1) / kBlock;
    for (uint32_t block = 0; block < num_blocks; ++block) least_.push_back(least_of(block));
  }

  // Takes out the first in the order that is live only inside the stretch; its place in the order, or kNone.
  uint32_t take_first_inside(const Stretch& stretch) {
    uint32_t best = kNone;
    const uint32_t end = begin_[size_t{stretch.last} + 1];
    for (uint32_t slot = begin_[stretch.first]; slot < end;) {
      const uint32_t block = slot / kBlock;
      const uint32_t block_end = std::min(end, (block + 1) * kBlock);
      if (least_[block] < best) {
        for (; slot < block_end; ++slot) {
          best = std::min(best, last_[slot] <= stretch.last ? rank_[slot] : kNone);
        }
      }
      slot = block_end;
    }
    if (best == kNone) return kNone;
    rank_[slot_[best]] = kNone;
    least_[slot_[best] / kBlock] = least_of(slot_[best] / kBlock);
    return best;
  }

 private:
  static constexpr uint32_t kBlock = 32;  // slots

  uint32_t least_of(uint32_t block) const {
    const auto begin = rank_.begin() + static_cast<std::ptrdiff_t>(block) * kBlock;
    const auto count = std::min<std::ptrdiff_t>(kBlock, rank_.end() - begin);
    return *std::min_element(begin, begin + count);
  }

  std::vector<uint32_t> begin_;  // of each position, its first slot
  std::vector<uint32_t> last_;   // of each slot's buffer
  std::vector<uint32_t> rank_;   // its place in the order; kNone once it is taken
  std::vector<uint32_t> slot_;   // of each place in the order
  std::vector<uint32_t> least_;  // of the ranks of each block of slots
};

}  // namespace

Placement fill_skyline(std::span<const LiveBuffer> buffers, std::span<const uint32_t> order,
                       std::span<const int64_t> floor) {
  PLIMSOLL_CHECK(order.size() == buffers.size(), "an order of {} for {} buffers", order.size(),
                 buffers.size());
  Placement placement;
  placement.offsets.assign(buffers.size(), 0);
  for (const int64_t height : floor) placement.bytes = std::max(placement.bytes, height);
  uint32_t last = 0;
  for (const LiveBuffer& buffer : buffers) last = std::max(last, buffer.last);
  Waiting waiting(buffers, order, last);
  Skyline skyline(last, floor);
  for (size_t left = buffers.size(); left > 0;) {
    const Stretch valley = skyline.lowest();
    const uint32_t rank = waiting.take_first_inside(valley);
    if (rank == kNone) {
      skyline.raise(valley);
      continue;
    }
    const LiveBuffer& buffer = buffers[order[rank]];
    placement.offsets[order[rank]] = valley.height;
    placement.bytes = std::max(placement.bytes, valley.height + buffer.bytes);
    skyline.put(valley, buffer);
    --left;
  }
  return placement;
}

}  // namespace plimsoll
