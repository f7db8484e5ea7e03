#include "plimsoll/merge.h"

#include "cli/command.h"

namespace plimsoll::cli {

int run_merge(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    print(
        "usage: plimsoll merge --adapter FOLDER --output_dir FOLDER [--model_name_or_path BASE]   writes the "
        "base "
        "model with the adapter in it, as a plain Hugging Face model; BASE is by default what the adapter "
        "names");
    return words.empty() ? static_cast<int>(ErrorCode::kUsage) : 0;
  }
  MergeOptions options;
  for (size_t i = 0; i < words.size(); i += 2) {
    std::string* value = words[i] == "--adapter"              ? &options.adapter
                         : words[i] == "--output_dir"         ? &options.output_dir
                         : words[i] == "--model_name_or_path" ? &options.base
                                                              : nullptr;
    if (value == nullptr) {
      throw Error(ErrorCode::kUsage, "merge: unknown option '" + words[i] +
                                         "'; it takes --adapter, --output_dir and --model_name_or_path");
    }
    if (i + 1 == words.size()) throw Error(ErrorCode::kUsage, "merge: " + words[i] + ": a value is missing");
    *value = words[i + 1];
  }
  say(merge_adapter(options, process_environment()));
  return 0;
}

}  // namespace plimsoll::cli
