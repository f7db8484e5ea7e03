// Declares the table of the program's commands (commands.inc) and the functions that use it: the parser of their
// command lines, and the generators of --help, of completion for shells, of manual pages and of the JSON Schema of
// settings files. These texts also contain the settings of runs (arguments.h). Thread-safe: pure functions of constant
// data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/run_commands.h"

namespace plimsoll {

// Determines whether an option takes a value. kFlag: never. kValue: always; if it is given several times, the last
// value counts. kRepeated: always, and all values count. kOptional: only if the next word is a value.
enum class OptionForm : uint8_t { kFlag, kValue, kRepeated, kOptional };

struct CommandOption {
  std::string_view name;
  OptionForm form;
  std::string_view value;  // placeholder for the value of the option in --help, such as FILE
  std::string_view range;  // permitted values "a|b|c", or empty
  std::string_view help;
};

// A setting that --help of a command shows because it is common.
struct CommonSetting {
  std::string_view name;
  std::string_view help;
};

// One command. The string views refer to static storage.
struct CommandInfo {
  std::string_view name;
  // The command of run_commands.h whose settings this command accepts; none if it accepts no settings of a run.
  std::optional<RunCommand> settings;
  // The usage lines of --help, without the command's name. A command that can be called in several ways has one line
  // for each.
  std::vector<std::string_view> usage;
  std::string_view help;  // description in one line, which the list of commands shows
  std::string_view text;  // further description for --help, one or two sentences; may be empty
  // the options that only this command has, without the settings of a run
  std::vector<CommandOption> options;
  std::vector<CommonSetting> common;  // the common settings that --help of the command shows, at most ten
  std::vector<std::string_view> example;

  // Returns the option with this name, or null.
  const CommandOption* find_option(std::string_view option) const;
};

// Returns all commands in the order of declaration.
const std::vector<CommandInfo>& command_table();
// Returns the command with this name, or null.
const CommandInfo* find_command(std::string_view name);

// A parsed command line, divided into the values of the command's options, the positional arguments, and the words that
// are settings of a run.
struct CommandWords {
  // for each option that was given, its values; for a flag, one empty text
  std::map<std::string, std::vector<std::string>, std::less<>> values;
  std::vector<std::string> positionals;
  std::vector<std::string> rest;  // words that are settings of a run, in order
  bool help = false;
  std::string help_topic;

  bool has(std::string_view option) const { return values.contains(option); }
  // Returns the last value of an option, or a default if the option was not given.
  std::string value(std::string_view option, std::string_view otherwise = "") const;
};

// Parses the words after the name of a command. If the command accepts settings of a run, words that are not its own
// options are returned in `rest`, for parse_arguments(). Names may have dashes instead of underscores, and values may
// follow after "=". Errors: kUsage for an unknown option (the message suggests the nearest), a missing value, and a
// value that is not one of the choices.
CommandWords read_command_words(const CommandInfo& command, std::span<const std::string> words);

// Returns --help of the program, which lists the commands, in at most 80 columns and 23 lines.
std::string program_help();
// Returns --help of a command: usage, its options or its ten most common settings, an example and the groups of settings, in
// at most 80 columns and 23 lines. `topic` may be "all", a group or a setting, for commands with settings. Errors: kUsage for
// another topic.
std::string command_screen(const CommandInfo& command, std::string_view topic = "");

// The names that completion offers as values. A key is a setting ("config_name"), or a command and a setting ("plan
// device") if the names are for this command only.
using ValueNames = std::map<std::string, std::vector<std::string>, std::less<>>;
// Returns the values that completion offers for settings that accept a fixed list of names which the table of settings does
// not contain: the presets of --config_name, the optimizers, the passes, and the devices. The devices are listed per command,
// because `plan` accepts every card and other commands only the devices of this machine.
ValueNames known_value_names();

// Returns a script with which a shell completes commands, options, choices, paths, and the names in `names`. Errors:
// kUsage for another shell than bash, zsh or fish.
std::string shell_completion(std::string_view shell, const ValueNames& names = {});
// Returns the manual page of a command in the language of man(7), or, if the name is "", that of the program. Errors:
// kUsage for an unknown command.
std::string manual_page(std::string_view command);
// Returns the JSON Schema (draft 2020-12) of settings files.
std::string settings_schema();

}  // namespace plimsoll
