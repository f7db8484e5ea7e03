// Continues texts with a language model. The plan of a Generator, with its KV cache, is made for the prompts that the constructor receives;
// nothing is allocated before start(). Not thread-safe.
//
//   plimsoll::Arguments arguments;
//   arguments.model_name_or_path = "gpt2";
//   arguments.max_new_tokens = 40;
//   plimsoll::Generator generator(arguments, {"Once upon a time"});
//   for (const plimsoll::Continuation& text : generator.generate().front()) std::cout << text.text << "\n";
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/plan.h"

namespace plimsoll {

// One continuation of a prompt.
struct Continuation {
  std::string text;             // the new text, up to the end token or the end of the stop string
  std::vector<int32_t> tokens;  // the new tokens, with the end token if there is one
  std::string end;              // "eos", "stop" or "length"
  double score = 0.0;           // of beam search; otherwise 0
};

// The speed of the work since the last start().
struct GenerationSpeed {
  int64_t prompt_tokens = 0;
  int64_t new_tokens = 0;  // that the model computed, one per sequence and run
  double seconds = 0.0;
};

class Generator {
 public:
  // Called with the text that a new token completes, which may be empty: number of the prompt, number of its continuation, text.
  using OnText = std::function<void(int64_t prompt, int64_t continuation, const std::string& text)>;

  // Reads the model's configuration, tokenizer and generation_config.json, encodes the prompts, and plans. Settings that the arguments leave open
  // are those of generation_config.json. Without prompts the plan has room for prompts of `longest_prompt` tokens (0: as many as the
  // model's positions allow). Errors: kUsage, kBadData.
  explicit Generator(const Arguments& arguments, std::vector<std::string> prompts = {},
                     int64_t longest_prompt = 0, const Environment& environment = process_environment());
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  const PlanReport& plan() const;
  std::vector<std::string> warnings() const;
  std::vector<std::string> notes() const;
  std::string device_line() const;

  // Takes the planned memory and loads the weights; generate() calls it if it was not called before. Errors: kWillNotFit, kBadData,
  // kDevice.
  void start();
  // Returns num_return_sequences continuations for each prompt of the constructor.
  std::vector<std::vector<Continuation>> generate(const OnText& on_text = {});
  // Returns the continuations of another prompt. Errors: kUsage if the plan has no room for it.
  std::vector<Continuation> generate(const std::string& prompt, const OnText& on_text = {});

  GenerationSpeed speed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads prompts: a text per line without its end, or, if the name ends with .jsonl, the key "prompt" of a JSON object per line. Empty lines
// are skipped. `name` names the input in messages. Errors: kBadData for a line that is no such object, and if there is no prompt.
std::vector<std::string> read_prompts(std::istream& input, const std::string& name);

// Returns a JSON object per continuation and line: prompt, text, tokens, end and score.
std::string continuation_lines(const std::vector<std::string>& prompts,
                               const std::vector<std::vector<Continuation>>& texts);

}  // namespace plimsoll
