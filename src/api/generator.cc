#include "plimsoll/generator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "api/plan_report.h"
#include "base/guarded_json.h"
#include "base/units.h"
#include "base/utf8.h"
#include "generate/text_generator.h"
#include "io/data/chat_rows.h"
#include "io/data/table_reader.h"
#include "io/data/text_file.h"
#include "plan/search/change.h"
#include "run/data_sets.h"
#include "run/device_choice.h"
#include "run/run_setup.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;

template <typename Value, typename To>
void set_if(const std::optional<Value>& given, To& setting) {
  if (given) setting = *given;
}

// Returns the settings of generation_config.json in the folder of the model. Settings in the arguments replace them.
GenerationSettings settings_of(const Arguments& arguments, const RunSetup& setup, FileSystem& files) {
  GenerationSettings settings;
  const ModelConfig& config = setup.model.config;
  // transformers takes the end tokens from config.json if there is no generation_config.json.
  const Json model =
      config.source.json.empty() ? Json::object() : parse_json(config.source.json, "config.json");
  Json tokens = Json::object();
  for (const char* key : {"eos_token_id", "bos_token_id", "pad_token_id"}) {
    if (const auto found = model.find(key); found != model.end() && !found->is_null()) tokens[key] = *found;
  }
  read_generation_config(tokens, "config.json", &settings);
  if (setup.model.weights) {
    const std::string path = setup.model.weights->path() + "/generation_config.json";
    if (files.status(path))
      read_generation_config(parse_json(read_text_file(files, path, kMaxConfigBytes), path), path, &settings);
  }
  if (arguments.max_new_tokens) settings.length.max_new_tokens = arguments.max_new_tokens;
  if (arguments.max_length) settings.length.max_length = arguments.max_length;
  if (arguments.min_new_tokens) settings.length.min_new_tokens = arguments.min_new_tokens;
  set_if(arguments.do_sample, settings.sampling.do_sample);
  set_if(arguments.temperature, settings.sampling.temperature);
  set_if(arguments.top_k, settings.sampling.top_k);
  set_if(arguments.top_p, settings.sampling.top_p);
  if (arguments.min_p) settings.sampling.min_p = arguments.min_p;
  settings.sampling.seed = static_cast<uint64_t>(arguments.seed);
  set_if(arguments.repetition_penalty, settings.repetition_penalty);
  set_if(arguments.no_repeat_ngram_size, settings.no_repeat_ngram_size);
  set_if(arguments.num_beams, settings.beams.num_beams);
  set_if(arguments.length_penalty, settings.beams.length_penalty);
  if (arguments.early_stopping == "true") settings.beams.early_stopping = BeamStopping::kWhenFull;
  if (arguments.early_stopping == "false") settings.beams.early_stopping = BeamStopping::kHeuristic;
  if (arguments.early_stopping == "never") settings.beams.early_stopping = BeamStopping::kNever;
  set_if(arguments.num_return_sequences, settings.num_return_sequences);
  if (!arguments.stop_strings.empty()) settings.stop_strings = arguments.stop_strings;
  if (draws_prompts(arguments)) {
    if (!arguments.stop_strings.empty())
      throw_error(
          ErrorCode::kUsage,
          "--stop_strings needs a tokenizer, and random prompts (--dataset_name dummy) have none; leave "
          "one of them out");
    // All random prompts are continued by exactly max_new_tokens tokens, so that the amount of work does not depend on
    // the weights.
    settings.eos_token_ids.clear();
    settings.stop_strings.clear();
  }
  check_generation_settings(settings);
  check_generation_vocabulary(settings, config.vocab_size);
  return settings;
}

// Returns the random prompts that --dataset_name dummy requests.
std::vector<std::vector<int32_t>> random_prompts(const Arguments& arguments, const ModelConfig& config) {
  const Dataset data = make_dummy_dataset(dummy_options(arguments, config));
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t row = 0; row < data.num_rows(); ++row) {
    prompts.emplace_back(static_cast<size_t>(data.tokens.length(row)));
    data.tokens.copy_ids(row, prompts.back().data());
  }
  return prompts;
}

