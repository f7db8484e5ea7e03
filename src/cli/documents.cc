// The commands that print texts generated from the tables of commands and settings: completion of shells, manual pages,
// the schema of settings.
#include <optional>

#include "cli/command.h"

namespace plimsoll::cli {
namespace {

// Parses the command line of a command that takes at most `at_most` arguments in addition to its
// options. With --help, prints the help and returns nothing.
std::optional<CommandWords> words_or_help(const char* name, const std::vector<std::string>& words,
                                          size_t at_most) {
  const CommandInfo& command = command_named(name);
  CommandWords read = read_command_words(command, words);
  if (read.help) {
    print(command_screen(command, read.help_topic));
    return std::nullopt;
  }
  require_words(command, read, at_most);
  return read;
}

}  // namespace

int run_completion(const std::vector<std::string>& words) {
  const auto read = words_or_help("completion", words, 1);
  if (!read) return 0;
  if (read->positionals.empty())
    throw Error(ErrorCode::kUsage, "completion: give the name of the shell: bash, zsh or fish");
  print(shell_completion(read->positionals[0], known_value_names()));
  return 0;
}

int run_man(const std::vector<std::string>& words) {
  const auto read = words_or_help("man", words, 1);
  if (read) print(manual_page(read->positionals.empty() ? "" : read->positionals[0]));
  return 0;
}

int run_schema(const std::vector<std::string>& words) {
  if (words_or_help("schema", words, 0)) print(settings_schema());
  return 0;
}

}  // namespace plimsoll::cli
