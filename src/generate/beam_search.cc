#include "generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "generate/token_selection.h"

namespace plimsoll {
namespace {

// This number is added to the scores of beams that must not be selected. In fp32 the sums are rounded to multiples
// of 64, which affects the order of these beams. transformers adds the same number, so the order is the same.
constexpr float kExcluded = -1.0e9f;

// Returns length^penalty in fp32, by which a score is divided. The power is computed in double, as in transformers.
float length_divisor(int64_t length, double penalty) {
  return static_cast<float>(std::pow(static_cast<double>(length), penalty));
}

bool is_better(const BeamCandidate& a, const BeamCandidate& b) {
  if (a.key != b.key) return a.key > b.key;
  if (a.log_prob != b.log_prob) return a.log_prob > b.log_prob;
  return a.token < b.token;
}

}  // namespace

int64_t candidates_per_beam(const GenerationSettings& settings) {
  return std::max<int64_t>(2, 1 + std::ssize(settings.eos_token_ids)) * settings.beams.num_beams;
}

void select_candidates(const GenerationSettings& settings, std::span<const float> log_probs, uint32_t row,
                       uint32_t position, std::vector<BeamCandidate>* candidates) {
  const auto wanted = static_cast<size_t>(candidates_per_beam(settings));
  PLIMSOLL_CHECK(log_probs.size() >= wanted);
  // The best candidates so far, as a heap with the worst one on top.
  candidates->clear();
  for (size_t v = 0; v < log_probs.size(); ++v) {
    BeamCandidate candidate{log_probs[v], log_probs[v], static_cast<int32_t>(v)};
    if (settings.sampling.do_sample && std::isfinite(candidate.log_prob)) {
      candidate.key +=
          static_cast<float>(beam_gumbel(settings.sampling.seed, row, position, candidate.token));
    }
    if (candidates->size() < wanted) {
      candidates->push_back(candidate);
      std::ranges::push_heap(*candidates, is_better);
    } else if (is_better(candidate, candidates->front())) {
      std::ranges::pop_heap(*candidates, is_better);
      candidates->back() = candidate;
      std::ranges::push_heap(*candidates, is_better);
    }
  }
  std::ranges::sort_heap(*candidates, is_better);
}

void take_candidates(std::span<const float> logits, std::span<const int32_t> tokens, double log_sum,
                     std::vector<BeamCandidate>* candidates) {
  check_scores(logits.front(), log_sum);
  candidates->clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto log_prob = static_cast<float>(static_cast<double>(logits[i]) - log_sum);
    candidates->push_back({log_prob, log_prob, tokens[i]});
  }
  // The tokens are in descending order of logits, but unequal logits may round to equal log-probabilities. is_better() orders
  // these by token.
  std::ranges::sort(*candidates, is_better);
}

BeamSearch::BeamSearch(const GenerationSettings& settings, std::span<const int32_t> prompt, int64_t max_new,
                       StopCheck ends_with_stop)
    : settings_(settings),
      ends_with_stop_(std::move(ends_with_stop)),
      num_beams_(settings.beams.num_beams),
      prompt_length_(std::ssize(prompt)),
      max_new_(max_new) {
  PLIMSOLL_CHECK(max_new >= 1 && num_beams_ >= 1);
  const std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  beams_.assign(static_cast<size_t>(num_beams_), {tokens, kExcluded, false});
  beams_.front().score = 0.0f;
  results_.assign(static_cast<size_t>(num_beams_), {tokens, kExcluded, false});
}

BeamSearch::Continuation BeamSearch::continuation_of(size_t row, const BeamCandidate& candidate) const {
  const float score = beams_[row].score;
  return {score + candidate.key, score + candidate.log_prob,
          candidate.log_prob,    static_cast<int32_t>(row),
          candidate.token,       false};
}

void BeamSearch::find_best(std::span<const std::vector<BeamCandidate>> rows) {
  const size_t wanted = static_cast<size_t>(candidates_per_beam(settings_));
  const auto num_beams = static_cast<size_t>(num_beams_);
  // Before the first step all beams are equal, because they contain only the prompt, so there is a single row of candidates for them.
  const auto row_of = [&](size_t beam) -> const std::vector<BeamCandidate>& {
    return rows[rows.size() == 1 ? 0 : beam];
  };
  for (const std::vector<BeamCandidate>& row : rows) PLIMSOLL_CHECK(row.size() >= wanted);
  const auto is_before = [](float Continuation::*value) {
    return [value](const Continuation& a, const Continuation& b) {
      if (a.*value != b.*value) return a.*value > b.*value;
      if (a.row != b.row) return a.row < b.row;
      return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.token < b.token;
    };
  };
  best_.clear();
  if (settings_.sampling.do_sample) {
    for (size_t b = 0; b < num_beams; ++b) {
      for (size_t i = 0; i < wanted; ++i) best_.push_back(continuation_of(b, row_of(b)[i]));
    }
    std::ranges::partial_sort(best_, best_.begin() + static_cast<std::ptrdiff_t>(wanted),
                              is_before(&Continuation::key));
    best_.resize(wanted);
    std::ranges::sort(best_, is_before(&Continuation::score));
  } else {
    // Without sampling, key and log_prob are equal, so the candidates of each row are already in the order of is_before(). The rows only
    // have to be merged.
    num_taken_.assign(num_beams, 0);
    while (best_.size() < wanted) {
      size_t from = 0;
      Continuation best = continuation_of(0, row_of(0)[num_taken_[0]]);
      for (size_t b = 1; b < num_beams; ++b) {
        const Continuation next = continuation_of(b, row_of(b)[num_taken_[b]]);
        // Of two candidates with equal keys, the one of the earlier row comes first.
        if (!(next.key > best.key)) continue;
        from = b;
        best = next;
      }
      ++num_taken_[from];
      best_.push_back(best);
    }
  }
  for (Continuation& continuation : best_) continuation.is_finished = is_end(continuation);
}

