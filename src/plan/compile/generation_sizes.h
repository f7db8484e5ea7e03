// Computes the size of the KV cache and of the largest run of the model that a text generation with given sizes needs. Pure functions;
// thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "plan/compile/plan_request.h"

namespace plimsoll {

// Returns the largest number of pages of the KV cache that generating for all prompts at once can use, with up to `max_new_tokens` new
// tokens and `num_beams` sequences (beams, or samples) per prompt. The last new token is not cached, because no later token attends to
// it. For a prompt of P tokens, its sequences share full = floor(P / page_size) pages, and each sequence may have all further pages for
// itself:
//
//   full + num_beams (ceil((P + max_new_tokens - 1) / page_size) - full)        if max_new_tokens > 1, else ceil(P / page_size)
//
// Requires: positive arguments.
int64_t pages_needed(std::span<const int64_t> prompt_lengths, int64_t max_new_tokens, int64_t num_beams,
                     int64_t page_size);

// Returns the number of pages of the longest prompt that all its sequences share, and the number that each sequence may have in addition.
struct SequencePages {
  int64_t shared = 0;
  int64_t own = 0;
};
SequencePages sequence_pages(const GenerationSizes& sizes);

// Returns the sizes with another number of sequences per prompt. If every sequence is returned as a text, the number of texts changes
// too.
GenerationSizes with_sequences(GenerationSizes sizes, int64_t sequences_per_prompt);

// Return the KV cache options and the largest batch size of a plan with these sizes. Requires: longest_prompt and max_new_tokens >= 1.
GenerationOptions generation_options(const GenerationSizes& sizes);
Bucket generation_bucket(const GenerationSizes& sizes);

// Returns the bytes of host memory for the logits from which tokens are selected. Each sequence has its logits, a copy of them and the list
// of its tokens. Each prompt has the logits of its first new token, which are counted once per sequence.
int64_t selection_bytes(const GenerationSizes& sizes, int64_t vocab_size);

}  // namespace plimsoll
