#include "generate/next_scores.h"

#include <algorithm>

#include "base/check.h"
#include "base/dtype.h"
#include "generate/beam_search.h"
#include "kernels/catalog/kernel_target.h"

namespace plimsoll {
namespace {

template <typename Number>
void append_part(std::vector<Number>& to, const std::vector<Number>& from, size_t row, int64_t width) {
  const auto begin = from.begin() + static_cast<std::ptrdiff_t>(row) * width;
  to.insert(to.end(), begin, begin + width);
}

bool changes_logits(const GenerationSettings& settings) {
  const bool has_minimum = settings.length.min_new_tokens.value_or(0) > 0 || settings.length.min_length > 0;
  return settings.repetition_penalty != 1.0 || settings.no_repeat_ngram_size > 0 ||
         (has_minimum && !settings.eos_token_ids.empty());
}

}  // namespace

int64_t num_candidates(const GenerationSettings& settings, bool is_gpu) {
  if (settings.sampling.do_sample || changes_logits(settings)) return 0;
  if (settings.beams.num_beams == 1) return is_gpu ? 1 : 0;
  const int64_t wanted = candidates_per_beam(settings);
  return wanted <= kMaxTopLogits ? wanted : 0;
}

void NextScores::assign_logits(ConstView logits, int64_t num_rows) {
  PLIMSOLL_CHECK(has_all_logits());
  values_.resize(static_cast<size_t>(num_rows * vocab_size_));
  if (logits.dtype == DType::kF32) {
    std::copy_n(logits.as<float>(), values_.size(), values_.begin());
  } else if (logits.dtype == DType::kBF16) {
    std::transform(logits.as<BF16>(), logits.as<BF16>() + values_.size(), values_.begin(),
                   [](BF16 x) { return bf16_to_f32(x.bits); });
  } else {
    for (size_t i = 0; i < values_.size(); ++i)
      values_[i] = static_cast<float>(logits.load(static_cast<int64_t>(i)));
  }
}

void NextScores::assign_top(ConstView values, ConstView tokens, ConstView log_sums, int64_t num_rows) {
  PLIMSOLL_CHECK(!has_all_logits());
  const auto count = static_cast<size_t>(num_rows * candidates_);
  values_.assign(values.as<float>(), values.as<float>() + count);
  tokens_.assign(tokens.as<int32_t>(), tokens.as<int32_t>() + count);
  log_sums_.assign(log_sums.as<double>(), log_sums.as<double>() + num_rows);
}

void NextScores::append(const NextScores& other, size_t row) {
  PLIMSOLL_CHECK(other.candidates_ == candidates_ && other.vocab_size_ == vocab_size_);
  if (has_all_logits()) return append_part(values_, other.values_, row, vocab_size_);
  append_part(values_, other.values_, row, candidates_);
  append_part(tokens_, other.tokens_, row, candidates_);
  log_sums_.push_back(other.log_sums_[row]);
}

std::span<float> NextScores::logits(size_t row) {
  PLIMSOLL_CHECK(has_all_logits());
  const auto width = static_cast<size_t>(vocab_size_);
  return std::span(values_).subspan(row * width, width);
}

TopLogits NextScores::top(size_t row) const {
  PLIMSOLL_CHECK(!has_all_logits());
  const auto width = static_cast<size_t>(candidates_);
  return {.values = std::span(values_).subspan(row * width, width),
          .tokens = std::span(tokens_).subspan(row * width, width),
          .log_sum = log_sums_[row]};
}

}  // namespace plimsoll
