// The subcommands of the program: a file each. This room sees only the public API; it alone prints, reads the
// environment and decides the exit code.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/run_commands.h"
#include "plimsoll/trainer.h"

namespace plimsoll::cli {

// Words after the subcommand's name. Returns the exit code; throws plimsoll::Error.
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

// Warnings and notes on a command line. They wait, because the first line of a run says its device and a
// plan's reader looks at the end of it, and are said at the latest when this goes out of scope: before the
// message of an error that ends the command.
class Remarks {
 public:
  Remarks(std::vector<std::string> warnings, std::vector<std::string> notes)
      : warnings_(std::move(warnings)), notes_(std::move(notes)) {}
  ~Remarks() { say_now(); }
  Remarks(const Remarks&) = delete;
  Remarks& operator=(const Remarks&) = delete;
  // Others that wait with them.
  void add(const std::vector<std::string>& warnings, const std::vector<std::string>& notes);
  // Once: a second call says nothing.
  void say_now();

 private:
  std::vector<std::string> warnings_;
  std::vector<std::string> notes_;
};

// The plan's table, with --modules and --why what they add; --json writes it to its file, or with - prints it
// as JSON and nothing else.
void print_plan(const PlanReport& plan, const Arguments& arguments);
// What every run begins with: device, data, warnings, the plan; then, unless --dry_run was given, the memory
// is taken and the weights are read. Returns whether the run goes on.
bool show_and_start(Trainer& trainer, const Arguments& arguments, Remarks& remarks);

// Evaluates or predicts, as the task says; evaluating, --do_predict predicts as well. Returns the exit code.
int evaluate_and_predict(const Arguments& arguments, Task task, Remarks& remarks);

// Predicts the test data into output_dir/predict_results[_TASK].txt, MNLI's mismatched data into
// _mnli-mm.txt, and says so; prints how fast that was, with metrics where there are labels, and saves it as
// predict_results.json.
void write_predictions(Trainer& trainer, const Arguments& arguments);

// The variables that the library is told of.
Environment process_environment();
// Whether standard error is a terminal.
bool is_terminal();
// The columns of that terminal, at most 100; 100 where it does not say.
int terminal_columns();
// A line on standard error: everything for people goes there or to standard output, results to standard
// output.
void say(const std::string& line);
void print(const std::string& text);
// What --help of a command prints that takes the arguments of a run: its usage, then the arguments of the
// topic that the command uses; of one group or one argument, that alone.
void print_arguments_help(RunCommand command, const std::string& usage, const std::string& topic);
// Sends what was printed on its way: for somebody who waits for it.
void flush_output();
// Whether standard output took no more at some time: the program then ends with kDevice, and what only prints
// need not go on.
bool output_is_lost();
// Warnings and notes, one line each.
void say_all(const std::vector<std::string>& warnings, const std::vector<std::string>& notes);

}  // namespace plimsoll::cli
