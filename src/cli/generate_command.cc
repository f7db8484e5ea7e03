#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/download_progress.h"
#include "cli/interrupt.h"
#include "plimsoll/error.h"
#include "plimsoll/generator.h"
#include "plimsoll/report.h"
#include "plimsoll/run_commands.h"

namespace plimsoll::cli {
namespace {

std::vector<std::string> prompts_of(const std::string& path, PromptForm form) {
  if (path == "-") return read_prompts(std::cin, "standard input", form);
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    throw Error(ErrorCode::kUsage, "--prompt_file " + path + ": cannot read the file: " +
                                       std::strerror(errno) + "; check the path and its permissions");
  }
  file.close();
  return read_prompt_file(path, form);
}

// Prints the speed and memory of a run with random prompts. The generated texts are meaningless and are not printed.
void print_figures(const Generator& generator, const Arguments& arguments) {
  if (!write_json(generation_speed_json(generator.speed(), generator.memory()), arguments)) return;
  print(format_generation_speed(generator.speed()));
  print(format_memory(generator.memory()));
}

// Generated texts go to standard output, so speed and memory are printed to standard error.
void say_figures(const Generator& generator) {
  if (generator.speed().num_prompts == 0) return;
  say(format_generation_speed(generator.speed()));
  std::string memory = format_memory(generator.memory());
  if (memory.ends_with('\n')) memory.pop_back();
  say(memory);
}

// Writes the file of --json, one line per generated text. The lines of a prompt are written when all its texts are
// complete, so that the file contains only complete lines even if the run is interrupted. An existing file is replaced
// when the first line is written.
class TextLines {
 public:
  explicit TextLines(const Arguments& arguments) : path_(arguments.json) {
    if (path_.empty() || path_ == "-") return;
    is_new_ = !std::filesystem::exists(path_);
    errno = 0;
    // Checks that the file can be written before texts are generated.
    if (!std::ofstream(path_, std::ios::app)) fail();
  }
  ~TextLines() {
    std::error_code ignored;
    if (is_new_ && !file_.is_open()) std::filesystem::remove(path_, ignored);
  }
  TextLines(const TextLines&) = delete;
  TextLines& operator=(const TextLines&) = delete;

  void write(const std::string& prompt, const std::vector<Continuation>& texts) {
    const std::string lines = continuation_lines({prompt}, {texts});
    if (path_ == "-") {
      print_part(lines);
      return;
    }
    errno = 0;
    if (!file_.is_open()) file_.open(path_);
    file_ << lines;
    if (!file_.flush()) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::kDevice, "--json " + path_ + ": cannot write the file: " + std::strerror(errno) +
                                        "; check the path, its permissions and the disk");
  }

  std::string path_;
  std::ofstream file_;
  bool is_new_ = false;
};

// Generates the continuations of one prompt and prints the first one: token by token if `streams`, otherwise
// when it is complete. In a chat the prompt is not printed. Returns the text of the first continuation.
std::string print_one(Generator& generator, const std::string& prompt, bool streams, bool is_chat) {
  const std::string shown = is_chat ? "" : prompt;
  print_part(shown);
  std::vector<Continuation> texts = generator.generate(
      prompt, streams ? Generator::OnText([](int64_t, int64_t continuation, const std::string& text) {
        // Prints only the first continuation here. generation_config.json may ask for several; the caller prints the
        // others.
        if (continuation == 0) print_part(text);
      })
                      : Generator::OnText());
  print(streams || texts.empty() ? std::string("\n") : texts.front().text + "\n");
  for (size_t i = 1; i < texts.size(); ++i) print(shown + texts[i].text + "\n");
  flush_output();
  return texts.empty() ? "" : texts.front().text;
}

// Reads lines from the terminal and continues each one. With --chat, the lines and the answers form one conversation.
void converse(Generator& generator, std::string conversation, bool streams, bool is_chat) {
  while (!generator.was_stopped()) {
    // While the program waits for input, there is no work to finish, so a signal may end it at once.
    release_signals();
    std::string line;
    if (!std::getline(std::cin, line)) break;
    catch_signals();
    if (line.empty()) continue;
    try {
      if (!is_chat) {
        print_one(generator, line, streams, is_chat);
        continue;
      }
      const std::string asked = with_message(conversation, "user", line);
      const std::string answer = print_one(generator, asked, streams, is_chat);
      conversation = with_message(asked, "assistant", answer);
    } catch (const Error& error) {
      // A prompt that is refused does not end the program: it may need more memory than the plan has reserved, but the
      // next prompt may be shorter.
      if (error.code() != ErrorCode::kUsage) throw;
      print("\n");
      say_error(error.what());
    }
  }
}

