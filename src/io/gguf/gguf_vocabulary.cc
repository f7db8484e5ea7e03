#include "io/gguf/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "io/gguf/sentence_piece_scores.h"
#include "io/text/byte_level.h"
#include "io/text/chat_template.h"
#include "io/text/pipeline.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll {
namespace {

using text::BpeSpec;
using text::TemplatePiece;
using text::TokenizerSpec;
using text::WordPattern;

// The numbers by which the format identifies the types of tokens.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

constexpr const char* kInstead =
    "export the weights for transformers or vLLM, which read the folder as it is, or train with a tokenizer "
    "that "
    "llama.cpp has";

[[noreturn]] void refuse_tokenizer(const TokenizerSpec& spec, std::string_view reason) {
  throw_error(ErrorCode::kUsage, "{}: llama.cpp does not have this tokenizer: {}; {}", spec.where, reason,
              kInstead);
}

// The names by which a GGUF file specifies how llama.cpp must normalize and split text.
struct Steps {
  std::string model;  // metadata tokenizer.ggml.model: "gpt2" for byte-level BPE, "llama" for SentencePiece
  std::string pre;    // metadata tokenizer.ggml.pre: how text is split
  bool adds_space_prefix = false;  // for model "llama": a space is inserted before the text
};

constexpr std::string_view kDigitsThenByteLevel =
    R"("pretokenizers":[{"individual_digits":true,"type":"Digits",},{)";

Steps byte_level_steps(const TokenizerSpec& spec, const BpeSpec& bpe, std::vector<std::string>& notes) {
  const text::ByteLevelSteps& steps = *spec.byte_level;
  if (steps.adds_space) refuse_tokenizer(spec, "add_prefix_space is true");
  if (steps.composes) {
    notes.emplace_back(
        "The tokenizer composes accents (NFC), which llama.cpp does not do: a text with decomposed accents "
        "gets "
        "other tokens there.");
  }
  std::string pre;
  if (steps.pattern == WordPattern::kGpt2 && !steps.has_splitters) pre = "gpt-2";
  if (steps.pattern == WordPattern::kOneDigit && !steps.has_splitters) pre = "qwen2";
  if (steps.pattern == WordPattern::kThreeDigits && !steps.has_splitters)
    pre = bpe.ignore_merges ? "llama-bpe" : "dbrx";
  const bool splits_digits = spec.pipeline->pre_tokenizers.size() == 2 &&
                             spec.pipeline->description.find(kDigitsThenByteLevel) != std::string::npos;
  if (steps.pattern == WordPattern::kGpt2 && steps.has_splitters && splits_digits) pre = "smollm";
  if (pre.empty()) {
    refuse_tokenizer(spec, "its pre_tokenizer is none of those of GPT-2, SmolLM, Llama 3 and Qwen 2");
  }
  if (bpe.ignore_merges && pre != "llama-bpe")
    refuse_tokenizer(spec, "ignore_merges is true, which llama.cpp supports only for Llama 3");
  if (bpe.byte_fallback) refuse_tokenizer(spec, "byte_fallback is true in a byte-level model");
  return {.model = "gpt2", .pre = std::move(pre)};
}

// Recognizes tokenizers that were converted from SentencePiece models. Conversion programs write them in two forms: with the normalizers
// Prepend and Replace, or with the pre-tokenizer Metaspace.
Steps sentence_piece_steps(const TokenizerSpec& spec, const BpeSpec& bpe, std::vector<std::string>& notes) {
  constexpr std::string_view kReplace = R"({"content":"▁","pattern":{"String":" ",},"type":"Replace",})";
  const std::string prepend_first = fmt::format(
      R"({{"normalizers":[{{"prepend":"▁","type":"Prepend",}},{},],"type":"Sequence",}}|)", kReplace);
  const std::string& found = spec.pipeline->description;
  const auto has = [&](std::string_view text) { return found.find(text) != std::string::npos; };
  if (bpe.ignore_merges) refuse_tokenizer(spec, "ignore_merges is true");
  Steps steps{.model = "llama", .pre = "default"};
  if (found == prepend_first) {
    steps.adds_space_prefix = true;
  } else if (found.starts_with("|{") && spec.pipeline->pre_tokenizers.size() == 1 &&
             has(R"("type":"Metaspace")") && has(R"("replacement":"▁")") && has(R"("split":false)") &&
             has(R"("prepend_scheme":)")) {
    steps.adds_space_prefix = !has(R"("prepend_scheme":"never")");
    if (steps.adds_space_prefix) {
      notes.emplace_back(
          "llama.cpp puts a space before every text; this tokenizer does so only before texts that do not "
          "begin "
          "with one.");
    }
  } else if (found != std::string(kReplace) + "|") {
    refuse_tokenizer(spec, "its normalizer and pre_tokenizer are not those of Llama 2");
  }
  return steps;
}

Steps find_steps(const TokenizerSpec& spec, std::vector<std::string>& notes) {
  const auto* bpe = std::get_if<BpeSpec>(&spec.model.kind);
  if (bpe == nullptr) refuse_tokenizer(spec, "its model is not BPE");
  if (!bpe->continuing_prefix.empty() || !bpe->end_suffix.empty())
    refuse_tokenizer(spec, "its tokens have a continuing_subword_prefix or an end_of_word_suffix");
  if (spec.byte_level) return byte_level_steps(spec, *bpe, notes);
  if (bpe->byte_fallback && spec.pipeline) return sentence_piece_steps(spec, *bpe, notes);
  refuse_tokenizer(spec, "it is neither byte-level nor has byte_fallback");
}

// The tokens and their types, in the order of their ids.
struct TokenLists {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::unordered_map<std::string, int32_t> ids;

