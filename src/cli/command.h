// The subcommands of the program, one file each. src/cli uses only the public API. It is the only folder whose code
// prints, reads the environment and determines the exit code.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "plimsoll/commands.h"
#include "plimsoll/trainer.h"

namespace plimsoll::cli {

class RunEvents;

// Run a subcommand with the arguments after its name. Return the exit code. Errors: plimsoll::Error. `events` is passed
// without an open stream; the function opens the stream for --event_fd, and the caller closes it.
int run_train(const std::vector<std::string>& words, RunEvents& events);
int run_plan(const std::vector<std::string>& words);
int run_eval(const std::vector<std::string>& words, RunEvents& events);
int run_generate(const std::vector<std::string>& words);
int run_predict(const std::vector<std::string>& words, RunEvents& events);
int run_inspect(const std::vector<std::string>& words);
int run_tokenize(const std::vector<std::string>& words);
int run_fit(const std::vector<std::string>& words);
int run_bench(const std::vector<std::string>& words);
int run_merge(const std::vector<std::string>& words);
int run_export(const std::vector<std::string>& words);
int run_report(const std::vector<std::string>& words);
int run_download(const std::vector<std::string>& words);
int run_env(const std::vector<std::string>& words);
int run_monitor(const std::vector<std::string>& words);
int run_completion(const std::vector<std::string>& words);
int run_man(const std::vector<std::string>& words);
int run_schema(const std::vector<std::string>& words);

// Warnings and notes about a command line. They are collected and printed later, because the first line
// of a run must name the device, and because users look first at the lines after a plan. They are printed
// at the latest when this object is destroyed, before the message of an error that ends the command.
class Remarks {
 public:
  Remarks(std::vector<std::string> warnings, std::vector<std::string> notes)
      : warnings_(std::move(warnings)), notes_(std::move(notes)) {}
  ~Remarks() { say_now(); }
  Remarks(const Remarks&) = delete;
  Remarks& operator=(const Remarks&) = delete;
  // Adds further warnings and notes.
  void add(const std::vector<std::string>& warnings, const std::vector<std::string>& notes);
  // Prints everything once; a second call prints nothing.
  void say_now();

 private:
  std::vector<std::string> warnings_;
  std::vector<std::string> notes_;
};

// Writes the JSON to the file that --json names. With --json - it prints the JSON and returns false, so that the caller
// prints no tables. Errors: kDevice.
bool write_json(const std::string& json, const Arguments& arguments);
// Writes a text to the file that an argument names, and prints the name of the file. `argument` is the name of the
// argument, for messages, and decides what the text is: an HTML page (--html, --output) or JSON. Errors: kUsage if the file exists and
// contains something else; kDevice.
void write_text(const std::string& text, std::string_view argument, const std::string& path);
// Does the same as write_text(), but prints nothing, because the name of the file has been printed before.
void replace_text(const std::string& text, std::string_view argument, const std::string& path);
// Throws if a file that an argument names cannot be written, so that a long run does not end with this error. Leaves the file as it
// is. Errors: those of write_text().
void require_writable(std::string_view argument, const std::string& path);
// If --nproc_per_node is not given, sets it to the number of visible GPUs, because a run uses all of them by default.
// `num_local_ranks` has the same meaning as for num_ranks_to_start() (launch.h). Returns a note for the user that says so, or "".
std::string use_all_gpus(ParseResult& parsed, std::optional<int> num_local_ranks);

// Writes the HTML report and the trace of a plan to the files that --html and --trace name.
void write_plan_files(const PlanReport& plan, const Arguments& arguments);
// Prints all tables of the plan, and with --modules and --why the additional ones. --json writes the plan to
// a file; --json - prints only JSON. Also writes the files that --html and --trace name.
void print_plan(const PlanReport& plan, const Arguments& arguments);
// Prints the first lines of every run: device, data, warnings and a summary of the plan. A run that trains prints
// five to seven lines of summary, other runs one; with --dry_run, --modules or --why all tables of the plan are
// printed. Then allocates the memory and reads the weights, except with --dry_run. Returns true if the run continues.
bool show_and_start(Trainer& trainer, const Arguments& arguments, Task task, Remarks& remarks,
                    RunEvents& events);

// Texts to predict that were given on the command line or on standard input, instead of in a file.
struct TestInput {
  TestTexts texts;     // the texts, from standard input (--test_file -) or from the command line
  bool shows = false;  // true if predictions are printed to standard output
  bool saves = true;   // true if files are written into output_dir
};
// Reads standard input for --test_file -, and takes the texts from the command line. Errors: kUsage for texts together
// with a file; kBadData if standard input is empty.
TestInput read_test_input(const ParseResult& parsed);

// Evaluates or predicts, depending on the task; an evaluation with test data also predicts. Returns the exit code.
int evaluate_and_predict(const Arguments& arguments, Task task, const TestInput& input, Remarks& remarks,
                         RunEvents& events);

// Returns the optional parts of a Trainer that the command line requests: texts to predict, and a metric that
// writes the files of --save_logits.
TrainerParts parts_of(const Arguments& arguments, const TestInput& input, RunEvents& events);

// Saves metrics as <split>_results.json and all_results.json, and prints the names of these files.
void save_named_metrics(Trainer& trainer, const Arguments& arguments, const std::string& split,
                        const MetricMap& metrics);

// Writes the predictions for the test data to output_dir/predict_results[_TASK].txt, and those for MNLI's second (mismatched) test
// set to predict_results_mnli-mm.txt. Prints the speed, and metrics if there are labels, and saves them as predict_results.json.
void write_predictions(Trainer& trainer, const Arguments& arguments, const TestInput& input,
                       RunEvents& events);

// Returns the environment of this process, with its locale as LC_CTYPE and the width of its output as COLUMNS.
Environment program_environment();
// Returns the entry of a command in the table of commands. Requires: the table has it.
const CommandInfo& command_named(std::string_view name);
// Throws if the command line has more than `at_most` words that are not options. Errors: kUsage.
void require_words(const CommandInfo& command, const CommandWords& words, size_t at_most);

}  // namespace plimsoll::cli
