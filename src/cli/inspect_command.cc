#include "plimsoll/inspect.h"

#include <sstream>

#include "cli/command.h"
#include "cli/command_json.h"

namespace plimsoll::cli {
namespace {

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) parts.push_back(word);
  return parts;
}

}  // namespace

int run_inspect(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("inspect");
  const CommandWords read = read_command_words(command, words);
  if (words.empty() || read.help) {
    print(command_screen(command, read.help_topic));
    return words.empty() ? static_cast<int>(ErrorCode::kUsage) : 0;
  }
  if (read.positionals.empty()) throw Error(ErrorCode::kUsage, "inspect: give at least one path");
  InspectOptions options;
  options.text_column_names = split_at_commas(read.value("text_column_names"));
  options.label_column_name = read.value("label_column_name", options.label_column_name);
  options.problem_type = read.value("problem_type", options.problem_type);
  options.label_delimiter = read.value("label_delimiter", options.label_delimiter);
  options.quoting = read.value("quoting", options.quoting);
  options.environment = program_environment();
  bool is_whole = true;
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  for (const std::string& path : read.positionals) {
    const Inspection found = inspect_path(path, options);
    if (read.has("json")) {
      paths.push_back(nlohmann::ordered_json::parse(found.json));
    } else {
      print(found.text);
    }
    is_whole = is_whole && found.is_whole;
  }
  if (read.has("json")) print_json(json_text({{"paths", std::move(paths)}}));
  return is_whole ? 0 : static_cast<int>(ErrorCode::kBadData);
}

}  // namespace plimsoll::cli
