#include "base/guarded_json.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/text_position.h"
#include "base/utf8.h"

namespace plimsoll {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// An iterator over a text that counts the bytes it has passed. The JSON library reports a position only for
// the errors that it finds itself; with this count, the faults that JsonGuard finds have a position too.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* num_taken) : at_(at), num_taken_(num_taken) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*num_taken_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  size_t* num_taken_;
};

// Returns the part of an error message of the JSON library that states the reason. A message is, for example,
// "[json.exception.parse_error.101] parse error at line 1, column 7: syntax error while parsing object - unexpected '}'; last read:
// '...'; expected string literal". The error number, the position and the text that was read last, which may be long, are left out.
std::string reason_of(std::string_view message) {
  for (const std::string_view mark : {"] ", ": ", " - "}) {
    if (const size_t found = message.find(mark); found != std::string_view::npos)
      message.remove_prefix(found + mark.size());
  }
  const size_t read = message.find("last read: ");
  if (read == std::string_view::npos) return printable(message);
  const size_t expected = message.rfind("; expected ");
  std::string_view before = message.substr(0, read);
  if (before.ends_with("; ")) before.remove_suffix(2);
  return printable(before) + (expected == std::string_view::npos || expected < read
                                  ? std::string()
                                  : printable(message.substr(expected)));
}

}  // namespace

// Receives the events of the JSON library (such as the start of an object), checks them by the JsonRules, and passes them on to JsonEvents.
class JsonGuard {
 public:
  JsonGuard(std::string_view text, const JsonRules& rules, JsonEvents& events)
      : text_(text), rules_(rules), events_(events) {
    events_.num_taken_ = &num_taken_;
  }

  std::optional<JsonFault> read() {
    if (std::cmp_greater(text_.size(), rules_.max_bytes)) {
      return JsonFault{
          JsonFaultKind::kLimit, static_cast<size_t>(rules_.max_bytes),
          fmt::format("the text has {} bytes, but at most {} are read", text_.size(), rules_.max_bytes)};
    }
    // The JSON library would stop at a NUL byte as if the text ended there.
    if (const size_t nul = text_.find('\0'); nul != std::string_view::npos)
      return JsonFault{JsonFaultKind::kText, nul, "not valid JSON: a NUL byte (0x00)"};
    if (rules_.byte_order_mark == ByteOrderMark::kRefuse && text_.starts_with(kByteOrderMark)) {
      return JsonFault{JsonFaultKind::kText, 0,
                       "not valid JSON: a byte-order mark; save it as UTF-8 without one"};
    }
    // If the text contains no value, the message of the JSON library differs from version to version.
    if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos)
      return JsonFault{JsonFaultKind::kText, text_.size(), "not valid JSON: unexpected end of input"};
    const CountingIterator first(text_.data(), &num_taken_);
    const CountingIterator last(text_.data() + text_.size(), &num_taken_);
    if (nlohmann::json::sax_parse(first, last, this)) return std::nullopt;
    return std::move(events_.fault_);
  }

  bool null() { return events_.null(); }
  bool boolean(bool value) { return events_.boolean(value); }
  bool number_integer(int64_t value) { return events_.number_integer(value); }
  bool number_unsigned(uint64_t value) { return events_.number_unsigned(value); }
  bool number_float(double value, const std::string& text) { return events_.number_float(value, text); }
  bool string(std::string& value) { return events_.string(value); }
  bool binary(nlohmann::json::binary_t&) { return events_.refuse("a binary value"); }
  bool start_object(size_t) {
    if (!may_enter() || !events_.start_object()) return false;
    if (num_objects_ == keys_.size()) keys_.emplace_back();
    keys_[num_objects_++].clear();
    ++events_.depth_;
    return true;
  }
  bool key(std::string& name) {
    if (rules_.repeated_keys == RepeatedKeys::kRefuse && !keys_[num_objects_ - 1].insert(name).second)
      return events_.refuse("the key " + quoted_name(name) + " occurs twice in one object" +
                            shown_line(events_.offset()));
    return events_.key(name);
  }
  bool end_object() {
    --num_objects_;
    --events_.depth_;
    return events_.end_object();
  }
  bool start_array(size_t) {
    if (!may_enter() || !events_.start_array()) return false;
    ++events_.depth_;
    return true;
  }
  bool end_array() {
    --events_.depth_;
    return events_.end_array();
  }
  // `position` is the number of bytes up to the end of the faulty token, or the size of the text plus 1 if the text ends too early.
  bool parse_error(size_t position, const std::string& token, const nlohmann::json::exception& error) {
    constexpr int kNumberOverflow = 406;
    const size_t end = std::min(position, text_.size());
    const size_t at = end == 0 ? 0 : end - 1;
    if (error.id == kNumberOverflow) {
      events_.fault_ = JsonFault{JsonFaultKind::kNumber, at,
                                 "expected a number of at most 1.8e308, got " + quoted_name(token)};
      return false;
    }
    // If the fault is in the middle of a character, the next bytes are needed to check if the whole character is valid UTF-8.
    constexpr size_t kMostBytesOfACharacter = 4;
    const std::string_view read = text_.substr(0, at + kMostBytesOfACharacter);
    if (const size_t bad = find_invalid_utf8(read); bad <= at && bad < read.size()) {
      events_.fault_ = JsonFault{JsonFaultKind::kText, bad,
                                 fmt::format("not valid JSON: byte 0x{:02X} is not valid UTF-8",
                                             static_cast<unsigned>(static_cast<unsigned char>(read[bad])))};
      return false;
    }
    events_.fault_ =
        JsonFault{JsonFaultKind::kText, at, "not valid JSON: " + reason_of(error.what()) + shown_line(at)};
    return false;
  }

 private:
  // Returns the end of an error message: ", in " and the faulty line up to the byte `at`, or "" if that part of the line is blank.
  std::string shown_line(size_t at) const {
    const std::string line = line_until(text_, at);
    return line == "''" ? std::string() : ", in " + line;
  }
  bool may_enter() {
    if (events_.depth_ < rules_.max_depth) return true;
    events_.fault_ = JsonFault{JsonFaultKind::kLimit, events_.offset(),
                               fmt::format("nested deeper than {} levels", rules_.max_depth)};
    return false;
  }

  std::string_view text_;
  const JsonRules& rules_;
  JsonEvents& events_;
  size_t num_taken_ = 0;
  size_t num_objects_ = 0;  // number of objects that are open
  // For each open object: its keys so far, if repeated keys are refused. The set of a closed object is reused by the next object at the
  // same depth, because creating a set per object would fragment the memory if a header lists a million tensors.
  std::vector<std::set<std::string, std::less<>>> keys_;
};