// Returns the sizes (longest prompt, number of new tokens and so on) for which a generation is planned if the prompts have
// these lengths in tokens. Requires: there is at least one length, and each is at least 1.
GenerationSizes sizes_of(const GenerationSettings& settings, const RunSetup& setup,
                         std::span<const int64_t> lengths) {
  GenerationSizes sizes{.sequences_per_prompt = sequences_per_prompt(settings),
                        .texts_per_prompt = settings.num_return_sequences,
                        .candidates = num_candidates(settings, setup.device.options.is_gpu())};
  for (const int64_t length : lengths) {
    sizes.longest_prompt = std::max(sizes.longest_prompt, length);
    sizes.max_new_tokens = std::max(
        sizes.max_new_tokens, max_new_tokens(settings, length, setup.model.config.max_position_embeddings));
  }
  sizes.prompts_at_once =
      std::clamp<int64_t>(std::ssize(lengths), 1, setup.arguments.per_device_eval_batch_size);
  return sizes;
}

// Calls work(), which handles prompt i (from 0). If there are several prompts, the number of the prompt is added to the
// message of an error.
template <typename Work>
void with_number(size_t i, size_t num_prompts, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (num_prompts == 1) throw;
    throw Error(error.code(), fmt::format("prompt {}: {}", i + 1, error.what()));
  }
}

// Returns the length of the longest prompt that leaves room for the new tokens: at least 1 token, and at most `at_most`.
int64_t length_with_room(const GenerationSettings& settings, const RunSetup& setup, int64_t at_most) {
  const int64_t wanted = settings.length.max_new_tokens.value_or(kDefaultNewTokens);
  const int64_t room = setup.model.config.max_position_embeddings - wanted;
  return std::max<int64_t>(1, std::min(room, at_most));
}

// Stores in `setup` a function that returns the sizes of the same generation with another number of beams, or of texts per
// prompt. With it, the report compares several numbers.
void state_other_sequences(const GenerationSettings& settings, RunSetup* setup) {
  const GenerationSizes sizes = setup->generation;
  const bool is_gpu = setup->device.options.is_gpu();
  setup->facts.sizes_with_sequences = [settings, sizes, is_gpu](int64_t sequences) {
    GenerationSizes other = with_sequences(sizes, sequences);
    GenerationSettings changed = settings;
    if (settings.beams.num_beams > 1 || settings.num_return_sequences == 1)
      changed.beams.num_beams = sequences;
    changed.num_return_sequences = other.texts_per_prompt;
    other.candidates = num_candidates(changed, is_gpu);
    return other;
  };
}

// Plans the same generation for other numbers of beams or of texts per prompt, and returns their memory and speed. The
// numbers are 1, 2, 4 and 8 as far as the settings allow them, and the number of this plan.
std::vector<BeamCost> plan_beams(const Plan& plan, const RunSpec& run, const GenerationSettings& settings) {
  const int64_t own = plan.request.generation.sizes.sequences_per_prompt;
  const int64_t most = max_num_beams(settings, run.facts.model.vocab_size);
  const bool are_texts = settings.beams.num_beams == 1 && settings.num_return_sequences > 1;
  std::set<int64_t> numbers{own};
  for (const int64_t number : {1, 2, 4, 8}) {
    if (are_texts || number == 1 ? are_texts || settings.num_return_sequences == 1
                                 : number <= most && number >= settings.num_return_sequences)
      numbers.insert(number);
  }
  return beam_costs(run, std::vector<int64_t>(numbers.begin(), numbers.end()));
}

// Returns the report of a plan that generates texts.
PlanReport report_of(const Plan& plan, const RunSetup& setup, const GenerationSettings& settings,
                     Savings savings, const Environment& environment) {
  std::vector<BeamCost> beams;
  if (savings == Savings::kPlan) beams = plan_beams(plan, setup.spec(), settings);
  PlanReport report =
      make_plan_report(plan, setup.spec(), setup.plan_labels, savings, table_style(environment), beams);
  add_plan_files(plan, setup, report);
  return report;
}

