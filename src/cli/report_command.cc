#include "plimsoll/report.h"

#include "cli/command.h"
#include "cli/command_json.h"

namespace plimsoll::cli {

int run_report(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("report");
  const CommandWords read = read_command_words(command, words);
  if (words.empty() || read.help) {
    print(command_screen(command, read.help_topic));
    return words.empty() ? static_cast<int>(ErrorCode::kUsage) : 0;
  }
  const std::string page = report_html(read.positionals);
  const std::string& first = read.positionals.front();
  const std::string usual =
      read.positionals.size() > 1 ? "report.html" : first + (first.ends_with('/') ? "" : "/") + "report.html";
  const std::string path = read.value("output", usual);
  if (path == "-") {
    if (read.has("json"))
      throw Error(ErrorCode::kUsage, "report --output - prints the page, so --json needs --output FILE");
    print(page);
    return 0;
  }
  if (read.has("json")) {
    Arguments silent;
    silent.quiet = true;
    set_verbosity(silent);
  }
  write_text(page, "report --output", path);
  if (read.has("json"))
    print_json(json_text({{"report", path}, {"runs", read.positionals}, {"size_bytes", page.size()}}));
  return 0;
}

}  // namespace plimsoll::cli
