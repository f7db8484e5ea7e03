#include "graph/passes/transfer_schedule.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace plimsoll {
namespace {

// States of some updates are copied back to the host only in the next step. To find the best number of such updates, 0 and at most this
// many other numbers are tried. For the 190 updates of BERT-large, these are the multiples of 8.
constexpr size_t kDeferredTried = 24;

double rate_in(const MemoryHeadroom& room, size_t updated) {
  return updated == 0 && room.in_alone_bytes_per_ms > 0 ? room.in_alone_bytes_per_ms : room.link_bytes_per_ms;
}

double rate_out_in_forward(const MemoryHeadroom& room) {
  return room.out_alone_bytes_per_ms > 0 ? room.out_alone_bytes_per_ms : room.link_bytes_per_ms;
}

class EarlySchedule {
 public:
  EarlySchedule(std::span<const MovedUpdate> updates, std::span<const Segment> segments,
                const MemoryHeadroom& room, size_t deferred)
      : updates_(updates),
        room_(room),
        first_deferred_(updates.size() - deferred),
        arrival_ms_(updates.size()),
        return_ms_(updates.size()) {
    const size_t n = segments.size();
    least_free_.assign(n, 0);
    rest_ms_.assign(n, 0);
    for (size_t p = n; p-- > 0;) {
      const bool is_last = p + 1 == n;
      least_free_[p] = is_last ? free_bytes(p) : std::min(free_bytes(p), least_free_[p + 1]);
      rest_ms_[p] = room.op_ms[p] + (is_last || segments[p + 1] != segments[p] ? 0 : rest_ms_[p + 1]);
    }
    segments_ = segments;
  }

  // Simulates a step and returns when the states of each update are copied to the device. Returns nothing if the states that stay on the
  // device until the next step (deferred states) do not fit.
  std::optional<std::vector<StateTransfer>> run() {
    for (uint32_t p = room_.first; updated_ < updates_.size(); ++p) {
      if (p > 0 && segments_[p] != segments_[p - 1]) now_ms_ = std::max(now_ms_, link_in_free_ms_);
      while (transfers_.size() < updates_.size() && try_copy_in(p, Wait::kNever)) {
      }
      if (updates_[updated_].op == p) update(p);
      now_ms_ += room_.op_ms[p];
      if (updated_ < updates_.size() && updates_[updated_].op == p) copy_back();
    }
    if (!deferred_fit_) return std::nullopt;
    return std::move(transfers_);
  }

 private:
  enum class Wait { kNever, kForRoom, kForAll };

  int64_t free_bytes(size_t p) const { return room_.most_bytes - room_.live_bytes[p]; }
  double copy_in_ms(size_t update) const {
    return static_cast<double>(updates_[update].bytes) / rate_in(room_, updated_);
  }
  double copy_out_ms(size_t update) const {
    return static_cast<double>(updates_[update].bytes) / room_.link_bytes_per_ms;
  }

  // Returns the smallest number of free bytes from position p to the second of the updates whose states have not been copied to the device
  // yet, or to the end of the step if there is no second one. Later ops may wait until more memory becomes free, so they do not count.
  int64_t free_until_next(uint32_t p) const {
    const size_t behind = transfers_.size() + 1;
    const size_t last = behind < updates_.size() ? updates_[behind].op : segments_.size() - 1;
    int64_t least = free_bytes(p);
    for (size_t q = p; q <= last; ++q) least = std::min(least, free_bytes(q));
    return least;
  }

  // Starts the copies of the next update's states to the device if they fit.
  bool try_copy_in(uint32_t p, Wait wait) {
    const MovedUpdate& update = updates_[transfers_.size()];
    size_t ended = ended_;
    int64_t held = held_bytes_;
    double now = now_ms_;
    const bool is_deferred = transfers_.size() >= first_deferred_;
    const int64_t free = wait == Wait::kNever || is_deferred ? least_free_[p] : free_until_next(p);
    const auto fits = [&] { return held + update.bytes <= free; };
    while (ended < std::min(updated_, first_deferred_) &&
           (return_ms_[ended] <= now || wait == Wait::kForAll || (wait == Wait::kForRoom && !fits()))) {
      now = std::max(now, return_ms_[ended]);
      held -= updates_[ended++].bytes;
    }
    if (!fits() && wait != Wait::kForAll) return false;
    deferred_fit_ = deferred_fit_ && (!is_deferred || fits());
    const double done = std::max(now, link_in_free_ms_) + copy_in_ms(transfers_.size());
    if (segments_[p] != update.segment && done > now + rest_ms_[p]) return false;
    arrival_ms_[transfers_.size()] = link_in_free_ms_ = done;
    transfers_.push_back({.before = p, .ended = ended});
    ended_ = ended;
    held_bytes_ = held + update.bytes;
    now_ms_ = now;
    return true;
  }

