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
#include "plimsoll/training.h"

namespace plimsoll {

// One continuation of a prompt.
struct Continuation {
  std::string text;             // the new text, up to the end token or the end of the stop string
  std::vector<int32_t> tokens;  // the new tokens, with the end token if there is one
  // the reason why the text ends: "eos", "stop", "length", or "interrupted" (Generator::request_stop())
  std::string end;
  double score = 0.0;  // log probability / length^length_penalty in a beam search; otherwise 0
};

// The amount of work since start() and the time that it took, without the loading of weights. Prefill reads the prompts
// and selects the first token of every text; a decode run reads one new token of each sequence.
struct GenerationSpeed {
  int64_t num_prompts = 0;
  int64_t prompt_tokens = 0;
  int64_t num_texts = 0;   // continuations that were returned
  int64_t new_tokens = 0;  // number of new tokens in these continuations
  int64_t decode_runs = 0;
  int64_t decoded_tokens = 0;  // tokens that decode runs read, including those of beams that were discarded
  // Lower bounds for the bytes that the decode runs read. Each run reads all weights (but of an embedding table only
  // the rows of its tokens), and the cached keys and values to which the new tokens attend.
  double weight_bytes_read = 0;
  double cache_bytes_read = 0;
  double first_token_seconds = 0;  // time until the first batch of prompts has its first tokens
  double prefill_seconds = 0;      // duration of the prefill of all prompts
  double decode_seconds = 0;
  double seconds = 0;  // duration of all work, including tokenization of prompts and decoding of texts
  double new_tokens_per_s() const { return seconds > 0 ? static_cast<double>(new_tokens) / seconds : 0.0; }
  // Returns the new tokens per second of decode runs. The first token of each text is not counted, because
  // prefill selects it.
  double decoded_new_tokens_per_s() const {
    return decode_seconds > 0 ? static_cast<double>(new_tokens - num_texts) / decode_seconds : 0.0;
  }
  double bytes_read_per_s() const {
    return decode_seconds > 0 ? (weight_bytes_read + cache_bytes_read) / decode_seconds : 0.0;
  }
};

// format_generation_speed() formats the speed for people, in three lines without a newline at the end;
// generation_speed_json() returns it as a JSON object.
std::string format_generation_speed(const GenerationSpeed& speed);
std::string generation_speed_json(const GenerationSpeed& speed, const MemoryFigures& memory);

class Generator {
 public:
  // Called for each new token with the index of the prompt, the index of the continuation, and the text that this token
  // completes (empty if, for example, the token ends within a character).
  using OnText = std::function<void(int64_t prompt, int64_t continuation, const std::string& text)>;

  // Reads the model's configuration, tokenizer and generation_config.json, encodes the prompts, and plans. Settings
  // that the arguments do not set are taken from generation_config.json. Without prompts the plan has room for prompts
  // of `longest_prompt` tokens (0: as many as the model's positions allow). Errors: kUsage, kBadData.
  explicit Generator(const Arguments& arguments, std::vector<std::string> prompts = {},
                     int64_t longest_prompt = 0, const Environment& environment = process_environment());
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  const PlanReport& plan() const;
  std::vector<std::string> warnings() const;
  std::vector<std::string> notes() const;
  std::string device_line() const;

  // Allocates the planned memory and loads the weights; generate() calls it if it was not called before. Errors: kWillNotFit,
  // kBadData, kDevice.
  void start();
  // Returns num_return_sequences continuations for each prompt of the constructor. `on_prompt` is called for each
  // prompt, in their order, when its continuations are complete.
  using OnPrompt = std::function<void(int64_t prompt, const std::vector<Continuation>& continuations)>;
  std::vector<std::vector<Continuation>> generate(const OnText& on_text = {}, const OnPrompt& on_prompt = {});
  // Returns the continuations of a prompt that was not passed to the constructor. Errors: kUsage if the plan has no
  // room for it.
  std::vector<Continuation> generate(const std::string& prompt, const OnText& on_text = {});

  // Ends the running call of generate(), or the next one if none is running, after the current run of the model. The
  // call returns the tokens that exist by then; prompts whose generation had not begun get no continuations. May be
  // called from another thread or from a signal handler.
  void request_stop();
  // Returns true if request_stop() ended the last call of generate().
  bool was_stopped() const;

  GenerationSpeed speed() const;
  // Returns the planned and the measured memory of the process.
  MemoryFigures memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns true if the arguments ask for random prompts without a tokenizer (--dataset_name dummy). The weights of such a run are also
// random if the model has none to load. The run measures speed and memory: its texts have exactly max_new_tokens tokens, and start() runs
// the model a few times, so that the slower first runs are not measured.
bool draws_prompts(const Arguments& arguments);

// The content of a prompt. kText: a text that the model continues. kChat, which the setting `chat` selects: a message
// of the user, or a whole conversation as a JSON list of messages. The model's chat template converts it to the text
// that the model continues, and the template's end-of-turn token also ends a continuation.
enum class PromptForm : uint8_t { kText, kChat };

// Reads prompts, one per line. A line is a text, or, if the name ends with .jsonl, a JSON object with the prompt under
// the key "prompt"; with kChat, it may instead have a list of messages under "messages" or "conversations". Empty lines
// are skipped. `name` names the input in messages. Errors: kBadData for a .jsonl line that is not such an object, and
// if the input contains no prompt.
std::vector<std::string> read_prompts(std::istream& input, const std::string& name,
                                      PromptForm form = PromptForm::kText);

// Reads the prompts of a file as read_prompts() does. The file may be compressed (.gz, .zst). Errors: those of read_prompts(), and kBadData
// for a file that cannot be read or is not text.
std::vector<std::string> read_prompt_file(const std::string& path, PromptForm form = PromptForm::kText);

// Returns `conversation` with one more message at its end. A conversation is a JSON list of messages, as in prompts with
// Arguments::chat; an empty text is a conversation without messages. Errors: kUsage if `conversation` is not a JSON list.
std::string with_message(const std::string& conversation, const std::string& role,
                         const std::string& content);

// Formats the continuations as one JSON object per line, with the keys prompt, text, tokens, end and score.
std::string continuation_lines(const std::vector<std::string>& prompts,
                               const std::vector<std::vector<Continuation>>& texts);

}  // namespace plimsoll
