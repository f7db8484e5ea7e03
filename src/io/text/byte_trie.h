// A constant map from byte strings to numbers that can be walked byte by byte: a double-array trie (Aoe, "An
// Efficient Digital Search Algorithm by Using a Double-Array Structure", IEEE TSE 15(9), 1989, with XOR
// instead of the sum).
//
// It is used for longest-prefix matching, in the vocabulary (word_piece.h) and among added tokens
// (added_tokens.h). Immutable after construction; thread-safe. Owns its cells and keeps no reference to the
// keys.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::text {

class ByteTrie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = 0xFFFFFFFFu;
  static constexpr int32_t kNoValue = -1;

  // Creates a trie without keys.
  ByteTrie();
  // Creates a trie with these keys and values. Requires: the keys are distinct, and no value is negative. Cost: time and memory
  // proportional to the total length of the keys.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  // Returns the child of `node` for this byte, or kNone if it has none. Requires: node is not kNone.
  Node child(Node node, unsigned char byte) const {
    const Node next = (cells_[node].base & kBaseMask) ^ byte;
    return cells_[next].parent == node ? next : kNone;
  }
  // Returns true if a key ends at `node`.
  bool has_value(Node node) const { return (cells_[node].base & ~kBaseMask) != 0; }
  // Returns the value of the key whose last node is `node`, or kNoValue.
  int32_t value(Node node) const { return values_[node]; }
  // Follows the bytes of `text` from `node`, and returns the node that they lead to, or kNone.
  Node walk(Node node, std::string_view text) const {
    for (size_t i = 0; i < text.size() && node != kNone; ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
    }
    return node;
  }
  // Returns the value of the key, or kNoValue.
  int32_t find(std::string_view key) const {
    const Node node = walk(kRoot, key);
    return node == kNone ? kNoValue : value(node);
  }

 private:
  // Invariants: the number of cells is a multiple of 256, so that `base ^ byte` is always the index of a cell. The top bit of
  // `base` says that a key ends at the cell. The root and free cells have the parent kNone.
  static constexpr uint32_t kBaseMask = 0x7FFFFFFFu;
  struct Cell {
    uint32_t base = 0;
    Node parent = kNone;
  };
  class Builder;
  std::vector<Cell> cells_;
  std::vector<int32_t> values_;
};

}  // namespace plimsoll::text