  std::optional<int32_t> id_of(const std::string& token) const {
    const auto found = ids.find(token);
    return found == ids.end() ? std::nullopt : std::optional(found->second);
  }
};

TokenLists list_tokens(const TokenizerSpec& spec, int64_t vocab_size) {
  TokenLists lists;
  std::vector<std::optional<std::string>> tokens(static_cast<size_t>(vocab_size));
  lists.types.assign(tokens.size(), static_cast<int32_t>(TokenType::kUnused));
  const auto set = [&](int32_t id, const std::string& token, TokenType type) {
    if (id >= vocab_size) {
      throw_error(
          ErrorCode::kBadData,
          "{}: the token '{}' has the id {}, but the model has {} tokens (vocab_size in config.json); use "
          "the tokenizer with which the model was trained",
          spec.where, token, id, vocab_size);
    }
    tokens[static_cast<size_t>(id)] = token;
    lists.types[static_cast<size_t>(id)] = static_cast<int32_t>(type);
    lists.ids[token] = id;
  };
  for (const auto& [token, id] : spec.model.vocab) set(id, token, TokenType::kNormal);
  for (const AddedToken& token : spec.added_tokens)
    set(token.id, token.content, token.special ? TokenType::kControl : TokenType::kUserDefined);
  for (size_t id = 0; id < tokens.size(); ++id) {
    std::string text = tokens[id].value_or(fmt::format("[PAD{}]", id));
    // Ids without a token get a placeholder text. It must differ from all tokens, because llama.cpp requires all texts to be distinct.
    while (!tokens[id] && lists.ids.contains(text)) text = "[" + text + "]";
    if (!tokens[id]) lists.ids[text] = static_cast<int32_t>(id);
    lists.tokens.push_back(std::move(text));
  }
  return lists;
}

// The tokens that the tokenizer adds at the start and at the end of each text, if any.
struct AddedEnds {
  std::optional<int32_t> first, last;
};

AddedEnds ends_of(const TokenizerSpec& spec) {
  AddedEnds ends;
  bool is_before = true;
  for (const TemplatePiece& piece : spec.single) {
    if (piece.kind == TemplatePiece::Kind::kFirst) {
      is_before = false;
      continue;
    }
    std::optional<int32_t>& end = is_before ? ends.first : ends.last;
    if (end || piece.special_ids.size() != 1)
      refuse_tokenizer(spec, "it adds more than one token before or after each text");
    end = piece.special_ids.front();
  }
  return ends;
}

void add_special_ids(GgufMetadata& metadata, const TokenizerSpec& spec, const TokenLists& lists,
                     const GgufTokenDefaults& defaults) {
  const auto role = [&](const char* name, int64_t fallback) -> std::optional<int32_t> {
    if (const auto stated = spec.special_tokens.find(name); stated != spec.special_tokens.end()) {
      if (const auto id = lists.id_of(stated->second)) return id;
    }
    if (fallback < 0 || fallback >= std::ssize(lists.tokens)) return std::nullopt;
    return static_cast<int32_t>(fallback);
  };
  const AddedEnds ends = ends_of(spec);
  std::optional<int32_t> bos = role("bos_token", defaults.bos_id);
  const std::optional<int32_t> eos = role("eos_token", defaults.eos_id);
  if (ends.first) bos = ends.first;
  if (!eos) {
    throw_error(ErrorCode::kUsage,
                "{}: no file names the token that ends a text, and llama.cpp would take token 11; write "
                "\"eos_token\" into tokenizer_config.json",
                spec.where);
  }
  if (ends.last && ends.last != eos)
    refuse_tokenizer(spec, "the token that it adds after each text is not its eos_token");
  const auto add = [&](const char* key, const std::optional<int32_t>& id) {
    if (id) metadata.add(std::string("tokenizer.ggml.") + key, static_cast<uint32_t>(*id));
  };
  add("bos_token_id", bos);
  add("eos_token_id", eos);
  add("unknown_token_id", role("unk_token", -1));
  add("padding_token_id", role("pad_token", defaults.pad_id));
  metadata.add("tokenizer.ggml.add_bos_token", ends.first.has_value());
  metadata.add("tokenizer.ggml.add_eos_token", ends.last.has_value());
}

void add_byte_level_model(GgufMetadata& metadata, const BpeSpec& bpe, TokenLists&& lists) {
  std::vector<std::string> merges;
  merges.reserve(bpe.merges.size());
  for (const text::BpeMerge& merge : bpe.merges) {
    merges.push_back(lists.tokens[static_cast<size_t>(merge.left)] + " " +
                     lists.tokens[static_cast<size_t>(merge.right)]);
  }
  metadata.add("tokenizer.ggml.tokens", std::move(lists.tokens));
  metadata.add("tokenizer.ggml.token_type", std::move(lists.types));
  metadata.add("tokenizer.ggml.merges", std::move(merges));
}

void add_sentence_piece_model(GgufMetadata& metadata, const TokenizerSpec& spec, const BpeSpec& bpe,
                              TokenLists&& lists) {
  std::unordered_set<int32_t> added;
  for (const AddedToken& token : spec.added_tokens) added.insert(token.id);
  SentencePieceScores scores = sentence_piece_scores(lists.tokens, bpe.merges, added);
  if (!scores.problem.empty()) refuse_tokenizer(spec, scores.problem);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token = fmt::format("<0x{:02X}>", byte);
    const auto id = lists.id_of(token);
    if (!id) refuse_tokenizer(spec, fmt::format("it has byte_fallback without the token '{}'", token));
    lists.types[static_cast<size_t>(*id)] = static_cast<int32_t>(TokenType::kByte);
  }
  const auto stated = spec.special_tokens.find("unk_token");
  const auto unknown = lists.id_of(stated != spec.special_tokens.end() ? stated->second : "<unk>");
  if (unknown) lists.types[static_cast<size_t>(*unknown)] = static_cast<int32_t>(TokenType::kUnknown);
  metadata.add("tokenizer.ggml.tokens", std::move(lists.tokens));
  metadata.add("tokenizer.ggml.scores", std::move(scores.scores));
  metadata.add("tokenizer.ggml.token_type", std::move(lists.types));
}

