#include "io/ckpt/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "io/ckpt/json_guard.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Builds the value while it watches depth and keys.
class GuardedBuilder : public internal::GuardedEvents {
 public:
  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string& text) { return check_finite(value, text) && put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (open_.back()->contains(name))
      return refuse("key " + quoted_name(name) + " occurs twice in one object");
    key_ = std::move(name);
    return true;
  }
  Json& value() { return root_; }

 private:
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back(place(std::move(value)));
    return enter();
  }
  bool close() {
    open_.pop_back();
    return leave();
  }

  Json root_;
  std::vector<Json*> open_;  // Stays valid: a container does not grow while one inside it is open.
  std::string key_;
};

// The length of the valid UTF-8 sequence at the start of text; 0 if it is invalid.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0u) != 0x80u) return 0;
  }
  return length;
}

}  // namespace

Json parse_untrusted_json(std::string_view text, const std::string& file) {
  GuardedBuilder builder;
  internal::parse_guarded(text, file, builder);
  return std::move(builder.value());
}

Json parse_untrusted_json_object(std::string_view text, const std::string& file) {
  Json value = parse_untrusted_json(text, file);
  if (!value.is_object()) {
    throw_error(ErrorCode::kBadData,
                "{}: a JSON object {{...}} is wanted, found {}. Check that it is the file you mean", file,
                value.type_name());
  }
  return value;
}

std::string printable(std::string_view text) {
  constexpr size_t kMaxBytes = 120;
  std::string out;
  while (!text.empty()) {
    if (out.size() > kMaxBytes) {
      out += "...";
      break;
    }
    const size_t length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text.front());
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string quoted_name(std::string_view name) {
  return "'" + printable(name) + "'";
}

std::string text_position(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n');
  const size_t column = start == std::string_view::npos ? before.size() : before.size() - start - 1;
  return fmt::format("line {}, column {}", line, column + 1);
}

}  // namespace plimsoll
