// The metadata of a GGUF file: keys and typed values, in the order in which they are written. models/ and io/gguf add entries,
// and io/gguf writes them to a file. Values only; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace plimsoll {

using GgufValue = std::variant<uint32_t, float, bool, std::string, std::vector<std::string>,
                               std::vector<int32_t>, std::vector<float>>;

struct GgufEntry {
  std::string key;
  GgufValue value;
};

// The entries of a file. Requires: each key is added once.
class GgufMetadata {
 public:
  void add(std::string key, GgufValue value) { entries_.push_back({std::move(key), std::move(value)}); }
  // Adds a number such as the hidden size of a model. Requires: it fits into 32 bits, as all sizes in checked configurations do.
  void add_size(std::string key, int64_t size) { add(std::move(key), static_cast<uint32_t>(size)); }
  const std::vector<GgufEntry>& entries() const { return entries_; }

 private:
  std::vector<GgufEntry> entries_;
};

}  // namespace plimsoll
