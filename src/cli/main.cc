#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/run_events.h"
#include "plimsoll/arguments.h"
#include "plimsoll/environment_report.h"

namespace plimsoll::cli {

Environment program_environment() {
  Environment environment = process_environment();
  environment["LC_CTYPE"] = character_locale();
  if (const int columns = output_columns(); columns > 0) environment["COLUMNS"] = std::to_string(columns);
  return environment;
}

const CommandInfo& command_named(std::string_view name) {
  const CommandInfo* command = find_command(name);
  if (command == nullptr)
    throw Error(ErrorCode::kInternal, "the table has no command '" + std::string(name) + "'");
  return *command;
}

void require_words(const CommandInfo& command, const CommandWords& words, size_t at_most) {
  if (words.positionals.size() <= at_most) return;
  const std::string name(command.name);
  const std::string& word = words.positionals[at_most];
  if (at_most == 0)
    throw Error(ErrorCode::kUsage, name + ": unknown argument '" + word +
                                       "'; it takes only options (plimsoll " + name + " --help)");
  throw Error(ErrorCode::kUsage,
              name + ": two words, '" + words.positionals[0] + "' and '" + word + "'; give one");
}

void Remarks::add(const std::vector<std::string>& warnings, const std::vector<std::string>& notes) {
  warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
  notes_.insert(notes_.end(), notes.begin(), notes.end());
}

void Remarks::say_now() {
  say_all(warnings_, notes_);
  warnings_.clear();
  notes_.clear();
}

namespace {

// A command that does not write events to --event_fd, and the function that runs it.
struct Handler {
  std::string_view name;
  int (*run)(const std::vector<std::string>& words);
};
constexpr Handler kHandlers[] = {
    {"plan", run_plan},         {"generate", run_generate}, {"inspect", run_inspect},
    {"tokenize", run_tokenize}, {"fit", run_fit},           {"bench", run_bench},
    {"merge", run_merge},       {"monitor", run_monitor},   {"completion", run_completion},
    {"man", run_man},           {"schema", run_schema},     {"report", run_report},
    {"download", run_download}, {"export", run_export},     {"env", run_env},
};

// A command that writes events to --event_fd, and the function that runs it.
struct HandlerWithEvents {
  std::string_view name;
  int (*run)(const std::vector<std::string>& words, RunEvents& events);
};
constexpr HandlerWithEvents kHandlersWithEvents[] = {
    {"train", run_train}, {"eval", run_eval}, {"predict", run_predict}};

[[noreturn]] void refuse_command(const std::string& word) {
  std::string list;
  std::vector<std::string_view> names;
  for (const CommandInfo& command : command_table()) {
    if (!names.empty()) list += ", ";
    list += command.name;
    names.emplace_back(command.name);
  }
  throw Error(ErrorCode::kUsage,
              "'" + word + "' is not a command; the commands are " + list + did_you_mean(word, names));
}

int run(int argc, char** argv, RunEvents& events) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 2 && words[0] == "help") words = {words[1], "--help"};
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print(program_help());
    return words.empty() ? static_cast<int>(ErrorCode::kUsage) : 0;
  }
  if (words[0] == "--version") {
    print("plimsoll " + std::string(program_version()));
    return 0;
  }
  for (const Handler& handler : kHandlers) {
    if (words[0] == handler.name) return handler.run({words.begin() + 1, words.end()});
  }
  for (const HandlerWithEvents& handler : kHandlersWithEvents) {
    if (words[0] == handler.name) return handler.run({words.begin() + 1, words.end()}, events);
  }
  refuse_command(words[0]);
}

// Flushes standard output and returns the exit code of the program: `exit_code`, or kDevice if some output could not
// be written and the run itself did not fail.
int end_of_output(int exit_code) {
  flush_output();
  if (output_fault() == 0) return exit_code;
  say_error(std::string("cannot write to standard output: ") + std::strerror(output_fault()) +
            "; the output is incomplete, check its destination");
  return exit_code == 0 ? static_cast<int>(ErrorCode::kDevice) : exit_code;
}

// Prints the error that has ended the program, and sends it to the reader of --event_fd. Returns the exit code.
int fail(RunEvents& events, ErrorCode code, const std::string& message) {
  say_error(message);
  events.end(static_cast<int>(code), message);
  return static_cast<int>(code);
}

int run_and_report(int argc, char** argv) {
  RunEvents events;
  try {
    const int exit_code = run(argc, argv, events);
    events.end(exit_code, "");
    return exit_code;
  } catch (const Error& error) {
    return fail(events, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(events, ErrorCode::kDevice,
                "the system refused host memory for data that is not part of the plan; close other "
                "programs, or use a "
                "machine with more memory");
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(events, ErrorCode::kDevice,
                error.path1().string() + ": " + error.code().message() +
                    "; check the path, its permissions and the free space on its disk");
  } catch (const std::exception& error) {
    return fail(events, ErrorCode::kInternal, std::string("internal error: ") + error.what());
  }
}

}  // namespace
}  // namespace plimsoll::cli

namespace {

// Opens /dev/null for each closed standard stream, in a mode that makes reading from standard input or writing to
// standard output fail. Otherwise the next opened file or connection would get the descriptor number of the closed
// stream, and text that is meant for the stream would be written into it.
void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open() returns the lowest free descriptor, which is that of the closed stream.
    static_cast<void>(open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

int main(int argc, char** argv) {
  reserve_standard_streams();
  plimsoll::cli::obey_sent_interrupts();
  plimsoll::cli::keep_signals_from_other_threads();
  // If SIGXFSZ is ignored, writing beyond the size limit of files returns an error, as on a full disk, instead of
  // ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return plimsoll::cli::end_of_output(plimsoll::cli::run_and_report(argc, argv));
}
