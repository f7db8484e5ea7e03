// Fuzzes the parsers of settings: command lines, JSON files and YAML files. The first byte of an input selects the
// parser. The fuzzer reports an error if a parser ends with anything but settings or a usage error, or if settings
// change when they are written and parsed again.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_file.h"
#include "arguments/value.h"
#include "base/check.h"
#include "base/testing/fuzz_answer.h"
#include "plimsoll/arguments.h"

namespace plimsoll {
namespace {

// Returns the words of a command line, one per line of the input. Words that name settings files are skipped, because
// the fuzzer must not read files, except for the configuration that --deepspeed or a similar setting names.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!is_argument_file(line) && line.find("config") == std::string::npos) words.push_back(line);
  }
  return words;
}

ParseResult read(uint8_t choice, const std::string& text) {
  if (choice % 3 == 0) return parse_arguments(words_of(text));
  ParseResult result;
  apply_layer(choice % 3 == 1 ? read_argument_json(text, "fuzz", SourceLines::kSay)
                              : read_argument_yaml(text, "fuzz"),
              result);
  resolve_arguments(result.arguments);
  return result;
}

void fuzz(uint8_t choice, const std::string& text) {
  const ParseResult result = read(choice, text);
  if (result.help) return;
  Arguments again = result.arguments;
  resolve_arguments(again);
  PLIMSOLL_CHECK(again == result.arguments, "resolving arguments a second time must not change them");
  const std::string written = arguments_json(result.arguments);
  again = arguments_from_json(written);
  PLIMSOLL_CHECK(arguments_json(again) == written);
  PLIMSOLL_CHECK(diff_arguments(result.arguments, again).empty());
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  plimsoll::expect_value_or({plimsoll::ErrorCode::kUsage}, [&] {
    plimsoll::fuzz(data[0], std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  });
  return 0;
}
