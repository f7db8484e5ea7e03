// Writes the tokenizer of a folder as metadata of a GGUF file.
//
// llama.cpp reads only vocabulary and merges from the file. How a text is normalized and split is part of its code, selected by two names
// (tokenizer.ggml.model and tokenizer.ggml.pre). A tokenizer that normalizes or splits differently from every such name is refused,
// because its tokens would differ silently. Two kinds of tokenizers have a name: byte-level BPE as in GPT-2, SmolLM, Llama 3 and Qwen 2,
// and BPE with byte fallback as in Llama 2, whose merges are turned into the scores of a SentencePiece model. Thread-safe: free
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf_metadata.h"

namespace plimsoll {

// Facts of config.json about tokens, which are used if the files of the tokenizer do not state them.
struct GgufTokenDefaults {
  int64_t vocab_size = 0;  // rows of the embedding table
  int64_t bos_id = -1;     // -1: none
  int64_t eos_id = -1;
  int64_t pad_id = -1;
};

// Adds the vocabulary, merges or scores, special tokens, and chat template of the folder's tokenizer. Returns sentences for the user
// about rare texts that llama.cpp tokenizes differently. Errors: kUsage for a tokenizer that llama.cpp does not have, with the difference
// and the remedy; kBadData for files that cannot be read, and for more tokens than vocab_size.
std::vector<std::string> add_gguf_vocabulary(GgufMetadata& metadata, const std::string& folder,
                                             std::string_view model_type, const GgufTokenDefaults& defaults);

}  // namespace plimsoll
