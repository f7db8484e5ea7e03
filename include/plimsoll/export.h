// Writes a language model in the format of another program. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {

struct ExportOptions {
  std::string model;             // folder or hub name in the local cache
  std::string gguf;              // the file to write
  std::string outtype = "auto";  // type of matrices: "auto", "f32", "f16", "bf16" or "q8_0"
  bool overwrite = false;        // replace an existing GGUF file
};

struct ExportResult {
  std::string line;  // a line for people about the written file
  std::string type;  // data type of the matrices
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
