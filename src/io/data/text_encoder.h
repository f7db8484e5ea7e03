// What the data room needs of a tokenizer: tokenizer_encoder.h bridges to io/text, tests implement small
// ones. Thread-safety: an encoder may be used by several threads at once, each session by one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace plimsoll {

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // The buffers of one thread. The encoder outlives its sessions.
  class Session {
   public:
    virtual ~Session() = default;
    // Appends the ids and token types of a text or a pair, special tokens included, at most max_length of
    // them; returns how many tokens were cut (0: nothing was). Requires: ids and types have one length;
    // appends as many to each.
    virtual int64_t encode(std::string_view first, std::optional<std::string_view> second, int64_t max_length,
                           std::vector<int32_t>& ids, std::vector<int32_t>& types) = 0;
  };
  virtual std::unique_ptr<Session> new_session() const = 0;

  // Changes when encode would give other ids for any text: the hash of the tokenizer's files and settings.
  virtual uint64_t content_hash() const = 0;
};

}  // namespace plimsoll
