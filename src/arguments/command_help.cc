// Formats --help of the program and of its commands, and the manual pages.
#include <algorithm>

#include "arguments/argument_table.h"
#include "base/check.h"
#include "plimsoll/commands.h"

namespace plimsoll {
namespace {

constexpr size_t kColumns = 80;

// Appends words in lines of at most kColumns; lines after the first have `indent` blanks before them.
void append_folded(std::string& out, std::string_view start, std::string_view text, size_t indent) {
  std::string line(start);
  bool is_first_word = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!is_first_word && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = std::string(indent, ' ');
      is_first_word = true;
    }
    line += fmt::format("{}{}", is_first_word ? "" : " ", word);
    is_first_word = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += line + "\n";
}

std::string capitalized(std::string_view text) {
  std::string result(text);
  if (!result.empty() && result[0] >= 'a' && result[0] <= 'z')
    result[0] = static_cast<char>(result[0] - 'a' + 'A');
  return result;
}

std::string usage_of(const CommandInfo& command) {
  std::string out;
  for (const std::string_view form : command.usage) {
    const std::string start = fmt::format("{}plimsoll {}{}", out.empty() ? "usage: " : "       ",
                                          command.name, form.empty() ? "" : " ");
    append_folded(out, start, form, 11);
  }
  return out;
}

struct HelpRow {
  std::string name;
  std::string help;
};

// Returns the rows of the command's help: its options and, if it takes settings of a run, the most common settings.
std::vector<HelpRow> rows_of(const CommandInfo& command) {
  std::vector<HelpRow> rows;
  for (const CommandOption& option : command.options) {
    const bool may_omit = option.form == OptionForm::kOptional;
    rows.push_back({fmt::format("--{}{}{}{}{}", option.name, option.value.empty() ? "" : " ",
                                may_omit ? "[" : "", option.value, may_omit ? "]" : ""),
                    std::string(option.help)});
  }
  for (const CommonSetting& common : command.common)
    rows.push_back({fmt::format("--{}", common.name), std::string(common.help)});
  return rows;
}

std::string groups() {
  std::string list;
  for (int i = 0; i <= static_cast<int>(ArgumentGroup::kDistributed); ++i)
    list += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(static_cast<ArgumentGroup>(i)));
  return list;
}

// Escapes a text for roff, in which a backslash and a dot at the start of a line have a meaning, and in which a dash
// would be printed as a hyphen.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += std::string("\\&") + c;
    } else {
      result += c;
    }
  }
  return result;
}

std::string roff_entry(std::string_view name, std::string_view value, std::string_view help) {
  return fmt::format(".TP\n.B \\-\\-{}{}\n{}\n", roff(name),
                     value.empty() ? std::string() : fmt::format(" \\fI{}\\fR", roff(value)),
                     roff(capitalized(help)));
}

std::string roff_of_settings(RunCommand command) {
  std::string out;
  for (int i = 0; i <= static_cast<int>(ArgumentGroup::kDistributed); ++i) {
    const auto group = static_cast<ArgumentGroup>(i);
    std::string section;
    for (const ArgumentInfo& info : argument_table()) {
      if (info.group != group || info.status != ArgumentStatus::kImplemented ||
          !is_used_by(command, info.name))
        continue;
      std::string help(info.help);
      if (info.range.find('|') != std::string_view::npos)
        help += fmt::format(" One of {}.", fmt::join(split_choices(info.range), ", "));
      if (!info.default_text.empty()) help += fmt::format(" (default {})", info.default_text);
      section += roff_entry(info.name, info.type == "flag" ? std::string_view() : info.type, help);
    }
    if (!section.empty()) out += fmt::format(".SS {}\n{}", roff(capitalized(to_string(group))), section);
  }
  return out;
}

// The description of an exit code: a brief one for --help, which has few lines, and a complete one for the manual page.
struct ExitCodeText {
  std::string_view brief;
  std::string_view complete;
};
constexpr ExitCodeText kExitCodes[] = {{"done", "done"},
                                       {"bug", "bug in Plimsoll"},
                                       {"usage", "usage or configuration"},
                                       {"will not fit", "will not fit"},
                                       {"bad data or checkpoint", "bad data or checkpoint"},
                                       {"not finite", "loss or gradient not finite"},
                                       {"interrupted and saved", "interrupted and saved"},
                                       {"device failed", "device or system failed"}};

