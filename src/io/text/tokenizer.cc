#include "io/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "base/check.h"
#include "io/text/added_tokens.h"
#include "io/text/bert_normalizer.h"
#include "io/text/tokenizer_spec.h"
#include "io/text/truncation.h"
#include "io/text/unicode.h"
#include "io/text/word_piece.h"

namespace plimsoll {
namespace text {
namespace {

// Tokens of one text of a pair.
struct Sequence {
  std::vector<int32_t> ids;
  std::vector<TextSpan> offsets;

  void clear() {
    ids.clear();
    offsets.clear();
  }
};

enum class ByteClass : uint8_t { kWord, kSpace, kPunctuation, kNotAscii };

// The classes of BertPreTokenizer.
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

std::vector<AddedTokenMatcher::Pattern> patterns_of(const TokenizerSpec& spec,
                                                    const BertNormalizer& normalizer, bool normalized) {
  std::vector<AddedTokenMatcher::Pattern> patterns;
  std::map<std::string, std::string> seen;  // pattern to token
  NormalizedText text;
  for (const AddedToken& token : spec.added_tokens) {
    if (token.normalized != normalized) continue;
    std::string pattern = token.content;
    if (normalized) {
      normalizer.normalize(token.content, 0, &text);
      pattern = text.bytes;
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

struct ScratchImpl {
  std::string valid_text;
  NormalizedText normalized;
  std::vector<TextPart> raw_parts, normalized_parts;
  std::vector<WordToken> word_tokens;
  Sequence first, second;
};

class TokenizerImpl {
 public:
  explicit TokenizerImpl(TokenizerSpec spec);

  AppendedTokens append(const TextPair& text, const EncodeOptions& options, ScratchImpl& scratch,
                        Encoding* out) const;
  std::optional<int32_t> id(std::string_view token) const;
  int64_t num_special_tokens(bool pair) const;

  const TokenizerSpec spec_;
  const BertNormalizer normalizer_;
  const WordPiece model_;
  const AddedTokenMatcher raw_tokens_, normalized_tokens_;
  const std::array<ByteClass, 256> byte_classes_;
  std::vector<AddedToken> added_by_id_;
  std::map<std::string_view, int32_t> added_ids_;
  SpecialTokenIds special_ids_;
  int64_t vocab_size_ = 0;
  int32_t max_id_ = 0;
  Hash128 hash_;

 private:
  void encode_text(std::string_view text, Offsets offsets, ScratchImpl& scratch, Sequence* out) const;
  int32_t encode_plain(std::string_view text, int32_t first_code_point, Offsets offsets, ScratchImpl& scratch,
                       Sequence* out) const;
  void encode_words(const NormalizedText& text, size_t begin, size_t end, Offsets offsets,
                    ScratchImpl& scratch, Sequence* out) const;
  size_t word_end(std::string_view bytes, size_t begin) const;
  void set_special_ids();
  Hash128 hash_content() const;
};

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
    max_id_ = std::max(max_id_, token.id);
    if (model_.find(token.content) == ByteTrie::kNoValue) ++vocab_size_;
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
  if (!special_ids_.unk) special_ids_.unk = model_.unk_id();
}

std::optional<int32_t> TokenizerImpl::id(std::string_view token) const {
  const auto added = added_ids_.find(token);
  if (added != added_ids_.end()) return added->second;
  const int32_t found = model_.find(token);
  return found == ByteTrie::kNoValue ? std::nullopt : std::optional(found);
}

int64_t TokenizerImpl::num_special_tokens(bool pair) const {
  int64_t count = 0;
  for (const TemplatePiece& piece : pair ? spec_.pair : spec_.single) {
    count += narrow<int64_t>(piece.special_ids.size());
  }
  return count;
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
  word("plimsoll WordPiece 1");
  word(UnicodeTable::source());
  const NormalizerSpec& n = spec_.normalizer;
  for (const bool flag : {n.clean_text, n.handle_chinese_chars, n.strips_accents(), n.lowercase,
                          spec_.split_special_tokens, spec_.truncation_side == TextSide::kLeft}) {
    number(flag);
  }
  word(spec_.model.unk_token);
  word(spec_.model.continuing_prefix);
  number(spec_.model.max_chars_per_word);
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

// The first byte after the word that starts at `begin`, which is no white space.
size_t TokenizerImpl::word_end(std::string_view bytes, size_t begin) const {
  size_t i = begin;
  while (i < bytes.size()) {
    const ByteClass byte_class = byte_classes_[static_cast<unsigned char>(bytes[i])];
    if (byte_class == ByteClass::kWord) {
      ++i;
      continue;
    }
    if (byte_class == ByteClass::kSpace) break;
    if (byte_class == ByteClass::kPunctuation) return i == begin ? i + 1 : i;
    const DecodedCodePoint c = decode_valid_utf8(bytes.data() + i);
    const uint8_t flags = UnicodeTable::get().flags(c.value);
    if (flags & kWhitespace) break;
    if (flags & kPunctuation) return i == begin ? i + c.num_bytes : i;
    i += c.num_bytes;
  }
  return i;
}

void TokenizerImpl::encode_words(const NormalizedText& text, size_t begin, size_t end, Offsets offsets,
                                 ScratchImpl& scratch, Sequence* out) const {
  const std::string_view bytes = std::string_view(text.bytes).substr(0, end);
  const bool identity = text.source.empty();
  const auto source = [&](size_t byte) {
    return identity ? text.first_code_point + static_cast<int32_t>(byte) : text.source[byte];
  };
  size_t i = begin;
  while (i < end) {
    if (bytes[i] == ' ') {
      ++i;
      continue;
    }
    const size_t stop = word_end(bytes, i);
    if (stop == i) {  // white space other than a plain space
      i += decode_valid_utf8(bytes.data() + i).num_bytes;
      continue;
    }
    scratch.word_tokens.clear();
    model_.split(bytes.substr(i, stop - i), &scratch.word_tokens);
    size_t token_begin = i;
    for (const WordToken& token : scratch.word_tokens) {
      out->ids.push_back(token.id);
      if (offsets == Offsets::kRecord) {
        out->offsets.push_back({source(token_begin), source(i + token.end - 1) + 1});
        token_begin = i + token.end;
      }
    }
    i = stop;
  }
}

// Encodes text that holds no token of the first pass; returns its number of code points.
int32_t TokenizerImpl::encode_plain(std::string_view text, int32_t first_code_point, Offsets offsets,
                                    ScratchImpl& scratch, Sequence* out) const {
  NormalizedText& normalized = scratch.normalized;
  const int32_t num_code_points = normalizer_.normalize(text, first_code_point, &normalized);
  if (normalized_tokens_.surely_absent(normalized.bytes)) {
    encode_words(normalized, 0, normalized.bytes.size(), offsets, scratch, out);
    return num_code_points;
  }
  scratch.normalized_parts.clear();
  normalized_tokens_.split(normalized.bytes, &scratch.normalized_parts);
  for (const TextPart& part : scratch.normalized_parts) {
    if (part.id == TextPart::kPlainText) {
      encode_words(normalized, part.begin, part.end, offsets, scratch, out);
      continue;
    }
    out->ids.push_back(part.id);
    if (offsets == Offsets::kSkip) continue;
    const bool identity = normalized.source.empty();
    const auto source = [&](size_t byte) {
      return identity ? first_code_point + static_cast<int32_t>(byte) : normalized.source[byte];
    };
    out->offsets.push_back({source(part.begin), source(part.end - 1) + 1});
  }
  return num_code_points;
}

void TokenizerImpl::encode_text(std::string_view text, Offsets offsets, ScratchImpl& scratch,
                                Sequence* out) const {
  if (text.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max()) / 3) {
    throw_error(ErrorCode::kBadData,
                "a text of {} bytes is too long to encode at once (limit {}); cut it into parts", text.size(),
                std::numeric_limits<int32_t>::max() / 3);
  }
  out->clear();
  if (!is_valid_utf8(text)) {
    scratch.valid_text.clear();
    replace_invalid_utf8(text, &scratch.valid_text);
    text = scratch.valid_text;
  }
  if (raw_tokens_.surely_absent(text)) {
    encode_plain(text, 0, offsets, scratch, out);
    return;
  }
  scratch.raw_parts.clear();
  raw_tokens_.split(text, &scratch.raw_parts);
  // Parts may overlap by white space (AddedTokenMatcher::split), so the position may have to go back.
  size_t byte = 0;
  int64_t code_point = 0;
  const auto position = [&](size_t to) {
    code_point += to >= byte ? count_code_points(text.substr(byte, to - byte))
                             : -count_code_points(text.substr(to, byte - to));
    byte = to;
    return static_cast<int32_t>(code_point);
  };
  for (const TextPart& part : scratch.raw_parts) {
    const int32_t begin = position(part.begin);
    if (part.id == TextPart::kPlainText) {
      encode_plain(text.substr(part.begin, part.end - part.begin), begin, offsets, scratch, out);
      continue;
    }
    out->ids.push_back(part.id);
    if (offsets == Offsets::kRecord) out->offsets.push_back({begin, position(part.end)});
  }
}

namespace {

// The tokens [begin, begin + count) of a sequence that truncation keeps.
struct Kept {
  const Sequence* sequence;
  size_t begin;
  size_t count;
};

Kept keep(const Sequence& sequence, int64_t count, TextSide side) {
  const size_t kept = narrow<size_t>(count);
  return {&sequence, side == TextSide::kLeft ? sequence.ids.size() - kept : 0, kept};
}

// Room for `more` elements at once; doubles, so that many small appends stay linear.
template <typename T>
void make_room(std::vector<T>* vector, size_t more) {
  const size_t needed = vector->size() + more;
  if (needed > vector->capacity()) vector->reserve(std::max(needed, 2 * vector->capacity()));
}

void append_kept(const Kept& kept, int32_t type_id, Offsets offsets, Encoding* out) {
  const auto begin = static_cast<std::ptrdiff_t>(kept.begin);
  const auto end = static_cast<std::ptrdiff_t>(kept.begin + kept.count);
  out->ids.insert(out->ids.end(), kept.sequence->ids.begin() + begin, kept.sequence->ids.begin() + end);
  out->type_ids.insert(out->type_ids.end(), kept.count, type_id);
  if (offsets == Offsets::kSkip) return;
  out->offsets.insert(out->offsets.end(), kept.sequence->offsets.begin() + begin,
                      kept.sequence->offsets.begin() + end);
}

}  // namespace

AppendedTokens TokenizerImpl::append(const TextPair& text, const EncodeOptions& options, ScratchImpl& scratch,
                                     Encoding* out) const {
  const bool pair = text.second.has_value();
  encode_text(text.first, options.offsets, scratch, &scratch.first);
  scratch.second.clear();
  if (pair) encode_text(*text.second, options.offsets, scratch, &scratch.second);

  const auto num_first = narrow<int64_t>(scratch.first.ids.size());
  const auto num_second = narrow<int64_t>(scratch.second.ids.size());
  KeptTokens counts{num_first, num_second};
  if (options.max_length) {
    const int64_t num_special = options.special_tokens == SpecialTokens::kAdd ? num_special_tokens(pair) : 0;
    if (*options.max_length < num_special || *options.max_length < 0) {
      throw_error(ErrorCode::kUsage,
                  "a maximum length of {} tokens has no room for the {} special tokens of a {}; raise it",
                  *options.max_length, num_special, pair ? "pair" : "text");
    }
    counts = truncate(num_first, num_second, *options.max_length - num_special, options.truncation);
  }
  const TextSide side = options.truncation_side.value_or(spec_.truncation_side);
  const Kept first = keep(scratch.first, counts.first, side);
  const Kept second = keep(scratch.second, counts.second, side);

  const size_t room = first.count + second.count + 4;
  make_room(&out->ids, room);
  make_room(&out->type_ids, room);
  if (options.offsets == Offsets::kRecord) make_room(&out->offsets, room);

  const size_t before = out->ids.size();
  for (const TemplatePiece& piece : pair ? spec_.pair : spec_.single) {
    if (piece.kind == TemplatePiece::Kind::kFirst) {
      append_kept(first, piece.type_id, options.offsets, out);
    } else if (piece.kind == TemplatePiece::Kind::kSecond) {
      append_kept(second, piece.type_id, options.offsets, out);
    } else if (options.special_tokens == SpecialTokens::kAdd) {
      out->ids.insert(out->ids.end(), piece.special_ids.begin(), piece.special_ids.end());
      out->type_ids.insert(out->type_ids.end(), piece.special_ids.size(), piece.type_id);
      if (options.offsets == Offsets::kRecord) {
        out->offsets.insert(out->offsets.end(), piece.special_ids.size(), TextSpan{});
      }
    }
  }
  const int64_t num_cut = num_first - counts.first + num_second - counts.second;
  out->num_cut += num_cut;
  return {narrow<int64_t>(out->ids.size() - before), num_cut};
}

}  // namespace text

void Encoding::clear() {
  ids.clear();
  type_ids.clear();
  offsets.clear();
  num_cut = 0;
}

TokenizerScratch::TokenizerScratch() : impl_(std::make_unique<text::ScratchImpl>()) {}
TokenizerScratch::~TokenizerScratch() = default;
TokenizerScratch::TokenizerScratch(TokenizerScratch&&) noexcept = default;
TokenizerScratch& TokenizerScratch::operator=(TokenizerScratch&&) noexcept = default;

Tokenizer::Tokenizer(text::TokenizerSpec spec)
    : impl_(std::make_unique<text::TokenizerImpl>(std::move(spec))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
  return std::make_unique<Tokenizer>(text::parse_tokenizer_files(text::read_tokenizer_files(folder)));
}

AppendedTokens Tokenizer::append(const TextPair& text, const EncodeOptions& options,
                                 TokenizerScratch& scratch, Encoding* out) const {
  return impl_->append(text, options, *scratch.impl_, out);
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  TokenizerScratch scratch;
  Encoding out;
  append({text, std::nullopt}, options, scratch, &out);
  return out;
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                const EncodeOptions& options) const {
  TokenizerScratch scratch;
  Encoding out;
  append({first, second}, options, scratch, &out);
  return out;
}

int64_t Tokenizer::vocab_size() const {
  return impl_->vocab_size_;
}
int32_t Tokenizer::max_id() const {
  return impl_->max_id_;
}
std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  return impl_->id(token);
}

std::optional<std::string_view> Tokenizer::token(int32_t id) const {
  const auto& added = impl_->added_by_id_;
  const auto by_id = [](const auto& token, int32_t value) { return token.id < value; };
  const auto found = std::lower_bound(added.begin(), added.end(), id, by_id);
  if (found != added.end() && found->id == id) return found->content;
  const auto& vocab = impl_->spec_.model.vocab;
  const auto by_second = [](const auto& entry, int32_t value) { return entry.second < value; };
  const auto in_vocab = std::lower_bound(vocab.begin(), vocab.end(), id, by_second);
  if (in_vocab != vocab.end() && in_vocab->second == id) return in_vocab->first;
  return std::nullopt;
}

const SpecialTokenIds& Tokenizer::special_ids() const {
  return impl_->special_ids_;
}
const std::vector<AddedToken>& Tokenizer::added_tokens() const {
  return impl_->added_by_id_;
}
int64_t Tokenizer::num_special_tokens(bool pair) const {
  return impl_->num_special_tokens(pair);
}
std::optional<int64_t> Tokenizer::model_max_length() const {
  return impl_->spec_.model_max_length;
}
TextSide Tokenizer::padding_side() const {
  return impl_->spec_.padding_side;
}
TextSide Tokenizer::truncation_side() const {
  return impl_->spec_.truncation_side;
}
const std::optional<TruncationDefault>& Tokenizer::truncation_default() const {
  return impl_->spec_.truncation_default;
}
bool Tokenizer::lowercase() const {
  return impl_->spec_.normalizer.lowercase;
}
const std::string& Tokenizer::source() const {
  return impl_->spec_.source;
}
const Hash128& Tokenizer::content_hash() const {
  return impl_->hash_;
}

}  // namespace plimsoll