bool BeamSearch::is_end(const Continuation& continuation) const {
  if (num_new_ + 1 >= max_new_ || is_end_token(settings_, continuation.token)) return true;
  if (!ends_with_stop_) return false;
  Beam beam;
  extend(continuation, &beam);
  return ends_with_stop_(beam.tokens);
}

void BeamSearch::extend(const Continuation& continuation, Beam* to) const {
  const std::vector<int32_t>& tokens = beams_[static_cast<size_t>(continuation.row)].tokens;
  to->tokens.reserve(static_cast<size_t>(prompt_length_ + max_new_));
  to->tokens.assign(tokens.begin(), tokens.end());
  to->tokens.push_back(continuation.token);
  to->score = continuation.score;
  to->is_finished = continuation.is_finished;
}

void BeamSearch::update_results() {
  const float divisor = length_divisor(num_new_ + 1, settings_.beams.length_penalty);
  const bool is_full = settings_.beams.early_stopping == BeamStopping::kWhenFull &&
                       std::ranges::all_of(results_, &Beam::is_finished);
  if (is_full || !may_improve_) return;
  for (const Continuation& continuation : std::span(best_).first(static_cast<size_t>(num_beams_))) {
    if (!continuation.is_finished) continue;
    Beam beam;
    extend(continuation, &beam);
    beam.score /= divisor;
    // Keeps the results sorted by score. A text with the same score as an older result is inserted after it.
    const auto place = std::ranges::upper_bound(results_, beam.score, std::greater<>(), &Beam::score);
    if (place == results_.end()) continue;
    results_.insert(place, std::move(beam));
    results_.pop_back();
  }
}

void BeamSearch::update_beams() {
  const auto num_beams = static_cast<size_t>(num_beams_);
  if (std::ranges::any_of(best_, &Continuation::is_finished)) {
    for (Continuation& continuation : best_) {
      if (continuation.is_finished) continuation.score += kExcluded;
    }
    std::ranges::stable_sort(best_, std::greater<>(), &Continuation::score);
  }
  next_beams_.resize(num_beams);
  parents_.clear();
  tokens_.clear();
  const bool is_first = num_new_ == 0;
  for (size_t b = 0; b < num_beams; ++b) {
    extend(best_[b], &next_beams_[b]);
    parents_.push_back(is_first ? 0 : best_[b].row);
    tokens_.push_back(best_[b].token);
  }
  std::swap(beams_, next_beams_);
}

bool BeamSearch::can_improve() const {
  const BeamSettings& beams = settings_.beams;
  const bool is_longest = beams.early_stopping == BeamStopping::kNever && beams.length_penalty > 0.0;
  const float best =
      beams_.front().score / length_divisor(is_longest ? max_new_ : num_new_, beams.length_penalty);
  const float worst = results_.back().score;
  return std::ranges::any_of(
      results_, [&](const Beam& result) { return best > (result.is_finished ? worst : kExcluded); });
}

void BeamSearch::advance(std::span<const std::vector<BeamCandidate>> rows) {
  PLIMSOLL_CHECK(!is_done_ && std::ssize(rows) == num_rows());
  find_best(rows);
  update_results();
  update_beams();
  ++num_new_;
  may_improve_ = may_improve_ && can_improve();
  const bool is_full = settings_.beams.early_stopping == BeamStopping::kWhenFull &&
                       std::ranges::all_of(results_, &Beam::is_finished);
  is_done_ = !may_improve_ || is_full || std::ranges::all_of(best_, &Continuation::is_finished);
}

void BeamSearch::stop() {
  PLIMSOLL_CHECK(!is_done_ && num_new_ > 0);
  const float divisor = length_divisor(num_new_, settings_.beams.length_penalty);
  for (Beam beam : beams_) {
    if (results_.back().is_finished) break;
    results_.pop_back();
    beam.score /= divisor;
    beam.is_finished = true;
    results_.insert(std::ranges::upper_bound(results_, beam.score, std::greater<>(), &Beam::score),
                    std::move(beam));
  }
  is_done_ = true;
}

std::vector<BeamResult> BeamSearch::results() const {
  PLIMSOLL_CHECK(is_done_);
  std::vector<BeamResult> results;
  for (const Beam& beam : results_) {
    if (std::ssize(results) == settings_.num_return_sequences) break;
    results.push_back({{beam.tokens.begin() + prompt_length_, beam.tokens.end()}, beam.score});
  }
  return results;
}

}  // namespace plimsoll
