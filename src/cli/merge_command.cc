#include "plimsoll/merge.h"

#include "cli/command.h"
#include "cli/command_json.h"
#include "cli/download_progress.h"

namespace plimsoll::cli {

int run_merge(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("merge");
  const CommandWords read = read_command_words(command, words);
  if (words.empty() || read.help) {
    print(command_screen(command, read.help_topic));
    return read.help ? 0 : static_cast<int>(ErrorCode::kUsage);
  }
  require_words(command, read, 0);
  MergeOptions options;
  options.adapter = read.value("adapter");
  options.output_dir = read.value("output_dir");
  options.base = read.value("model_name_or_path");
  options.overwrite_output_dir = read.has("overwrite_output_dir");
  Arguments named;
  named.adapter_name_or_path = options.adapter;
  named.model_name_or_path = options.base;
  download_models(named, RunCommand::kEvaluate);
  const MergeResult result = merge_adapter(options, program_environment());
  if (read.has("json")) {
    print_json(json_text({{"adapter", options.adapter},
                          {"base", result.base},
                          {"output_dir", options.output_dir},
                          {"merged_modules", result.num_merged},
                          {"copied_tensors", result.num_copied}}));
  } else {
    say(result.line);
  }
  return 0;
}

}  // namespace plimsoll::cli
