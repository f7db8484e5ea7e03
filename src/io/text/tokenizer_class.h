// The class that transformers gives to the tokenizer of a folder, and what the class changes in tokenizer.json.
//
// transformers takes the class named in tokenizer_config.json, else that in config.json, else that of the
// model_type in config.json, else a generic class. A class of the BERT family sets the normalizer from its own
// arguments: those in tokenizer_config.json and, where a key is missing, the defaults of the class. A generic
// class changes nothing. Other classes build a tokenizer of their own, which Plimsoll does not have.
// Thread-safe: free functions on values.
#pragma once

#include <optional>
#include <string>

#include "io/text/json_fields.h"

namespace plimsoll::text {

struct TokenizerClass {
  std::string name;    // as in the file, or "" if no file names one and no model_type implies one
  std::string source;  // "config.json: tokenizer_class is 'XTokenizer'", for messages
  // Sets lowercase, accents, Chinese characters and cleaning of a BertNormalizer.
  bool sets_normalizer = false;
  // Reads vocab.txt as BERT does.
  bool reads_vocab_txt = false;
  // Has [UNK], [SEP], [PAD], [CLS] and [MASK] by default.
  bool has_bert_roles = false;
  // Gives the model token types. Without them every type is 0.
  bool gives_types = true;
  // Belongs to transformers and builds a pipeline that is neither BERT's nor that of tokenizer.json.
  bool is_foreign = false;
};

// Determines the class. `model_config` is config.json. `model_type` is used if the folder has no config.json: the
// type of the model with which the tokenizer was trained, or "".
TokenizerClass find_tokenizer_class(const std::optional<JsonFields>& tokenizer_config,
                                    const std::optional<JsonFields>& model_config,
                                    const std::string& model_type);

}  // namespace plimsoll::text
