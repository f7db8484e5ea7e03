// The class that transformers gives to the tokenizer of a folder, and what the class changes in tokenizer.json.
//
// transformers takes the class named in tokenizer_config.json, else that in config.json, else that of the
// model_type in config.json, else a generic class. A class of the BERT family sets the normalizer from its own
// arguments: those in tokenizer_config.json and, where a key is missing, the defaults of the class. A generic
// class changes nothing. The classes of GPT-2, RoBERTa, GPT-NeoX, Qwen 2, Llama, Gemma, XLM-RoBERTa, CamemBERT and T5
// take the vocabulary from tokenizer.json and build everything else themselves. Other classes build tokenizers that Plimsoll does not have.
// Thread-safe: free functions on values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/json_fields.h"

namespace plimsoll::text {

// The pipelines that classes build.
enum class BuiltPipeline : uint8_t {
  kNone,
  kGpt2,
  kRoberta,
  kGptNeoX,
  kQwen2,
  kLlama,
  kGemma,
  kXlmRoberta,
  kCamembert,
  kT5
};

struct TokenizerClass {
  // Name of the class as in the file; "" if no file names one and no model_type implies one.
  std::string name;
  std::string source;  // "config.json: tokenizer_class is 'XTokenizer'", for messages
  // True if the class sets the options of a BertNormalizer: lower case, accents, Chinese characters and cleaning.
  bool sets_normalizer = false;
  // True if the class reads vocab.txt as BERT does.
  bool reads_vocab_txt = false;
  // The tokens that the class has by default, by role ("cls_token").
  std::map<std::string, std::string> roles;
  // Special tokens without a role that the class has unless additional_special_tokens states others.
  std::vector<std::string> extra_tokens = {};
  // True if the mask token includes the blanks before it, unless a file describes the token otherwise.
  bool mask_strips_left = false;
  // True if the tokenizer gives the model token types; if false, every type is 0.
  bool gives_types = true;
  // True if the class is one of transformers and builds a pipeline that is neither BERT's nor that of tokenizer.json.
  bool is_foreign = false;
  // The pipeline that replaces that of tokenizer.json.
  BuiltPipeline built = BuiltPipeline::kNone;

  // Returns true for a BPE class that reads vocab.json and merges.txt.
  bool reads_merges() const;
};

// The tokens of BERT's classes.
const std::map<std::string, std::string>& bert_roles();

// Determines the class. `model_config` is config.json. `model_type` is used if the folder has no config.json: the
// type of the model with which the tokenizer was trained, or "". `is_byte_level` states that tokenizer.json has a byte-level
// step, for which LlamaTokenizer is not used.
TokenizerClass find_tokenizer_class(const std::optional<JsonFields>& tokenizer_config,
                                    const std::optional<JsonFields>& model_config,
                                    const std::string& model_type, bool is_byte_level = false);

// Replaces the steps of a tokenizer.json by those that the class builds from its own arguments. Requires: the class builds a pipeline.
// Errors: kBadData if the file has another model than the class.
void build_pipeline(const TokenizerClass& tokenizer_class, const std::optional<JsonFields>& tokenizer_config,
                    Json* document);

}  // namespace plimsoll::text
