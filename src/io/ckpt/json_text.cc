#include "io/ckpt/json_text.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "io/ckpt/json_guard.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Builds the JSON value from the events of the parser, and refuses duplicate keys and nesting that is too deep.
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
  // The objects and lists that have not ended. The pointers stay valid, because a parent does not grow before its child has ended.
  std::vector<Json*> open_;
  std::string key_;
};

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
                "{}: expected a JSON object {{...}}, found {}. Check that it is the right file", file,
                value.type_name());
  }
  return value;
}

}  // namespace plimsoll
