#include "plimsoll/inspect.h"

#include "cli/command.h"

namespace plimsoll::cli {

int run_inspect(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    print(
        "usage: plimsoll inspect PATH...   a model folder, a checkpoint, a .safetensors, .csv, .tsv, .json "
        "or .jsonl file, a tokenizer, log.jsonl, plan.json or memory.json of a run;\nexit code 4 where a "
        "checkpoint is damaged");
    return words.empty() ? static_cast<int>(ErrorCode::kUsage) : 0;
  }
  for (const std::string& path : words) {
    if (path.starts_with("--"))
      throw Error(ErrorCode::kUsage, "inspect: unknown option '" + path + "'; it takes paths alone");
  }
  bool is_whole = true;
  for (const std::string& path : words) {
    const Inspection found = inspect_path(path);
    print(found.text);
    is_whole = is_whole && found.is_whole;
  }
  return is_whole ? 0 : static_cast<int>(ErrorCode::kBadData);
}

}  // namespace plimsoll::cli
