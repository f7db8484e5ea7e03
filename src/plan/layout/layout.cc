#include "plan/layout/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace plimsoll {
namespace {

struct Placed {
  int64_t offset;
  int64_t end;
  uint32_t first;
  uint32_t last;
};

class Placement {
 public:
  Placement(std::span<const LiveBuffer> buffers, int64_t alignment)
      : buffers_(buffers), alignment_(alignment) {}

  // Places the buffers in this order, each at the start of the smallest gap that takes it among the buffers
  // that are live with it, else above them.
  Layout place(const std::vector<uint32_t>& order) const {
    Layout layout;
    layout.offsets.assign(buffers_.size(), 0);
    std::vector<Placed> placed;  // by offset
    placed.reserve(order.size());
    for (uint32_t i : order) {
      const LiveBuffer& buffer = buffers_[i];
      const int64_t bytes = rounded(buffer.bytes);
      const int64_t offset = find_gap(placed, buffer, bytes);
      layout.offsets[i] = offset;
      layout.bytes = std::max(layout.bytes, offset + bytes);
      const Placed entry{offset, offset + bytes, buffer.first, buffer.last};
      const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                       [](int64_t value, const Placed& p) { return value < p.offset; });
      placed.insert(at, entry);
    }
    return layout;
  }

  int64_t rounded(int64_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }

 private:
  static int64_t find_gap(const std::vector<Placed>& placed, const LiveBuffer& buffer, int64_t bytes) {
    int64_t top = 0;  // end of the live buffers below
    int64_t best = -1;
    int64_t best_gap = 0;
    for (const Placed& other : placed) {
      if (other.last < buffer.first || other.first > buffer.last) continue;
      const int64_t gap = other.offset - top;
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = top;
        best_gap = gap;
      }
      top = std::max(top, other.end);
    }
    return best >= 0 ? best : top;
  }

  std::span<const LiveBuffer> buffers_;
  int64_t alignment_;
};

int64_t lower_bound_of(std::span<const LiveBuffer> buffers, const Placement& placement) {
  uint32_t positions = 0;
  for (const LiveBuffer& buffer : buffers) positions = std::max(positions, buffer.last + 1);
  std::vector<int64_t> change(positions + 1, 0);
  for (const LiveBuffer& buffer : buffers) {
    change[buffer.first] += placement.rounded(buffer.bytes);
    change[buffer.last + 1] -= placement.rounded(buffer.bytes);
  }
  int64_t sum = 0;
  int64_t peak = 0;
  for (int64_t entry : change) {
    sum += entry;
    peak = std::max(peak, sum);
  }
  return peak;
}

}  // namespace

Layout assign_offsets(std::span<const LiveBuffer> buffers, int64_t alignment) {
  PLIMSOLL_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0, "alignment {}", alignment);
  const Placement placement(buffers, alignment);
  const int64_t lower_bound = lower_bound_of(buffers, placement);
  std::vector<uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto length = [&](uint32_t i) {
    return static_cast<int64_t>(buffers[i].last - buffers[i].first) + 1;
  };
  using Before = std::function<bool(uint32_t, uint32_t)>;
  const std::vector<Before> orders{
      // Long-lived first, large first: saved activations pile up at the bottom as a stack, short temporaries
      // go above.
      [&](uint32_t a, uint32_t b) {
        return std::pair(-length(a), -buffers[a].bytes) < std::pair(-length(b), -buffers[b].bytes);
      },
      [&](uint32_t a, uint32_t b) {
        return std::pair(-buffers[a].bytes, -length(a)) < std::pair(-buffers[b].bytes, -length(b));
      },
      [&](uint32_t a, uint32_t b) { return buffers[a].first < buffers[b].first; },
      [&](uint32_t a, uint32_t b) { return buffers[a].last > buffers[b].last; },
      [&](uint32_t a, uint32_t b) {
        return static_cast<double>(buffers[a].bytes) * static_cast<double>(length(a)) >
               static_cast<double>(buffers[b].bytes) * static_cast<double>(length(b));
      },
  };
  Layout best;
  bool have = false;
  for (const Before& before : orders) {
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), before);
    Layout layout = placement.place(order);
    if (!have || layout.bytes < best.bytes) best = std::move(layout);
    have = true;
    if (best.bytes <= lower_bound + lower_bound / 1000) break;
  }
  best.lower_bound_bytes = lower_bound;
  return best;
}

}  // namespace plimsoll