void add_chat_template(GgufMetadata& metadata, const std::string& folder, std::vector<std::string>& notes) {
  StatedChatTemplate stated = stated_chat_template(folder);
  if (!stated.trained_name.empty()) {
    notes.push_back(fmt::format(
        "The model was trained with --chat_template {}, whose Jinja text no file contains: choose the "
        "template when you start llama.cpp (--chat-template).",
        stated.trained_name));
  } else if (!stated.jinja.empty()) {
    metadata.add("tokenizer.chat_template", std::move(stated.jinja));
  }
}

void note_matching(const TokenizerSpec& spec, std::vector<std::string>& notes) {
  const auto found = std::ranges::find_if(spec.added_tokens, [](const AddedToken& token) {
    return token.lstrip || token.rstrip || token.single_word;
  });
  if (found == spec.added_tokens.end()) return;
  notes.push_back(fmt::format(
      "The token '{}' is matched with its surroundings (lstrip, rstrip or single_word), which llama.cpp "
      "does not do.",
      found->content));
}

}  // namespace

std::vector<std::string> add_gguf_vocabulary(GgufMetadata& metadata, const std::string& folder,
                                             std::string_view model_type, const GgufTokenDefaults& defaults) {
  const TokenizerSpec spec = text::parse_tokenizer_files(text::read_tokenizer_files(folder, model_type));
  std::vector<std::string> notes;
  const Steps steps = find_steps(spec, notes);
  const auto& bpe = std::get<BpeSpec>(spec.model.kind);
  TokenLists lists = list_tokens(spec, defaults.vocab_size);
  metadata.add("tokenizer.ggml.model", steps.model);
  metadata.add("tokenizer.ggml.pre", steps.pre);
  add_special_ids(metadata, spec, lists, defaults);
  if (spec.byte_level) {
    add_byte_level_model(metadata, bpe, std::move(lists));
  } else {
    metadata.add("tokenizer.ggml.add_space_prefix", steps.adds_space_prefix);
    add_sentence_piece_model(metadata, spec, bpe, std::move(lists));
  }
  add_chat_template(metadata, folder, notes);
  note_matching(spec, notes);
  return notes;
}

}  // namespace plimsoll
