#include "plimsoll/merge.h"

#include <algorithm>

#include "cli/command.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kUsage =
    "usage: plimsoll merge --adapter DIR --output_dir DIR [--model_name_or_path BASE]\n"
    "\n"
    "  --adapter DIR              an adapter saved by PEFT or plimsoll train\n"
    "  --output_dir DIR           folder for the merged model, a plain Hugging Face model; a folder that\n"
    "                             contains a model is refused\n"
    "  --model_name_or_path BASE  the base: a folder, or a name in Hugging Face's local cache (default: the\n"
    "                             base that the adapter names)\n"
    "  --overwrite_output_dir     replace a model in the output folder";

}  // namespace

int run_merge(const std::vector<std::string>& words) {
  const bool asks_for_help = std::any_of(
      words.begin(), words.end(), [](const std::string& word) { return word == "--help" || word == "-h"; });
  if (words.empty() || asks_for_help) {
    print(kUsage);
    return asks_for_help ? 0 : static_cast<int>(ErrorCode::kUsage);
  }
  MergeOptions options;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--overwrite_output_dir") {
      options.overwrite_output_dir = true;
      continue;
    }
    std::string* value = words[i] == "--adapter"              ? &options.adapter
                         : words[i] == "--output_dir"         ? &options.output_dir
                         : words[i] == "--model_name_or_path" ? &options.base
                                                              : nullptr;
    if (value == nullptr) {
      throw Error(ErrorCode::kUsage,
                  "merge: unknown option '" + words[i] +
                      "'; it takes --adapter, --output_dir, --model_name_or_path and --overwrite_output_dir");
    }
    if (i + 1 == words.size())
      throw Error(ErrorCode::kUsage, "merge: " + words[i] + ": the value is missing");
    *value = words[++i];
  }
  say(merge_adapter(options, program_environment()));
  return 0;
}

}  // namespace plimsoll::cli
