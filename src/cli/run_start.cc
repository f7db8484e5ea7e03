#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/command.h"
#include "cli/command_json.h"
#include "cli/progress.h"
#include "cli/run_events.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {

namespace {

[[noreturn]] void fail_to_write(std::string_view argument, const std::string& path) {
  throw Error(ErrorCode::kDevice, std::string(argument) + " " + path +
                                      ": cannot write the file: " + std::strerror(errno) +
                                      "; check the path, its permissions and the disk");
}

// Refuses to replace a file that does not contain what the argument writes: an HTML page begins with '<', and JSON (--json, --trace) with
// '{' or '['. A mistyped name must not destroy weights or data. Files that are empty or not regular, such as pipes, are accepted.
void require_own_kind(std::string_view argument, const std::string& path) {
  if (path == "-") {
    throw Error(ErrorCode::kUsage, std::string(argument) +
                                       " -: give the name of a file; only --json - and 'plimsoll report RUN "
                                       "--output -' write to standard output");
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  constexpr size_t kMostRead = 64;
  std::string start(kMostRead, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(file.gcount()));
  if (start.empty()) return;
  const bool is_page = argument.ends_with("--html") || argument.ends_with("--output");
  const size_t first = start.find_first_not_of(" \t\r\n");
  const bool is_text = start.find('\0') == std::string::npos && first != std::string::npos;
  if (is_text && std::string_view(is_page ? "<" : "{[").find(start[first]) != std::string_view::npos) return;
  throw Error(ErrorCode::kUsage, std::string(argument) + " " + path + ": the file exists and contains no " +
                                     (is_page ? "HTML" : "JSON") +
                                     ", so it is not replaced; choose another name or delete it");
}

}  // namespace

void replace_text(const std::string& text, std::string_view argument, const std::string& path) {
  require_own_kind(argument, path);
  errno = 0;
  std::ofstream file(path);
  file << text;
  if (!file.flush()) fail_to_write(argument, path);
}

void write_text(const std::string& text, std::string_view argument, const std::string& path) {
  replace_text(text, argument, path);
  say("wrote " + path);
}

void require_writable(std::string_view argument, const std::string& path) {
  require_own_kind(argument, path);
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(path, ignored);
  errno = 0;
  if (!std::ofstream(path, std::ios::app)) fail_to_write(argument, path);
  if (is_new) std::filesystem::remove(path, ignored);
}

bool write_json(const std::string& json, const Arguments& arguments) {
  if (arguments.json == "-") {
    // With --json -, only the JSON is printed, so that another program can read it from a pipe.
    print(json);
    return false;
  }
  if (arguments.json.empty()) return true;
  write_text(json, "--json", arguments.json);
  return true;
}

namespace {

void print_plan_tables(const PlanReport& plan, const Arguments& arguments) {
  print(plan.table + plan.savings);
  if (arguments.modules) print("\n" + plan.modules);
  if (arguments.why) print("\n" + plan.why);
}

// Prints the plan of a run before the run starts.
void print_summary(const PlanReport& plan, const Arguments& arguments, Task task) {
  begin_results(plan.json, arguments);
  if (arguments.modules || arguments.why) {
    write_plan_files(plan, arguments);
    print_plan_tables(plan, arguments);
    return;
  }
  if (task == Task::kTrain) {
    print_talk(plan.summary);
  } else {
    // Results of `eval` and `predict` may be piped to another program, so the plan is printed to standard error.
    say(plan.line.substr(0, plan.line.find('\n')));
  }
}

}  // namespace

std::string use_all_gpus(ParseResult& parsed, std::optional<int> num_local_ranks) {
  Arguments& arguments = parsed.arguments;
  const bool trains = arguments.do_train || !parsed.explicitly_set.contains("do_train");
  // The number of processes may also come from --parallelism_config.
  const bool is_given = parsed.explicitly_set.contains("nproc_per_node") || arguments.nproc_per_node > 1;
  if (num_local_ranks || !trains || is_given || arguments.nnodes > 1) return {};
  arguments.nproc_per_node = num_ranks_on_this_machine(arguments);
  if (arguments.nproc_per_node == 1) return {};
  return "the run uses all " + std::to_string(arguments.nproc_per_node) +
         " visible GPUs, one process each; --nproc_per_node 1, --device cuda:0 or CUDA_VISIBLE_DEVICES "
         "restrict it";
}

void write_plan_files(const PlanReport& plan, const Arguments& arguments) {
  if (!plan.html.empty()) write_text(plan.html, "--html", arguments.html);
  if (!plan.trace.empty()) write_text(plan.trace, "--trace", arguments.trace);
}

void print_plan(const PlanReport& plan, const Arguments& arguments) {
  write_plan_files(plan, arguments);
  if (!write_json(plan.json, arguments)) return;
  print_plan_tables(plan, arguments);
}

bool show_and_start(Trainer& trainer, const Arguments& arguments, Task task, Remarks& remarks,
                    RunEvents& events) {
  say(trainer.device_line());
  remarks.say_now();
  for (const std::string& line : trainer.description()) say(line);
  say_all(trainer.plan().warnings, trainer.plan().notes);
  events.send_remarks("warning", trainer.plan().warnings);
  events.send_remarks("note", trainer.plan().notes);
  events.send_plan(trainer.plan());
  if (arguments.dry_run) {
    print_plan(trainer.plan(), arguments);
    // If the plan does not fit, a dry run must fail with the same message as a real run.
    if (!trainer.plan().fits) throw Error(ErrorCode::kWillNotFit, trainer.plan().refusal);
    return false;
  }
  print_summary(trainer.plan(), arguments, task);
  const std::string loaded = trainer.start();
  if (!loaded.empty()) say(loaded);
  trainer.add_callback(std::make_shared<Progress>(is_terminal() && !arguments.disable_tqdm.value_or(false),
                                                  trainer.plan().total_bytes));
  if (std::shared_ptr<Callback> callback = events.callback()) trainer.add_callback(std::move(callback));
  return true;
}

}  // namespace plimsoll::cli
