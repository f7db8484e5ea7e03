#include "graph/passes/saved_transfers.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plimsoll {
namespace {

constexpr size_t kLeastAhead = 2;

class SavedSchedule {
 public:
  SavedSchedule(std::span<const SavedValue> values, uint32_t backward, const ActivationHeadroom& room)
      : values_(values),
        backward_(backward),
        most_bytes_(room.most_bytes),
        most_ahead_(std::max(room.most_ahead, kLeastAhead)),
        live_bytes_(room.live_bytes) {
    by_reader_.resize(values.size());
    std::iota(by_reader_.begin(), by_reader_.end(), size_t{0});
    std::ranges::stable_sort(by_reader_, {}, [&](size_t k) { return values_[k].first_reader; });
    transfers_.resize(values.size());
    copy_everything();
  }

  std::vector<SavedTransfer> found() && {
    keep_values_read_first();
    if (!live_bytes_.empty()) {
      delay_copies_out();
      advance_copies_in();
    }
    return std::move(transfers_);
  }

 private:
  // Returns the position of the first op before which value k must have been copied to the host, if at most `ahead` values may wait for
  // their copy at a time.
  uint32_t out_ends_before(size_t k, size_t ahead) const {
    return k + ahead < values_.size() ? values_[k + ahead].producer + 1 : backward_;
  }

  // Returns the position of the op before which the copy of a value back to the device starts. `number` counts the saved values in the
  // order in which the backward pass reads them. The copy starts after the backward pass has read value number - ahead, so that at most
  // `ahead` values are back on the device before they are read.
  uint32_t in_starts_before(size_t number, size_t ahead) const {
    if (number < ahead) return backward_;
    const uint32_t behind = values_[by_reader_[number - ahead]].first_reader + 1;
    return std::min(behind, values_[by_reader_[number]].first_reader);
  }

  // Starts with the schedule that needs the least memory: all values are copied, as late as possible.
  void copy_everything() {
    for (size_t k = 0; k < values_.size(); ++k) {
      transfers_[k].out_ends_before = out_ends_before(k, kLeastAhead);
      transfers_[by_reader_[k]].in_starts_before = in_starts_before(k, kLeastAhead);
    }
    if (live_bytes_.empty()) return;
    for (size_t k = 0; k < values_.size(); ++k) {
      const SavedValue& value = values_[k];
      add(value.last_reader + 1, value.first_reader, -value.bytes);
      add(value.last_reader + 1, transfers_[k].out_ends_before, value.bytes);
      add(transfers_[k].in_starts_before, value.first_reader, value.bytes);
    }
  }

  void add(uint32_t from, uint32_t to, int64_t bytes) {
    for (uint32_t p = from; p < to; ++p) live_bytes_[p] += bytes;
  }

  // Returns true if `bytes` additional bytes are free at all positions from `from` up to, but not including, `to`.
  bool have_room(uint32_t from, uint32_t to, int64_t bytes) const {
    if (from >= to) return true;
    return !live_bytes_.empty() &&
           *std::max_element(live_bytes_.begin() + from, live_bytes_.begin() + to) + bytes <= most_bytes_;
  }

  void keep_values_read_first() {
    for (const size_t k : by_reader_) {
      const uint32_t gone = std::max(transfers_[k].out_ends_before, values_[k].last_reader + 1);
      const uint32_t back = transfers_[k].in_starts_before;
      if (!have_room(gone, back, values_[k].bytes)) return;
      transfers_[k].stays = true;
      if (!live_bytes_.empty()) add(gone, back, values_[k].bytes);
    }
  }

  void delay_copies_out() {
    uint32_t latest = backward_;
    for (size_t k = values_.size(); k-- > 0;) {
      const SavedValue& value = values_[k];
      uint32_t& gone = transfers_[k].out_ends_before;
      if (transfers_[k].stays) continue;
      latest = std::min(latest, out_ends_before(k, most_ahead_));
      for (; gone < latest; ++gone) {
        if (gone <= value.last_reader) continue;
        if (!have_room(gone, gone + 1, value.bytes)) break;
        live_bytes_[gone] += value.bytes;
      }
      latest = gone;
    }
  }

  void advance_copies_in() {
    uint32_t earliest = backward_;
    for (size_t number = 0; number < values_.size(); ++number) {
      const size_t k = by_reader_[number];
      uint32_t& back = transfers_[k].in_starts_before;
      if (transfers_[k].stays) continue;
      earliest = std::max(earliest, in_starts_before(number, most_ahead_));
      for (; back > earliest && have_room(back - 1, back, values_[k].bytes); --back)
        live_bytes_[back - 1] += values_[k].bytes;
      earliest = back;
    }
  }

  std::span<const SavedValue> values_;
  uint32_t backward_;
  int64_t most_bytes_;
  size_t most_ahead_;
  std::vector<int64_t> live_bytes_;
  std::vector<size_t> by_reader_;  // indices of the values in the order in which the backward pass reads them
  std::vector<SavedTransfer> transfers_;
};

}  // namespace

std::vector<SavedTransfer> transfers_of_saved_values(std::span<const SavedValue> values, uint32_t backward,
                                                     const ActivationHeadroom& room) {
  return SavedSchedule(values, backward, room).found();
}

}  // namespace plimsoll
