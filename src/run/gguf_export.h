// Exports a model folder as one GGUF file. Copies from file to file in pieces, without a plan or a device. Thread-safe: no state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {

struct GgufExport {
  std::string_view out_type = "auto";  // element type: "auto", "f32", "f16", "bf16" or "q8_0"
  std::string_view name;               // value of the metadata key general.name, the name of the model
};

struct GgufReport {
  int64_t num_tensors = 0;
  int64_t size_bytes = 0;
  std::string_view type_name;      // element type in which most of the matrices are stored
  std::vector<std::string> notes;  // sentences to be shown to the user
};

// Writes the model of the folder to `path` atomically (write_gguf()). Vectors and the table of positions are stored in f32. Matrices are
// stored in out_type; "auto" is bf16 if the folder stores them in bf16, otherwise f16. If the row length of a matrix is not a multiple of
// 32, f16 is used instead of q8_0, as in llama.cpp's converter. Errors: kUsage for a model that GGUF cannot represent; the message names
// a program that reads the folder; kBadData as check_stored_weights() and for numbers that the type cannot store; FileError. Memory: some
// MiB, and the tokenizer.
GgufReport export_gguf(FileSystem& files, ModelFolder folder, const GgufExport& options,
                       const std::string& path);

}  // namespace plimsoll