bool JsonEvents::refuse(std::string why) {
  fault_ = JsonFault{JsonFaultKind::kRefused, offset(), std::move(why)};
  return false;
}

std::optional<JsonFault> read_json(std::string_view text, const JsonRules& rules, JsonEvents& events) {
  return JsonGuard(text, rules, events).read();
}

void refuse_json(std::string_view text, std::string_view where, const JsonFault& fault,
                 const JsonRules& rules) {
  const TextPosition position = position_in(text, fault.offset);
  throw_error(ErrorCode::kBadData, "{}: line {}, column {}: {}. {}", where, position.line, position.column,
              fault.reason, rules.remedy);
}

template <typename Json>
bool JsonTree<Json>::key(std::string& name) {
  slot_ = &(*open_.back())[std::move(name)];
  return true;
}

template <typename Json>
bool JsonTree<Json>::put(Json value) {
  place(std::move(value));
  return true;
}

template <typename Json>
Json* JsonTree<Json>::place(Json value) {
  if (open_.empty()) {
    root_ = std::move(value);
    return &root_;
  }
  if (open_.back()->is_array()) {
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }
  *slot_ = std::move(value);
  return slot_;
}

template <typename Json>
bool JsonTree<Json>::open(Json value) {
  open_.push_back(place(std::move(value)));
  return true;
}

template <typename Json>
bool JsonTree<Json>::close() {
  open_.pop_back();
  return true;
}

template class JsonTree<nlohmann::json>;
template class JsonTree<nlohmann::ordered_json>;

nlohmann::json parse_json_object(std::string_view text, std::string_view where, const JsonRules& rules) {
  nlohmann::json value = parse_json(text, where, rules);
  if (!value.is_object()) {
    throw_error(ErrorCode::kBadData,
                "{}: expected a JSON object {{...}}, found {}. Check that it is the right file", where,
                value.type_name());
  }
  return value;
}

nlohmann::json read_json_object(const std::string& path, const JsonRules& rules) {
  return parse_json_object(read_text_file(posix_file_system(), path, rules.max_bytes), path, rules);
}

}  // namespace plimsoll
