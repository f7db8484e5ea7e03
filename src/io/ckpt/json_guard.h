// The JSON parser for untrusted files, used by parse_untrusted_json() and for the header of safetensors files. All checks against
// malformed, malicious and ambiguous text are in this file. It calls a function per event (a key, a value, the start of an object)
// instead of building a tree, because the tree of a header of 100 MB would need 1 GB.
//
// Internal to io/ckpt. Thread-safety: pure functions. Errors: kBadData; the message names the file, line and column.
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

// The deepest nesting that is accepted in a JSON text. Real files have less; the limit bounds the depth of recursive functions that
// process the value.
inline constexpr int kMaxJsonDepth = 64;

// Base class of event handlers. A derived class has a function per event, which returns true, or refuse(reason) to stop the parser with
// an error.
class GuardedEvents {
 public:
  bool binary(nlohmann::json::binary_t&) { return refuse("binary value"); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) {
    // The error message of the library nlohmann::json is "[json.exception.parse_error.101] parse error at line 1, column 7: reason". The
    // number of the exception and the position are removed, because the number does not help a user, and the caller adds the position
    // together with the name of the file.
    std::string_view what = error.what();
    const auto remove_through = [&what](std::string_view mark) {
      const size_t found = what.find(mark);
      if (found != std::string_view::npos) what.remove_prefix(found + mark.size());
    };
    remove_through("] ");
    if (what.starts_with("parse error at")) remove_through(": ");
    // The library appends "; last read: " and the last token, which is not escaped and may be long. This part of its message is removed.
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
  // Returns the number of objects and lists that have begun and not ended.
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

// Parses the text and calls the functions of `events`. The library keeps its state on the heap, so no input can exhaust the stack.
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
