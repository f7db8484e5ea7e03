// The table of commands as data, and the parser of their command lines.
#include <algorithm>

#include "arguments/argument_table.h"
#include "base/check.h"
#include "plimsoll/commands.h"

namespace plimsoll {
namespace {

// Splits a usage line into its alternative forms, which are separated by "|". Only a "|" after "]" or "train" and
// before two dashes separates forms; a "|" within choices such as a|b does not.
std::vector<std::string_view> split_forms(std::string_view words) {
  std::vector<std::string_view> forms;
  for (size_t at = words.find("]|--"); at != std::string_view::npos || !words.empty();
       at = words.find("]|--")) {
    size_t end = at == std::string_view::npos ? words.size() : at + 1;
    if (const size_t plain = words.find("train|--"); plain != std::string_view::npos && plain < end)
      end = plain + 5;
    forms.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
    if (words.empty()) break;
  }
  if (forms.empty()) forms.emplace_back();
  return forms;
}

std::vector<CommandInfo> make_table() {
  // The names that the column `settings` of commands.inc may contain.
  constexpr std::optional<RunCommand> kNone = std::nullopt;
  constexpr std::optional<RunCommand> kTrain = RunCommand::kTrain;
  constexpr std::optional<RunCommand> kPlan = RunCommand::kPlan;
  constexpr std::optional<RunCommand> kEvaluate = RunCommand::kEvaluate;
  constexpr std::optional<RunCommand> kPredict = RunCommand::kPredict;
  constexpr std::optional<RunCommand> kGenerate = RunCommand::kGenerate;
  std::vector<CommandInfo> table;
  const auto row = [&](std::string_view name) -> CommandInfo& {
    const auto found = std::ranges::find(table, name, &CommandInfo::name);
    PLIMSOLL_CHECK(found != table.end(),
                   "commands.inc declares an option, a setting or an example of the command {}, which it "
                   "does not declare",
                   name);
    return *found;
  };
#define PLIMSOLL_COMMAND(name, settings, words, help, text) \
  table.push_back({#name, settings, split_forms(words), help, text, {}, {}, {}});
#define PLIMSOLL_OPTION(command, name, form, value, range, help) \
  row(#command).options.push_back({#name, OptionForm::form, value, range, help});
#define PLIMSOLL_COMMON(command, setting, help) row(#command).common.push_back({#setting, help});
#define PLIMSOLL_EXAMPLE(command, line, more)                                                  \
  row(#command).example = std::string_view(more).empty() ? std::vector<std::string_view>{line} \
                                                         : std::vector<std::string_view>{line, more};
#include "plimsoll/commands.inc"
  for (const CommandInfo& command : table) {
    for (const CommonSetting& common : command.common)
      PLIMSOLL_CHECK(find_setting(common.name) != nullptr,
                     "commands.inc names the setting {}, which arguments.inc does not declare", common.name);
  }
  return table;
}

[[noreturn]] void refuse_option(const CommandInfo& command, const std::string& word, std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const CommandOption& option : command.options) {
    names.push_back(option.name);
    list += fmt::format("{}--{}{}{}", list.empty() ? "" : ", ", option.name, option.value.empty() ? "" : " ",
                        option.value);
  }
  throw_error(ErrorCode::kUsage, "{}: unknown option '{}'{}{}{}", command.name, word,
              did_you_mean(name, names), list.empty() ? "; it takes no options" : "; it takes ", list);
}

void check_choice(const CommandInfo& command, const CommandOption& option, const std::string& value) {
  const auto choices = split_choices(option.range);
  if (option.form == OptionForm::kOptional && value.empty()) return;
  if (choices.empty() || std::ranges::find(choices, std::string_view(value)) != choices.end()) return;
  throw_error(ErrorCode::kUsage, "{}: --{}: '{}' is not one of {}{}", command.name, option.name, value,
              fmt::join(choices, ", "), did_you_mean(value, choices));
}

}  // namespace

const CommandOption* CommandInfo::find_option(std::string_view option) const {
  const auto found = std::ranges::find(options, option, &CommandOption::name);
  return found == options.end() ? nullptr : &*found;
}

const std::vector<CommandInfo>& command_table() {
  static const std::vector<CommandInfo> table = make_table();
  return table;
}

const CommandInfo* find_command(std::string_view name) {
  const auto found = std::ranges::find(command_table(), name, &CommandInfo::name);
  return found == command_table().end() ? nullptr : &*found;
}

std::string CommandWords::value(std::string_view option, std::string_view otherwise) const {
  const auto found = values.find(option);
  return std::string(found == values.end() ? otherwise : std::string_view(found->second.back()));
}

CommandWords read_command_words(const CommandInfo& command, std::span<const std::string> words) {
  CommandWords read;
  bool options_end = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (!options_end && (word == "--help" || word == "-h")) {
      read.help = true;
      if (has_next && !words[i + 1].starts_with("-")) read.help_topic = words[i + 1];
      return read;
    }
    const bool is_option = !options_end && word.starts_with("-") && word != "-";
    if (word == "--" && !options_end) {
      options_end = true;
      if (command.settings) read.rest.push_back(word);
      continue;
    }
    const size_t equals = std::min(word.find('='), word.size());
    std::string name = word.substr(0, equals);
    name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
    std::ranges::replace(name, '-', '_');
    const CommandOption* option = is_option && word.starts_with("--") ? command.find_option(name) : nullptr;
    if (option == nullptr) {
      if (command.settings) {
        read.rest.push_back(word);
      } else if (is_option) {
        refuse_option(command, word, name);
      } else {
        read.positionals.push_back(word);
      }
      continue;
    }
    std::string value;
    if (equals < word.size()) {
      if (option->form == OptionForm::kFlag)
        throw_error(ErrorCode::kUsage, "{}: --{} takes no value", command.name, name);
      value = word.substr(equals + 1);
    } else if (option->form == OptionForm::kOptional) {
      if (has_next && !words[i + 1].starts_with("--")) value = words[++i];
    } else if (option->form != OptionForm::kFlag) {
      if (!has_next)
        throw_error(ErrorCode::kUsage, "{}: --{} needs a value: {}", command.name, name, option->value);
      value = words[++i];
    }
    check_choice(command, *option, value);
    std::vector<std::string>& values = read.values[name];
    if (option->form == OptionForm::kValue && !values.empty() && values.back() != value) {
      throw_error(ErrorCode::kUsage, "{}: --{} is given twice, '{}' and '{}'; give one", command.name, name,
                  values.back(), value);
    }
    values.push_back(std::move(value));
  }
  return read;
}

}  // namespace plimsoll
