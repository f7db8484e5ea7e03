#include "io/text/tokenizer_class.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "io/text/byte_level.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {
namespace {

// A tokenizer class of transformers whose model is WordPiece. Where versions 4.57 and 5.24 differ, the values are those of 5.24.
struct WordPieceClass {
  std::string_view name;  // the name of the class without the suffix "Tokenizer"
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

// Other tokenizer classes of transformers 4.57 and 5.24, named without the suffix "Tokenizer". Plimsoll refuses them, because the
// behaviour of these classes does not follow from tokenizer.json.
constexpr std::string_view kForeignClasses[] = {"Albert",
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
                                                "GPTNeoXJapanese",
                                                "GPTSanJapanese",
                                                "GPTSw3",
                                                "Herbert",
                                                "Jukebox",
                                                "Lasr",
                                                "LayoutLMv3",
                                                "LayoutXLM",
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
                                                "Qwen3_5",
                                                "Rag",
                                                "Reformer",
                                                "RemBert",
                                                "RoCBert",
                                                "RoFormer",
                                                "SeamlessM4T",
                                                "Siglip2",
                                                "Siglip",
                                                "Speech2Text2",
                                                "Speech2Text",
                                                "SpeechT5",
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
                                                "XLM",
                                                "XLNet"};

struct ModelClass {
  std::string_view model_type;
  std::string_view name;
};
constexpr ModelClass kModelClasses[] = {
#define PLIMSOLL_MODEL_CLASS(model_type, name) {model_type, name},
#define PLIMSOLL_FIXED_CLASS(model_type)
#include "io/text/tables/model_classes.inc"
#undef PLIMSOLL_MODEL_CLASS
#undef PLIMSOLL_FIXED_CLASS
};
// The model types whose published files are known to name a wrong tokenizer class.
constexpr std::string_view kFixedClasses[] = {
#define PLIMSOLL_MODEL_CLASS(model_type, name)
#define PLIMSOLL_FIXED_CLASS(model_type) model_type,
#include "io/text/tables/model_classes.inc"
#undef PLIMSOLL_MODEL_CLASS
#undef PLIMSOLL_FIXED_CLASS
};

// Returns the name of the tokenizer class of a model type. The name is empty if tokenizer.json is used as it is for this model type.
// Returns nothing if the model type is unknown.
std::optional<std::string_view> class_of_model(std::string_view model_type) {
  const auto found = std::find_if(std::begin(kModelClasses), std::end(kModelClasses),
                                  [&](const ModelClass& entry) { return entry.model_type == model_type; });
  return found == std::end(kModelClasses) ? std::nullopt : std::optional(found->name);
}

// A tokenizer class that builds its own pipeline instead of using that of tokenizer.json, with its default special tokens. A token is "" if
// the class has no default token for the role.
struct BuiltClass {
  std::string_view name;  // the name of the class without the suffix "Tokenizer"
  BuiltPipeline built;
  std::string_view bos, eos, unk, sep, pad, cls, mask;
};
constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr BuiltClass kBuiltClasses[] = {
    {"GPT2", BuiltPipeline::kGpt2, kEndOfText, kEndOfText, kEndOfText, "", "", "", ""},
    {"Roberta", BuiltPipeline::kRoberta, "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    {"Bart", BuiltPipeline::kRoberta, "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    {"Longformer", BuiltPipeline::kRoberta, "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    {"LED", BuiltPipeline::kRoberta, "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    {"Mvp", BuiltPipeline::kRoberta, "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    {"GPTNeoX", BuiltPipeline::kGptNeoX, kEndOfText, kEndOfText, kEndOfText, "", "<|padding|>", "", ""},
    {"Qwen2", BuiltPipeline::kQwen2, "", kEndOfText, kEndOfText, "", kEndOfText, "", ""},
    {"Llama", BuiltPipeline::kLlama, "<s>", "</s>", "<unk>", "", "", "", ""},
    {"Gemma", BuiltPipeline::kGemma, "<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"},
    {"XLMRoberta", BuiltPipeline::kXlmRoberta, "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    {"Camembert", BuiltPipeline::kCamembert, "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    {"T5", BuiltPipeline::kT5, "", "</s>", "<unk>", "", "<pad>", "", ""}};

std::string_view stem_of(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  if (name.ends_with("Tokenizer")) name.remove_suffix(9);
  return name;
}

// Takes the class from the first file that names one, or else derives it from the model type, as AutoTokenizer of transformers 5
// does.
TokenizerClass named_class(const std::optional<JsonFields>& tokenizer_config,
                           const std::optional<JsonFields>& model_config, const std::string& model_type,
                           bool is_byte_level) {
  TokenizerClass result;
  const std::string type = model_config ? model_config->text("model_type").value_or("") : model_type;
  const std::optional<std::string_view> of_model = class_of_model(type);
  for (const auto* file : {&tokenizer_config, &model_config}) {
    if (!*file) continue;
    const auto name = (*file)->text("tokenizer_class");
    if (!name || name->empty()) continue;
    result.name = *name;
    result.source = fmt::format("{} is '{}'", (*file)->name_of("tokenizer_class"), *name);
    const bool is_built = std::any_of(std::begin(kBuiltClasses), std::end(kBuiltClasses),
                                      [&](const BuiltClass& c) { return c.name == stem_of(*name); });
    // The files of Llama 3 name LlamaTokenizer although their pipeline is byte-level, which that class does not support. For
    // these files, and for model types without a class, the generic class is used.
    if (is_built && ((of_model && of_model->empty()) || (is_byte_level && stem_of(*name) == "Llama"))) {
      result.name = kGenericClass;
    }
    const bool is_fixed =
        std::find(std::begin(kFixedClasses), std::end(kFixedClasses), type) != std::end(kFixedClasses);
    if (is_fixed && of_model) result.name = *of_model;
    return result;
  }
  result.name = of_model.value_or("");
  result.source =
      fmt::format("{} is '{}'", model_config ? model_config->name_of("model_type") : "model_type", type);
  return result;
}

// Returns a flag of tokenizer_config.json, or the default if the flag is missing or null.
bool flag_of(const std::optional<JsonFields>& config, const char* key, bool fallback) {
  return config ? config->flag(key).value_or(fallback) : fallback;
}

Json byte_level_step(bool adds_space, bool uses_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", adds_space}, {"use_regex", uses_regex}};
}

Json metaspace(const char* scheme, bool splits) {
  return {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", splits}};
}

Json sequence(const char* key, Json steps) {
  return {{"type", "Sequence"}, {key, std::move(steps)}};
}

// Returns the decoder of the classes for Llama and Gemma. If `strips` is true, the decoder also removes the space at the beginning of the
// text.
Json byte_fallback_decoder(bool strips) {
  Json steps = {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
  if (strips) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", std::move(steps));
}

// Returns the first step of type Precompiled in a normalizer, or null if there is none.
Json precompiled_of(const Json& normalizer) {
  const auto is_precompiled = [](const Json& step) {
    return step.is_object() && step.value("type", Json()) == "Precompiled";
  };
  if (is_precompiled(normalizer)) return normalizer;
  if (!normalizer.is_object() || !normalizer.contains("normalizers")) return nullptr;
  for (const Json& step : normalizer["normalizers"]) {
    if (is_precompiled(step)) return step;
  }
  return nullptr;
}

// Returns the index of the unknown token in the vocabulary of a Unigram model, or 0 if the vocabulary does not contain it.
int64_t index_of_unknown(const Json& vocab, const std::string& unk_token) {
  for (size_t i = 0; i < vocab.size(); ++i) {
    if (vocab[i].is_array() && !vocab[i].empty() && vocab[i][0] == unk_token) return static_cast<int64_t>(i);
  }
  return 0;
}

// Sets all options of a BPE model, given as in tokenizer.json, to the values that the tokenizer class prescribes.
void set_bpe(bool fuse_unk, bool byte_fallback, Json unk_token, Json* model) {
  (*model)["dropout"] = nullptr;
  (*model)["unk_token"] = std::move(unk_token);
  (*model)["continuing_subword_prefix"] = nullptr;
  (*model)["end_of_word_suffix"] = nullptr;
  (*model)["fuse_unk"] = fuse_unk;
  (*model)["byte_fallback"] = byte_fallback;
  (*model)["ignore_merges"] = false;
}

std::string scheme_of(const std::optional<JsonFields>& config, bool adds_space, bool is_legacy_by_default) {
  if (!adds_space) return "never";
  return flag_of(config, "legacy", is_legacy_by_default) ? "always" : "first";
}

}  // namespace

bool TokenizerClass::reads_merges() const {
  return built == BuiltPipeline::kGpt2 || built == BuiltPipeline::kRoberta ||
         built == BuiltPipeline::kGptNeoX || built == BuiltPipeline::kQwen2;
}

const std::map<std::string, std::string>& bert_roles() {
  static const std::map<std::string, std::string> roles = {{"unk_token", "[UNK]"},
                                                           {"sep_token", "[SEP]"},
                                                           {"pad_token", "[PAD]"},
                                                           {"cls_token", "[CLS]"},
                                                           {"mask_token", "[MASK]"}};
  return roles;
}

TokenizerClass find_tokenizer_class(const std::optional<JsonFields>& tokenizer_config,
                                    const std::optional<JsonFields>& model_config,
                                    const std::string& model_type, bool is_byte_level) {
  TokenizerClass result = named_class(tokenizer_config, model_config, model_type, is_byte_level);
  const std::string_view name = stem_of(result.name);
  for (const BuiltClass& entry : kBuiltClasses) {
    if (entry.name != name) continue;
    result.built = entry.built;
    result.extra_tokens_are_special = entry.built == BuiltPipeline::kQwen2;
    result.gives_types = false;
    const std::pair<const char*, std::string_view> roles[] = {
        {"bos_token", entry.bos},  {"eos_token", entry.eos}, {"unk_token", entry.unk},
        {"sep_token", entry.sep},  {"pad_token", entry.pad}, {"cls_token", entry.cls},
        {"mask_token", entry.mask}};
    for (const auto& [role, token] : roles) {
      if (!token.empty()) result.roles[role] = token;
    }
    if (entry.built == BuiltPipeline::kCamembert) {
      result.extra_tokens = {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"};
      result.mask_strips_left = true;
    }
    return result;
  }
  const auto found = std::find_if(kWordPieceClasses.begin(), kWordPieceClasses.end(),
                                  [&](const WordPieceClass& entry) { return entry.name == name; });
  if (found != kWordPieceClasses.end()) {
    result.sets_normalizer = found->sets_normalizer;
    result.reads_vocab_txt = found->reads_vocab_txt;
    if (found->has_bert_roles) result.roles = bert_roles();
    result.gives_types = found->gives_types;
    return result;
  }
  result.is_foreign =
      std::find(std::begin(kForeignClasses), std::end(kForeignClasses), name) != std::end(kForeignClasses);
  return result;
}

void build_pipeline(const TokenizerClass& tokenizer_class, const std::optional<JsonFields>& config,
                    const std::string& unk_token, Json* document) {
  const BuiltPipeline built = tokenizer_class.built;
  const bool is_unigram = built == BuiltPipeline::kXlmRoberta || built == BuiltPipeline::kCamembert ||
                          built == BuiltPipeline::kT5;
  Json& model = (*document)["model"];
  const char* wanted = is_unigram ? "Unigram" : "BPE";
  const std::string found = model.is_object() && model.contains("merges") ? "BPE"
                            : model.is_object() && model.contains("vocab") && model["vocab"].is_array()
                                ? "Unigram"
                                : "neither BPE nor Unigram";
  if (found != wanted) {
    throw_error(ErrorCode::kBadData,
                "{}, which needs a tokenizer model of the type {}, but the model in tokenizer.json is {}; "
                "write \"tokenizer_class\": \"PreTrainedTokenizerFast\" in tokenizer_config.json to use "
                "tokenizer.json as it is",
                tokenizer_class.source, wanted, found);
  }
  const bool adds_space = flag_of(config, "add_prefix_space", false);
  Json normalizer = nullptr, pre_tokenizer, decoder = byte_level_step(true, true);
  switch (built) {
    case BuiltPipeline::kNone:
      return;
    case BuiltPipeline::kGptNeoX:
      normalizer = {{"type", "NFC"}};
      [[fallthrough]];
    case BuiltPipeline::kGpt2:
    case BuiltPipeline::kRoberta:
      set_bpe(false, false, nullptr, &model);
      pre_tokenizer = byte_level_step(adds_space, true);
      break;
    case BuiltPipeline::kQwen2:
      set_bpe(false, false, nullptr, &model);
      normalizer = {{"type", "NFC"}};
      pre_tokenizer =
          sequence("pretokenizers", {{{"type", "Split"},
                                      {"pattern", {{"Regex", word_pattern_regex(WordPattern::kOneDigit)}}},
                                      {"behavior", "Isolated"},
                                      {"invert", false}},
                                     byte_level_step(adds_space, false)});
      break;
    case BuiltPipeline::kLlama: {
      const bool adds = flag_of(config, "add_prefix_space", true);
      set_bpe(true, true, nullptr, &model);
      pre_tokenizer = metaspace(scheme_of(config, adds, false).c_str(), false);
      decoder = byte_fallback_decoder(adds);
      break;
    }
    case BuiltPipeline::kGemma:
      set_bpe(true, true, unk_token, &model);
      normalizer = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
      pre_tokenizer = {{"type", "Split"},
                       {"pattern", {{"String", " "}}},
                       {"behavior", "MergedWithPrevious"},
                       {"invert", false}};
      decoder = byte_fallback_decoder(false);
      break;
    case BuiltPipeline::kXlmRoberta:
    case BuiltPipeline::kCamembert:
    case BuiltPipeline::kT5: {
      const bool adds = built == BuiltPipeline::kT5 || flag_of(config, "add_prefix_space", true);
      model["unk_id"] = built == BuiltPipeline::kT5           ? 2
                        : built == BuiltPipeline::kXlmRoberta ? 3
                                                              : index_of_unknown(model["vocab"], unk_token);
      model["byte_fallback"] = false;
      normalizer = precompiled_of(document->value("normalizer", Json()));
      pre_tokenizer = sequence("pretokenizers",
                               {{{"type", "WhitespaceSplit"}}, metaspace(adds ? "always" : "never", true)});
      decoder = metaspace(adds ? "always" : "never", true);
      break;
    }
  }
  (*document)["normalizer"] = std::move(normalizer);
  (*document)["pre_tokenizer"] = std::move(pre_tokenizer);
  (*document)["decoder"] = std::move(decoder);
}

}  // namespace plimsoll::text