  void update(uint32_t p) {
    if (transfers_.size() == updated_ && !try_copy_in(p, Wait::kForRoom)) try_copy_in(p, Wait::kForAll);
    const size_t next = updated_ + 1;
    if (transfers_.size() == next && next < updates_.size() && updates_[next].follows)
      try_copy_in(p, Wait::kForRoom);
    now_ms_ = std::max(now_ms_, arrival_ms_[updated_]);
  }

  void copy_back() {
    if (updated_ >= first_deferred_) {
      ++updated_;
      return;
    }
    link_out_free_ms_ = std::max(link_out_free_ms_, now_ms_) + copy_out_ms(updated_);
    return_ms_[updated_++] = link_out_free_ms_;
  }

  std::span<const MovedUpdate> updates_;
  std::span<const Segment> segments_;
  const MemoryHeadroom& room_;
  size_t first_deferred_ = 0;  // the first update whose states stay on the device until the next step
  bool deferred_fit_ = true;
  std::vector<int64_t> least_free_;  // the minimum of the free bytes at this position and all later ones
  // Time from a position to the end of its segment (forward pass, backward pass or update).
  std::vector<double> rest_ms_;
  // For each update: the time at which its states have arrived on the device.
  std::vector<double> arrival_ms_;
  std::vector<double> return_ms_;  // for each update: the time at which its states are back on the host
  std::vector<StateTransfer> transfers_;
  size_t updated_ = 0;  // number of updates that have run
  size_t ended_ = 0;    // number of updates whose states have been copied back, so that their memory is free
  int64_t held_bytes_ =
      0;  // bytes of states that are on the device or on their way to it or back to the host
  double now_ms_ = 0;
  // Times at which the last copy to the device, and the last copy to the host, ends.
  double link_in_free_ms_ = 0;
  double link_out_free_ms_ = 0;
};

// The result of simulating a forward pass during which deferred states are copied back.
struct ForwardPass {
  double ms = 0;
  std::vector<Release> releases;
};

// Simulates the forward pass. The copies of deferred states to the host all start with it, in one queue. An op that needs the memory of
// these states waits for the copies, and the end of the pass waits for the remaining copies.
ForwardPass simulate_forward(std::span<const MovedUpdate> updates, std::span<const Segment> segments,
                             const MemoryHeadroom& room, size_t deferred) {
  ForwardPass pass;
  int64_t held = 0;
  for (const MovedUpdate& update : updates.last(deferred)) held += update.bytes;
  size_t ended = 0;
  double done = 0;  // time at which the first `ended` copies of deferred states to the host have ended
  const auto end_next = [&] {
    const int64_t bytes = updates[updates.size() - ++ended].bytes;
    held -= bytes;
    done += static_cast<double>(bytes) / rate_out_in_forward(room);
  };
  for (uint32_t p = 0; p < segments.size() && segments[p] == Segment::kForward; ++p) {
    const size_t before = ended;
    while (ended < deferred && held > room.most_bytes - room.live_bytes[p]) end_next();
    if (ended > before) pass.releases.push_back({.before = p, .ended = ended});
    pass.ms = std::max(pass.ms, done) + room.op_ms[p];
  }
  while (ended < deferred) end_next();
  pass.ms = std::max(pass.ms, done);
  return pass;
}

// Returns the time from the first op after the forward pass to the end of the last op and of the last copy. Copies of
// deferred states are not counted.
double rest_ms(std::span<const MovedUpdate> updates, std::span<const Segment> segments,
               const MemoryHeadroom& room, std::span<const StateTransfer> transfers, size_t deferred) {
  std::vector<double> arrival_ms, return_ms;
  double now = 0, link_in_free = 0, link_out_free = 0;
  const auto begin = std::ranges::find_if(segments, [](Segment s) { return s != Segment::kForward; });
  for (auto p = static_cast<uint32_t>(begin - segments.begin()); p < segments.size(); ++p) {
    if (p > 0 && segments[p] != segments[p - 1]) now = std::max({now, link_in_free, link_out_free});
    for (; arrival_ms.size() < transfers.size() && transfers[arrival_ms.size()].before == p;) {
      const size_t k = arrival_ms.size();
      if (transfers[k].ended > 0) now = std::max(now, return_ms[transfers[k].ended - 1]);
      link_in_free = std::max(now, link_in_free) +
                     static_cast<double>(updates[k].bytes) / rate_in(room, return_ms.size());
      arrival_ms.push_back(link_in_free);
    }
    const size_t k = return_ms.size();
    const bool is_update = k < updates.size() && updates[k].op == p;
    if (is_update) now = std::max(now, arrival_ms[k]);
    now += room.op_ms[p];
    if (!is_update) continue;
    if (k + deferred >= updates.size()) {
      return_ms.push_back(now);
      continue;
    }
    link_out_free =
        std::max(now, link_out_free) + static_cast<double>(updates[k].bytes) / room.link_bytes_per_ms;
    return_ms.push_back(link_out_free);
  }
  return std::max({now, link_in_free, link_out_free});
}

}  // namespace

