#include "plan/layout/skyline.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace plimsoll {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// A part of the skyline with constant height: adjacent positions, from the first to the last, both included.
struct Stretch {
  uint32_t first = 0;
  uint32_t last = 0;
  int64_t height = 0;
};

// Stores the parts of the skyline by the position at which they begin, and finds the lowest one with a heap. Heights only grow, so an
// entry of the heap that describes an earlier state of the skyline never becomes valid again.
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

  // Removes the lowest part of the skyline and returns it. put() or raise() must be called with it next. Of several equally low parts,
  // takes the one with the earliest positions.
  Stretch take_lowest() {
    if (!beside_.empty()) {
      const Stretch stretch = stretches_[beside_.back()];
      beside_.pop_back();
      return stretch;
    }
    while (true) {
      const Entry entry = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), IsAfter());
      heap_.pop_back();
      if (is_stretch(entry)) return stretches_[entry.first];
    }
  }

  // Puts a buffer on `below`, the part of the skyline that take_lowest() returned, which contains all positions of the buffer. The
  // remainders of that part to the left and to the right of the buffer are then the lowest parts; take_lowest() returns the left one first.
  void put(const Stretch& below, const LiveBuffer& buffer) {
    if (buffer.bytes == 0) {
      beside_.push_back(below.first);
      return;
    }
    if (buffer.last < below.last) {
      set({.first = buffer.last + 1, .last = below.last, .height = below.height});
      beside_.push_back(buffer.last + 1);
    }
    if (buffer.first > below.first) {
      set({.first = below.first, .last = buffer.first - 1, .height = below.height});
      beside_.push_back(below.first);
    }
    add({.first = buffer.first, .last = buffer.last, .height = below.height + buffer.bytes});
  }

  // Raises a valley of the skyline, into which no buffer fits, to the height of the lower one of its two sides. Returns this height.
  int64_t raise(const Stretch& valley) {
    int64_t height = std::numeric_limits<int64_t>::max();
    if (valley.first > 0) height = stretches_[first_of_end_[valley.first - 1]].height;
    if (size_t{valley.last} + 1 < stretches_.size())
      height = std::min(height, stretches_[valley.last + 1].height);
    PLIMSOLL_CHECK(
        height != std::numeric_limits<int64_t>::max(),
        "cannot place the remaining buffers: none of them is live within the positions of the skyline");
    add({.first = valley.first, .last = valley.last, .height = height});
    return height;
  }

 private:
  struct Entry {
    int64_t height = 0;
    uint32_t first = 0;
  };
  struct IsAfter {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.height != b.height ? a.height > b.height : a.first > b.first;
    }
  };

  bool is_stretch(const Entry& entry) const {
    const Stretch& stretch = stretches_[entry.first];
    return stretch.first == entry.first && stretch.height == entry.height;
  }

  void set(const Stretch& stretch) {
    stretches_[stretch.first] = stretch;
    first_of_end_[stretch.last] = stretch.first;
  }

  // Adds a part to the skyline and merges it with neighbouring parts of the same height, so that each valley remains a single part.
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
        // The merged part begins at the position of the left part, so the entry of the left part in the heap is also correct for it.
        stretches_[stretch.first].first = kNone;
        stretch.first = before;
        set(stretch);
        return;
      }
    }
    set(stretch);
    heap_.push_back({stretch.height, stretch.first});
    std::push_heap(heap_.begin(), heap_.end(), IsAfter());
  }

  // the parts of the skyline by their first positions; an element at which no part begins has another `first` than its index
  std::vector<Stretch> stretches_;
  std::vector<uint32_t> first_of_end_;  // for each position, the start of the part that ends there
  std::vector<Entry> heap_;
  // parts to the left and to the right of the buffer that was placed last; they are not in the heap, and the last element is the lowest
  // part
  std::vector<uint32_t> beside_;
};

