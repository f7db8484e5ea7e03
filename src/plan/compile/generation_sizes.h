// Computes the size of the KV cache, and of the largest run of the model, from the sizes of a text generation. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "plan/compile/plan_request.h"

namespace plimsoll {

// Returns the number of pages that a search of all prompts at once can hold at most, if each has up to `max_new_tokens` new tokens and
// `num_beams` sequences (beams, or samples of one prompt). The last new token is never stored, because nothing follows it. Per prompt
// with P tokens, full = floor(P / page_size) pages are shared by its sequences, and each may have all others to itself:
//
//   full + num_beams (ceil((P + max_new_tokens - 1) / page_size) - full)        if max_new_tokens > 1, else ceil(P / page_size)
//
// Requires: positive arguments.
int64_t pages_needed(std::span<const int64_t> prompt_lengths, int64_t max_new_tokens, int64_t num_beams,
                     int64_t page_size);

// Returns the pages of a longest sequence: those that all sequences of its prompt share, and those that each sequence may have separately.
struct SequencePages {
  int64_t shared = 0;
  int64_t own = 0;
};
SequencePages sequence_pages(const GenerationSizes& sizes);

// Returns the sizes with another number of sequences per prompt. If all sequences are returned texts, the number of texts changes too.
GenerationSizes with_sequences(GenerationSizes sizes, int64_t sequences_per_prompt);

// Returns the cache and the bucket of a plan with these sizes. Requires: longest_prompt and max_new_tokens >= 1.
GenerationOptions generation_options(const GenerationSizes& sizes);
Bucket generation_bucket(const GenerationSizes& sizes);

// Returns the bytes of the scores on the host from which tokens are selected: for each sequence its logits, a copy of them and the list of
// the tokens that occurred, and for each prompt the logits of its first new token, which are counted as one row per sequence.
int64_t selection_bytes(const GenerationSizes& sizes, int64_t vocab_size);

}  // namespace plimsoll