// Generates the texts of all prompts, and prints or writes those of each prompt when they are complete.
void generate_all(Generator& generator, const std::vector<std::string>& prompts, const Arguments& arguments) {
  TextLines lines(arguments);
  size_t num_begun = 0;
  generator.generate({}, [&](int64_t number, const std::vector<Continuation>& texts) {
    const std::string& prompt = prompts[static_cast<size_t>(number)];
    ++num_begun;
    if (!arguments.json.empty()) {
      lines.write(prompt, texts);
      return;
    }
    for (const Continuation& text : texts) print_part((arguments.chat ? "" : prompt) + text.text + "\n");
  });
  if (!arguments.json.empty() && arguments.json != "-") say("wrote " + arguments.json);
  if (generator.was_stopped() && num_begun < prompts.size())
    say(std::to_string(prompts.size() - num_begun) + " of " + std::to_string(prompts.size()) +
        " prompts were not begun");
}

}  // namespace

int run_generate(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("generate");
  std::vector<std::string> settings;
  bool interactive = false;
  for (const std::string& word : words) {
    if (word == "--interactive") {
      interactive = true;
    } else {
      settings.push_back(word);
    }
  }
  ParseResult parsed = parse_arguments(settings, {.allow_positionals = true});
  if (parsed.help) {
    print(command_screen(command, parsed.help_topic));
    return 0;
  }
  set_verbosity(parsed.arguments);
  refuse_unused_files(RunCommand::kGenerate, parsed);
  std::vector<std::string> notes = parsed.notes;
  if (std::string note = unused_note(RunCommand::kGenerate, parsed.explicitly_set); !note.empty())
    notes.push_back(std::move(note));
  const Arguments& arguments = parsed.arguments;
  std::vector<std::string> prompts = parsed.positionals;
  if (!arguments.prompt_file.empty()) {
    if (!prompts.empty() || interactive)
      throw Error(ErrorCode::kUsage, "prompts are given in two ways: --prompt_file " + arguments.prompt_file +
                                         " and the command line; give one");
    prompts = prompts_of(arguments.prompt_file, arguments.chat ? PromptForm::kChat : PromptForm::kText);
  }
  const bool is_random = draws_prompts(arguments);
  if (is_random && interactive) {
    throw Error(
        ErrorCode::kUsage,
        "prompts are given in two ways: --dataset_name dummy, which draws them, and --interactive; give "
        "one of them");
  }
  if (prompts.empty() && !interactive && !is_random) {
    throw Error(
        ErrorCode::kUsage,
        "there is no prompt; give a text, --prompt_file FILE, or --interactive (plimsoll generate --help)");
  }
  Remarks remarks(parsed.warnings, std::move(notes));
  download_models(arguments, RunCommand::kGenerate);
  Generator generator(arguments, prompts, 0, program_environment());
  say(generator.device_line());
  remarks.add(generator.warnings(), generator.notes());
  remarks.say_now();
  if (arguments.dry_run) {
    print_plan(generator.plan(), arguments);
    if (!generator.plan().fits) throw Error(ErrorCode::kWillNotFit, generator.plan().refusal);
    return 0;
  }
  say(generator.plan().line.substr(0, generator.plan().line.find('\n')));
  write_plan_files(generator.plan(), arguments);
  const StoppedBySignals stopped_by_signals(
      [](void* target) { static_cast<Generator*>(target)->request_stop(); }, &generator,
      "\nending the texts; a second signal stops at once\n");
  catch_signals();
  generator.start();
  const bool streams =
      arguments.num_beams.value_or(1) == 1 && arguments.num_return_sequences.value_or(1) == 1;
  if (is_random) {
    generator.generate();
    print_figures(generator, arguments);
  } else if (interactive) {
    std::string conversation;
    for (size_t i = 0; i < prompts.size() && !generator.was_stopped(); ++i) {
      const std::string asked = arguments.chat ? with_message(conversation, "user", prompts[i]) : prompts[i];
      const std::string answer = print_one(generator, asked, streams, arguments.chat);
      if (arguments.chat) conversation = with_message(asked, "assistant", answer);
    }
    converse(generator, std::move(conversation), streams, arguments.chat);
  } else if (prompts.size() == 1 && arguments.json.empty()) {
    print_one(generator, prompts.front(), streams, arguments.chat);
  } else {
    generate_all(generator, prompts, arguments);
  }
  if (!is_random) say_figures(generator);
  if (generator.was_stopped()) {
    say("interrupted; the texts end with the tokens that were generated before");
    return static_cast<int>(ErrorCode::kInterrupted);
  }
  return 0;
}

}  // namespace plimsoll::cli
