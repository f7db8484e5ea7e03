// The anatomy of a plan that generates texts: its KV cache by token, page and sequence, what a run of the model reads, and the estimated
// speed. Pure functions; thread-safe. All require that the plan generates texts.
#pragma once

#include <cstdint>
#include <map>

#include "plan/compile/generation_sizes.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// The KV cache. The arena has room for all pages, which is the worst case: no way of generating the texts can hold more pages at once.
struct CacheAnatomy {
  int64_t bytes_per_token = 0;  // the key and the value of every layer
  int64_t page_bytes = 0;
  int64_t num_pages = 0;
  SequencePages per_prompt =
      {};  // for a longest prompt: the pages that all its sequences share, and the pages that each sequence may have separately
  int64_t bytes() const { return num_pages * page_bytes; }
};
CacheAnatomy cache_anatomy(const Plan& plan);

// The bytes that a run of the generation program with one new token per sequence reads at least: every weight once, and the
// keys and values of the tokens to which the new ones attend. A page that several sequences share counts once per sequence, because each
// sequence reads it separately.
struct DecodeReads {
  int64_t weight_bytes = 0;                          // without tables of which a run reads single rows
  std::map<int64_t, int64_t> cache_bytes_per_token;  // the key is the window of attention, or 0

  // Returns the bytes of the cache that the new token of a sequence of this length reads.
  int64_t cache_bytes(int64_t length) const;
};
// Requires: the plan generates texts.
DecodeReads decode_reads(const Plan& plan);

// Estimated times, from the same rates as operations_anatomy(). A decode run processes one new token per sequence; its time is estimated at
// the point where half of the new tokens exist. It includes the copy of the logits to the host, but not the selection of tokens there.
struct GenerationEstimate {
  double prefill_ms = 0;  // duration of the largest prefill
  double decode_run_ms = 0;
  // New tokens of returned texts per second of decode runs.
  double new_tokens_per_s = 0;
};
GenerationEstimate generation_estimate(const Plan& plan);

}  // namespace plimsoll
