#include "plimsoll/inspect.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "cli/command.h"

namespace plimsoll::cli {
namespace {

struct InspectWords {
  std::vector<std::string> paths;
  InspectOptions options;

  void set(const std::string& name, const std::string& value) {
    if (name == "--label_column_name") {
      options.label_column_name = value;
    } else if (name == "--problem_type") {
      options.problem_type = value;
    } else if (name == "--label_delimiter") {
      options.label_delimiter = value;
    } else if (name == "--quoting") {
      if (value != "minimal" && value != "none")
        throw Error(ErrorCode::kUsage, "inspect: --quoting: '" + value + "' is not one of minimal, none");
      options.quoting = value;
    } else {
      std::istringstream words(value);
      for (std::string word; std::getline(words, word, ',');) options.text_column_names.push_back(word);
    }
  }
};

InspectWords read_words(const std::vector<std::string>& words) {
  InspectWords read;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) {
      read.paths.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    std::replace(name.begin() + 2, name.end(), '-', '_');
    constexpr std::array<std::string_view, 5> kNames = {"--label_column_name", "--text_column_names",
                                                        "--problem_type", "--label_delimiter", "--quoting"};
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
      throw Error(ErrorCode::kUsage, "inspect: unknown option '" + word +
                                         "'; it takes paths, and for data files --text_column_names A,B, "
                                         "--label_column_name NAME, --problem_type TYPE, --label_delimiter "
                                         "TEXT and --quoting none");
    }
    if (equals == std::string::npos && i + 1 == words.size())
      throw Error(ErrorCode::kUsage, "inspect: " + name + ": the value is missing");
    read.set(name, equals == std::string::npos ? words[++i] : word.substr(equals + 1));
  }
  if (read.paths.empty()) throw Error(ErrorCode::kUsage, "inspect: give at least one path");
  return read;
}

}  // namespace

int run_inspect(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    print(
        "usage: plimsoll inspect PATH...   a model folder or a name in Hugging Face's cache, a checkpoint, a "
        ".safetensors, .csv, .tsv, .json, .jsonl or .conll file, a tokenizer, log.jsonl, plan.json or "
        "memory.json of "
        "a run;\na data file is read as for training, with --text_column_names A,B, --label_column_name "
        "NAME, "
        "--problem_type TYPE, --label_delimiter TEXT and --quoting none;\nexit code 4 if a checkpoint is "
        "damaged");
    return words.empty() ? static_cast<int>(ErrorCode::kUsage) : 0;
  }
  InspectWords read = read_words(words);
  read.options.environment = program_environment();
  bool is_whole = true;
  for (const std::string& path : read.paths) {
    const Inspection found = inspect_path(path, read.options);
    print(found.text);
    is_whole = is_whole && found.is_whole;
  }
  return is_whole ? 0 : static_cast<int>(ErrorCode::kBadData);
}

}  // namespace plimsoll::cli
