#include "generate/text_generator.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/run_on_threads.h"
#include "generate/beam_search.h"
#include "generate/logits_processors.h"
#include "generate/token_selection.h"

namespace plimsoll {

int64_t sequences_per_prompt(const GenerationSettings& settings) {
  return std::max(settings.beams.num_beams, settings.num_return_sequences);
}

// The texts of a group of prompts that are generated together: they use the same runs of the model and share the pages of the KV cache.
class TextGenerator::Group {
 public:
  Group(TextGenerator& generator, std::span<const std::vector<int32_t>> prompts, int64_t first_prompt,
        const OnToken& on_token)
      : generator_(generator),
        settings_(generator.settings_),
        config_(generator.session_.setup().model.config),
        prompts_(prompts),
        first_prompt_(first_prompt),
        on_token_(on_token),
        results_(prompts.size()),
        prompt_scores_(config_.vocab_size, generator.sizes_.candidates) {}

  std::vector<std::vector<GeneratedText>> run() && {
    begin_ = std::chrono::steady_clock::now();
    read_prompts();
    if (settings_.beams.num_beams > 1) {
      search();
    } else {
      select();
    }
    GenerationWork& work = generator_.work_;
    work.decode_seconds += seconds_since_begin() - prefill_seconds_;
    for (const std::vector<GeneratedText>& of_prompt : results_) {
      work.num_texts += std::ssize(of_prompt);
      for (const GeneratedText& text : of_prompt) work.new_tokens += std::ssize(text.tokens);
    }
    return std::move(results_);
  }

 private:
  double seconds_since_begin() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  // Called when the first new tokens have been selected.
  void end_prefill() {
    prefill_seconds_ = seconds_since_begin();
    GenerationWork& work = generator_.work_;
    if (work.num_prompts == 0) work.first_token_seconds = prefill_seconds_;
    work.prefill_seconds += prefill_seconds_;
    work.num_prompts += std::ssize(prompts_);
  }

  // A text that is generated without beam search: greedily or by sampling.
  struct Text {
    size_t prompt = 0;
    int64_t number = 0;  // index of the text among the texts of its prompt
    SequenceId sequence{0};
    std::vector<int32_t> history;  // prompt and new tokens
    int64_t max_new = 0;
    std::unique_ptr<LogitsProcessors> processors;
  };

  // Runs the model over the prompts, and stores the scores of the token that follows each prompt.
  void read_prompts() {
    std::vector<NewTokens> rows;
    int64_t tokens = 0;
    const auto flush = [&] {
      const NextScores& scores = generator_.run(rows);
      for (size_t row = 0; row < rows.size(); ++row) prompt_scores_.append(scores, row);
      rows.clear();
      generator_.work_.prompt_tokens += tokens;
      tokens = 0;
    };
    const int64_t most = generator_.session_.plan().request.batches.generate.tokens;
    for (const std::vector<int32_t>& prompt : prompts_) {
      if (tokens + std::ssize(prompt) > most) flush();
      sequences_.push_back(generator_.pages_.add());
      rows.push_back({sequences_.back(), prompt});
      tokens += std::ssize(prompt);
    }
    flush();
  }

  // If there are few candidates, one thread selects the tokens, because starting threads would take longer.
  int num_threads() const {
    return prompt_scores_.has_all_logits() ? generator_.session_.setup().request.device.num_threads : 1;
  }

  void select() {
    std::vector<Text> texts;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      results_[i].resize(static_cast<size_t>(settings_.num_return_sequences));
      for (int64_t number = 0; number < settings_.num_return_sequences; ++number) {
        const bool is_last = number + 1 == settings_.num_return_sequences;
        Text text{
            .prompt = i,
            .number = number,
            .sequence = is_last ? sequences_[i] : generator_.pages_.fork(sequences_[i]),
            .history = prompts_[i],
            .max_new = max_new_tokens(settings_, std::ssize(prompts_[i]), config_.max_position_embeddings),
            .processors = std::make_unique<LogitsProcessors>(settings_, config_.vocab_size)};
        texts.push_back(std::move(text));
      }
    }
    // Each text changes a separate copy of the scores of its prompt.
    NextScores scores(config_.vocab_size, generator_.sizes_.candidates);
    for (const Text& text : texts) scores.append(prompt_scores_, text.prompt);
    extend(texts, scores);
    end_prefill();
    while (!texts.empty() && !generator_.is_stopped()) {
      std::vector<NewTokens> rows;
      rows.reserve(texts.size());
      for (const Text& text : texts) rows.push_back({text.sequence, std::span(text.history).last(1)});
      extend(texts, generator_.decode(rows));
    }
    for (const Text& text : texts) end_text(text, TextEnd::kInterrupted);
  }