std::string_view end_name(TextEnd end) {
  switch (end) {
    case TextEnd::kEndToken:
      return "eos";
    case TextEnd::kStopString:
      return "stop";
    case TextEnd::kLength:
      return "length";
    case TextEnd::kInterrupted:
      return "interrupted";
  }
  return "";
}

}  // namespace

namespace {

// Converts a prompt of --chat to a list of messages. The prompt is a JSON list of messages, or else the text of one
// message of the user.
std::vector<ChatMessage> chat_of(const std::string& prompt) {
  const Json list = find_json(prompt);
  const bool is_list = list.is_array() && !list.empty() &&
                       std::ranges::all_of(list, [](const Json& message) { return message.is_object(); });
  if (is_list) return parse_messages(prompt);
  return {{.role = "user", .content = prompt}};
}

}  // namespace

struct Generator::Impl {
  std::vector<std::vector<int32_t>> prompts;
  GenerationSettings settings;
  std::unique_ptr<TextGenerator> texts;
  PlanReport plan;
  double seconds = 0.0;
  int64_t num_prompts = 0;  // number of prompts for which texts were generated so far
  std::atomic<bool> stop{false};
  bool was_stopped = false;

  const RunSetup& setup() const { return texts->session().setup(); }
  const Tokenizer& tokenizer() const { return *setup().tokenizer.tokenizer; }

  std::optional<ChatTemplate> chat_template;  // set if --chat is given

  std::vector<int32_t> encode(const Tokenizer& of_run, const std::string& text) const {
    if (const size_t at = find_invalid_utf8(text); at < text.size()) {
      throw_error(ErrorCode::kUsage,
                  "the prompt has the byte 0x{:02X} at byte {}, which is not valid UTF-8; convert it, for "
                  "example with iconv -f LATIN1 -t UTF-8",
                  static_cast<unsigned>(static_cast<unsigned char>(text[at])), at);
    }
    if (!chat_template) return of_run.encode(text).ids;
    const RenderedChat chat = chat_template->render(chat_of(text), GenerationPrompt::kAdd);
    return of_run.encode(chat.text, {.special_tokens = SpecialTokens::kOmit}).ids;
  }

  // Adds the token that ends a turn in the chat template to the tokens that end a text, which come from
  // generation_config.json.
  void use_chat_template(const Arguments& arguments, const TokenizerSource& source) {
    if (draws_prompts(arguments))
      throw_error(ErrorCode::kUsage,
                  "--chat needs a tokenizer, and random prompts (--dataset_name dummy) have none; leave one "
                  "of them out");
    chat_template = find_chat_template(arguments, source);
    const std::optional<int32_t> end = source.tokenizer->id(chat_template->end_of_turn());
    std::vector<int32_t>& ends = settings.eos_token_ids;
    if (end && std::ranges::find(ends, *end) == ends.end()) ends.push_back(*end);
  }

