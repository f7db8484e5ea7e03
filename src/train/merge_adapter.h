// Merges an adapter into its base model: adapted modules get the weights W + s B A, and modules that are completely stored in the adapter
// replace those of the base. Works from file to file, one matrix at a time, without a plan or a device. Thread-safe: no state.
#pragma once

#include <string>

#include "base/file.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {

struct MergeReport {
  int64_t num_merged = 0;  // number of modules whose weights were merged
  int64_t num_saved = 0;   // number of tensors that were copied from the adapter
};

// Writes a plain Hugging Face model into `output`, in the types in which the base is stored; sums are computed in double and rounded
// once. Tokenizer files come from the adapter's folder if it has any, otherwise from the base's. Errors: kBadData if the adapter does not
// fit the base (the message names the tensor and both shapes) or if neither of them contains a required tensor; FileError. Memory: the
// largest matrix and its factors, in double.
MergeReport merge_adapter(FileSystem& files, ModelFolder base, ModelFolder adapter,
                          const std::string& output);

}  // namespace plimsoll
