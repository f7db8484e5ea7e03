// Determines the class of transformers (such as BertTokenizer) that a folder's tokenizer has, and what this class changes in
// tokenizer.json.
//
// transformers uses the class that tokenizer_config.json names, otherwise the class that config.json names, otherwise the class that
// belongs to the model_type in config.json, and otherwise a generic class. A class of the BERT family sets the normalizer from its own
// arguments: those in tokenizer_config.json and, where a key is missing, the defaults of the class. A generic class changes nothing. The
// classes of GPT-2, RoBERTa, GPT-NeoX, Qwen 2, Llama, Gemma, XLM-RoBERTa, CamemBERT and T5 use the vocabulary in tokenizer.json and build
// everything else themselves. All other classes build tokenizers that Plimsoll does not implement. Thread-safe: free functions on values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/json_fields.h"

namespace plimsoll::text {

// The pipelines that tokenizer classes build instead of using that of tokenizer.json.
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
  // The name of the tokenizer class, as a file of the folder or the model type states it; "" if neither does.
  std::string name;
  // a text for error messages that states where the name was found, such as "config.json: tokenizer_class is 'XTokenizer'"
  std::string source;
  // True if the class sets the options of a BertNormalizer (lower case, accents, Chinese characters, cleaning) from its own
  // arguments.
  bool sets_normalizer = false;
  // True if the class reads the vocabulary from vocab.txt, as BERT's class does.
  bool reads_vocab_txt = false;
  // The default special tokens of the class; the key is the role, such as "cls_token".
  std::map<std::string, std::string> roles;
  // Special tokens that the class adds although they have no role. They are not added if a file contains additional_special_tokens.
  std::vector<std::string> extra_tokens = {};
  // True if the class makes every special token that a file names special, even if tokenizer.json states the opposite.
  bool extra_tokens_are_special = false;
  // True if the mask token also matches the blanks directly before it, unless a file of the folder states the flags of the mask token.
  bool mask_strips_left = false;
  // True if the tokenizer distinguishes the two texts of a pair by token types; if false, all token types are 0.
  bool gives_types = true;
  // True for a class of transformers that Plimsoll refuses, because it builds a pipeline that Plimsoll does not implement.
  bool is_foreign = false;
  // The pipeline that the class builds; kNone if that of tokenizer.json is used.
  BuiltPipeline built = BuiltPipeline::kNone;

  // Returns true for a class with a BPE model that reads vocab.json and merges.txt.
  bool reads_merges() const;
};

// Returns the default special tokens of BERT's tokenizer classes; the key is the role.
const std::map<std::string, std::string>& bert_roles();

// Determines the tokenizer class from tokenizer_config.json and from `model_config`, the content of config.json. `model_type` is the type
// of the model with which the tokenizer was trained, or ""; it is used if the folder has no config.json. `is_byte_level` is true if
// tokenizer.json contains a byte-level step: such files may name LlamaTokenizer, but the generic class is used for them.
TokenizerClass find_tokenizer_class(const std::optional<JsonFields>& tokenizer_config,
                                    const std::optional<JsonFields>& model_config,
                                    const std::string& model_type, bool is_byte_level = false);

// Replaces the pipeline in the document of a tokenizer.json by the one that the class builds from its own arguments. `unk_token` is the
// token with this role, from the files of the folder or, if they name none, from the class. Requires: the class builds a pipeline. Errors:
// kBadData if the model in the file has another type than the class needs.
void build_pipeline(const TokenizerClass& tokenizer_class, const std::optional<JsonFields>& tokenizer_config,
                    const std::string& unk_token, Json* document);

}  // namespace plimsoll::text
