#include "cli/command.h"
#include "plimsoll/environment_report.h"

namespace plimsoll::cli {

int run_env(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("env");
  const CommandWords read = read_command_words(command, words);
  if (read.help) {
    print(command_screen(command, read.help_topic));
    return 0;
  }
  require_words(command, read, 0);
  const EnvironmentReport report = describe_environment();
  print(read.has("json") ? report.json : report.text);
  return 0;
}

}  // namespace plimsoll::cli
