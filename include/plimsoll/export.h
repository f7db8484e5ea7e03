// Writes a language model in the format of another program. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {

struct ExportOptions {
  std::string model;  // the model: a folder, or a hub name in the local cache
  std::string gguf;   // path of the GGUF file to write
  // data type of the matrices in the file: "auto", "f32", "f16", "bf16" or "q8_0"
  std::string outtype = "auto";
  bool overwrite = false;  // true if an existing GGUF file may be replaced
};

struct ExportResult {
  std::string line;  // description of the written file in one line for people
  std::string type;  // data type of the matrices that was used
  int64_t num_tensors = 0;
  int64_t size_bytes = 0;
  std::vector<std::string> notes;  // sentences about what llama.cpp computes differently from Plimsoll
};

// Writes the model and its tokenizer as one GGUF file, the format of llama.cpp and of the programs built on it. The file appears
// complete or not at all. Memory: some MiB, and the tokenizer. Errors: kUsage for a model or tokenizer that llama.cpp does not
// support, and for an existing file that may not be replaced; kBadData for a damaged folder.
ExportResult export_model(const ExportOptions& options,
                          const Environment& environment = process_environment());

}  // namespace plimsoll
