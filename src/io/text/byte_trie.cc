#include "io/text/byte_trie.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace plimsoll::text {

// Builds a double-array trie: assigns array cells to its nodes. The free cells form a ring in the order in which they were created. A node
// with one child gets the oldest free cell, which fills gaps. A node with several children needs several free cells at given distances; at
// most kMaxTries of the newest positions are tried, which limits the time.
class ByteTrie::Builder {
 public:
  Builder(ByteTrie& trie, std::vector<std::pair<std::string_view, int32_t>> entries)
      : trie_(trie), entries_(std::move(entries)) {
    std::sort(entries_.begin(), entries_.end());
    for (size_t i = 1; i < entries_.size(); ++i) {
      PLIMSOLL_CHECK(entries_[i - 1].first != entries_[i].first,
                     "the key '{}' occurs twice in the entries of the trie", entries_[i].first);
    }
  }

  void build() {
    add_block();
    pending_.push_back({kRoot, 0, entries_.size(), 0});
    while (!pending_.empty()) {
      const Pending top = pending_.back();
      pending_.pop_back();
      place_children(top);
    }
  }

 private:
  static constexpr uint32_t kBlock = 256;
  // the cell of the root; it is never free, and marks the end of the ring
  static constexpr uint32_t kEnd = 0;
  static constexpr int kMaxTries = 64;

  // A node whose children have no cells yet. The keys whose path leads through this node are entries_[first] to entries_[last - 1]; the
  // path to the node consists of their first `depth` bytes, which they share.
  struct Pending {
    Node node;
    size_t first, last, depth;
  };
  struct Link {
    uint32_t next = kEnd;
    uint32_t previous = kEnd;
  };

  void add_block() {
    const auto first = narrow<uint32_t>(trie_.cells_.size());
    PLIMSOLL_CHECK(first < kBaseMask - kBlock,
                   "the trie has too many cells: the index of a cell must fit into 31 bits");
    trie_.cells_.resize(first + kBlock);
    trie_.values_.resize(first + kBlock, kNoValue);
    links_.resize(first + kBlock);
    for (uint32_t cell = std::max(first, 1u); cell < first + kBlock; ++cell) {
      links_[cell] = {kEnd, links_[kEnd].previous};
      links_[links_[kEnd].previous].next = cell;
      links_[kEnd].previous = cell;
    }
  }

  bool is_free(uint32_t cell) const { return cell != kRoot && trie_.cells_[cell].parent == kNone; }

  void take(uint32_t cell, Node parent) {
    const Link link = links_[cell];
    links_[link.previous].next = link.next;
    links_[link.next].previous = link.previous;
    trie_.cells_[cell].parent = parent;
  }

  bool fits(uint32_t base) const {
    return std::all_of(bytes_.begin(), bytes_.begin() + num_bytes_,
                       [&](uint8_t b) { return is_free(base ^ b); });
  }

  uint32_t find_base() {
    if (num_bytes_ == 1 && links_[kEnd].next != kEnd) return links_[kEnd].next ^ bytes_[0];
    uint32_t cell = links_[kEnd].previous;
    for (int i = 0; i < kMaxTries && cell != kEnd; ++i, cell = links_[cell].previous) {
      if (fits(cell ^ bytes_[0])) return cell ^ bytes_[0];
    }
    add_block();
    return narrow<uint32_t>(trie_.cells_.size()) - kBlock;
  }

  unsigned char byte_of(size_t entry, size_t depth) const {
    return static_cast<unsigned char>(entries_[entry].first[depth]);
  }

  void place_children(Pending at) {
    if (at.first < at.last && entries_[at.first].first.size() == at.depth) {
      PLIMSOLL_CHECK(entries_[at.first].second >= 0);
      trie_.values_[at.node] = entries_[at.first].second;
      trie_.cells_[at.node].base |= ~kBaseMask;
      ++at.first;
    }
    if (at.first == at.last) return;
    // The keys are sorted, so keys with the same next byte are adjacent.
    num_bytes_ = 0;
    for (size_t i = at.first; i < at.last; ++i) {
      const unsigned char byte = byte_of(i, at.depth);
      if (num_bytes_ == 0 || bytes_[num_bytes_ - 1] != byte) {
        starts_[num_bytes_] = i;
        bytes_[num_bytes_++] = byte;
      }
    }
    starts_[num_bytes_] = at.last;
    const uint32_t base = find_base();
    trie_.cells_[at.node].base |= base;
    for (size_t i = 0; i < num_bytes_; ++i) {
      take(base ^ bytes_[i], at.node);
      pending_.push_back({base ^ bytes_[i], starts_[i], starts_[i + 1], at.depth + 1});
    }
  }

  ByteTrie& trie_;
  std::vector<std::pair<std::string_view, int32_t>> entries_;
  std::vector<Link> links_;
  std::vector<Pending> pending_;
  std::array<uint8_t, 256> bytes_{};
  std::array<size_t, 257> starts_{};
  size_t num_bytes_ = 0;
};

ByteTrie::ByteTrie() : ByteTrie(std::vector<std::pair<std::string_view, int32_t>>{}) {}

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  Builder(*this, std::move(entries)).build();
}

}  // namespace plimsoll::text
