#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "plimsoll/error.h"
#include "plimsoll/generator.h"
#include "plimsoll/report.h"
#include "plimsoll/run_commands.h"

namespace plimsoll::cli {
namespace {

std::vector<std::string> prompts_of(const std::string& path) {
  if (path == "-") return read_prompts(std::cin, "standard input");
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    throw Error(ErrorCode::kUsage, "--prompt_file " + path + ": cannot read the file: " +
                                       std::strerror(errno) + "; check the path and its permissions");
  }
  return read_prompts(file, path);
}

// Prints the figures of random prompts, whose texts mean nothing.
void print_figures(const Generator& generator, const Arguments& arguments) {
  if (!write_json(generation_speed_json(generator.speed(), generator.memory()), arguments)) return;
  print(format_generation_speed(generator.speed()));
  print(format_memory(generator.memory()));
}

// Texts go to standard output, so the figures go to standard error.
void say_figures(const Generator& generator) {
  if (generator.speed().num_prompts == 0) return;
  say(format_generation_speed(generator.speed()));
  std::string memory = format_memory(generator.memory());
  if (memory.ends_with('\n')) memory.pop_back();
  say(memory);
}

// Prints a text while it is generated, if it is the only one. Texts of a batch are printed one after another.
std::vector<Continuation> print_one(Generator& generator, const std::string& prompt, bool streams) {
  print_part(prompt);
  std::vector<Continuation> texts = generator.generate(
      prompt, streams ? Generator::OnText([](int64_t, int64_t continuation, const std::string& text) {
        // generation_config.json may ask for several texts, of which the caller prints the others.
        if (continuation == 0) print_part(text);
      })
                      : Generator::OnText());
  print(streams ? std::string("\n") : texts.front().text + "\n");
  for (size_t i = 1; i < texts.size(); ++i) print(prompt + texts[i].text + "\n");
  return texts;
}

void converse(Generator& generator, bool streams) {
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty()) print_one(generator, line, streams);
  }
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
    prompts = prompts_of(arguments.prompt_file);
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
  generator.start();
  const bool streams =
      arguments.num_beams.value_or(1) == 1 && arguments.num_return_sequences.value_or(1) == 1;
  if (is_random) {
    generator.generate();
    print_figures(generator, arguments);
    return 0;
  }
  if (interactive) {
    for (const std::string& prompt : prompts) print_one(generator, prompt, streams);
    converse(generator, streams);
  } else if (prompts.size() == 1 && arguments.json.empty()) {
    print_one(generator, prompts.front(), streams);
  } else {
    const std::vector<std::vector<Continuation>> texts = generator.generate();
    if (arguments.json.empty()) {
      for (size_t i = 0; i < prompts.size(); ++i) {
        for (const Continuation& text : texts[i]) print(prompts[i] + text.text + "\n");
      }
    }
    write_json(continuation_lines(prompts, texts), arguments);
  }
  say_figures(generator);
  return 0;
}

}  // namespace plimsoll::cli
