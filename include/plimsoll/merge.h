// Making a whole model of a base and an adapter. Thread-safe.
#pragma once

#include <string>

#include "plimsoll/training.h"

namespace plimsoll {

struct MergeOptions {
  std::string adapter;                // a folder that PEFT or Plimsoll saved
  std::string base = {};              // folder or hub name in the local cache; "": what the adapter names
  std::string output_dir;             // where the model is written
  bool overwrite_output_dir = false;  // whether a model that is there already may be replaced
};

// Writes W + (alpha / r) B A for every adapted module, and the modules that were saved whole, as a plain
// Hugging Face model. Returns a line for people. Errors: kUsage, also where the folder holds
// a model or an adapter that may not be replaced; kBadData.
std::string merge_adapter(const MergeOptions& options, const Environment& environment = {});

}  // namespace plimsoll
