#include "plimsoll/export.h"

#include "cli/command.h"
#include "cli/command_json.h"
#include "cli/download_progress.h"

namespace plimsoll::cli {

int run_export(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("export");
  const CommandWords read = read_command_words(command, words);
  if (words.empty() || read.help) {
    print(command_screen(command, read.help_topic));
    return read.help ? 0 : static_cast<int>(ErrorCode::kUsage);
  }
  require_words(command, read, 0);
  ExportOptions options;
  options.model = read.value("model_name_or_path");
  options.gguf = read.value("gguf");
  if (read.has("outtype")) options.outtype = read.value("outtype");
  options.overwrite = read.has("overwrite");
  Arguments named;
  named.model_name_or_path = options.model;
  download_models(named, RunCommand::kEvaluate);
  const ExportResult result = export_model(options, program_environment());
  Remarks remarks({}, result.notes);
  remarks.say_now();
  if (read.has("json")) {
    print_json(json_text({{"model", options.model},
                          {"gguf", options.gguf},
                          {"type", result.type},
                          {"tensors", result.num_tensors},
                          {"size_bytes", result.size_bytes},
                          {"notes", result.notes}}));
  } else {
    say(result.line);
  }
  return 0;
}

}  // namespace plimsoll::cli
