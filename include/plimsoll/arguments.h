// The settings of a run: Hugging Face's names (TrainingArguments and run_glue) and a few of Plimsoll's own.
//
// This is the one declaration of every setting (the table is arguments.inc) and the functions that read,
// check, print and compare settings. It is not the command line: nothing here prints, reads the environment
// or exits. Thread-safe: values and pure functions; only parse_arguments reads files, those that it is told
// to.
//
// A program may fill an Arguments by hand; it then calls resolve_arguments() before it trains or plans.
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
// Settings of a part that has its own names, such as momentum=0.9 of an optimizer. Values are kept as text.
using KeyValues = std::map<std::string, std::string>;

// One field per setting, with Hugging Face's name and default.
struct Arguments {
#define PLIMSOLL_ARGUMENT(group, origin, name, type, default_value, unit, range, status, help, note) \
  type name = default_value;
#include "plimsoll/arguments.inc"

  bool operator==(const Arguments&) const = default;
};

// The order of the groups is the order in which they are printed.
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
  kSaving,
  kHub,
  kDistributed
};
// Whose name a setting has: TrainingArguments, run_glue or run_clm, LoraConfig or BitsAndBytesConfig, or
// Plimsoll's own.
enum class ArgumentOrigin { kTrainer, kScript, kPeft, kPlimsoll };
// What Plimsoll does with a setting that differs from its default.
enum class ArgumentStatus { kImplemented, kNoEffect, kRefused };

// What the table says of one setting. Views are of static storage.
struct ArgumentInfo {
  std::string_view name;
  std::string_view type;     // flag, integer, number, text, list or key=value
  std::string default_text;  // "" where it is not set
  std::string_view unit;     // as in arguments.inc
  std::string_view range;    // an interval or choices, or ""
  ArgumentGroup group;
  ArgumentOrigin origin;
  ArgumentStatus status;
  std::string_view help;  // one sentence
  std::string_view note;  // why it has no effect or is refused
};

struct ParseOptions {
  // Words that are neither options nor a config file are returned instead of refused.
  bool allow_positionals = false;
};

struct ParseResult {
  Arguments arguments;  // resolved (see resolve_arguments) unless `help`
  // One for each old name that was translated or ignored and for each setting that was given twice.
  std::vector<std::string> warnings;
  std::vector<std::string> notes;        // settings that have no effect here, and why
  std::set<std::string> explicitly_set;  // names given in a file or on the command line
  std::vector<std::string> positionals;  // only with allow_positionals
  bool help = false;                     // --help or -h was met: nothing was checked
  std::string help_topic;                // the word after --help: a group, "all" or a setting's name; or ""
};

// Reads a command line, without the program's and the subcommand's name. `--name value`, `--name=value`,
// dashes for underscores; flags take nothing, True/False, 1/0, or `--no_name`; lists take commas or several
// words; a word that ends in .json, .yaml or .yml, or follows --config, is a file with any of the settings.
// The command line wins over files. Errors: kUsage for names that do not exist (with the nearest that does),
// values of the wrong type or out of range, files that cannot be read, and what resolve_arguments refuses.
ParseResult parse_arguments(std::span<const std::string> words, const ParseOptions& options = {});

// Checks every value alone and against the others, refuses what this version does not do, and fills in the
// settings whose default depends on others (eval_steps, do_eval, metric_for_best_model, greater_is_better).
// Idempotent. Returns the notes for settings that have no effect here. Errors: kUsage.
std::vector<std::string> resolve_arguments(Arguments& arguments);

// The table, in the order of declaration.
const std::vector<ArgumentInfo>& argument_table();
std::string_view to_string(ArgumentGroup group);
std::string_view to_string(ArgumentOrigin origin);
std::string_view to_string(ArgumentStatus status);

// Text for --help, lines of at most 100 columns. `topic` is "" (what is implemented), a group's name, "all",
// or the name of one setting. Errors: kUsage for another topic.
std::string arguments_help(std::string_view topic = "");
// The page docs/ARGUMENTS.md.
std::string arguments_markdown();

// ", did you mean 'x'?" with the candidate that is nearest to `word`, or "" if none is near.
// parse_arguments() ends its messages with it; a command line may use it for its other words, such as names
// of subcommands.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates);

// A value as text, as it would be given on the command line; "" if not set; "***" for a secret that is set.
// Errors: kUsage for a name that does not exist.
std::string format_argument(const Arguments& arguments, std::string_view name);
enum class WhichArguments { kAll, kNotDefault };
// Lines `name = value`, in the order of declaration.
std::string format_arguments(const Arguments& arguments, WhichArguments which);

// All settings as a JSON object, one per line, in the order of declaration. Secrets are left out.
std::string arguments_json(const Arguments& arguments);
// The inverse. Settings that are not in the text keep their default; nothing is resolved. Errors: kUsage,
// naming `source`.
Arguments arguments_from_json(std::string_view text, std::string_view source = "JSON text");

struct ArgumentDifference {
  std::string name;
  std::string before;
  std::string after;
};
// The settings that differ, secrets excepted, in the order of declaration.
std::vector<ArgumentDifference> diff_arguments(const Arguments& before, const Arguments& after);

// The number of steps that an interval such as logging_steps stands for: the setting itself, or, where it is
// below 1, that share of `total_steps`, rounded up.
int64_t interval_steps(double setting, int64_t total_steps);
// The steps of warm-up: warmup_steps, or below 1 that share of `total_steps`, rounded up.
int64_t num_warmup_steps(const Arguments& arguments, int64_t total_steps);

}  // namespace plimsoll
