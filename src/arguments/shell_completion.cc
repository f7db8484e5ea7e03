// Generates the completion scripts of shells from the tables of commands and settings.
#include <algorithm>

#include "arguments/argument_table.h"
#include "base/check.h"
#include "plimsoll/commands.h"

namespace plimsoll {
namespace {

// The kind of value that may follow an option. kNames is a name from a list that the program knows (such as the
// presets) or a folder.
enum class ValueKind : uint8_t { kNone, kText, kChoices, kNames, kFile, kFolder };

struct Completed {
  std::string_view name;
  std::string_view help;
  ValueKind kind = ValueKind::kText;
  std::vector<std::string_view> choices = {};
};

Completed completed(const CommandOption& option) {
  Completed row{.name = option.name, .help = option.help};
  if (!option.range.empty()) {
    row.kind = ValueKind::kChoices;
    row.choices = split_choices(option.range);
  } else if (option.form == OptionForm::kFlag) {
    row.kind = ValueKind::kNone;
  } else if (option.value == "FILE") {
    row.kind = ValueKind::kFile;
  } else if (option.value == "DIR") {
    row.kind = ValueKind::kFolder;
  }
  return row;
}

Completed completed(const ArgumentInfo& info) {
  Completed row{.name = info.name, .help = info.help};
  if (info.range.find('|') != std::string_view::npos) {
    row.kind = ValueKind::kChoices;
    row.choices = split_choices(info.range);
  } else if (info.type == "flag") {
    row.kind = ValueKind::kNone;
  } else if (info.unit == "file") {
    row.kind = ValueKind::kFile;
  } else if (info.unit == "folder") {
    row.kind = ValueKind::kFolder;
  }
  return row;
}

// Sets the names that completion offers for a setting of a command, if the caller passed any.
void take_names(const CommandInfo& command, const ValueNames& names, Completed& row) {
  auto it = names.find(fmt::format("{} {}", command.name, row.name));
  if (it == names.end()) it = names.find(row.name);
  if (it == names.end()) return;
  const bool takes_paths = row.kind == ValueKind::kFile || row.kind == ValueKind::kFolder;
  row.kind = takes_paths ? ValueKind::kNames : ValueKind::kChoices;
  row.choices.assign(it->second.begin(), it->second.end());
}

// Returns the options of a command: first its own, then the settings of a run that it uses. Requires: `names` outlives
// the result.
std::vector<Completed> options_of(const CommandInfo& command, const ValueNames& names) {
  std::vector<Completed> rows;
  for (const CommandOption& option : command.options) rows.push_back(completed(option));
  for (const ArgumentInfo& info : argument_table()) {
    const bool is_used = command.settings && info.status == ArgumentStatus::kImplemented &&
                         is_used_by(*command.settings, info.name);
    if (is_used && command.find_option(info.name) == nullptr) rows.push_back(completed(info));
  }
  for (Completed& row : rows) take_names(command, names, row);
  rows.push_back({.name = "help", .help = "explain the arguments", .kind = ValueKind::kNone});
  return rows;
}

// Returns the words that may follow a command in addition to options: names of shells for `completion`, names of
// commands for `man`.
std::vector<std::string_view> words_after(const CommandInfo& command) {
  if (command.name == "completion") return {"bash", "zsh", "fish"};
  std::vector<std::string_view> names;
  for (const CommandInfo& one : command_table()) {
    if (command.name == "man") names.push_back(one.name);
  }
  return names;
}

std::string command_names() {
  std::string names;
  for (const CommandInfo& command : command_table())
    names += fmt::format("{}{}", names.empty() ? "" : " ", command.name);
  return names;
}

// Returns the options with this kind of value as a pattern of a shell's case statement: "--a|--b".
std::string pattern(const std::vector<Completed>& rows, ValueKind kind) {
  std::string names;
  for (const Completed& row : rows) {
    if (row.kind == kind) names += fmt::format("{}--{}", names.empty() ? "" : "|", row.name);
  }
  return names;
}

std::string bash_case(const CommandInfo& command, const ValueNames& names) {
  const std::vector<Completed> rows = options_of(command, names);
  std::string out = fmt::format("    {})\n      case $before in\n", command.name);
  for (const Completed& row : rows) {
    const bool takes_folders = row.kind == ValueKind::kNames;
    if (row.kind == ValueKind::kChoices || takes_folders)
      out += fmt::format(
          "        --{}) {}mapfile -t COMPREPLY < <(compgen {}-W \"{}\" -- \"$word\"); return ;;\n", row.name,
          takes_folders ? "compopt -o filenames; " : "", takes_folders ? "-d " : "",
          fmt::join(row.choices, " "));
  }
  const auto paths = [&](ValueKind kind, std::string_view flag) {
    if (const std::string options = pattern(rows, kind); !options.empty())
      out += fmt::format(
          "        {}) compopt -o filenames; mapfile -t COMPREPLY < <(compgen {} -- \"$word\"); return ;;\n",
          options, flag);
  };
  paths(ValueKind::kFile, "-f");
  paths(ValueKind::kFolder, "-d");
  if (const std::string options = pattern(rows, ValueKind::kText); !options.empty())
    out += fmt::format("        {}) return ;;\n", options);
  out += "      esac\n      options=\"";
  for (const Completed& row : rows) out += fmt::format("{}--{}", &row == &rows.front() ? "" : " ", row.name);
  out += "\"\n";
  if (const auto words = words_after(command); !words.empty())
    out += fmt::format("      plain=\"{}\"\n", fmt::join(words, " "));
  return out + "      ;;\n";
}

std::string bash_completion(const ValueNames& names) {
  std::string out = fmt::format(R"(# Completion of plimsoll for bash. Generated by: plimsoll completion bash
_plimsoll() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} options="" plain=""
  # Bash splits --name=value at the equals sign.
  if [[ $word == "=" ]]; then word=""; fi
  if [[ $before == "=" ]]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  COMPREPLY=()
  if (( COMP_CWORD == 1 )); then
    mapfile -t COMPREPLY < <(compgen -W "{} help --help --version" -- "$word")
    return
  fi
  case ${{COMP_WORDS[1]}} in
)",
                                command_names());
  for (const CommandInfo& command : command_table()) out += bash_case(command, names);
  return out + R"(    help) plain=")" + command_names() + R"(" ;;
  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [[ -n $plain ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$plain" -- "$word")
  else
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _plimsoll plimsoll
)";
}

// Escapes a text for use between single quotes in zsh, including the characters that zsh's _arguments interprets.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      result += std::string("\\") + c;
    } else {
      result += c;
    }
  }
  return result;
}

