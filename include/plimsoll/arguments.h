// The settings of a run. Most have the names of Hugging Face's TrainingArguments and run_glue; some are
// Plimsoll's own.
//
// This header declares every setting (the table is arguments.inc) and the functions that read, check, format and
// compare settings. No function here prints, reads the environment or exits. Thread-safe: values and pure functions.
// Two functions read files: parse_arguments() reads the configuration files that the command line names, and
// resolve_arguments() the configurations of DeepSpeed, FSDP and Accelerate that settings name.
//
// A program may fill an Arguments object itself. Trainer, plan_run() and fit_run() check the object with resolve_arguments(). A
// program calls resolve_arguments() itself only to read its notes, or the values that it fills in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/error.h"

namespace plimsoll {

using StringList = std::vector<std::string>;
// Settings of a component that has its own option names, for example momentum=0.9 for an optimizer. Values
// are stored as text.
using KeyValues = std::map<std::string, std::string>;

// All settings. A setting that Hugging Face's tools also have has the same name and default value here.
struct Arguments {
#define PLIMSOLL_ARGUMENT(group, origin, name, type, default_value, unit, range, status, help, note) \
  type name = default_value;
#include "plimsoll/arguments.inc"

  bool operator==(const Arguments&) const = default;
};

// The groups into which the printed settings are divided, in the order in which they are printed.
enum class ArgumentGroup {
  kModel,
  kData,
  kRun,
  kSchedule,
  kOptimizer,
  kAdapter,
  kPrecision,
  kMemory,
  kLoader,
  kLogging,
  kEvaluation,
  kGeneration,
  kSaving,
  kHub,
  kDistributed
};
// The source of a setting's name: TrainingArguments, an example script (run_glue or run_clm), PEFT or
// bitsandbytes (LoraConfig, BitsAndBytesConfig), or Plimsoll itself.
enum class ArgumentOrigin { kTrainer, kScript, kPeft, kPlimsoll };
// How Plimsoll treats a setting that the user changes from its default.
enum class ArgumentStatus { kImplemented, kNoEffect, kRefused };

// One row of the table of settings. The string views refer to static storage.
struct ArgumentInfo {
  std::string_view name;
  std::string_view type;     // type of the value: flag, integer, number, text, list or key=value
  std::string default_text;  // default value as text; empty if the setting is not set by default
  // the unit and special treatment of the value, such as "bytes" or "secret"; arguments.inc lists them
  std::string_view unit;
  std::string_view range;  // permitted values: an interval, a list of choices, or empty
  ArgumentGroup group;
  ArgumentOrigin origin;
  ArgumentStatus status;
  std::string_view help;  // description of the setting for --help, in one sentence
  std::string_view note;  // the reason why the setting has no effect or is refused; otherwise empty
};

struct ParseOptions {
  // If true, words that are neither options nor configuration files are returned in ParseResult::positionals. Otherwise
  // such words are an error.
  bool allow_positionals = false;
};

struct ParseResult {
  Arguments arguments;  // the parsed settings, checked by resolve_arguments() unless `help` is true
  // One warning for each setting that was given twice, and for each name of an older Transformers version that was
  // translated or ignored.
  std::vector<std::string> warnings;
  // one note per setting that has no effect in this combination, with the reason
  std::vector<std::string> notes;
  std::set<std::string> explicitly_set;  // names of the settings that a file or the command line contains
  // Names in explicitly_set that come only from the command line and not from a file.
  std::set<std::string> on_command_line;
  std::vector<std::string> positionals;  // filled only if ParseOptions::allow_positionals is true
  bool help = false;                     // true if --help or -h was given; the settings were then not checked
  std::string help_topic;  // the word after --help: a group, "all", the name of a setting, or empty
};

// Parses a command line that does not contain the names of the program and the subcommand.
//
// Accepted forms: `--name value`, `--name=value`, and dashes instead of underscores. Flags take no value,
// True/False, 1/0, or the form `--no_name`. Lists take commas or several words. A word that ends in .json,
// .yaml or .yml, or that follows --config, names a file that may contain any of the settings. The command
// line overrides files.
//
// Errors: kUsage for unknown names (the message suggests the nearest name), values of the wrong type or out
// of range, unreadable files, and everything that resolve_arguments refuses.
ParseResult parse_arguments(std::span<const std::string> words, const ParseOptions& options = {});

// Checks each value and each combination of values, refuses settings that this version does not support, and fills in the settings whose
// default depends on others (eval_steps, do_eval, do_predict, metric_for_best_model, greater_is_better). Replaces deepspeed, fsdp,
// fsdp_config and parallelism_config by the settings that they request; a setting that already differs from its default counts as set by
// the user, and may not contradict these four. Calling it twice has the same result as calling it once. Returns notes about settings that
// have no effect in this combination. Errors: kUsage.
std::vector<std::string> resolve_arguments(Arguments& arguments);

// Returns the table of settings in the order of declaration.
const std::vector<ArgumentInfo>& argument_table();
std::string_view to_string(ArgumentGroup group);
std::string_view to_string(ArgumentOrigin origin);
std::string_view to_string(ArgumentStatus status);

// Returns the text for --help, with lines of at most 80 columns. `topic` is empty (all implemented
// settings), the name of a group, "all", or the name of one setting. Errors: kUsage for any other topic.
std::string arguments_help(std::string_view topic = "");
// Returns the page docs/ARGUMENTS.md, which is generated from the table of settings.
std::string arguments_markdown();

// Returns ", did you mean 'x'?" for the candidate nearest to `word`, or an empty string if no candidate is near.
// parse_arguments() appends this to its messages; a program may use it for other names of its command line, such as
// those of subcommands.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates);

// Formats a setting as an option of the command line, name and value. Returns "" if it is not set, and "***" instead
// of the value of a secret that is set. Errors: kUsage for an unknown name.
std::string format_argument(const Arguments& arguments, std::string_view name);
enum class WhichArguments { kAll, kNotDefault };
// Formats the settings as lines `name = value`, in the order of declaration.
std::string format_arguments(const Arguments& arguments, WhichArguments which);

// Formats all settings as a JSON object with one setting per line, in the order of declaration. Secrets are
// omitted.
std::string arguments_json(const Arguments& arguments);
// Parses the text that arguments_json returns. Settings that the text omits keep their default, and resolve_arguments()
// is not called. Errors: kUsage; the message names `source`.
Arguments arguments_from_json(std::string_view text, std::string_view source = "JSON text");

struct ArgumentDifference {
  std::string name;
  std::string before;
  std::string after;
};
// Returns the settings whose values differ between `before` and `after`, in the order of declaration. Secrets are
// omitted.
std::vector<ArgumentDifference> diff_arguments(const Arguments& before, const Arguments& after);

// Returns the number of processes that train together: --nproc_per_node times --nnodes.
inline int64_t num_ranks(const Arguments& arguments) {
  return arguments.nproc_per_node * arguments.nnodes;
}
// Returns true if --ddp_timeout differs from its default. In this case the timeout limits every wait for another process. With the
// default timeout, a wait during a step has a shorter limit, which is computed from the durations of recent steps.
inline bool has_own_ddp_timeout(const Arguments& arguments) {
  return arguments.ddp_timeout != Arguments().ddp_timeout;
}
// offloads_optimizer() returns true if --offload_optimizer keeps optimizer states outside the memory of the device. nvme_folder()
// returns FOLDER if --offload_optimizer is nvme:FOLDER, otherwise "".
inline bool offloads_optimizer(const Arguments& arguments) {
  return !arguments.offload_optimizer.empty() && arguments.offload_optimizer != "False";
}
inline std::string nvme_folder(const Arguments& arguments) {
  constexpr std::string_view kPrefix = "nvme:";
  const std::string& value = arguments.offload_optimizer;
  return value.starts_with(kPrefix) ? value.substr(kPrefix.size()) : std::string();
}
// Returns the number of groups of processes that train on different batches: the --tp_size x --cp_size x --pp_size processes of a group
// train on the same batches.
inline int64_t num_data_ranks(const Arguments& arguments) {
  return num_ranks(arguments) / (arguments.tp_size * arguments.cp_size * arguments.pp_size);
}
// Returns the number of micro-batches per optimizer step, summed over all processes.
inline int64_t batches_per_step(const Arguments& arguments) {
  return arguments.gradient_accumulation_steps * num_data_ranks(arguments);
}

// Returns the number of steps for an interval such as logging_steps. A setting of 1 or more is the number
// itself; a smaller setting is a fraction of `total_steps`, rounded up.
int64_t interval_steps(double setting, int64_t total_steps);
// Returns logging_steps, or, if it is not set, the fraction 0.05 of all steps: about 20 log records per run.
double logging_interval(const Arguments& arguments);
// Returns the number of warm-up steps. If warmup_steps is below 1, it is a fraction of `total_steps`, rounded
// up.
int64_t num_warmup_steps(const Arguments& arguments, int64_t total_steps);

}  // namespace plimsoll