std::string roff_of_exit_codes() {
  std::string out = ".SH EXIT STATUS\n";
  int code = 0;
  for (const ExitCodeText& text : kExitCodes)
    out += fmt::format(".TP\n.B {}\n{}.\n", code++, capitalized(text.complete));
  return out + "After a second signal, which saves nothing: 128 + the number of the signal.\n";
}

}  // namespace

std::string program_help() {
  std::string out = "usage: plimsoll COMMAND [arguments], or plimsoll COMMAND --help for an example\n\n";
  for (const CommandInfo& command : command_table())
    out += fmt::format("  {:<11}{}\n", command.name, command.help);
  out += "\n";
  std::string codes;
  int code = 0;
  for (const ExitCodeText& text : kExitCodes)
    codes += fmt::format("{}{} {}", code == 0 ? "" : ", ", code, text.brief), ++code;
  append_folded(out, "Exit codes: ", codes + "; 128 + second signal.", 2);
  return out;
}

std::string command_screen(const CommandInfo& command, std::string_view topic) {
  if (!topic.empty()) {
    if (command.settings) return command_help(*command.settings, topic);
    if (topic != "all") {
      throw_error(ErrorCode::kUsage,
                  "{} --help {}: {} has no groups of arguments; --help explains all of them", command.name,
                  topic, command.name);
    }
  }
  std::string out = usage_of(command) + "\n";
  if (!command.text.empty()) {
    append_folded(out, "", command.text, 0);
    out += "\n";
  }
  const std::vector<HelpRow> rows = rows_of(command);
  size_t width = 0;
  for (const HelpRow& row : rows) width = std::max(width, row.name.size());
  for (const HelpRow& row : rows)
    append_folded(out, fmt::format("  {:<{}}  ", row.name, width), row.help, width + 4);
  if (!rows.empty()) out += "\n";
  for (size_t i = 0; i < command.example.size(); ++i)
    out += fmt::format("{}{}{}\n", i == 0 ? "example: " : "             ", command.example[i],
                       i + 1 < command.example.size() ? " \\" : "");
  if (!command.settings) return out;
  out += "\n";
  append_folded(out, "groups: ", groups(), 2);
  append_folded(out, "", "--help GROUP, --help NAME and --help all explain arguments.", 2);
  return out;
}

std::string manual_page(std::string_view name) {
  const CommandInfo* command = name.empty() ? nullptr : find_command(name);
  if (command == nullptr && !name.empty()) {
    std::vector<std::string_view> names;
    for (const CommandInfo& one : command_table()) names.push_back(one.name);
    throw_error(ErrorCode::kUsage, "man: '{}' is not a command; the commands are {}{}", name,
                fmt::join(names, ", "), did_you_mean(name, names));
  }
  const std::string title = command == nullptr ? "plimsoll" : fmt::format("plimsoll-{}", name);
  std::string out =
      fmt::format(".TH \"{}\" 1 \"\" Plimsoll\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n", roff(title), roff(title),
                  command == nullptr ? "train, evaluate and run BERT classifiers within a known memory"
                                     : roff(command->help));
  if (command == nullptr) {
    out += ".B plimsoll\n\\fICOMMAND\\fR [arguments]\n.SH COMMANDS\n";
    for (const CommandInfo& one : command_table())
      out += fmt::format(".TP\n.B {}\n{}. See\n.BR plimsoll\\-{} (1).\n", one.name,
                         roff(capitalized(one.help)), one.name);
    return out + roff_of_exit_codes();
  }
  for (size_t i = 0; i < command->usage.size(); ++i)
    out += fmt::format("{}.B plimsoll {}\n{}\n", i == 0 ? "" : ".br\n", name, roff(command->usage[i]));
  out += fmt::format(".SH DESCRIPTION\n{}.{}{}\n", roff(capitalized(command->help)),
                     command->text.empty() ? "" : "\n", roff(command->text));
  if (!command->options.empty()) out += ".SH OPTIONS\n";
  for (const CommandOption& option : command->options)
    out += roff_entry(option.name, option.value, fmt::format("{}.", option.help));
  if (command->settings) out += ".SH ARGUMENTS\n" + roff_of_settings(*command->settings);
  out += ".SH EXAMPLE\n.nf\n";
  for (size_t i = 0; i < command->example.size(); ++i)
    out += fmt::format("{}{}{}\n", i == 0 ? "" : "    ", roff(command->example[i]),
                       i + 1 < command->example.size() ? " \\e" : "");
  return out + ".fi\n" + roff_of_exit_codes();
}

}  // namespace plimsoll
