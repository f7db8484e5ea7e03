// The guarded JSON event parser used by parse_untrusted_json and the safetensors header. All rules about
// malformed, malicious and ambiguous text are here. It produces events instead of values, so that a header of
// 100 MB needs no tree of 1 GB.
//
// Internal to io/ckpt. Thread-safety: pure. Errors: kBadData; the message names the file, line and column.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/counting_iterator.h"
#include "io/ckpt/json_text.h"

namespace plimsoll::internal {

// The deepest nesting of a JSON text that is accepted. Real configurations are less deep; the limit bounds the recursion over the value.
inline constexpr int kMaxJsonDepth = 64;

// Base class of event handlers. A derived class implements the events; each returns true or refuse(why).
class GuardedEvents {
 public:
  bool binary(nlohmann::json::binary_t&) { return refuse("binary value"); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) {
    // The library's text is "[json.exception.parse_error.101] parse error at line 1, column 7: reason". The number of the
    // exception and the position are removed: the number means nothing to a user, and the caller adds the position with the name
    // of the file.
    std::string_view what = error.what();
    const auto remove_through = [&what](std::string_view mark) {
      const size_t found = what.find(mark);
      if (found != std::string_view::npos) what.remove_prefix(found + mark.size());
    };
    remove_through("] ");
    if (what.starts_with("parse error at")) remove_through(": ");
    // The text after "; last read" is cut off, because it contains the token itself, unescaped and of any length.
    return refuse("not valid JSON: " + printable(what.substr(0, what.find("; last read"))));
  }
  const std::string& failure() const { return failure_; }

 protected:
  bool refuse(std::string why) {
    failure_ = std::move(why);
    return false;
  }
  bool enter() {
    return ++depth_ <= kMaxJsonDepth ||
           refuse(fmt::format("nesting is deeper than {} levels", kMaxJsonDepth));
  }
  bool leave() {
    --depth_;
    return true;
  }
  bool check_finite(double value, const std::string& text) {
    return std::isfinite(value) || refuse("number " + quoted_name(text) + " is out of range");
  }
  // Returns the number of open containers.
  int depth() const { return depth_; }

 private:
  int depth_ = 0;
  std::string failure_;
};

[[noreturn]] inline void fail_json(const std::string& file, std::string_view text, size_t offset,
                                   const std::string& why) {
  throw_error(ErrorCode::kBadData, "{}: {}: {}. Correct the file or get it again from its source", file,
              text_position(text, offset), why);
}

// Passes the events of the text to `events`. The library stores its state on the heap, so no input can
// exhaust the stack.
template <typename Events>
void parse_guarded(std::string_view text, const std::string& file, Events& events) {
  // The library treats a NUL byte as the end of the text and skips a byte-order mark; neither is valid JSON.
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) fail_json(file, text, nul, "not valid JSON: a NUL byte");
  if (text.starts_with("\xef\xbb\xbf")) {
    fail_json(file, text, 0, "not valid JSON: a byte-order mark; save it as UTF-8 without one");
  }
  size_t num_taken = 0;
  const CountingIterator first(text.data(), &num_taken);
  const CountingIterator last(text.data() + text.size(), &num_taken);
  if (!nlohmann::json::sax_parse(first, last, &events)) {
    fail_json(file, text, num_taken == 0 ? 0 : num_taken - 1, events.failure());
  }
}

}  // namespace plimsoll::internal
