#include "io/text/tokenizer_class.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"

namespace plimsoll::text {
namespace {

// A class whose tokenizer is WordPiece. Where 4.57 and 5.24 of transformers differ, the columns are those of 5.24.
struct WordPieceClass {
  std::string_view name;  // without "Tokenizer"
  bool sets_normalizer;
  bool reads_vocab_txt;
  bool has_bert_roles;
  bool gives_types;
};
constexpr std::array<WordPieceClass, 17> kWordPieceClasses = {{
    {"Bert", true, true, true, true},
    {"DistilBert", true, true, true, false},
    {"Electra", true, true, true, true},
    {"MobileBert", true, true, true, true},
    {"SqueezeBert", true, true, true, true},
    {"Lxmert", true, true, true, true},
    {"LayoutLM", true, true, true, true},
    {"DPRContextEncoder", true, true, true, true},
    {"DPRQuestionEncoder", true, true, true, true},
    {"DPRReader", true, true, true, false},
    {"ConvBert", false, true, true, true},
    {"RetriBert", false, true, false, false},
    {"Realm", false, true, false, true},
    {"MPNet", true, false, false, false},
    {"Funnel", true, false, false, true},
    {"Splinter", true, false, false, true},
    {"LayoutLMv2", true, false, false, true},
}};

// Other classes of transformers 4.57 and 5.24, without "Tokenizer". tokenizer.json does not determine what they do.
constexpr std::string_view kForeignClasses[] = {"Albert",
                                                "Bart",
                                                "Barthez",
                                                "Bartpho",
                                                "BertGeneration",
                                                "BertJapanese",
                                                "BertTokenizerLegacy",
                                                "Bertweet",
                                                "BigBird",
                                                "BioGpt",
                                                "BlenderbotSmall",
                                                "Blenderbot",
                                                "Bloom",
                                                "ByT5",
                                                "CLIP",
                                                "CTRL",
                                                "Camembert",
                                                "Canine",
                                                "Character",
                                                "Clvp",
                                                "CodeGen",
                                                "CodeLlama",
                                                "Cohere",
                                                "CpmAnt",
                                                "Cpm",
                                                "Deberta",
                                                "DebertaV2",
                                                "Dia",
                                                "ErnieM",
                                                "Esm",
                                                "Esmc",
                                                "FNet",
                                                "FSMT",
                                                "FastSpeech2Conformer",
                                                "Flaubert",
                                                "GPT2",
                                                "GPTNeoXJapanese",
                                                "GPTNeoX",
                                                "GPTSanJapanese",
                                                "GPTSw3",
                                                "Gemma",
                                                "Herbert",
                                                "Jukebox",
                                                "LED",
                                                "Lasr",
                                                "LayoutLMv3",
                                                "LayoutXLM",
                                                "Llama",
                                                "Longformer",
                                                "Luke",
                                                "M2M100",
                                                "MBart50",
                                                "MBart",
                                                "MLuke",
                                                "MT5",
                                                "Marian",
                                                "MarkupLM",
                                                "Mecab",
                                                "Mgpstr",
                                                "MistralCommon",
                                                "Mvp",
                                                "MyT5",
                                                "Nllb",
                                                "Nougat",
                                                "OpenAIGPT",
                                                "PLBart",
                                                "ParakeetCTC",
                                                "Parakeet",
                                                "Pegasus",
                                                "Perceiver",
                                                "Phobert",
                                                "Pop2Piano",
                                                "ProphetNet",
                                                "Qwen2",
                                                "Qwen3_5",
                                                "Rag",
                                                "Reformer",
                                                "RemBert",
                                                "RoCBert",
                                                "RoFormer",
                                                "Roberta",
                                                "SeamlessM4T",
                                                "Siglip2",
                                                "Siglip",
                                                "Speech2Text2",
                                                "Speech2Text",
                                                "SpeechT5",
                                                "T5",
                                                "TFBert",
                                                "TFGPT2",
                                                "Tapas",
                                                "Tapex",
                                                "Tipsv2",
                                                "TransfoXL",
                                                "Udop",
                                                "VideoPrism",
                                                "Vits",
                                                "Wav2Vec2CTC",
                                                "Wav2Vec2PhonemeCTC",
                                                "Wav2Vec2",
                                                "Whisper",
                                                "XGLM",
                                                "XLMProphetNet",
                                                "XLMRoberta",
                                                "XLM",
                                                "XLNet"};

// The classes of model types whose tokenizer is WordPiece.
struct ModelClass {
  std::string_view model_type;
  std::string_view name;
};
constexpr ModelClass kModelClasses[] = {
    {"bert", "BertTokenizer"},        {"bros", "BertTokenizer"},        {"convbert", "BertTokenizer"},
    {"distilbert", "BertTokenizer"},  {"electra", "BertTokenizer"},     {"ernie", "BertTokenizer"},
    {"layoutlm", "BertTokenizer"},    {"lxmert", "BertTokenizer"},      {"megatron-bert", "BertTokenizer"},
    {"mobilebert", "BertTokenizer"},  {"nezha", "BertTokenizer"},       {"nomic_bert", "BertTokenizer"},
    {"qdqbert", "BertTokenizer"},     {"realm", "BertTokenizer"},       {"retribert", "BertTokenizer"},
    {"squeezebert", "BertTokenizer"}, {"visual_bert", "BertTokenizer"}, {"mpnet", "MPNetTokenizer"},
    {"funnel", "FunnelTokenizer"},    {"splinter", "SplinterTokenizer"}};

std::string class_of_model(std::string_view model_type) {
  const auto found = std::find_if(std::begin(kModelClasses), std::end(kModelClasses),
                                  [&](const ModelClass& entry) { return entry.model_type == model_type; });
  return found == std::end(kModelClasses) ? std::string() : std::string(found->name);
}

// Takes the class from the first file that names one, else from the model type.
TokenizerClass named_class(const std::optional<JsonFields>& tokenizer_config,
                           const std::optional<JsonFields>& model_config, const std::string& model_type) {
  TokenizerClass result;
  for (const auto* file : {&tokenizer_config, &model_config}) {
    if (!*file) continue;
    const auto name = (*file)->text("tokenizer_class");
    if (!name || name->empty()) continue;
    result.name = *name;
    result.source = fmt::format("{} is '{}'", (*file)->name_of("tokenizer_class"), *name);
    return result;
  }
  const std::string type = model_config ? model_config->text("model_type").value_or("") : model_type;
  result.name = class_of_model(type);
  result.source =
      fmt::format("{} is '{}'", model_config ? model_config->name_of("model_type") : "model_type", type);
  return result;
}

}  // namespace

TokenizerClass find_tokenizer_class(const std::optional<JsonFields>& tokenizer_config,
                                    const std::optional<JsonFields>& model_config,
                                    const std::string& model_type) {
  TokenizerClass result = named_class(tokenizer_config, model_config, model_type);
  std::string_view name = result.name;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  if (name.ends_with("Tokenizer")) name.remove_suffix(9);
  const auto found = std::find_if(kWordPieceClasses.begin(), kWordPieceClasses.end(),
                                  [&](const WordPieceClass& entry) { return entry.name == name; });
  if (found != kWordPieceClasses.end()) {
    result.sets_normalizer = found->sets_normalizer;
    result.reads_vocab_txt = found->reads_vocab_txt;
    result.has_bert_roles = found->has_bert_roles;
    result.gives_types = found->gives_types;
    return result;
  }
  result.is_foreign =
      std::find(std::begin(kForeignClasses), std::end(kForeignClasses), name) != std::end(kForeignClasses);
  return result;
}

}  // namespace plimsoll::text
