// The table of settings as data: the field of Arguments for each setting, lookup by name, and the translation
// of old names.
//
// It does not contain the parser of command lines (parse.cc) and the conversion of values to text (value.h).
// Thread-safe: immutable after first use.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/run_commands.h"

namespace plimsoll {

using ArgumentMember =
    std::variant<bool Arguments::*, int64_t Arguments::*, double Arguments::*, std::string Arguments::*,
                 std::optional<bool> Arguments::*, std::optional<int64_t> Arguments::*,
                 std::optional<double> Arguments::*, StringList Arguments::*, KeyValues Arguments::*>;

struct Setting {
  ArgumentInfo info;  // `default_text` is empty except in the result of argument_table()
  ArgumentMember member;

  // Returns true if the setting takes either no value or True or False on the command line.
  bool is_flag() const;
  bool is_list() const { return std::holds_alternative<StringList Arguments::*>(member); }
  bool is_secret() const { return info.unit == "secret"; }
};

// Returns all settings in the order of declaration.
const std::vector<Setting>& settings();
// Returns the setting with this name, or null.
const Setting* find_setting(std::string_view name);

// The source of an alternative name. kOld: Transformers or the example scripts before version 5; accepted
// with a warning. kPeft: the name in LoraConfig; accepted without a warning.
enum class NameKind : uint8_t { kOld, kPeft };

// An alternative name of a setting, such as a name that earlier Transformers versions used.
struct OldName {
  std::string_view name;
  std::string_view replacement;  // name of the setting that replaces the old one; empty if it is ignored
  // The value that the replacement gets if a flag with the old name is true. If empty, the value is passed on
  // unchanged.
  std::string_view true_value;
  bool is_flag;
  std::string_view note;  // the reason why the setting is ignored
  NameKind kind = NameKind::kOld;
};
const std::vector<OldName>& old_names();
const OldName* find_old_name(std::string_view name);

// A value of a setting that has a new name since version 5 of Transformers.
struct OldValue {
  std::string_view setting;
  std::string_view value;
  std::string_view replacement;
};
const std::vector<OldValue>& old_values();
// Returns the row for this value of a setting if an earlier version of Transformers used the value; otherwise null.
const OldValue* find_old_value(std::string_view setting, std::string_view value);

// Describes a state of a setting, which is a condition on its value such as "is true" or "is one of these". Rules between two settings
// consist of such states.
enum class StateKind : uint8_t {
  kTrue,     // the value is True
  kFalse,    // the value is False; an optional setting that is not set is not in this state
  kGiven,    // the setting has a value that is not empty
  kOneOf,    // the value is one of `values`
  kNoneOf,   // the value is none of `values`
  kContains  // the value is a list that contains `values`
};
struct SettingState {
  std::string_view setting;
  StateKind kind = StateKind::kTrue;
  std::string_view values = {};  // values "a|b" for kOneOf and kNoneOf, one value for kContains
};

// A rule between two settings: the states `first` and `second` must not both hold, for example fp16 is true and bf16 is true.
// resolve_arguments() refuses settings for which both hold, and the JSON Schema of settings files contains the same rule.
struct Exclusion {
  SettingState first, second;
  // error message, in which the two settings with their values replace {0} and {1}
  std::string_view message;
};
std::span<const Exclusion> exclusions();
bool holds(const Arguments& arguments, const SettingState& state);
// Throws if the settings are in both states of this rule. Errors: kUsage.
void check_exclusion(const Arguments& arguments, const Exclusion& row);
// Checks every rule of exclusions(). Errors: kUsage for the first rule that the settings violate.
void check_exclusions(const Arguments& arguments);

// Splits a list of choices "a|b|c" into its elements.
std::vector<std::string_view> split_choices(std::string_view choices);

// Returns did_you_mean() for the name of a setting. It also knows a few names of other programs, such as lr.
std::string did_you_mean_setting(std::string_view name);

// The functions below format the text of --help for a subset of the settings. arguments_help() and command_help() use
// them. Thread-safe: pure functions.

// Formats the help as arguments_help does, for the settings that `is_wanted` selects. A group without a
// selected setting gets a line that says so. Errors: kUsage for an unknown topic.
std::string help_of(std::string_view topic, const std::function<bool(const ArgumentInfo&)>& is_wanted);

// Returns true if the topic is the current or old name of one setting, not of a group.
bool is_setting_topic(std::string_view topic);

// The function below finds settings that were given but have no effect in a run because of other settings.
//
// Settings that the program never uses are not covered here: their notes are in the table (arguments.inc). Hugging
// Face's Trainer accepts all of these settings without a message. Thread-safe: a pure function.

// Returns notes about settings that were given to a command but have no effect in it, in the order of declaration. A
// note contains the setting, the reason why it has no effect, and what would give it an effect. Settings that the
// command never uses are not included, because unused_note() names them. Requires: resolve_arguments(arguments) was
// called.
std::vector<std::string> idle_notes(const Arguments& arguments, RunCommand command = RunCommand::kTrain);

}  // namespace plimsoll
