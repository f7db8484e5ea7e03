// Describes a plan that generates texts: the size of its KV cache, the bytes that one run of the model reads, and the estimated speed.
// All functions require that the plan generates texts. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>

#include "plan/compile/generation_sizes.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// The size of the KV cache. The arena has room for the largest number of pages that the generation can use at the same time.
struct CacheAnatomy {
  int64_t bytes_per_token = 0;  // bytes of the key and the value of one token in all layers
  int64_t page_bytes = 0;
  int64_t num_pages = 0;
  // For the longest prompt: the number of pages that all its sequences share, and the number that each sequence has in addition.
  SequencePages per_prompt = {};
  int64_t bytes() const { return num_pages * page_bytes; }
};
CacheAnatomy cache_anatomy(const Plan& plan);

// The bytes that one decode run (one new token per sequence) reads at least: every weight once, and the cached keys and values of the
// earlier tokens that attention reads. A page that several sequences share counts once per sequence, because attention reads it once for
// each of them.
struct DecodeReads {
  int64_t weight_bytes = 0;  // excludes embedding tables, of which a run reads only single rows
  // The bytes that attention reads per cached token. The key of the map is the attention window of the layers concerned, or 0 for layers
  // without a window.
  std::map<int64_t, int64_t> cache_bytes_per_token;

  // Returns the bytes of the KV cache that are read to compute the new token of a sequence of this length.
  int64_t cache_bytes(int64_t length) const;
};
DecodeReads decode_reads(const Plan& plan);

// Estimated times of text generation, computed from the same rates of the device as in operations_anatomy(). A decode run processes one new
// token per sequence; its time is estimated for the middle of the generation, when half of the new tokens exist. It includes the copy of
// the logits to the host, but not the selection of tokens on the host.
struct GenerationEstimate {
  double prefill_ms = 0;  // time of the longest prefill (the run that reads the prompts)
  double decode_run_ms = 0;
  // Tokens of the returned texts, divided by the time of the decode runs that generate them.
  double new_tokens_per_s = 0;
};
GenerationEstimate generation_estimate(const Plan& plan);

}  // namespace plimsoll
