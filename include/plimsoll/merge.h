// Merges a base model and an adapter into a complete model. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "plimsoll/training.h"

namespace plimsoll {

struct MergeOptions {
  std::string adapter;  // the adapter: a folder that PEFT or Plimsoll saved
  // the base model: a folder or a hub name in the local cache; if empty, the one that the adapter names
  std::string base = {};
  std::string output_dir;             // folder for the merged model
  bool overwrite_output_dir = false;  // true if an existing model in output_dir may be replaced
};

struct MergeResult {
  std::string line;        // description of the merged model in one line for people
  std::string base;        // the base model that was used
  int64_t num_merged = 0;  // number of modules whose weights were merged
  int64_t num_copied = 0;  // number of tensors that the adapter replaces completely
};

// Writes W + (alpha / r) B A for every adapted module, and the modules that the adapter contains completely, as a
// Hugging Face model without an adapter. Errors: kUsage, for example if the folder contains a model or an adapter that
// may not be replaced; kBadData.
MergeResult merge_adapter(const MergeOptions& options,
                          const Environment& environment = process_environment());

}  // namespace plimsoll