  // The text of a continuation is the difference between the decoded text with and without the new tokens, as in
  // transformers' pipeline: a decoder may join a token to the one before it.
  Continuation continuation_of(const std::vector<int32_t>& prompt, const GeneratedText& text) const {
    Continuation result{
        .text = {}, .tokens = text.tokens, .end = std::string(end_name(text.end)), .score = text.score};
    if (!setup().tokenizer.tokenizer) return result;
    constexpr DecodeOptions kOptions{.skip_special_tokens = true};
    const std::string before = tokenizer().decode(prompt, kOptions);
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), text.tokens.begin(), text.tokens.end());
    const std::string whole = tokenizer().decode(all, kOptions);
    result.text =
        whole.starts_with(before) ? whole.substr(before.size()) : tokenizer().decode(text.tokens, kOptions);
    return result;
  }

  std::vector<std::vector<Continuation>> generate(std::span<const std::vector<int32_t>> ids,
                                                  const OnText& on_text, const OnPrompt& on_prompt) {
    const auto start = std::chrono::steady_clock::now();
    constexpr DecodeOptions kStreamOptions{.skip_special_tokens = true};
    std::map<std::pair<int64_t, int64_t>, TokenStream> streams;
    const int64_t first = num_prompts;
    const auto on_token = [&](int64_t prompt, int64_t text, int32_t token) {
      auto [stream, is_new] = streams.try_emplace({prompt, text}, tokenizer(), kStreamOptions,
                                                  ids[static_cast<size_t>(prompt - first)]);
      on_text(prompt - first, text, stream->second.push(token));
    };
    std::vector<std::vector<Continuation>> result(ids.size());
    const auto on_texts = [&](int64_t number, const std::vector<GeneratedText>& of_prompt) {
      const auto i = static_cast<size_t>(number - first);
      for (const GeneratedText& text : of_prompt) result[i].push_back(continuation_of(ids[i], text));
      if (on_prompt) on_prompt(number - first, result[i]);
    };
    texts->generate(ids, first, on_text ? TextGenerator::OnToken(on_token) : TextGenerator::OnToken(),
                    on_texts);
    was_stopped = stop.exchange(false);
    num_prompts += std::ssize(ids);
    for (auto& [key, stream] : streams) {
      if (const std::string rest = stream.finish(); !rest.empty())
        on_text(key.first - first, key.second, rest);
    }
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }
};

Generator::Generator(const Arguments& given, std::vector<std::string> prompts, int64_t longest_prompt,
                     const Environment& environment)
    : impl_(std::make_unique<Impl>()) {
  if (draws_prompts(given) && !prompts.empty())
    throw_error(ErrorCode::kUsage,
                "prompts are given in two ways: --dataset_name dummy, which draws them, and {}; give one of "
                "them",
                counted(std::ssize(prompts), "text"));
  Arguments arguments = given;
  arguments.problem_type = problem_type_name(ProblemType::kCausalLm);
  std::vector<std::string> notes = resolve_arguments(arguments);
  FileSystem& files = posix_file_system();
  RunSetup setup =
      prepare_generation(arguments, RunPurpose::kGenerate, environment, files, [&](const RunSetup& of_run) {
        impl_->settings = settings_of(arguments, of_run, files);
        if (arguments.chat) impl_->use_chat_template(arguments, of_run.tokenizer);
        if (draws_prompts(arguments)) impl_->prompts = random_prompts(arguments, of_run.model.config);
        std::vector<int64_t> lengths;
        for (size_t i = 0; i < prompts.size(); ++i) {
          with_number(i, prompts.size(), [&] {
            impl_->prompts.push_back(impl_->encode(*of_run.tokenizer.tokenizer, prompts[i]));
            if (impl_->prompts.back().empty()) return;  // An empty prompt is reported later, by generate().
            lengths.push_back(std::ssize(impl_->prompts.back()));
            static_cast<void>(
                max_new_tokens(impl_->settings, lengths.back(), of_run.model.config.max_position_embeddings));
          });
        }
        if (draws_prompts(arguments))
          lengths.assign(impl_->prompts.size(), std::ssize(impl_->prompts.front()));
        constexpr int64_t kAnyLength = std::numeric_limits<int64_t>::max();
        if (longest_prompt > 0) lengths.push_back(longest_prompt);
        if (lengths.empty()) lengths.push_back(length_with_room(impl_->settings, of_run, kAnyLength));
        GenerationSizes sizes = sizes_of(impl_->settings, of_run, lengths);
        // A plan without prompts has room for one prompt at a time, because prompts that are passed to generate() later
        // run one after the other.
        sizes.prompts_at_once = std::clamp<int64_t>(std::ssize(impl_->prompts), 1, sizes.prompts_at_once);
        return sizes;
      });
  setup.diagnostics.notes.insert(setup.diagnostics.notes.begin(), notes.begin(), notes.end());
  state_other_sequences(impl_->settings, &setup);
  impl_->texts = std::make_unique<TextGenerator>(std::move(setup), files, impl_->settings);
  impl_->texts->set_stop(&impl_->stop);
  impl_->plan = report_of(impl_->texts->session().plan(), impl_->setup(), impl_->settings,
                          arguments.dry_run ? Savings::kPlan : Savings::kLeaveOut, environment);
}

