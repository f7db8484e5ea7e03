// Merges an adapter into its base model: W + s B A for every adapted module, and the modules that the adapter
// saved whole in place of the base's. Works from file to file, one matrix at a time, without a plan or a
// device. Thread-safe: no state.
#pragma once

#include <string>

#include "base/file.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {

struct MergeReport {
  int64_t num_merged = 0;  // modules
  int64_t num_saved = 0;   // tensors taken from the adapter as they are
};

// Writes a plain Hugging Face model into `output`, in the types in which the base is stored; sums are in
// double with one rounding. Tokenizer files come from the adapter's folder if it has any, else from the
// base's. Errors: kBadData where the adapter does not fit the base (tensor, both shapes) or a tensor is in
// neither; FileError. Memory: the largest matrix and its factors, in double.
MergeReport merge_adapter(FileSystem& files, const ModelFolder& base, const ModelFolder& adapter,
                          const std::string& output);

}  // namespace plimsoll
