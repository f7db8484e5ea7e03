// Reads all JSON that the program did not write itself: files, answers of servers, pipes and arguments. It bounds depth and size, refuses
// text that is not JSON, and reports the position of the first fault. JsonTree builds a tree; code that reads a large text handles the
// parser's events itself. base/json.h writes JSON. JSON in the rows of data files is read by other code (io/data).
//
// Thread-safe: pure functions, except for reading files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace plimsoll {

// The largest number of lists and objects that are open at the same time. Real configurations are less deep; the limit bounds the
// recursion over a tree.
inline constexpr int kMaxJsonDepth = 64;

// The largest text, unless a reader states its own limit.
inline constexpr int64_t kMaxJsonBytes = int64_t{64} << 20;

// States what happens if a key occurs twice in one object. Python's json and Hugging Face's readers use the last value.
enum class RepeatedKeys : uint8_t { kRefuse, kLastWins };

// States what happens if a text begins with a byte order mark (EF BB BF), which some editors write.
enum class ByteOrderMark : uint8_t { kRefuse, kSkip };

// The limits and rules by which a reader accepts or refuses a JSON text.
struct JsonRules {
  int max_depth = kMaxJsonDepth;
  int64_t max_bytes = kMaxJsonBytes;
  RepeatedKeys repeated_keys = RepeatedKeys::kLastWins;
  ByteOrderMark byte_order_mark = ByteOrderMark::kSkip;
  // The advice at the end of every error message, without a full stop.
  std::string_view remedy = "Correct the file or get it again from its source";
};

// Returns strict rules for files whose keys determine what their bytes are (models, checkpoints): no repeated keys, no byte order mark.
constexpr JsonRules strict_json(int64_t max_bytes = kMaxJsonBytes) {
  return {.max_bytes = max_bytes,
          .repeated_keys = RepeatedKeys::kRefuse,
          .byte_order_mark = ByteOrderMark::kRefuse};
}

// kText: the text is not JSON. kNumber: a number exceeds the range of double. kLimit: the text is nested too deeply or too large.
// kRefused: a repeated key, or a value that the handler of the events refused.
enum class JsonFaultKind : uint8_t { kText, kNumber, kLimit, kRefused };

// The first fault of a text, and the byte at which it was found.
struct JsonFault {
  JsonFaultKind kind = JsonFaultKind::kText;
  size_t offset = 0;
  std::string reason = {};
};

// Receives the values, keys and brackets of a JSON text as events, in the order of the text. Each function returns true to
// continue, or refuse(why) to stop. string() and key() may move the text out of their argument.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool number_integer(int64_t value) = 0;  // called for negative integers only
  virtual bool number_unsigned(uint64_t value) = 0;
  // Receives every other number, which is finite, together with its text.
  virtual bool number_float(double value, const std::string& text) = 0;
  virtual bool string(std::string& value) = 0;
  virtual bool start_object() = 0;
  virtual bool key(std::string& name) = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;

 protected:
  // Ends reading with a fault of kind kRefused at the current position. Returns false.
  bool refuse(std::string why);
  // Returns the number of objects and lists around the current value.
  int depth() const { return depth_; }
  // Returns the offset of the byte that was read last.
  size_t offset() const { return *num_taken_ == 0 ? 0 : *num_taken_ - 1; }

 private:
  friend class JsonGuard;

  int depth_ = 0;
  const size_t* num_taken_ = nullptr;
  std::optional<JsonFault> fault_;
};

// Passes the events of the text to `events`, an object that is used for one text only. Returns the first fault, or nothing if all of the
// text is JSON that obeys the rules. The parser does not recurse and keeps its state on the heap, so that no text can exhaust the stack.
std::optional<JsonFault> read_json(std::string_view text, const JsonRules& rules, JsonEvents& events);

// Throws the error for a fault: kBadData with `where`, line, column, reason and remedy.
[[noreturn]] void refuse_json(std::string_view text, std::string_view where, const JsonFault& fault,
                              const JsonRules& rules);

// Builds a tree. `Json` is nlohmann::json, or nlohmann::ordered_json, which keeps the order of keys.
template <typename Json>
class JsonTree : public JsonEvents {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(int64_t value) override { return put(value); }
  bool number_unsigned(uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool start_object() override { return open(Json::object()); }
  bool key(std::string& name) override;
  bool end_object() override { return close(); }
  bool start_array() override { return open(Json::array()); }
  bool end_array() override { return close(); }

  // Returns the tree. Requires: the text was read without a fault.
  Json take() { return std::move(root_); }

 protected:
  bool put(Json value);

 private:
  Json* place(Json value);
  bool open(Json value);
  bool close();

  Json root_;
  // The containers that are open, the innermost last. A container does not grow while one inside it is open, so the pointers stay valid.
  std::vector<Json*> open_;
  Json* slot_ = nullptr;  // where the value of the last key is stored
};

extern template class JsonTree<nlohmann::json>;
extern template class JsonTree<nlohmann::ordered_json>;

// Returns the tree of a text. `where` names the text in messages. Errors: kBadData as in refuse_json().
template <typename Json = nlohmann::json>
Json parse_json(std::string_view text, std::string_view where, const JsonRules& rules = {}) {
  JsonTree<Json> tree;
  if (const auto fault = read_json(text, rules, tree)) refuse_json(text, where, *fault, rules);
  return tree.take();
}

// Parses a text that need not be JSON. If it is not JSON that obeys the rules, returns a value for which is_discarded() is true
// and which has none of the types of JSON.
template <typename Json = nlohmann::json>
Json find_json(std::string_view text, const JsonRules& rules = {}) {
  JsonTree<Json> tree;
  return read_json(text, rules, tree) ? Json(Json::value_t::discarded) : tree.take();
}

// Parses a text as parse_json() does. Errors: kBadData also for a value that is not an object.
nlohmann::json parse_json_object(std::string_view text, std::string_view where, const JsonRules& rules = {});

// Reads the object in a file of at most rules.max_bytes. Errors: those of parse_json_object() and of read_text_file().
nlohmann::json read_json_object(const std::string& path, const JsonRules& rules = {});

}  // namespace plimsoll