Generator::~Generator() = default;
Generator::Generator(Generator&& other) noexcept = default;
Generator& Generator::operator=(Generator&& other) noexcept = default;

const PlanReport& Generator::plan() const {
  return impl_->plan;
}
std::vector<std::string> Generator::warnings() const {
  return impl_->setup().diagnostics.warnings;
}
std::vector<std::string> Generator::notes() const {
  return impl_->setup().diagnostics.notes;
}
std::string Generator::device_line() const {
  return plimsoll::device_line(impl_->setup().device);
}

void Generator::start() {
  Session& session = impl_->texts->session();
  if (session.is_allocated()) return;
  session.allocate();
  if (draws_prompts(impl_->setup().arguments)) impl_->texts->warm_up(impl_->prompts);
}

std::vector<std::vector<Continuation>> Generator::generate(const OnText& on_text, const OnPrompt& on_prompt) {
  start();
  return impl_->generate(impl_->prompts, on_text, on_prompt);
}

std::vector<Continuation> Generator::generate(const std::string& prompt, const OnText& on_text) {
  start();
  const std::vector<std::vector<int32_t>> ids{impl_->encode(impl_->tokenizer(), prompt)};
  return impl_->generate(ids, on_text, {}).front();
}

void Generator::request_stop() {
  static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers call this, so it must not lock");
  if (impl_) impl_->stop.store(true);
}

bool Generator::was_stopped() const {
  return impl_->was_stopped;
}

GenerationSpeed Generator::speed() const {
  const GenerationWork& work = impl_->texts->work();
  return {.num_prompts = work.num_prompts,
          .prompt_tokens = work.prompt_tokens,
          .num_texts = work.num_texts,
          .new_tokens = work.new_tokens,
          .decode_runs = work.decode_runs,
          .decoded_tokens = work.decoded_tokens,
          .weight_bytes_read = work.decode_weight_bytes,
          .cache_bytes_read = work.decode_cache_bytes,
          .first_token_seconds = work.first_token_seconds,
          .prefill_seconds = work.prefill_seconds,
          .decode_seconds = work.decode_seconds,
          .seconds = impl_->seconds};
}

MemoryFigures Generator::memory() const {
  return impl_->texts->session().memory();
}

bool draws_prompts(const Arguments& arguments) {
  return arguments.dataset_name == "dummy";
}

PlanReport plan_generation(const Arguments& given, int64_t prompt_tokens, const Environment& environment,
                           Savings savings) {
  Arguments arguments = given;
  arguments.problem_type = problem_type_name(ProblemType::kCausalLm);
  std::vector<std::string> notes = resolve_arguments(arguments);
  FileSystem& files = posix_file_system();
  GenerationSettings settings;
  RunSetup setup = prepare_generation(
      arguments, RunPurpose::kPlanGeneration, environment, files, [&](const RunSetup& of_plan) {
        settings = settings_of(arguments, of_plan, files);
        const bool draws = draws_prompts(arguments);
        if (draws && prompt_tokens > 0) {
          throw_error(ErrorCode::kUsage,
                      "--prompt_length {} and --dataset_name dummy both state the length of prompts; give "
                      "--dummy_seq_length {} instead of --prompt_length",
                      prompt_tokens, prompt_tokens);
        }
        constexpr int64_t kUsualLength = 128;
        const int64_t length = draws               ? max_seq_length(arguments, of_plan.model.config)
                               : prompt_tokens > 0 ? prompt_tokens
                                                   : length_with_room(settings, of_plan, kUsualLength);
        const int64_t at_once = arguments.per_device_eval_batch_size;
        const int64_t prompts = draws ? std::min(arguments.dummy_num_samples, at_once) : at_once;
        return sizes_of(settings, of_plan, std::vector<int64_t>(static_cast<size_t>(prompts), length));
      });
  state_other_sequences(settings, &setup);
  const Plan plan = build_plan(setup.request);
  PlanReport report = report_of(plan, setup, settings, savings, environment);
  report.warnings = setup.diagnostics.warnings;
  report.notes.insert(report.notes.begin(), setup.diagnostics.notes.begin(), setup.diagnostics.notes.end());
  report.notes.insert(report.notes.begin(), notes.begin(), notes.end());
  return report;
}

