#include <pwd.h>
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
#include "plimsoll/arguments.h"

namespace plimsoll::cli {

namespace {

// Returns the home directory of this process's user from the password database, or an empty string.
std::string home_of_user() {
  std::vector<char> text(size_t{1} << 14);
  passwd entry{};
  passwd* found = nullptr;
  const int failed = getpwuid_r(getuid(), &entry, text.data(), text.size(), &found);
  return failed != 0 || found == nullptr || entry.pw_dir == nullptr ? std::string() : entry.pw_dir;
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HOME"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  // Services and containers are started without HOME; Python's tools use the password database too.
  if (!environment.contains("HOME")) {
    if (std::string home = home_of_user(); !home.empty()) environment["HOME"] = std::move(home);
  }
  environment["LC_CTYPE"] = character_locale();
  return environment;
}

void print_arguments_help(RunCommand command, const std::string& usage, const std::string& topic) {
  const std::string help = command_help(command, topic);
  print(topic.empty() || topic == "all" ? "usage: " + usage + "\n\n" + help : help);
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

struct Command {
  const char* name;
  int (*run)(const std::vector<std::string>& words);
  const char* help;
};
constexpr Command kCommands[] = {
    {"train", run_train,
     "fine-tune a model; Hugging Face Trainer's argument names; --dry_run prints the plan and stops"},
    {"plan", run_plan,
     "the memory and the operations of a run, without weights or a device; --json FILE, --why, --modules"},
    {"eval", run_eval, "compute loss and metrics of a fine-tuned model on --validation_file"},
    {"predict", run_predict, "predict labels for the rows of --test_file"},
    {"inspect", run_inspect,
     "describe a model folder, checkpoint, .safetensors, data file or tokenizer: plimsoll inspect PATH"},
    {"tokenize", run_tokenize,
     "tokenize each line of text to a line of JSON: plimsoll tokenize --tokenizer_name DIR [FILE] [--show]"},
    {"fit", run_fit,
     "find methods, batch and length that fit into a memory, for a device that need not be present; "
     "--memory, --device"},
    {"bench", run_bench,
     "measure methods alone and combined, one process each: predicted and measured time and memory; "
     "--experiments, --sweep, --peer"},
    {"merge", run_merge,
     "merge a base model and an adapter into one model: plimsoll merge --adapter DIR --output_dir DIR"},
    {"monitor", run_monitor,
     "show the GPUs: memory, processes, clocks, power, temperature; --watch, --json, --capabilities"},
};

constexpr const char* kVersion = "0.1.0";

std::string usage() {
  std::string text = "usage: plimsoll COMMAND [arguments]\n\n";
  for (const Command& command : kCommands) {
    text += "  " + std::string(command.name) + std::string(10 - std::string(command.name).size(), ' ') +
            command.help + "\n";
  }
  return text +
         "\n"
         "plimsoll COMMAND --help lists the arguments; --help all includes those without effect.\n"
         "Exit codes: 0 done, 1 our bug, 2 usage or configuration, 3 will not fit, 4 bad data or checkpoint, "
         "5 loss or gradient not finite,\n"
         "6 interrupted and saved, 7 the device or the system failed; 128 + the signal after a second one, "
         "which saves nothing.\n";
}

[[noreturn]] void refuse_command(const std::string& word) {
  std::string list;
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) {
    if (!names.empty()) list += ", ";
    list += command.name;
    names.emplace_back(command.name);
  }
  throw Error(ErrorCode::kUsage,
              "'" + word + "' is not a command; the commands are " + list + did_you_mean(word, names));
}

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 2 && words[0] == "help") words = {words[1], "--help"};
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print(usage());
    return words.empty() ? static_cast<int>(ErrorCode::kUsage) : 0;
  }
  if (words[0] == "--version") {
    print(std::string("plimsoll ") + kVersion);
    return 0;
  }
  for (const Command& command : kCommands) {
    if (words[0] == command.name) return command.run({words.begin() + 1, words.end()});
  }
  refuse_command(words[0]);
}

// Output counts as written only after it was flushed. If the run failed, its own exit code is kept.
int end_of_output(int exit_code) {
  flush_output();
  if (output_fault() == 0) return exit_code;
  say_error(std::string("cannot write to standard output: ") + std::strerror(output_fault()) +
            "; the output is incomplete, check its destination");
  return exit_code == 0 ? static_cast<int>(ErrorCode::kDevice) : exit_code;
}

int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    say_error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    say_error("the system has no more memory for data outside the planned arena");
    return static_cast<int>(ErrorCode::kDevice);
  } catch (const std::filesystem::filesystem_error& error) {
    say_error(error.path1().string() + ": " + error.code().message() +
              "; check the path, its permissions and the free space on its disk");
    return static_cast<int>(ErrorCode::kDevice);
  } catch (const std::exception& error) {
    say_error(std::string("internal error: ") + error.what());
    return static_cast<int>(ErrorCode::kInternal);
  }
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  plimsoll::cli::obey_sent_interrupts();
  // Writing a file beyond the size limit then fails with an error like that of a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  return plimsoll::cli::end_of_output(plimsoll::cli::run_and_report(argc, argv));
}
