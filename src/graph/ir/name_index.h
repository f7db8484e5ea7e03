// A hash table from names to numbers that does not store the names: the user of the table stores them in a list, and passes a function that
// returns the name of a number. Copying the table therefore copies one array. Not thread-safe while it is being changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

namespace plimsoll {

class NameIndex {
 public:
  static constexpr uint32_t kAbsent = std::numeric_limits<uint32_t>::max();

  // Returns the number of a name, or kAbsent. `name_of(number)` returns the name of a number.
  template <typename NameOf>
  uint32_t find(std::string_view name, const NameOf& name_of) const {
    if (slots_.empty()) return kAbsent;
    return slots_[slot_of(hash_of(name), name, name_of)].number;
  }

  // Adds a name. Returns false, and changes nothing, if the table contains it already. Requires: number < kAbsent - 1.
  template <typename NameOf>
  bool insert(std::string_view name, uint32_t number, const NameOf& name_of) {
    if (2 * (num_used_ + 1) > slots_.size()) grow();
    const uint32_t hash = hash_of(name);
    Slot& slot = slots_[slot_of(hash, name, name_of)];
    if (slot.number != kAbsent) return false;
    slot = {hash, number};
    ++num_used_;
    return true;
  }

  template <typename NameOf>
  void erase(std::string_view name, const NameOf& name_of) {
    if (slots_.empty()) return;
    Slot& slot = slots_[slot_of(hash_of(name), name, name_of)];
    if (slot.number != kAbsent) slot.number = kErased;
  }

  // Changes every number n to renumbered[n]; if that is kAbsent, erases the name.
  void renumber(const std::vector<uint32_t>& renumbered) {
    for (Slot& slot : slots_) {
      if (slot.number >= kErased) continue;
      slot.number = renumbered[slot.number];
      if (slot.number == kAbsent) slot.number = kErased;
    }
  }

 private:
  static constexpr uint32_t kErased =
      // Marks a slot whose name was erased. Searches continue after it, because a name with the same hash may be in a later slot.
      kAbsent - 1;
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = kAbsent;
  };

  static uint32_t hash_of(std::string_view name) {
    return static_cast<uint32_t>(std::hash<std::string_view>()(name));
  }

  // Returns the slot that has the name, or the free slot where it would be.
  template <typename NameOf>
  size_t slot_of(uint32_t hash, std::string_view name, const NameOf& name_of) const {
    const size_t mask = slots_.size() - 1;
    size_t at = hash & mask;
    while (slots_[at].number != kAbsent &&
           (slots_[at].number == kErased || slots_[at].hash != hash || name_of(slots_[at].number) != name))
      at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    num_used_ = 0;
    const size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.number >= kErased) continue;
      size_t at = slot.hash & mask;
      while (slots_[at].number != kAbsent) at = (at + 1) & mask;
      slots_[at] = slot;
      ++num_used_;
    }
  }

  std::vector<Slot> slots_;  // the number of slots is a power of two
  size_t num_used_ = 0;      // number of slots that contain a name or have been erased
};

}  // namespace plimsoll
