#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "cli/command.h"
#include "plimsoll/inspect.h"

namespace plimsoll::cli {
namespace {

struct TokenizeWords {
  std::string tokenizer;
  std::string path;
  bool show = false;

  void take_tokenizer(std::string name) {
    if (name.empty()) throw Error(ErrorCode::kUsage, "tokenize: --tokenizer_name needs a folder");
    if (!tokenizer.empty()) {
      throw Error(ErrorCode::kUsage, "tokenize: --tokenizer_name is given twice, '" + tokenizer + "' and '" +
                                         name + "'; give one");
    }
    tokenizer = std::move(name);
  }

  void take_file(const std::string& word) {
    if (word.starts_with("-") && word != "-") {
      throw Error(ErrorCode::kUsage, "tokenize: unknown option '" + word +
                                         "'; it takes --tokenizer_name DIR, --show and a file");
    }
    if (!path.empty()) {
      throw Error(ErrorCode::kUsage, "tokenize: two files, '" + path + "' and '" + word +
                                         "'; give one, or join them: cat A B | plimsoll tokenize ... -");
    }
    path = word;
  }
};

TokenizeWords read_words(const std::vector<std::string>& words) {
  TokenizeWords read;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    if (word.starts_with("--tokenizer-name")) word.replace(0, 16, "--tokenizer_name");
    if (word == "--tokenizer_name") {
      read.take_tokenizer(i + 1 < words.size() ? words[++i] : std::string());
    } else if (word.starts_with("--tokenizer_name=")) {
      read.take_tokenizer(word.substr(17));
    } else if (word == "--show") {
      read.show = true;
    } else {
      read.take_file(word);
    }
  }
  if (read.tokenizer.empty()) {
    throw Error(ErrorCode::kUsage,
                "tokenize: give --tokenizer_name DIR, a folder with tokenizer.json or vocab.txt");
  }
  return read;
}

}  // namespace

int run_tokenize(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word != "--help" && word != "-h") continue;
    print(
        "usage: plimsoll tokenize --tokenizer_name DIR [FILE] [--show]   reads lines from FILE or standard "
        "input and prints one line of JSON each");
    return 0;
  }
  const TokenizeWords read = read_words(words);
  const LineTokenizer lines(read.tokenizer, program_environment());
  std::ifstream file;
  const bool is_file = !read.path.empty() && read.path != "-";
  if (is_file) {
    std::error_code ignored;
    if (std::filesystem::is_directory(read.path, ignored))
      throw Error(ErrorCode::kUsage, read.path + ": it is a folder; tokenize reads a text file");
    errno = 0;
    file.open(read.path, std::ios::binary);
    if (!file)
      throw Error(ErrorCode::kBadData, read.path + ": cannot open the file: " + std::strerror(errno) +
                                           "; check its name and permissions");
  }
  std::istream& input = is_file ? file : std::cin;
  const std::string name = is_file ? read.path : "standard input";
  int64_t number = 0;
  for (std::string line; !output_is_lost() && std::getline(input, line);) {
    ++number;
    try {
      print(read.show ? lines.encode_for_people(line) : lines.encode_json(line));
    } catch (const Error& error) {
      throw Error(error.code(), name + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  if (input.bad()) throw Error(ErrorCode::kDevice, name + ": reading failed before the end");
  return 0;
}

}  // namespace plimsoll::cli