  // Selects the next token of each text and removes the texts that end with it.
  void extend(std::vector<Text>& texts, NextScores& scores) {
    std::vector<int32_t> tokens(texts.size());
    for_each_of(texts.size(), num_threads(), [&](size_t row) {
      if (!scores.has_all_logits()) {
        const TopLogits top = scores.top(row);
        check_scores(top.values.front(), top.log_sum);
        tokens[row] = top.tokens.front();
        return;
      }
      Text& text = texts[row];
      const std::span<float> own = scores.logits(row);
      const auto prompt_length = std::ssize(prompts_[text.prompt]);
      text.processors->apply(text.history, prompt_length, own);
      const int64_t number =
          (first_prompt_ + static_cast<int64_t>(text.prompt)) * settings_.num_return_sequences + text.number;
      const auto position = static_cast<uint32_t>(std::ssize(text.history) - prompt_length);
      tokens[row] = settings_.sampling.do_sample
                        ? select_sampled(own, sampling_number(settings_.sampling.seed,
                                                              static_cast<uint64_t>(number), position))
                        : select_greedy(own);
    });
    std::vector<Text> active;
    for (size_t row = 0; row < texts.size(); ++row) {
      Text& text = texts[row];
      text.history.push_back(tokens[row]);
      if (on_token_) on_token_(first_prompt_ + static_cast<int64_t>(text.prompt), text.number, tokens[row]);
      const std::optional<TextEnd> end = end_of(text);
      if (!end) {
        active.push_back(std::move(text));
        continue;
      }
      end_text(text, *end);
    }
    texts = std::move(active);
  }

  void end_text(const Text& text, TextEnd end) {
    generator_.pages_.release(text.sequence);
    const auto new_tokens = std::span(text.history).subspan(prompts_[text.prompt].size());
    results_[text.prompt][static_cast<size_t>(text.number)] = {
        .tokens = {new_tokens.begin(), new_tokens.end()}, .end = end};
  }

  std::optional<TextEnd> end_of(const Text& text) const {
    if (is_end_token(settings_, text.history.back())) return TextEnd::kEndToken;
    if (has_stop_string(text.history)) return TextEnd::kStopString;
    const int64_t num_new = std::ssize(text.history) - std::ssize(prompts_[text.prompt]);
    if (num_new >= text.max_new) return TextEnd::kLength;
    return std::nullopt;
  }

  bool has_stop_string(std::span<const int32_t> tokens) const {
    return generator_.stop_strings_ && generator_.stop_strings_->find(tokens).has_value();
  }

  // Returns a function that finds stop strings. If there are no stop strings, the function is empty, so that the beam search need not copy
  // the text of each candidate to call it.
  BeamSearch::StopCheck stop_check() const {
    if (!generator_.stop_strings_) return {};
    return [this](std::span<const int32_t> tokens) { return has_stop_string(tokens); };
  }

  // The beam search of one prompt. sequences[b] is the sequence in the KV cache with the tokens of beam b.
  struct Search {
    BeamSearch beams;
    std::vector<SequenceId> sequences;
    std::vector<std::vector<BeamCandidate>> candidates;
    std::vector<std::unique_ptr<LogitsProcessors>> processors;
  };

