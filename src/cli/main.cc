#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "cli/command.h"
#include "plimsoll/arguments.h"

namespace plimsoll::cli {

Environment process_environment() {
  Environment environment;
  for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HOME"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  return environment;
}

bool is_terminal() {
  return isatty(STDERR_FILENO) != 0;
}

void say(const std::string& line) {
  // Where both go to one file, lines stay in the order in which they were written.
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", line.c_str());
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!text.empty() && text.back() != '\n') std::fputc('\n', stdout);
}

void say_all(const std::vector<std::string>& warnings, const std::vector<std::string>& notes) {
  for (const std::string& warning : warnings) say("warning: " + warning);
  for (const std::string& note : notes) say("note: " + note);
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
     "what a run will hold in memory and do, with no weights and no device needed; --json FILE, --why, "
     "--modules"},
    {"eval", run_eval, "loss and metrics of a fine-tuned model on --validation_file"},
    {"predict", run_predict, "labels for the rows of --test_file"},
    {"inspect", run_inspect,
     "what is in a model folder, checkpoint, .safetensors, data file or tokenizer: plimsoll inspect PATH"},
    {"tokenize", run_tokenize,
     "a line of text in, a JSON line out: plimsoll tokenize --tokenizer_name DIR [FILE] [--show]"},
};

constexpr const char* kVersion = "0.1.0";

std::string usage() {
  std::string text = "usage: plimsoll COMMAND [arguments]\n\n";
  for (const Command& command : kCommands) {
    text += "  " + std::string(command.name) + std::string(10 - std::string(command.name).size(), ' ') +
            command.help + "\n";
  }
  return text +
         "\nplimsoll COMMAND --help lists the arguments, --help all with those that have no effect here.\n"
         "Exit codes: 0 done, 1 our bug, 2 usage, 3 will not fit, 4 bad data or checkpoint, 5 loss or "
         "gradient not finite,\n"
         "6 interrupted and saved, 7 the device or the system failed.\n";
}

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
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
  throw Error(ErrorCode::kUsage,
              "'" + words[0] + "' is no command; there are train, plan, eval, predict, inspect, tokenize");
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  try {
    return plimsoll::cli::run(argc, argv);
  } catch (const plimsoll::Error& error) {
    plimsoll::cli::say(std::string("plimsoll: ") + error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    plimsoll::cli::say("plimsoll: the system gave no more memory beside the planned arena");
    return static_cast<int>(plimsoll::ErrorCode::kDevice);
  } catch (const std::filesystem::filesystem_error& error) {
    plimsoll::cli::say("plimsoll: " + error.path1().string() + ": " + error.code().message() +
                       "; check the path, its rights and the space on its disk");
    return static_cast<int>(plimsoll::ErrorCode::kDevice);
  } catch (const std::exception& error) {
    plimsoll::cli::say(std::string("plimsoll: internal error: ") + error.what());
    return static_cast<int>(plimsoll::ErrorCode::kInternal);
  }
}
