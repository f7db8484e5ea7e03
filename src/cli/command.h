// The subcommands of the program, one file each. This room uses only the public API. It is the only room that
// prints, reads the environment and determines the exit code.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/run_commands.h"
#include "plimsoll/trainer.h"

namespace plimsoll::cli {

// Run a subcommand with the words after its name. Return the exit code. Errors: plimsoll::Error.
int run_train(const std::vector<std::string>& words);
int run_plan(const std::vector<std::string>& words);
int run_eval(const std::vector<std::string>& words);
int run_predict(const std::vector<std::string>& words);
int run_inspect(const std::vector<std::string>& words);
int run_tokenize(const std::vector<std::string>& words);
int run_fit(const std::vector<std::string>& words);
int run_bench(const std::vector<std::string>& words);
int run_merge(const std::vector<std::string>& words);
int run_monitor(const std::vector<std::string>& words);

// Warnings and notes about a command line. They are delayed because the first line of a run names the device
// and because the end of a plan's output is read first. They are printed at the latest when this object is
// destroyed, before the message of an error that ends the command.
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

// Prints the table of the plan, and with --modules and --why the additional tables. --json writes the plan to
// a file; --json - prints only JSON.
void print_plan(const PlanReport& plan, const Arguments& arguments);
// Prints the start of every run: device, data, warnings and the plan. Then allocates the memory and reads the
// weights, except with --dry_run. Returns true if the run continues.
bool show_and_start(Trainer& trainer, const Arguments& arguments, Remarks& remarks);

// Evaluates or predicts, depending on the task; an evaluation with --do_predict also predicts. Returns the
// exit code.
int evaluate_and_predict(const Arguments& arguments, Task task, Remarks& remarks);

// Predicts the test data into output_dir/predict_results[_TASK].txt, and MNLI's mismatched data into
// _mnli-mm.txt. Prints the speed, and metrics if there are labels, and saves them as predict_results.json.
void write_predictions(Trainer& trainer, const Arguments& arguments);

// Returns true if standard error is a terminal.
bool is_terminal();
// Returns the number of columns of that terminal, at most 100, or 100 if it is unknown.
int terminal_columns();
// Prints a line to standard error. Messages for people go there or to standard output; results go to standard
// output.
void say(const std::string& line);
void print(const std::string& text);
// Prints --help of a command with the arguments of a run: its usage and the arguments of the topic that the
// command uses, or only the arguments of one group or one argument.
void print_arguments_help(RunCommand command, const std::string& usage, const std::string& topic);
// Flushes the output for a reader that waits for it.
void flush_output();
// Returns true if writing to standard output has failed. The program then ends with kDevice, and code that
// only prints can stop.
bool output_is_lost();
// Prints warnings and notes, one line each.
void say_all(const std::vector<std::string>& warnings, const std::vector<std::string>& notes);

}  // namespace plimsoll::cli
