#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "cli/command.h"
#include "plimsoll/inspect.h"

namespace plimsoll::cli {

int run_tokenize(const std::vector<std::string>& words) {
  std::string tokenizer;
  std::string path;
  bool show = false;
  const auto take_tokenizer = [&](std::string name) {
    if (name.empty()) throw Error(ErrorCode::kUsage, "tokenize: --tokenizer_name needs a folder");
    if (!tokenizer.empty())
      throw Error(ErrorCode::kUsage, "tokenize: --tokenizer_name is given twice, '" + tokenizer + "' and '" +
                                         name + "'; give one");
    tokenizer = std::move(name);
  };
  for (size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    if (word.starts_with("--tokenizer-name")) word.replace(0, 16, "--tokenizer_name");
    if (word == "--help" || word == "-h") {
      print(
          "usage: plimsoll tokenize --tokenizer_name DIR [FILE] [--show]   lines from FILE or standard "
          "input; a JSON line each");
      return 0;
    }
    if (word == "--tokenizer_name") {
      take_tokenizer(i + 1 < words.size() ? words[++i] : std::string());
    } else if (word.starts_with("--tokenizer_name=")) {
      take_tokenizer(word.substr(17));
    } else if (word == "--show") {
      show = true;
    } else if (word.starts_with("-") && word != "-") {
      throw Error(ErrorCode::kUsage, "tokenize: unknown option '" + word +
                                         "'; it takes --tokenizer_name DIR, --show and a file");
    } else if (!path.empty()) {
      throw Error(ErrorCode::kUsage, "tokenize: two files, '" + path + "' and '" + word +
                                         "'; give one, or join them: cat A B | plimsoll tokenize ... -");
    } else {
      path = word;
    }
  }
  if (tokenizer.empty())
    throw Error(ErrorCode::kUsage,
                "tokenize: give --tokenizer_name DIR, a folder with tokenizer.json or vocab.txt");
  const LineTokenizer lines(tokenizer, process_environment());
  std::ifstream file;
  if (!path.empty() && path != "-") {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
      throw Error(ErrorCode::kUsage, path + ": a folder; tokenize reads a file of lines");
    file.open(path, std::ios::binary);
    if (!file) throw Error(ErrorCode::kUsage, path + ": the file cannot be opened");
  }
  std::istream& input = file.is_open() ? file : std::cin;
  for (std::string line; !output_is_lost() && std::getline(input, line);) {
    print(show ? lines.encode_for_people(line) : lines.encode_json(line));
  }
  if (input.bad())
    throw Error(ErrorCode::kDevice, (path.empty() ? "standard input" : path) + ": reading it failed midway");
  return 0;
}

}  // namespace plimsoll::cli
