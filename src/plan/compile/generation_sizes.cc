#include "plan/compile/generation_sizes.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace plimsoll {
namespace {

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The largest number of prompt tokens that one run of the model processes, unless a single prompt is longer. More tokens per run would
// need more memory for activations and would hardly be faster.
constexpr int64_t kPrefillTokens = 2048;

// Returns the number of tokens of the longest sequence whose keys and values are cached: all tokens except the last new one, which no
// later token attends to.
int64_t stored_tokens(const GenerationSizes& sizes) {
  return sizes.longest_prompt + std::max<int64_t>(sizes.max_new_tokens - 1, 0);
}

}  // namespace

int64_t pages_needed(std::span<const int64_t> prompt_lengths, int64_t max_new_tokens, int64_t num_beams,
                     int64_t page_size) {
  PLIMSOLL_CHECK(max_new_tokens >= 1 && num_beams >= 1 && page_size >= 1);
  int64_t sum = 0;
  for (const int64_t prompt : prompt_lengths) {
    PLIMSOLL_CHECK(prompt >= 1);
    const int64_t shared = prompt / page_size;
    const int64_t longest = divide_up(prompt + max_new_tokens - 1, page_size);
    sum += max_new_tokens == 1 ? longest : shared + num_beams * (longest - shared);
  }
  return sum;
}

SequencePages sequence_pages(const GenerationSizes& sizes) {
  const int64_t all = divide_up(stored_tokens(sizes), kKvPageSize);
  const int64_t shared = sizes.max_new_tokens > 1 ? sizes.longest_prompt / kKvPageSize : all;
  return {.shared = shared, .own = all - shared};
}

GenerationSizes with_sequences(GenerationSizes sizes, int64_t sequences_per_prompt) {
  const bool are_texts = sizes.texts_per_prompt > 1 && sizes.texts_per_prompt == sizes.sequences_per_prompt;
  // Beam search examines a number of candidate tokens that is proportional to its number of beams.
  if (sizes.candidates > 0) {
    sizes.candidates =
        std::max<int64_t>(1, divide_up(sizes.candidates * sequences_per_prompt, sizes.sequences_per_prompt));
  }
  sizes.sequences_per_prompt = sequences_per_prompt;
  sizes.texts_per_prompt =
      are_texts ? sequences_per_prompt : std::min(sizes.texts_per_prompt, sequences_per_prompt);
  return sizes;
}

GenerationOptions generation_options(const GenerationSizes& sizes) {
  const std::vector<int64_t> prompts(static_cast<size_t>(sizes.prompts_at_once), sizes.longest_prompt);
  return {.num_pages = pages_needed(prompts, sizes.max_new_tokens, sizes.sequences_per_prompt, kKvPageSize),
          .page_size = kKvPageSize,
          .pages_per_sequence = divide_up(stored_tokens(sizes), kKvPageSize),
          .sizes = sizes};
}

Bucket generation_bucket(const GenerationSizes& sizes) {
  const int64_t sequences = sizes.prompts_at_once * sizes.sequences_per_prompt;
  const int64_t prompts = sizes.prompts_at_once * sizes.longest_prompt;
  const int64_t prefill = std::max(sizes.longest_prompt, std::min(prompts, kPrefillTokens));
  return {.tokens = std::max(sequences, prefill), .sequences = sequences, .longest = sizes.longest_prompt};
}

int64_t selection_bytes(const GenerationSizes& sizes, int64_t vocab_size) {
  const int64_t scores = sizes.candidates > 0 ? 2 * sizes.candidates + 2 : vocab_size;
  return sizes.prompts_at_once * sizes.sequences_per_prompt * (3 * scores + vocab_size) *
         int64_t{sizeof(float)};
}

}  // namespace plimsoll
