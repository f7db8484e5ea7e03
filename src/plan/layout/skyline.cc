#include "plan/layout/skyline.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"

namespace plimsoll {
namespace {

// Neighbouring positions, both ends included, over which the skyline has one height.
struct Stretch {
  uint32_t first = 0;
  uint32_t last = 0;
  int64_t height = 0;
};

class Skyline {
 public:
  explicit Skyline(uint32_t last) : stretches_{{.first = 0, .last = last, .height = 0}} {}

  size_t lowest() const {
    const auto lower = [](const Stretch& a, const Stretch& b) { return a.height < b.height; };
    return static_cast<size_t>(std::min_element(stretches_.begin(), stretches_.end(), lower) -
                               stretches_.begin());
  }

  const Stretch& operator[](size_t index) const { return stretches_[index]; }

  // Puts a buffer on stretch `index`, which holds all its positions.
  void put(size_t index, const LiveBuffer& buffer) {
    const Stretch below = stretches_[index];
    const Stretch above{.first = buffer.first, .last = buffer.last, .height = below.height + buffer.bytes};
    auto at = stretches_.erase(at_index(index));
    if (buffer.last < below.last)
      at = stretches_.insert(at, {.first = buffer.last + 1, .last = below.last, .height = below.height});
    at = stretches_.insert(at, above);
    size_t own = index;
    if (buffer.first > below.first) {
      stretches_.insert(at, {.first = below.first, .last = buffer.first - 1, .height = below.height});
      ++own;
    }
    join_equal(own);
  }

  // Gives up a valley that no buffer fits into: it becomes as high as the lower of its sides.
  void raise(size_t index) {
    int64_t height = std::numeric_limits<int64_t>::max();
    if (index > 0) height = stretches_[index - 1].height;
    if (index + 1 < stretches_.size()) height = std::min(height, stretches_[index + 1].height);
    PLIMSOLL_CHECK(stretches_.size() > 1, "a buffer is live at no position of the skyline");
    stretches_[index].height = height;
    join_equal(index);
  }

 private:
  std::vector<Stretch>::iterator at_index(size_t index) {
    return stretches_.begin() + static_cast<std::ptrdiff_t>(index);
  }

  // Makes one stretch of `index` and those beside it that are equally high, so that no wall divides a valley.
  void join_equal(size_t index) {
    if (index + 1 < stretches_.size() && stretches_[index + 1].height == stretches_[index].height) {
      stretches_[index].last = stretches_[index + 1].last;
      stretches_.erase(at_index(index + 1));
    }
    if (index > 0 && stretches_[index - 1].height == stretches_[index].height) {
      stretches_[index - 1].last = stretches_[index].last;
      stretches_.erase(at_index(index));
    }
  }

  std::vector<Stretch> stretches_;  // by position, none missing
};

// A buffer that waits for its place; lies beside the others in memory, because the list is read often.
struct Waiting {
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t buffer = 0;
};

// Takes the first buffer that is live only inside the stretch out of the list.
std::optional<uint32_t> take_first_inside(std::vector<Waiting>& waiting, const Stretch& stretch) {
  for (auto it = waiting.begin(); it != waiting.end(); ++it) {
    if (it->first < stretch.first || it->last > stretch.last) continue;
    const uint32_t buffer = it->buffer;
    waiting.erase(it);
    return buffer;
  }
  return std::nullopt;
}

}  // namespace

Placement fill_skyline(std::span<const LiveBuffer> buffers, std::span<const uint32_t> order) {
  PLIMSOLL_CHECK(order.size() == buffers.size(), "an order of {} for {} buffers", order.size(),
                 buffers.size());
  Placement placement;
  placement.offsets.assign(buffers.size(), 0);
  uint32_t last = 0;
  std::vector<Waiting> waiting;
  waiting.reserve(order.size());
  for (uint32_t i : order) {
    waiting.push_back({.first = buffers[i].first, .last = buffers[i].last, .buffer = i});
    last = std::max(last, buffers[i].last);
  }
  Skyline skyline(last);
  while (!waiting.empty()) {
    const size_t valley = skyline.lowest();
    const std::optional<uint32_t> taken = take_first_inside(waiting, skyline[valley]);
    if (!taken) {
      skyline.raise(valley);
      continue;
    }
    placement.offsets[*taken] = skyline[valley].height;
    placement.bytes = std::max(placement.bytes, skyline[valley].height + buffers[*taken].bytes);
    skyline.put(valley, buffers[*taken]);
  }
  return placement;
}

}  // namespace plimsoll
