// Making a whole model of a base and an adapter. Thread-safe.
#pragma once

#include <string>

#include "plimsoll/training.h"

namespace plimsoll {

struct MergeOptions {
  std::string adapter;     // a folder that PEFT or Plimsoll saved
  std::string base = {};   // folder or hub name in the local cache; "": what the adapter names
  std::string output_dir;  // where the model is written; an earlier model there is replaced
};

// Writes W + (alpha / r) B A for every adapted module, and the modules that were saved whole, as a plain
// Hugging Face model. Returns a line for people. Errors: kUsage, kBadData.
std::string merge_adapter(const MergeOptions& options, const Environment& environment = {});

}  // namespace plimsoll
