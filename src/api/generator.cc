#include "plimsoll/generator.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/plan_report.h"
#include "base/json.h"
#include "base/units.h"
#include "generate/text_generator.h"
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

// Returns the settings of the folder's generation_config.json, with those that the arguments state instead.
GenerationSettings settings_of(const Arguments& arguments, const RunSetup& setup, FileSystem& files) {
  GenerationSettings settings;
  const ModelConfig& config = setup.model.config;
  // transformers takes these tokens from config.json if there is no generation_config.json.
  const Json model = config.source.json.empty() ? Json::object() : Json::parse(config.source.json);
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
    // Every text has max_new_tokens tokens, so that the work does not depend on the weights.
    settings.eos_token_ids.clear();
    settings.stop_strings.clear();
  }
  check_generation_settings(settings);
  check_generation_vocabulary(settings, config.vocab_size);
  return settings;
}

// Returns the prompts of --dataset_name dummy.
std::vector<std::vector<int32_t>> random_prompts(const Arguments& arguments, const ModelConfig& config) {
  const Dataset data = make_dummy_dataset(dummy_options(arguments, config));
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t row = 0; row < data.num_rows(); ++row) {
    prompts.emplace_back(static_cast<size_t>(data.tokens.length(row)));
    data.tokens.copy_ids(row, prompts.back().data());
  }
  return prompts;
}

std::string_view end_name(TextEnd end) {
  switch (end) {
    case TextEnd::kEndToken:
      return "eos";
    case TextEnd::kStopString:
      return "stop";
    case TextEnd::kLength:
      return "length";
  }
  return "";
}

}  // namespace

struct Generator::Impl {
  std::vector<std::vector<int32_t>> prompts;
  GenerationSettings settings;
  GenerationSizes sizes;
  std::unique_ptr<TextGenerator> texts;
  PlanReport plan;
  double seconds = 0.0;
  int64_t num_prompts = 0;  // generated so far

  const RunSetup& setup() const { return texts->session().setup(); }
  const Tokenizer& tokenizer() const { return *setup().tokenizer.tokenizer; }

  // Returns the sizes of a plan for these prompts, or for prompts of any length.
  GenerationSizes sizes_of(const RunSetup& of_run, int64_t longest_prompt) const {
    const int64_t positions = of_run.model.config.max_position_embeddings;
    GenerationSizes result{.longest_prompt = longest_prompt,
                           .sequences_per_prompt = sequences_per_prompt(settings)};
    for (const std::vector<int32_t>& prompt : prompts) {
      if (prompt.empty()) continue;  // generate() refuses it
      result.longest_prompt = std::max<int64_t>(result.longest_prompt, std::ssize(prompt));
    }
    if (result.longest_prompt == 0) {
      const int64_t wanted = settings.length.max_new_tokens.value_or(kDefaultNewTokens);
      result.longest_prompt = std::max<int64_t>(1, positions - wanted);
    }
    const std::vector<std::vector<int32_t>> longest{
        std::vector<int32_t>(static_cast<size_t>(result.longest_prompt))};
    for (const std::vector<int32_t>& prompt : prompts.empty() ? longest : prompts) {
      if (prompt.empty()) continue;
      result.max_new_tokens =
          std::max(result.max_new_tokens, max_new_tokens(settings, std::ssize(prompt), positions));
    }
    result.max_new_tokens = std::max<int64_t>(result.max_new_tokens, 1);
    result.prompts_at_once =
        std::clamp<int64_t>(std::ssize(prompts), 1, of_run.arguments.per_device_eval_batch_size);
    return result;
  }

  std::vector<int32_t> encode(const Tokenizer& of_run, const std::string& text) const {
    return of_run.encode(text).ids;
  }

  Continuation continuation_of(const GeneratedText& text) const {
    Continuation result{
        .text = {}, .tokens = text.tokens, .end = std::string(end_name(text.end)), .score = text.score};
    if (!setup().tokenizer.tokenizer) return result;
    result.text = tokenizer().decode(text.tokens, {.skip_special_tokens = true});
    return result;
  }

  std::vector<std::vector<Continuation>> generate(std::span<const std::vector<int32_t>> ids,
                                                  const OnText& on_text) {
    const auto start = std::chrono::steady_clock::now();
    std::map<std::pair<int64_t, int64_t>, TokenStream> streams;
    const int64_t first = num_prompts;
    const auto on_token = [&](int64_t prompt, int64_t text, int32_t token) {
      auto [stream, is_new] = streams.try_emplace({prompt, text}, tokenizer());
      on_text(prompt - first, text, stream->second.push(token));
    };
    const std::vector<std::vector<GeneratedText>> generated =
        texts->generate(ids, first, on_text ? TextGenerator::OnToken(on_token) : TextGenerator::OnToken());
    num_prompts += std::ssize(ids);
    for (auto& [key, stream] : streams) {
      if (const std::string rest = stream.finish(); !rest.empty())
        on_text(key.first - first, key.second, rest);
    }
    std::vector<std::vector<Continuation>> result;
    for (const std::vector<GeneratedText>& of_prompt : generated) {
      std::vector<Continuation>& list = result.emplace_back();
      for (const GeneratedText& text : of_prompt) list.push_back(continuation_of(text));
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
  RunSetup setup = prepare_generation(arguments, environment, files, [&](const RunSetup& of_run) {
    impl_->settings = settings_of(arguments, of_run, files);
    if (draws_prompts(arguments)) impl_->prompts = random_prompts(arguments, of_run.model.config);
    for (const std::string& prompt : prompts)
      impl_->prompts.push_back(impl_->encode(*of_run.tokenizer.tokenizer, prompt));
    impl_->sizes = impl_->sizes_of(of_run, longest_prompt);
    return PlannedGeneration{.options = generation_options(impl_->sizes),
                             .bucket = generation_bucket(impl_->sizes)};
  });
  setup.diagnostics.notes.insert(setup.diagnostics.notes.begin(), notes.begin(), notes.end());
  impl_->texts = std::make_unique<TextGenerator>(std::move(setup), files, impl_->settings, impl_->sizes);
  const Session& session = impl_->texts->session();
  impl_->plan = make_plan_report(session.plan(), session.setup().spec(), session.setup().plan_labels,
                                 Savings::kLeaveOut, table_style(environment));
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

std::vector<std::vector<Continuation>> Generator::generate(const OnText& on_text) {
  start();
  return impl_->generate(impl_->prompts, on_text);
}

std::vector<Continuation> Generator::generate(const std::string& prompt, const OnText& on_text) {
  start();
  const std::vector<std::vector<int32_t>> ids{impl_->encode(impl_->tokenizer(), prompt)};
  return impl_->generate(ids, on_text).front();
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

std::vector<std::string> read_prompts(std::istream& input, const std::string& name) {
  const bool is_json = name.ends_with(".jsonl");
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
    const Json row = Json::parse(line, nullptr, false);
    const auto prompt = row.is_object() ? row.find("prompt") : row.end();
    if (!row.is_object() || prompt == row.end() || !prompt->is_string()) {
      throw_error(ErrorCode::kBadData,
                  "{}:{}: a JSON object with the text \"prompt\" is expected, found {}; correct the line",
                  name, number, line.substr(0, 40));
    }
    prompts.push_back(prompt->get<std::string>());
  }
  if (prompts.empty()) throw_error(ErrorCode::kBadData, "{}: there is no prompt; write one per line", name);
  return prompts;
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