std::string zsh_action(const Completed& row) {
  switch (row.kind) {
    case ValueKind::kNone:
      return "";
    case ValueKind::kText:
      return ":value: ";
    case ValueKind::kChoices:
      return fmt::format(":value:({})", fmt::join(row.choices, " "));
    case ValueKind::kNames:
      return fmt::format(":value:{{_files -/; compadd {}}}", fmt::join(row.choices, " "));
    case ValueKind::kFile:
      return ":file:_files";
    case ValueKind::kFolder:
      return ":folder:_files -/";
  }
  return "";
}

std::string zsh_completion(const ValueNames& names) {
  std::string out =
      "#compdef plimsoll\n# Completion of plimsoll for zsh. Generated by: plimsoll completion "
      "zsh\n_plimsoll() {\n"
      "  local -a commands\n  commands=(\n";
  for (const CommandInfo& command : command_table())
    out += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.help));
  out +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=${words[2]}\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const CommandInfo& command : command_table()) {
    out += fmt::format("    {})\n      _arguments -S \\\n", command.name);
    for (const Completed& row : options_of(command, names)) {
      // A trailing "=" tells zsh that the value may be given as --name=value or as the next word.
      out += fmt::format("        '--{}{}[{}]{}' \\\n", row.name, row.kind == ValueKind::kNone ? "" : "=",
                         zsh_text(row.help), zsh_action(row));
    }
    const auto words = words_after(command);
    out += words.empty() ? std::string("        '*:file:_files'\n")
                         : fmt::format("        '1:word:({})'\n", fmt::join(words, " "));
    out += "      ;;\n";
  }
  return out +
         "  esac\n}\n"
         // zsh can load the script in two ways. If it finds the file in fpath, it runs the file as the body of the function
         // _plimsoll, which is then called at once; if the user sources the file, the function is only registered.
         "if [[ ${funcstack[1]} == _plimsoll ]]; then\n  _plimsoll \"$@\"\nelse\n  compdef _plimsoll "
         "plimsoll\nfi\n";
}

std::string fish_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string fish_completion(const ValueNames& names) {
  std::string out = "# Completion of plimsoll for fish. Generated by: plimsoll completion fish\n";
  for (const CommandInfo& command : command_table())
    out += fmt::format("complete -c plimsoll -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name,
                       fish_text(command.help));
  for (const CommandInfo& command : command_table()) {
    const std::string start =
        fmt::format("complete -c plimsoll -n '__fish_seen_subcommand_from {}'", command.name);
    if (const auto words = words_after(command); !words.empty())
      out += fmt::format("{} -f -a '{}'\n", start, fmt::join(words, " "));
    for (const Completed& row : options_of(command, names)) {
      out += fmt::format("{} -l {}", start, row.name);
      if (row.kind == ValueKind::kChoices) out += fmt::format(" -x -a '{}'", fmt::join(row.choices, " "));
      if (row.kind == ValueKind::kNames)
        out += fmt::format(" -x -a '{} (__fish_complete_directories)'", fmt::join(row.choices, " "));
      if (row.kind == ValueKind::kText) out += " -x";
      if (row.kind == ValueKind::kFile) out += " -r -F";
      if (row.kind == ValueKind::kFolder) out += " -x -a '(__fish_complete_directories)'";
      out += fmt::format(" -d '{}'\n", fish_text(row.help));
    }
  }
  return out;
}

}  // namespace

std::string shell_completion(std::string_view shell, const ValueNames& names) {
  if (shell == "bash") return bash_completion(names);
  if (shell == "zsh") return zsh_completion(names);
  if (shell == "fish") return fish_completion(names);
  throw_error(ErrorCode::kUsage, "completion: '{}' is not one of bash, zsh, fish{}", shell,
              did_you_mean(shell, {"bash", "zsh", "fish"}));
}

}  // namespace plimsoll
