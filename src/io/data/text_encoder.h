// What the data room needs of a tokenizer. A bridge from io/text implements it; tests implement small ones.
// Thread-safety: encode is called from several threads at once on one object.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace plimsoll {

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the ids and token types of a text or a pair, special tokens included, at most max_length of them;
  // returns how many tokens were cut (0: nothing was). Requires: ids and types have one length; appends as
  // many to each.
  virtual int64_t encode(std::string_view first, std::optional<std::string_view> second, int64_t max_length,
                         std::vector<int32_t>& ids, std::vector<int32_t>& types) const = 0;

  // Changes when encode would give other ids for any text: the hash of the tokenizer's files and settings.
  virtual uint64_t content_hash() const = 0;
};

}  // namespace plimsoll
