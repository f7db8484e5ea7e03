#include <fstream>
#include <iostream>

#include "cli/command.h"
#include "plimsoll/inspect.h"

namespace plimsoll::cli {

int run_tokenize(const std::vector<std::string>& words) {
  std::string tokenizer;
  std::string path;
  bool show = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      print(
          "usage: plimsoll tokenize --tokenizer_name DIR [FILE] [--show]   lines from FILE or standard "
          "input; a JSON line each");
      return 0;
    }
    if (word == "--tokenizer_name" && i + 1 < words.size()) {
      tokenizer = words[++i];
    } else if (word.starts_with("--tokenizer_name=")) {
      tokenizer = word.substr(17);
    } else if (word == "--show") {
      show = true;
    } else if (word.starts_with("-") && word != "-") {
      throw Error(ErrorCode::kUsage, "tokenize: unknown option '" + word +
                                         "'; it takes --tokenizer_name DIR, --show and a file");
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
    file.open(path, std::ios::binary);
    if (!file) throw Error(ErrorCode::kUsage, path + ": the file cannot be opened");
  }
  std::istream& input = file.is_open() ? file : std::cin;
  for (std::string line; std::getline(input, line);) {
    print(show ? lines.encode_for_people(line) : lines.encode_json(line));
  }
  return 0;
}

}  // namespace plimsoll::cli