  void search() {
    std::vector<Search> searches;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const int64_t max_new =
          max_new_tokens(settings_, std::ssize(prompts_[i]), config_.max_position_embeddings);
      searches.push_back({.beams = BeamSearch(settings_, prompts_[i], max_new, stop_check()),
                          .sequences = {sequences_[i]},
                          .candidates = {},
                          .processors = {}});
      for (int64_t beam = 0; beam < settings_.beams.num_beams; ++beam)
        searches.back().processors.push_back(
            std::make_unique<LogitsProcessors>(settings_, config_.vocab_size));
    }
    advance(searches, prompt_scores_);
    end_prefill();
    const auto is_running = [](const Search& s) { return !s.beams.is_done(); };
    while (std::ranges::any_of(searches, is_running) && !generator_.is_stopped()) {
      std::vector<NewTokens> rows;
      for (const Search& search : searches) {
        if (search.beams.is_done()) continue;
        for (size_t beam = 0; beam < search.sequences.size(); ++beam)
          rows.push_back({search.sequences[beam], search.beams.tokens().subspan(beam, 1)});
      }
      advance(searches, generator_.decode(rows));
    }
    for (Search& search : searches) {
      if (search.beams.is_done()) continue;
      search.beams.stop();
      for (const SequenceId sequence : search.sequences) generator_.pages_.release(sequence);
    }
    for (size_t i = 0; i < searches.size(); ++i) add_results(i, searches[i].beams);
  }

  // Performs a step of each beam search that is not done. `next` contains the scores of the beams of these searches, in order.
  void advance(std::vector<Search>& searches, NextScores& next) {
    struct Row {
      size_t search, beam;
    };
    std::vector<Row> rows;
    for (size_t i = 0; i < searches.size(); ++i) {
      if (searches[i].beams.is_done()) continue;
      const auto num_rows = static_cast<size_t>(searches[i].beams.num_rows());
      searches[i].candidates.resize(num_rows);
      for (size_t beam = 0; beam < num_rows; ++beam) rows.push_back({i, beam});
    }
    for_each_of(rows.size(), num_threads(), [&](size_t row) {
      Search& search = searches[rows[row].search];
      const size_t beam = rows[row].beam;
      if (!next.has_all_logits()) {
        const TopLogits top = next.top(row);
        return take_candidates(top.values, top.tokens, top.log_sum, &search.candidates[beam]);
      }
      const std::span<float> scores = next.logits(row);
      log_softmax_in_place(scores);
      search.processors[beam]->apply(search.beams.history(static_cast<int64_t>(beam)),
                                     std::ssize(prompts_[rows[row].search]), scores);
      const int64_t number =
          (first_prompt_ + static_cast<int64_t>(rows[row].search)) * settings_.beams.num_beams +
          static_cast<int64_t>(beam);
      select_candidates(settings_, scores, static_cast<uint32_t>(number),
                        static_cast<uint32_t>(search.beams.num_new_tokens()), &search.candidates[beam]);
    });
    for (Search& search : searches) {
      if (search.beams.is_done()) continue;
      search.beams.advance(search.candidates);
      if (search.beams.is_done()) {
        for (const SequenceId sequence : search.sequences) generator_.pages_.release(sequence);
        continue;
      }
      generator_.pages_.reorder(&search.sequences, search.beams.parents());
    }
  }

  void add_results(size_t prompt, const BeamSearch& beams) {
    for (BeamResult& found : beams.results()) {
      GeneratedText text{.tokens = std::move(found.tokens),
                         .end = TextEnd::kLength,
                         .score = static_cast<double>(found.score)};
      std::vector<int32_t> history = prompts_[prompt];
      history.insert(history.end(), text.tokens.begin(), text.tokens.end());
      if (!text.tokens.empty() && is_end_token(settings_, text.tokens.back())) {
        text.end = TextEnd::kEndToken;
      } else if (has_stop_string(history)) {
        text.end = TextEnd::kStopString;
      } else if (std::ssize(text.tokens) <
                 max_new_tokens(settings_, std::ssize(prompts_[prompt]), config_.max_position_embeddings)) {
        text.end = TextEnd::kInterrupted;
      }
      const auto number = std::ssize(results_[prompt]);
      for (const int32_t token : text.tokens) {
        if (on_token_) on_token_(first_prompt_ + static_cast<int64_t>(prompt), number, token);
      }
      results_[prompt].push_back(std::move(text));
    }
  }

  TextGenerator& generator_;
  const GenerationSettings& settings_;
  const ModelConfig& config_;
  std::span<const std::vector<int32_t>> prompts_;
  int64_t first_prompt_;
  const OnToken& on_token_;
  std::vector<std::vector<GeneratedText>> results_;
  std::vector<SequenceId> sequences_;  // the sequence of each prompt in the KV cache
  NextScores prompt_scores_;           // scores of the token that follows each prompt
  std::chrono::steady_clock::time_point begin_;
  double prefill_seconds_ = 0;
};

TextGenerator::TextGenerator(RunSetup setup, FileSystem& files, GenerationSettings settings)
    : settings_(std::move(settings)),
      session_(std::move(setup), files),
      sizes_(session_.plan().request.generation.sizes),
      pages_(session_.plan().request.generation.num_pages, session_.plan().request.generation.page_size),
      scores_(session_.setup().model.config.vocab_size, sizes_.candidates) {
  const ProgramPlan& program = session_.plan().programs.at(kGenerateProgram);
  batch_ = TensorBatch({.tensors = batch_tensors(program.graph), .capacity = program.bucket});
  decode_reads_ = decode_reads(session_.plan());
  if (settings_.stop_strings.empty()) return;
  stop_strings_ =
      std::make_unique<StopStrings>(*session_.setup().tokenizer.tokenizer, settings_.stop_strings);
}

