#include "generate/logits_processors.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "generate/token_selection.h"

namespace plimsoll {
namespace {

// The order of tokens for top-p: larger scores first, and among equal scores the larger id first.
bool is_above(const ScoredToken& a, const ScoredToken& b) {
  return a.score != b.score ? a.score > b.score : a.token > b.token;
}

// Selects the tokens that top-p keeps: a token is kept if the probabilities of all likelier tokens sum to less than `mass`. At least
// `least` tokens are kept.
class TopPSelection {
 public:
  TopPSelection(std::span<ScoredToken> tokens, double largest) : tokens_(tokens), largest_(largest) {}

  // Moves the kept tokens to the front of the list and returns their number.
  size_t select(double mass, size_t least) {
    size_t begin = 0;
    size_t end = tokens_.size();
    double above = 0.0;  // sum of the probabilities of the tokens before `begin`
    while (end - begin > kSortedSize) {
      const size_t middle = partition(begin, end);
      const double upper = mass_of(begin, middle);
      if (above + upper >= mass && middle >= least) {
        end = middle;
      } else {
        above += upper;
        begin = middle;
      }
    }
    std::sort(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
              tokens_.begin() + static_cast<std::ptrdiff_t>(end), is_above);
    size_t kept = begin;
    while (kept < end && (kept < least || above < mass)) above += weight(tokens_[kept++]);
    return kept;
  }

 private:
  static constexpr size_t kSortedSize = 64;

  double weight(const ScoredToken& token) const {
    return std::exp(static_cast<double>(token.score) - largest_);
  }
  double mass_of(size_t begin, size_t end) const {
    double sum = 0.0;
    for (size_t i = begin; i < end; ++i) sum += weight(tokens_[i]);
    return sum;
  }
  // Partitions [begin, end) into two parts that are not empty. Every token of the first part precedes every token of the second part in
  // the order of top-p.
  size_t partition(size_t begin, size_t end) {
    ScoredToken pivot[3] = {tokens_[begin], tokens_[begin + (end - begin) / 2], tokens_[end - 1]};
    std::sort(pivot, pivot + 3, is_above);
    const auto middle = std::partition(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                                       tokens_.begin() + static_cast<std::ptrdiff_t>(end),
                                       [&](const ScoredToken& token) { return is_above(token, pivot[1]); });
    return static_cast<size_t>(middle - tokens_.begin());
  }

