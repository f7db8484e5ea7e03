// Merges a base model and an adapter into a complete model. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "plimsoll/training.h"

namespace plimsoll {

struct MergeOptions {
  std::string adapter;  // a folder that PEFT or Plimsoll saved
  // folder or hub name in the local cache; if empty, the base model that the adapter names
  std::string base = {};
  std::string output_dir;             // folder for the merged model
  bool overwrite_output_dir = false;  // replace an existing model in output_dir
};

struct MergeResult {
  std::string line;        // a line for people about the merged model
  std::string base;        // the base model, as it was given or as the adapter names it
  int64_t num_merged = 0;  // modules whose weights were merged
  int64_t num_copied = 0;  // tensors that the adapter replaces as a whole
};

// Writes W + (alpha / r) B A for every adapted module, and the modules that were saved in full, as a plain
// Hugging Face model. Errors: kUsage, for example if the folder contains a model
// or an adapter that may not be replaced; kBadData.
MergeResult merge_adapter(const MergeOptions& options,
                          const Environment& environment = process_environment());

}  // namespace plimsoll
