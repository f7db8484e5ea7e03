// Converts the tokenizer in a model folder to metadata of a GGUF file.
//
// llama.cpp reads only the vocabulary and the merges from the file. The code that normalizes and splits text is part of llama.cpp and is
// selected by two names in the metadata (tokenizer.ggml.model and tokenizer.ggml.pre). If no names select the normalization and splitting
// of a tokenizer, the tokenizer is refused, because llama.cpp would produce other tokens without reporting an error. Two kinds of
// tokenizers are supported: byte-level BPE as in GPT-2, SmolLM, Llama 3 and Qwen 2, and BPE with byte fallback as in Llama 2, whose merges
// are converted to the scores of a SentencePiece model. Thread-safe: free functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf_metadata.h"

namespace plimsoll {

// Values of config.json that are used if the files of the tokenizer do not contain them.
struct GgufTokenDefaults {
  int64_t vocab_size = 0;  // number of rows of the embedding table
  int64_t bos_id = -1;     // id of the begin-of-text token; here and below, -1 means that there is none
  int64_t eos_id = -1;
  int64_t pad_id = -1;
};

// Adds to the metadata the vocabulary, merges or scores, special tokens, and chat template of the folder's tokenizer. Returns sentences
// for the user about rare texts that llama.cpp tokenizes differently. Errors: kUsage for a tokenizer that llama.cpp does not implement,
// with a message about the difference and the remedy; kBadData for files that cannot be read, and for more tokens than vocab_size.
std::vector<std::string> add_gguf_vocabulary(GgufMetadata& metadata, const std::string& folder,
                                             std::string_view model_type, const GgufTokenDefaults& defaults);

}  // namespace plimsoll