// The buffers that are not placed yet, sorted by their first positions, so that buffers which begin inside one part of the skyline are
// adjacent. A node of a binary tree over these buffers stores two minima over the buffers in its subtree: their smallest rank (position in
// the order of placement) and their smallest last position. A search skips a subtree if none of its buffers ends inside the given
// positions, or if none precedes the best buffer found so far.
class Waiting {
 public:
  Waiting(std::span<const LiveBuffer> buffers, std::span<const uint32_t> order, uint32_t last)
      : begin_(size_t{last} + 2, 0), slot_(buffers.size()), leaves_(std::bit_ceil(buffers.size())) {
    for (const LiveBuffer& buffer : buffers) ++begin_[size_t{buffer.first} + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
    parts_.resize(2 * leaves_);
    for (size_t rank = 0; rank < order.size(); ++rank) {
      const LiveBuffer& buffer = buffers[order[rank]];
      slot_[rank] = next[buffer.first]++;
      parts_[leaves_ + slot_[rank]] = {.rank = static_cast<uint32_t>(rank), .last = buffer.last};
    }
    for (size_t part = leaves_; part-- > 1;) parts_[part] = both(part);
  }

  // Finds the first buffer in the order of placement that is live only inside these positions, and removes it from the set. Returns its
  // rank, or kNone if there is none.
  uint32_t take_first_inside(const Stretch& stretch) {
    uint32_t best = kNone;
    size_t from = leaves_ + begin_[stretch.first];
    size_t to = leaves_ + begin_[size_t{stretch.last} + 1];
    if (to - from <= kFew) {
      for (; from < to; ++from) {
        const Part& part = parts_[from];
        best = std::min(best, part.last <= stretch.last ? part.rank : kNone);
      }
    }
    for (; from < to; from /= 2, to /= 2) {
      if (from % 2 == 1) best = first_inside(from++, stretch.last, best);
      if (to % 2 == 1) best = first_inside(--to, stretch.last, best);
    }
    if (best != kNone) take(leaves_ + slot_[best]);
    return best;
  }

 private:
  // If at most this number of buffers begin inside the given positions, they are examined one by one, without the tree.
  static constexpr size_t kFew = 16;

  struct Part {
    uint32_t rank = kNone;
    uint32_t last = kNone;
    friend bool operator==(const Part&, const Part&) = default;
  };

  Part both(size_t part) const {
    const Part &left = parts_[2 * part], &right = parts_[2 * part + 1];
    return {.rank = std::min(left.rank, right.rank), .last = std::min(left.last, right.last)};
  }

  // Returns the smallest rank of the buffers in the subtree `part` whose last position is at most `last`, or `best` if no rank is
  // smaller.
  uint32_t first_inside(size_t part, uint32_t last, uint32_t best) const {
    if (parts_[part].last > last || parts_[part].rank >= best) return best;
    if (part >= leaves_) return parts_[part].rank;
    const size_t first = parts_[2 * part].rank <= parts_[2 * part + 1].rank ? 2 * part : 2 * part + 1;
    return first_inside(first ^ 1, last, first_inside(first, last, best));
  }

  void take(size_t part) {
    parts_[part] = {};
    while (part > 1) {
      part /= 2;
      const Part now = both(part);
      if (now == parts_[part]) break;
      parts_[part] = now;
    }
  }

  // for each position, the index (in the sorted list) of the first buffer that begins there
  std::vector<uint32_t> begin_;
  std::vector<uint32_t> slot_;  // for each buffer in the order of placement, its index in the sorted list
  size_t leaves_;  // offset of the leaves in the array of nodes, which contains inner nodes first
  // nodes of the tree: 1 is the root, and node p has the children 2 p and 2 p + 1
  std::vector<Part> parts_;
};

// Computes lower bounds for the height up to which buffers will reach at a position: the bytes of all buffers that are live there, plus the
// bytes below them that were lost when valleys were raised. Putting a buffer on the skyline does not change a bound. Only one position of
// eight is checked: most bytes belong to buffers that live longer than eight positions, and checking all positions would take as much time
// as the bounds save.
class LeastEnds {
 public:
  LeastEnds(int64_t most_bytes, std::span<const LiveBuffer> buffers, uint32_t last,
            std::span<const int64_t> floor, std::span<const int64_t> hanging)
      : ends_(next_watched(size_t{last} + 1) + 1, 0), most_(ends_.size(), most_bytes) {
    for (const LiveBuffer& buffer : buffers) {
      ends_[next_watched(buffer.first)] += buffer.bytes;
      ends_[next_watched(size_t{buffer.last} + 1)] -= buffer.bytes;
    }
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    for (size_t i = 0; i < ends_.size(); ++i) {
      if (i * kStep < floor.size()) ends_[i] += floor[i * kStep];
      if (i * kStep < hanging.size()) most_[i] -= hanging[i * kStep];
    }
  }

