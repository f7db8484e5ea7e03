// The table of settings as data: where each one lives in Arguments, how to find it by name, and what became
// of old names.
//
// Not the parser and not the text forms of values (value.h). Thread-safe: immutable after first
// use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll {

using ArgumentMember =
    std::variant<bool Arguments::*, int64_t Arguments::*, double Arguments::*, std::string Arguments::*,
                 std::optional<bool> Arguments::*, std::optional<int64_t> Arguments::*,
                 std::optional<double> Arguments::*, StringList Arguments::*, KeyValues Arguments::*>;

struct Setting {
  ArgumentInfo info;  // default_text is filled in by argument_table() only
  ArgumentMember member;

  // Takes no value on the command line, or True and False.
  bool is_flag() const;
  bool is_list() const { return std::holds_alternative<StringList Arguments::*>(member); }
  bool is_secret() const { return info.unit == "secret"; }
};

// In the order of declaration.
const std::vector<Setting>& settings();
// Null if there is no such name.
const Setting* find_setting(std::string_view name);

// kOld: of Transformers before version 5, or of the example scripts then; read with a warning. kPeft: what
// LoraConfig calls a setting; read without one.
enum class NameKind : uint8_t { kOld, kPeft };

// A name that is read as another.
struct OldName {
  std::string_view name;
  std::string_view replacement;  // "" if it is ignored
  std::string_view
      true_value;  // what the replacement becomes if the old flag is true; "" if the value is carried over
  bool is_flag;
  std::string_view note;  // for an ignored name: why
  NameKind kind = NameKind::kOld;
};
const std::vector<OldName>& old_names();
const OldName* find_old_name(std::string_view name);

// A value of Transformers before version 5 that has another name now.
struct OldValue {
  std::string_view setting;
  std::string_view value;
  std::string_view replacement;
};
const std::vector<OldValue>& old_values();
// Null if it is none.
const OldValue* find_old_value(std::string_view setting, std::string_view value);

// The words of "a|b|c".
std::vector<std::string_view> split_choices(std::string_view choices);
// did_you_mean() among the names of settings, which knows a few names of other tools, such as lr.
std::string did_you_mean_setting(std::string_view name);

}  // namespace plimsoll