namespace {

// Returns the prompt in a row of a .jsonl file: the value of "prompt", or with --chat a list of messages.
std::optional<std::string> prompt_of(const Json& row, PromptForm form) {
  if (!row.is_object()) return std::nullopt;
  for (const char* key : {"messages", "conversations", "prompt"}) {
    const auto value = row.find(key);
    if (value == row.end()) continue;
    if (form == PromptForm::kChat && value->is_array()) return value->dump();
    if (value->is_string()) return value->get<std::string>();
    if (value->is_array())
      throw_error(ErrorCode::kBadData,
                  "\"{}\" is a list of messages; give --chat, which writes them as the chat template does",
                  key);
  }
  return std::nullopt;
}

std::vector<std::string> prompts_of(TextFile file, PromptForm form) {
  const std::string extension = data_extension(file.name);
  const bool is_json = extension == ".jsonl" || extension == ".ndjson";
  const std::string name = std::move(file.name);
  std::istringstream input(std::move(file.bytes));
  std::vector<std::string> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(input, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    if (!is_json) {
      prompts.push_back(line);
      continue;
    }
    const Json row = find_json(line);
    std::optional<std::string> prompt;
    try {
      prompt = prompt_of(row, form);
    } catch (const Error& error) {
      throw error.with_context(fmt::format("{}:{}", name, number));
    }
    if (!prompt) {
      throw_error(ErrorCode::kBadData,
                  "{}:{}: a JSON object with the text \"prompt\"{} is expected, found {}; correct the line",
                  name, number, form == PromptForm::kChat ? " or the list \"messages\"" : "",
                  line.substr(0, 40));
    }
    prompts.push_back(*std::move(prompt));
  }
  if (prompts.empty()) throw_error(ErrorCode::kBadData, "{}: there is no prompt; write one per line", name);
  return prompts;
}

}  // namespace

std::vector<std::string> read_prompts(std::istream& input, const std::string& name, PromptForm form) {
  std::string bytes(std::istreambuf_iterator<char>(input), {});
  if (bytes.empty()) throw_error(ErrorCode::kBadData, "{}: there is no prompt; write one per line", name);
  return prompts_of(text_file_from_memory(name, std::move(bytes)), form);
}

std::vector<std::string> read_prompt_file(const std::string& path, PromptForm form) {
  return prompts_of(read_data_file(path), form);
}

std::string with_message(const std::string& conversation, const std::string& role,
                         const std::string& content) {
  Json list = conversation.empty() ? Json::array() : find_json(conversation);
  if (!list.is_array())
    throw_error(ErrorCode::kUsage, "a conversation should be a JSON list of messages, found {}",
                conversation.substr(0, 40));
  list.push_back({{"role", role}, {"content", content}});
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string continuation_lines(const std::vector<std::string>& prompts,
                               const std::vector<std::vector<Continuation>>& texts) {
  std::string lines;
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (const Continuation& text : texts[i]) {
      const nlohmann::ordered_json row{{"prompt", prompts[i]},
                                       {"text", text.text},
                                       {"tokens", text.tokens},
                                       {"end", text.end},
                                       {"score", text.score}};
      lines += row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
  }
  return lines;
}

}  // namespace plimsoll