  // Records that a valley is raised to a height. Returns true if the buffers that still must be placed there can all end below their
  // limits.
  bool raise(const Stretch& valley, int64_t height) {
    bool is_in_time = true;
    for (size_t i = next_watched(valley.first); i * kStep <= valley.last; ++i) {
      const bool is_awaited = ends_[i] > valley.height;
      ends_[i] = is_awaited ? ends_[i] + height - valley.height : height;
      is_in_time = is_in_time && (!is_awaited || ends_[i] <= most_[i]);
    }
    return is_in_time;
  }

 private:
  static constexpr size_t kStep = 8;
  // Returns the first checked position that is not before this one.
  static size_t next_watched(size_t position) { return (position + kStep - 1) / kStep; }

  std::vector<int64_t> ends_;  // lower bounds of the heights that buffers reach at the checked positions
  std::vector<int64_t> most_;  // largest allowed heights at these positions
};

// Places every buffer. After it raises a valley, it calls is_raised(valley, new height). If that returns false, the attempt is useless, and
// the function returns nothing.
template <typename IsRaised>
std::optional<Placement> fill(std::span<const LiveBuffer> buffers, std::span<const uint32_t> order,
                              std::span<const int64_t> floor, uint32_t last, const IsRaised& is_raised) {
  PLIMSOLL_CHECK(order.size() == buffers.size(),
                 "the order of placement must contain every buffer once, but has {} entries for {} buffers",
                 order.size(), buffers.size());
  Placement placement;
  placement.offsets.assign(buffers.size(), 0);
  for (const int64_t height : floor) placement.bytes = std::max(placement.bytes, height);
  Waiting waiting(buffers, order, last);
  Skyline skyline(last, floor);
  for (size_t left = buffers.size(); left > 0;) {
    const Stretch valley = skyline.take_lowest();
    const uint32_t rank = waiting.take_first_inside(valley);
    if (rank == kNone) {
      if (!is_raised(valley, skyline.raise(valley))) return std::nullopt;
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

uint32_t last_position(std::span<const LiveBuffer> buffers) {
  uint32_t last = 0;
  for (const LiveBuffer& buffer : buffers) last = std::max(last, buffer.last);
  return last;
}

}  // namespace

Placement fill_skyline(std::span<const LiveBuffer> buffers, std::span<const uint32_t> order,
                       std::span<const int64_t> floor) {
  const auto is_raised = [](const Stretch&, int64_t) { return true; };
  return *fill(buffers, order, floor, last_position(buffers), is_raised);
}

std::optional<Placement> fill_skyline_within(int64_t most_bytes, std::span<const LiveBuffer> buffers,
                                             std::span<const uint32_t> order, std::span<const int64_t> floor,
                                             std::span<const int64_t> hanging) {
  if (most_bytes == std::numeric_limits<int64_t>::max()) return fill_skyline(buffers, order, floor);
  const uint32_t last = last_position(buffers);
  LeastEnds ends(most_bytes, buffers, last, floor, hanging);
  const auto is_raised = [&](const Stretch& valley, int64_t height) { return ends.raise(valley, height); };
  return fill(buffers, order, floor, last, is_raised);
}

}  // namespace plimsoll