NextScores& TextGenerator::run(std::span<const NewTokens> rows) {
  BatchSize size{.tokens = 0, .sequences = std::ssize(rows), .longest = 0};
  for (const NewTokens& row : rows) {
    size.tokens += std::ssize(row.tokens);
    size.longest = std::max(size.longest, std::ssize(row.tokens));
  }
  batch_.resize(size);
  const std::span<int32_t> starts = batch_.ints("cu_seqlens");
  const std::span<int32_t> copy_from = batch_.ints("copy_from");
  const std::span<int32_t> ids = batch_.ints("ids");
  const std::span<int32_t> positions =
      batch_.has_ints("positions") ? batch_.ints("positions") : std::span<int32_t>();
  std::vector<SequenceId> sequences;
  sequences.reserve(rows.size());
  int32_t at = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const NewTokens& row = rows[i];
    const auto first = static_cast<int32_t>(pages_.length(row.sequence));
    copy_from[i] = pages_.grow(row.sequence, std::ssize(row.tokens));
    starts[i] = at;
    std::ranges::copy(row.tokens, ids.begin() + at);
    if (!positions.empty()) {
      const auto own = positions.subspan(static_cast<size_t>(at), row.tokens.size());
      std::iota(own.begin(), own.end(), first);
    }
    at += static_cast<int32_t>(row.tokens.size());
    sequences.push_back(row.sequence);
  }
  starts[rows.size()] = at;
  pages_.write_rows(sequences, session_.plan().request.generation.pages_per_sequence,
                    batch_.ints("page_table"), batch_.ints("lengths"));
  Executor& executor = session_.executor();
  executor.stage(kGenerateProgram, batch_, 1.0);
  executor.run_and_fetch(kGenerateProgram);
  if (scores_.has_all_logits()) {
    scores_.assign_logits(executor.fetched("logits"), std::ssize(rows));
  } else {
    scores_.assign_top(executor.fetched("top_logits"), executor.fetched("top_ids"),
                       executor.fetched("log_sum"), std::ssize(rows));
  }
  return scores_;
}

NextScores& TextGenerator::decode(std::span<const NewTokens> rows) {
  NextScores& scores = run(rows);
  ++work_.decode_runs;
  work_.decoded_tokens += std::ssize(rows);
  work_.decode_weight_bytes += static_cast<double>(decode_reads_.weight_bytes);
  for (const NewTokens& row : rows)
    work_.decode_cache_bytes += static_cast<double>(decode_reads_.cache_bytes(pages_.length(row.sequence)));
  return scores;
}

void TextGenerator::warm_up(std::span<const std::vector<int32_t>> prompts) {
  constexpr int kTimes = 2;
  const GenerationLength length = settings_.length;
  const GenerationWork work = work_;
  settings_.length.max_new_tokens = std::min<int64_t>(3, sizes_.max_new_tokens);
  const size_t at_once = std::min(static_cast<size_t>(sizes_.prompts_at_once), prompts.size());
  const size_t rest = at_once == 0 ? 0 : prompts.size() % at_once;
  for (int i = 0; i < kTimes; ++i) {
    static_cast<void>(generate(prompts.first(at_once), 0));
    if (rest > 0) static_cast<void>(generate(prompts.last(rest), 0));
  }
  settings_.length = length;
  work_ = work;
}

std::vector<std::vector<GeneratedText>> TextGenerator::generate(std::span<const std::vector<int32_t>> prompts,
                                                                int64_t first_prompt, const OnToken& on_token,
                                                                const OnTexts& on_texts) {
  const int64_t vocab_size = session_.setup().model.config.vocab_size;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t>& prompt = prompts[i];
    const int64_t number = first_prompt + static_cast<int64_t>(i) + 1;
    if (prompt.empty()) {
      throw_error(ErrorCode::kUsage, "prompt {} has no tokens; write at least one word", number);
    }
    if (std::ssize(prompt) > sizes_.longest_prompt) {
      throw_error(ErrorCode::kUsage, "prompt {} has {} tokens, but the plan has room for {}; shorten it",
                  number, prompt.size(), sizes_.longest_prompt);
    }
    const auto outside = std::ranges::find_if(prompt, [&](int32_t id) { return id < 0 || id >= vocab_size; });
    if (outside != prompt.end()) {
      throw_error(ErrorCode::kUsage,
                  "prompt {} has the token id {}, but the model's vocab_size is {}; use the tokenizer of the "
                  "model",
                  number, *outside, vocab_size);
    }
  }
  std::vector<std::vector<GeneratedText>> texts;
  const auto at_once = static_cast<size_t>(sizes_.prompts_at_once);
  for (size_t first = 0; first < prompts.size() && !is_stopped(); first += at_once) {
    const auto part = prompts.subspan(first, std::min(at_once, prompts.size() - first));
    Group group(*this, part, first_prompt + static_cast<int64_t>(first), on_token);
    for (std::vector<GeneratedText>& of_prompt : std::move(group).run()) {
      if (on_texts) on_texts(first_prompt + std::ssize(texts), of_prompt);
      texts.push_back(std::move(of_prompt));
    }
  }
  texts.resize(prompts.size());
  return texts;
}

}  // namespace plimsoll
