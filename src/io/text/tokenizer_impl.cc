// Builds the data of a tokenizer from the description that was read from its files.
#include "io/text/tokenizer_impl.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "io/text/decoders.h"
#include "io/text/unicode.h"
#include "io/text/unicode_properties.h"

namespace plimsoll::text {
namespace {

// Returns the class that BertPreTokenizer assigns to each byte.
std::array<ByteClass, 256> make_byte_classes() {
  std::array<ByteClass, 256> classes{};
  for (size_t c = 0; c < 256; ++c) {
    const uint8_t flags = c < 128 ? UnicodeTable::get().flags(static_cast<char32_t>(c)) : 0;
    classes[c] = c >= 128               ? ByteClass::kNotAscii
                 : flags & kWhitespace  ? ByteClass::kSpace
                 : flags & kPunctuation ? ByteClass::kPunctuation
                                        : ByteClass::kWord;
  }
  return classes;
}

std::string normalize_with(const TokenizerSpec& spec, const BertNormalizer& normalizer,
                           std::string_view text) {
  if (!spec.pipeline) {
    NormalizedText normalized;
    normalizer.normalize(text, 0, &normalized);
    return normalized.bytes;
  }
  AlignedText aligned;
  aligned.assign(text, 0);
  spec.pipeline->normalize(&aligned);
  std::string bytes;
  for (const char32_t c : aligned.chars) append_utf8(c, &bytes);
  return bytes;
}

std::vector<AddedTokenMatcher::Pattern> patterns_of(const TokenizerSpec& spec,
                                                    const BertNormalizer& normalizer, bool normalized) {
  std::vector<AddedTokenMatcher::Pattern> patterns;
  std::map<std::string, std::string> seen;  // key: a text to search for; value: the content of its token
  for (const AddedToken& token : spec.added_tokens) {
    if (token.normalized != normalized) continue;
    std::string pattern = token.content;
    if (normalized) {
      pattern = normalize_with(spec, normalizer, token.content);
    }
    if (pattern.empty()) {
      throw_error(
          ErrorCode::kBadData,
          "{}: added token '{}' is empty once normalised; remove it or set its \"normalized\" to false",
          spec.where, token.content);
    }
    const auto [place, is_new] = seen.emplace(pattern, token.content);
    if (!is_new) {
      throw_error(ErrorCode::kBadData,
                  "{}: added tokens '{}' and '{}' are both '{}' once normalised; remove one or set its "
                  "\"normalized\" to false",
                  spec.where, place->second, token.content, pattern);
    }
    patterns.push_back({std::move(pattern), token});
  }
  return patterns;
}

}  // namespace

TokenizerImpl::TokenizerImpl(TokenizerSpec spec)
    : spec_(std::move(spec)),
      normalizer_(spec_.normalizer),
      model_(spec_.model),
      raw_tokens_(patterns_of(spec_, normalizer_, false), spec_.split_special_tokens),
      normalized_tokens_(patterns_of(spec_, normalizer_, true), spec_.split_special_tokens),
      byte_classes_(make_byte_classes()),
      added_by_id_(spec_.added_tokens) {
  std::stable_sort(added_by_id_.begin(), added_by_id_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  vocab_size_ = narrow<int64_t>(spec_.model.vocab.size());
  for (const auto& entry : spec_.model.vocab) max_id_ = std::max(max_id_, entry.second);
  for (const AddedToken& token : added_by_id_) {
    added_ids_[token.content] = token.id;
    if (token.special) special_texts_.insert(token.content);
    if (token.normalized) decoded_texts_[token.id] = normalize(token.content);
    max_id_ = std::max(max_id_, token.id);
    if (model_.find(token.content) == kNoToken) ++vocab_size_;
  }
  set_special_ids();
  hash_ = hash_content();
}

void TokenizerImpl::set_special_ids() {
  const auto role = [this](const char* name) -> std::optional<int32_t> {
    const auto found = spec_.special_tokens.find(name);
    return found == spec_.special_tokens.end() ? std::nullopt : id(found->second);
  };
  special_ids_ = {role("pad_token"),  role("unk_token"), role("cls_token"), role("sep_token"),
                  role("mask_token"), role("bos_token"), role("eos_token")};
  if (!special_ids_.unk && model_.unk_id() != kNoToken) special_ids_.unk = model_.unk_id();
}

std::optional<int32_t> TokenizerImpl::id(std::string_view token) const {
  const auto added = added_ids_.find(token);
  if (added != added_ids_.end()) return added->second;
  const int32_t found = model_.find(token);
  return found == kNoToken ? std::nullopt : std::optional(found);
}

std::string TokenizerImpl::normalize(std::string_view text) const {
  return normalize_with(spec_, normalizer_, text);
}

std::optional<std::string_view> TokenizerImpl::token(int32_t id) const {
  const auto by_id = [](const auto& token, int32_t value) { return token.id < value; };
  const auto found = std::lower_bound(added_by_id_.begin(), added_by_id_.end(), id, by_id);
  if (found != added_by_id_.end() && found->id == id) return found->content;
  const auto by_second = [](const auto& entry, int32_t value) { return entry.second < value; };
  const auto in_vocab = std::lower_bound(spec_.model.vocab.begin(), spec_.model.vocab.end(), id, by_second);
  if (in_vocab != spec_.model.vocab.end() && in_vocab->second == id) return in_vocab->first;
  return std::nullopt;
}

std::string TokenizerImpl::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  Texts texts;
  for (const int32_t id : ids) {
    const auto changed = decoded_texts_.find(id);
    const auto text =
        changed != decoded_texts_.end() ? std::optional<std::string_view>(changed->second) : token(id);
    if (!text || (options.skip_special_tokens && special_texts_.contains(*text))) continue;
    texts.emplace_back(*text);
  }
  std::string result;
  if (spec_.decoder) {
    result = spec_.decoder->decode(std::move(texts));
  } else {
    for (size_t i = 0; i < texts.size(); ++i) result += (i == 0 ? "" : " ") + texts[i];
  }
  const bool cleans_up = options.clean_up_spaces.value_or(spec_.clean_up_spaces &&
                                                          !std::holds_alternative<BpeSpec>(spec_.model.kind));
  return cleans_up ? clean_up_spaces(std::move(result)) : result;
}

int64_t TokenizerImpl::num_special_tokens(bool pair) const {
  int64_t count = 0;
  for (const TemplatePiece& piece : pair ? spec_.pair : spec_.single) {
    count += narrow<int64_t>(piece.special_ids.size());
  }
  return count;
}

// Adds all options of a model, but not its vocabulary, to a hash.
template <typename Number, typename Word>
static void hash_model(const ModelSpec& model, Number&& number, Word&& word) {
  number(static_cast<int64_t>(model.kind.index()));
  if (const auto* word_piece = std::get_if<WordPieceSpec>(&model.kind)) {
    word(word_piece->unk_token);
    word(word_piece->continuing_prefix);
    number(word_piece->max_chars_per_word);
  } else if (const auto* bpe = std::get_if<BpeSpec>(&model.kind)) {
    number(bpe->unk_token.has_value());
    for (const std::string& text : {bpe->unk_token.value_or(""), bpe->continuing_prefix, bpe->end_suffix})
      word(text);
    for (const bool flag : {bpe->fuse_unk, bpe->byte_fallback, bpe->ignore_merges}) number(flag);
    number(narrow<int64_t>(bpe->merges.size()));
    for (const BpeMerge& merge : bpe->merges) {
      for (const int32_t id : {merge.left, merge.right, merge.result}) number(id);
    }
  } else if (const auto* unigram = std::get_if<UnigramSpec>(&model.kind)) {
    number(unigram->unk_id.value_or(kNoToken));
    number(unigram->byte_fallback);
    for (const double score : unigram->scores) number(std::bit_cast<int64_t>(score));
  } else {
    word(std::get<WordLevelSpec>(model.kind).unk_token);
  }
}

Hash128 TokenizerImpl::hash_content() const {
  HashStream128 stream;
  const auto number = [&stream](int64_t value) {
    stream.update(std::as_bytes(std::span<const int64_t, 1>(&value, 1)));
  };
  const auto word = [&](std::string_view value) {
    number(narrow<int64_t>(value.size()));
    stream.update(value);
  };
  word("plimsoll tokens 3");
  word(UnicodeTable::source());
  const NormalizerSpec& n = spec_.normalizer;
  for (const bool flag : {n.clean_text, n.handle_chinese_chars, n.strips_accents(), n.lowercase,
                          spec_.split_special_tokens, spec_.truncation_side == TextSide::kLeft}) {
    number(flag);
  }
  if (spec_.pipeline) {
    word(spec_.pipeline->description);
    word(property_tables_source());
    word(grapheme_tables_source());
  }
  if (spec_.offset_trimming) number(spec_.offset_trimming->keeps_added_space);
  hash_model(spec_.model, number, word);
  number(narrow<int64_t>(spec_.model.vocab.size()));
  for (const auto& [token, token_id] : spec_.model.vocab) {
    word(token);
    number(token_id);
  }
  number(narrow<int64_t>(added_by_id_.size()));
  for (const AddedToken& t : added_by_id_) {
    word(t.content);
    number(t.id);
    for (const bool flag : {t.single_word, t.lstrip, t.rstrip, t.normalized, t.special}) number(flag);
  }
  for (const auto* pieces : {&spec_.single, &spec_.pair}) {
    number(narrow<int64_t>(pieces->size()));
    for (const TemplatePiece& piece : *pieces) {
      number(static_cast<int64_t>(piece.kind));
      number(piece.type_id);
      number(narrow<int64_t>(piece.special_ids.size()));
      for (const int32_t special : piece.special_ids) number(special);
    }
  }
  return stream.digest();
}

}  // namespace plimsoll::text