std::vector<size_t> order_of_copies(const TransferSchedule& transfers) {
  std::vector<size_t> order;
  for (size_t k = transfers.prefetched; k < transfers.transfers.size(); ++k) order.push_back(k);
  for (size_t k = transfers.prefetched; k-- > 0;) order.push_back(k);
  return order;
}

size_t ended_in_segment(std::span<const MovedUpdate> updates, std::span<const StateTransfer> transfers,
                        size_t k) {
  const auto is_counted = [&](const MovedUpdate& update) { return update.segment == updates[k].segment; };
  return static_cast<size_t>(std::ranges::count_if(updates.first(transfers[k].ended), is_counted));
}

std::vector<StateTransfer> transfers_with_minimum_memory(std::span<const MovedUpdate> updates) {
  std::vector<StateTransfer> transfers;
  for (size_t k = 0; k < updates.size(); ++k) {
    const bool is_ahead = k > 0 && updates[k].follows && !updates[k].ends_run;
    size_t ended = k >= 2 ? k - 1 : 0;
    // Update k is the last one of several successive updates, and other ops run directly after it. If the states of update k were copied
    // while update k - 1 runs, the states of both updates would be on the device in addition to the operands of those ops. The copies for
    // update k therefore wait until the states of all earlier updates are back on the host.
    if (k >= 1 && updates[k].follows && updates[k].ends_run) ended = k;
    transfers.push_back({.before = updates[is_ahead ? k - 1 : k].op, .ended = ended});
  }
  return transfers;
}

std::vector<StateTransfer> transfers_with_disk(std::span<const MovedUpdate> updates) {
  constexpr size_t kAtOnce = 3;
  std::vector<StateTransfer> transfers;
  for (size_t k = 0; k < updates.size(); ++k) {
    const bool is_ahead = k > 0 && updates[k].segment == updates[k - 1].segment;
    transfers.push_back(
        {.before = updates[is_ahead ? k - 1 : k].op, .ended = k >= kAtOnce ? k + 1 - kAtOnce : 0});
  }
  return transfers;
}

std::vector<StateTransfer> late_transfers(std::span<const MovedUpdate> updates, bool is_disk) {
  return is_disk ? transfers_with_disk(updates) : transfers_with_minimum_memory(updates);
}

TransferSchedule transfers_as_early_as_possible(std::span<const MovedUpdate> updates,
                                                std::span<const Segment> segments,
                                                const MemoryHeadroom& room) {
  const size_t n = updates.size();
  TransferSchedule best{.transfers = late_transfers(updates, room.is_disk)};
  double best_ms =
      rest_ms(updates, segments, room, best.transfers, 0) + simulate_forward(updates, segments, room, 0).ms;
  const size_t parts = room.may_defer ? std::min(n, kDeferredTried) : 0;
  for (size_t part = 0; part <= parts; ++part) {
    const size_t deferred = parts > 0 ? n * part / parts : 0;
    std::optional<std::vector<StateTransfer>> transfers =
        EarlySchedule(updates, segments, room, deferred).run();
    // The states of the deferred updates do not fit on the device. Larger numbers of deferred updates would need even more memory.
    if (!transfers) break;
    ForwardPass forward = simulate_forward(updates, segments, room, deferred);
    const double ms = forward.ms + rest_ms(updates, segments, room, *transfers, deferred);
    if (ms >= best_ms) continue;
    best_ms = ms;
    best = {
        .transfers = std::move(*transfers), .deferred = deferred, .releases = std::move(forward.releases)};
  }
  return best;
}

}  // namespace plimsoll