  std::span<ScoredToken> tokens_;
  double largest_;
};

}  // namespace

double log_sum_exp(std::span<const float> scores) {
  const float largest = scores[static_cast<size_t>(select_greedy(scores))];
  double sum = 0.0;
  for (const float x : scores) sum += static_cast<double>(std::exp(x - largest));
  return static_cast<double>(largest) + std::log(sum);
}

void log_softmax_in_place(std::span<float> scores) {
  const double total = log_sum_exp(scores);
  for (float& x : scores) x = static_cast<float>(static_cast<double>(x) - total);
}

LogitsProcessors::LogitsProcessors(const GenerationSettings& settings, int64_t vocab_size)
    : settings_(settings) {
  if (settings.beams.num_beams > 1)
    min_tokens_to_keep_ = 1 + std::max<int64_t>(1, std::ssize(settings.eos_token_ids));
  last_seen_.resize(static_cast<size_t>(vocab_size), 0);
}

void LogitsProcessors::apply(std::span<const int32_t> history, int64_t prompt_length,
                             std::span<float> scores) {
  PLIMSOLL_CHECK(scores.size() == last_seen_.size() && std::ssize(history) >= prompt_length);
  if (settings_.repetition_penalty != 1.0) penalize_repetitions(history, scores);
  if (settings_.no_repeat_ngram_size > 0) remove_repeated_ngrams(history, scores);
  if (std::ssize(history) - prompt_length < min_new_tokens(settings_, prompt_length)) {
    for (const int32_t id : settings_.eos_token_ids) scores[static_cast<size_t>(id)] = kRemovedScore;
  }
  const SamplingSettings& sampling = settings_.sampling;
  if (!sampling.do_sample) return;
  if (sampling.temperature != 1.0) {
    const float temperature = static_cast<float>(sampling.temperature);
    for (float& x : scores) x /= temperature;
  }
  if (sampling.top_k > 0) keep_top_k(scores);
  if (sampling.top_p < 1.0) keep_top_p(scores);
  if (sampling.min_p) keep_min_p(scores);
}

void LogitsProcessors::penalize_repetitions(std::span<const int32_t> history, std::span<float> scores) {
  if (++call_ == 0) {  // the counter of calls has overflowed; reset it
    std::ranges::fill(last_seen_, 0u);
    call_ = 1;
  }
  const float penalty = static_cast<float>(settings_.repetition_penalty);
  for (const int32_t id : history) {
    const size_t v = static_cast<size_t>(id);
    PLIMSOLL_CHECK(v < last_seen_.size(), "the token id {} must be below the size of the vocabulary", id);
    if (last_seen_[v] == call_) continue;
    last_seen_[v] = call_;
    scores[v] = scores[v] < 0.0f ? scores[v] * penalty : scores[v] / penalty;
  }
}

void LogitsProcessors::remove_repeated_ngrams(std::span<const int32_t> history,
                                              std::span<float> scores) const {
  // An n-gram that is longer than the history cannot repeat. This is tested first, because the subtraction below would overflow
  // otherwise.
  if (settings_.no_repeat_ngram_size > std::ssize(history)) return;
  const size_t n = static_cast<size_t>(settings_.no_repeat_ngram_size);
  const auto prefix = history.last(n - 1);
  for (size_t i = 0; i + n <= history.size(); ++i) {
    if (std::ranges::equal(history.subspan(i, n - 1), prefix)) {
      scores[static_cast<size_t>(history[i + n - 1])] = kRemovedScore;
    }
  }
}

void LogitsProcessors::keep_top_k(std::span<float> scores) {
  const int64_t k = std::max(settings_.sampling.top_k, min_tokens_to_keep_);
  if (k >= std::ssize(scores)) return;
  // heap_ contains the k largest scores so far, with the smallest of them on top. Most of the remaining scores are smaller and need no
  // change of the heap.
  heap_.assign(scores.begin(), scores.begin() + k);
  std::ranges::make_heap(heap_, std::greater<>());
  for (const float x : scores.subspan(static_cast<size_t>(k))) {
    if (!(x > heap_.front())) continue;
    std::ranges::pop_heap(heap_, std::greater<>());
    heap_.back() = x;
    std::ranges::push_heap(heap_, std::greater<>());
  }
  const float smallest = heap_.front();
  for (float& x : scores) {
    if (x < smallest) x = kRemovedScore;
  }
}

void LogitsProcessors::keep_top_p(std::span<float> scores) {
  kept_.clear();
  for (size_t v = 0; v < scores.size(); ++v) {
    if (scores[v] > kRemovedScore) kept_.push_back({scores[v], static_cast<int32_t>(v)});
  }
  if (kept_.empty()) return;
  const float largest = std::ranges::max_element(kept_, {}, &ScoredToken::score)->score;
  double total = 0.0;
  for (const ScoredToken& token : kept_) {
    total += std::exp(static_cast<double>(token.score) - static_cast<double>(largest));
  }
  // transformers compares sums in fp32 with 1 - top_p, so this value is rounded to fp32 too.
  const double below = static_cast<double>(static_cast<float>(1.0 - settings_.sampling.top_p));
  TopPSelection selection(kept_, static_cast<double>(largest));
  const size_t kept = selection.select((1.0 - below) * total, static_cast<size_t>(min_tokens_to_keep_));
  for (size_t i = kept; i < kept_.size(); ++i) scores[static_cast<size_t>(kept_[i].token)] = kRemovedScore;
}

void LogitsProcessors::keep_min_p(std::span<float> scores) {
  const float largest = *std::ranges::max_element(scores);
  // The ratio of two probabilities is exp(difference of their scores).
  const double threshold = *settings_.sampling.min_p;
  kept_.clear();
  for (size_t v = 0; v < scores.size(); ++v) {
    if (std::exp(static_cast<double>(scores[v]) - static_cast<double>(largest)) < threshold) {
      kept_.push_back({scores[v], static_cast<int32_t>(v)});
    }
  }
  const size_t num_left = scores.size() - kept_.size();
  const size_t least = std::min(static_cast<size_t>(min_tokens_to_keep_), scores.size());
  size_t first_removed = 0;
  if (num_left < least) {
    first_removed = least - num_left;
    std::partial_sort(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(first_removed), kept_.end(),
                      is_above);
  }
  for (size_t i = first_removed; i < kept_.size(); ++i)
    scores[static_cast<size_t>(kept_[i].token)] = kRemovedScore;
}

}  // namespace plimsoll
