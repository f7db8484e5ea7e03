#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cli/command.h"
#include "cli/command_json.h"
#include "cli/download_progress.h"
#include "plimsoll/inspect.h"

namespace plimsoll::cli {
namespace {

int64_t number_of(const CommandWords& words, const char* option, int64_t fallback) {
  if (!words.has(option)) return fallback;
  const std::string text = words.value(option);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(ErrorCode::kUsage,
                "tokenize: --" + std::string(option) + " is '" + text + "', but should be a number");
  return value;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

int train(const CommandWords& read) {
  for (const char* option : {"tokenizer_name", "show", "decode", "skip_special_tokens"}) {
    if (read.has(option))
      throw Error(ErrorCode::kUsage, "tokenize: --" + std::string(option) + " has no effect with --train");
  }
  if (read.value("output_dir").empty())
    throw Error(ErrorCode::kUsage, "tokenize: give --output_dir DIR, the folder for the trained tokenizer");
  TokenizerTraining training;
  training.files = read.positionals;
  training.kind = read.value("train");
  training.vocab_size = number_of(read, "vocab_size", training.vocab_size);
  training.min_frequency = number_of(read, "min_frequency", training.min_frequency);
  training.special_tokens = split_at_commas(read.value("special_tokens"));
  training.do_lower_case = read.value("do_lower_case", "true") == "true";
  if (read.has("do_lower_case") && training.kind == "bpe")
    throw Error(ErrorCode::kUsage, "tokenize: --do_lower_case has no effect with --train bpe");
  const TokenizerResult result = train_tokenizer(training, read.value("output_dir"));
  if (read.has("json")) {
    print_json(json_text({{"output_dir", read.value("output_dir")},
                          {"kind", training.kind},
                          {"tokens", result.num_tokens},
                          {"merges", result.num_merges},
                          {"words", result.num_words},
                          {"text_bytes", result.num_bytes}}));
  } else {
    print(result.line);
  }
  return 0;
}

}  // namespace

int run_tokenize(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("tokenize");
  const CommandWords read = read_command_words(command, words);
  if (read.help) {
    print(command_screen(command, read.help_topic));
    return 0;
  }
  if (read.has("train")) return train(read);
  for (const char* option :
       {"output_dir", "vocab_size", "min_frequency", "special_tokens", "do_lower_case"}) {
    if (read.has(option))
      throw Error(ErrorCode::kUsage, "tokenize: --" + std::string(option) + " has no effect without --train");
  }
  if (read.positionals.size() > 1) {
    throw Error(ErrorCode::kUsage, "tokenize: two files, '" + read.positionals[0] + "' and '" +
                                       read.positionals[1] +
                                       "'; give one, or join them: cat A B | plimsoll tokenize ... -");
  }
  if (read.value("tokenizer_name").empty()) {
    throw Error(ErrorCode::kUsage,
                "tokenize: give --tokenizer_name DIR, a folder with tokenizer.json or vocab.txt");
  }
  if (read.has("json") && read.has("show"))
    throw Error(ErrorCode::kUsage, "tokenize: --json and --show exclude each other; give one of them");
  if (read.has("skip_special_tokens") && !read.has("decode")) {
    throw Error(ErrorCode::kUsage, "tokenize: --skip_special_tokens has no effect without --decode");
  }
  const std::string path = read.positionals.empty() ? "-" : read.positionals[0];
  Arguments named;
  named.tokenizer_name = read.value("tokenizer_name");
  download_models(named, RunCommand::kPlan);
  const LineTokenizer lines(read.value("tokenizer_name"), program_environment());
  std::ifstream file;
  const bool is_file = path != "-";
  if (is_file) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
      throw Error(ErrorCode::kUsage, path + ": it is a folder; tokenize reads a text file");
    errno = 0;
    file.open(path, std::ios::binary);
    if (!file)
      throw Error(ErrorCode::kBadData, path + ": cannot open the file: " + std::strerror(errno) +
                                           "; check its name and permissions");
  }
  std::istream& input = is_file ? file : std::cin;
  const std::string name = is_file ? path : "standard input";
  int64_t number = 0;
  for (std::string line; !output_is_lost() && std::getline(input, line);) {
    // Only the first line is checked. It shows whether the input is text, and a terminal or a pipe may not have sent
    // more yet.
    if (++number == 1) require_text(line, name);
    try {
      if (read.has("decode")) {
        const DecodedTokens tokens =
            read.has("skip_special_tokens") ? DecodedTokens::kWithoutSpecial : DecodedTokens::kAll;
        print(read.has("show") ? lines.decode(line, tokens) : lines.decode_json(line, tokens));
      } else {
        print(read.has("show") ? lines.encode_for_people(line) : lines.encode_json(line));
      }
    } catch (const Error& error) {
      throw Error(error.code(), name + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  if (input.bad()) throw Error(ErrorCode::kDevice, name + ": reading failed before the end");
  return 0;
}

}  // namespace plimsoll::cli
