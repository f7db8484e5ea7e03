// Encodes texts in these steps: find added tokens, normalize the rest, split it into words and tokens, truncate, and add special
// tokens.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "io/text/byte_level.h"
#include "io/text/pattern.h"
#include "io/text/tokenizer_impl.h"
#include "io/text/unicode.h"

namespace plimsoll::text {

// Returns the end of the word that starts at `begin`, or `begin` itself if white space starts there.
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

// Returns the range of bytes of a word that a token covers, limited to the length of the word. The limit is needed because with
// byte fallback the bytes of a continuation prefix such as ## also become tokens, and offsets then count them although the word
// does not contain them.
static std::pair<size_t, size_t> bytes_of(const WordToken& token, size_t word_bytes) {
  const size_t end = std::min<size_t>(token.end, word_bytes);
  return {std::min<size_t>(token.begin, end - 1), end};
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
    if (stop == i) {  // white space other than a plain space belongs to no word
      i += decode_valid_utf8(bytes.data() + i).num_bytes;
      continue;
    }
    scratch.word_tokens.clear();
    model_.split(bytes.substr(i, stop - i), scratch.model, &scratch.word_tokens);
    for (const WordToken& token : scratch.word_tokens) {
      out->ids.push_back(token.id);
      if (offsets == Offsets::kRecord) {
        const auto [token_begin, token_end] = bytes_of(token, stop - i);
        out->offsets.push_back({source(i + token_begin), source(i + token_end - 1) + 1});
      }
    }
    i = stop;
  }
}

// Splits the range [begin, end) of the normalized text, which is in `scratch`, into words, and appends the tokens of the words.
void TokenizerImpl::encode_pieces(size_t begin, size_t end, Offsets offsets, ScratchImpl& scratch,
                                  Sequence* out) const {
  const AlignedText& text = scratch.pipeline.text;
  Words& words = scratch.pipeline.words;
  words.text.clear();
  if (begin == end) return;
  // Like tokenizers, counts the part from the first code point that the normalizer kept. Metaspace with the scheme "first" therefore adds
  // no mark if the normalizer removed the beginning of the text.
  words.text.begin = text.spans[begin].begin;
  words.text.chars.assign(text.chars, begin, end - begin);
  words.text.spans.assign(text.spans.begin() + static_cast<std::ptrdiff_t>(begin),
                          text.spans.begin() + static_cast<std::ptrdiff_t>(end));
  spec_.pipeline->split(&words);
  const bool is_unigram = std::holds_alternative<UnigramSpec>(spec_.model.kind);
  std::string& bytes = scratch.pipeline.bytes;
  std::vector<size_t>& char_of = scratch.pipeline.char_of;
  for (const Words::Part& part : words.parts) {
    bytes.clear();
    char_of.clear();
    for (size_t i = part.begin; i < part.end; ++i) {
      append_utf8(words.text.chars[i], &bytes);
      char_of.resize(bytes.size(), i);
    }
    if (bytes.empty()) continue;
    scratch.word_tokens.clear();
    model_.split(bytes, scratch.model, &scratch.word_tokens);
    for (const WordToken& token : scratch.word_tokens) {
      out->ids.push_back(token.id);
      if (offsets == Offsets::kSkip) continue;
      const auto [token_begin, token_end] = bytes_of(token, bytes.size());
      out->offsets.push_back(
          {words.text.spans[char_of[token_begin]].begin, words.text.spans[char_of[token_end - 1]].end});
      if (!spec_.offset_trimming) continue;
      // Excludes from the offsets the white space at both ends of the token's text in the vocabulary. The unknown token of a Unigram model
      // covers arbitrary text of the word, so for this token the covered text is examined instead of the token's own text.
      const bool is_text = is_unigram && token.id == model_.unk_id();
      trim_offsets(
          to_code_points(is_text ? std::string_view(bytes).substr(token_begin, token_end - token_begin)
                                 : this->token(token.id).value_or("")),
          scratch, out);
    }
  }
}

// Implements encode_plain() by the general pipeline, which supports every normalizer and pre-tokenizer.
int32_t TokenizerImpl::encode_with_pipeline(std::string_view text, int32_t first_code_point, Offsets offsets,
                                            ScratchImpl& scratch, Sequence* out) const {
  AlignedText& aligned = scratch.pipeline.text;
  aligned.assign(text, first_code_point);
  const auto num_code_points = static_cast<int32_t>(aligned.chars.size());
  spec_.pipeline->normalize(&aligned);
  if (normalized_tokens_.empty()) {
    encode_pieces(0, aligned.chars.size(), offsets, scratch, out);
    return num_code_points;
  }
  std::string bytes;
  std::vector<size_t> char_of;
  for (size_t i = 0; i < aligned.chars.size(); ++i) {
    append_utf8(aligned.chars[i], &bytes);
    char_of.resize(bytes.size(), i);
  }
  char_of.push_back(aligned.chars.size());
  scratch.normalized_parts.clear();
  normalized_tokens_.split(bytes, &scratch.normalized_parts);
  for (const TextPart& part : scratch.normalized_parts) {
    if (part.id == TextPart::kPlainText) {
      encode_pieces(char_of[part.begin], char_of[part.end], offsets, scratch, out);
      continue;
    }
    append_added(part.id,
                 {aligned.spans[char_of[part.begin]].begin, aligned.spans[char_of[part.end - 1]].end},
                 std::string_view(bytes).substr(part.begin, part.end - part.begin), offsets, scratch, out);
  }
  return num_code_points;
}

void TokenizerImpl::count_words(std::string_view text, WordCounts* counts) const {
  if (!spec_.pipeline) {
    NormalizedText normalized;
    normalizer_.normalize(text, 0, &normalized);
    const std::string_view bytes = normalized.bytes;
    for (size_t i = 0; i < bytes.size();) {
      const size_t stop = word_end(bytes, i);
      if (stop == i) {  // white space belongs to no word
        i += decode_valid_utf8(bytes.data() + i).num_bytes;
        continue;
      }
      ++(*counts)[std::string(bytes.substr(i, stop - i))];
      i = stop;
    }
    return;
  }
  std::string word;
  const auto& steps = spec_.byte_level;
  if (steps && !steps->adds_space && !steps->has_splitters && (!steps->composes || surely_composed(text))) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = byte_level_word_end(steps->pattern, text, begin);
      word.clear();
      for (const char byte : text.substr(begin, end - begin))
        append_utf8(byte_character(static_cast<uint8_t>(byte)), &word);
      ++(*counts)[word];
      begin = end;
    }
    return;
  }
  Words words;
  words.text.assign(text, 0);
  spec_.pipeline->normalize(&words.text);
  spec_.pipeline->split(&words);
  for (const Words::Part& part : words.parts) {
    word.clear();
    for (size_t i = part.begin; i < part.end; ++i) append_utf8(words.text.chars[i], &word);
    if (!word.empty()) ++(*counts)[word];
  }
}

// Excludes white space at the start and the end of the last token from its offsets. `chars` is the text of that token.
void TokenizerImpl::trim_offsets(std::u32string_view chars, const ScratchImpl& scratch, Sequence* out) const {
  const auto is_space = [](char32_t c) {
    return c == byte_character(' ') || (UnicodeTable::get().flags(c) & kWhitespace) != 0;
  };
  const auto first = std::find_if_not(chars.begin(), chars.end(), is_space);
  const auto last = std::find_if_not(chars.rbegin(), chars.rend(), is_space);
  trim_span(static_cast<int32_t>(first - chars.begin()), static_cast<int32_t>(last - chars.rbegin()), scratch,
            out);
}

// Removes white space from the offsets of the last token in `out`: `leading` characters at the beginning and `trailing` characters at the
// end.
void TokenizerImpl::trim_span(int32_t leading, int32_t trailing, const ScratchImpl& scratch,
                              Sequence* out) const {
  TextSpan& span = out->offsets.back();
  const bool is_first = out->ids.size() == scratch.pipeline.first_token + 1 || span.begin == 0;
  // A single leading space of the first token may have been inserted by add_prefix_space. It has no place in the original text, so the
  // offsets are not shortened for it. If there are several spaces, the text itself began with white space.
  if (leading == 1 && is_first && spec_.offset_trimming->keeps_added_space) leading = 0;
  if (leading > 0) span.begin = std::min(span.begin + leading, span.end);
  if (trailing > 0 && span.end >= trailing) span.end = std::max(span.end - trailing, span.begin);
}

// Appends an added token. `match` is the text that it matched.
void TokenizerImpl::append_added(int32_t id, TextSpan span, std::string_view match, Offsets offsets,
                                 const ScratchImpl& scratch, Sequence* out) const {
  out->ids.push_back(id);
  if (offsets == Offsets::kSkip) return;
  out->offsets.push_back(span);
  if (spec_.offset_trimming) trim_offsets(to_code_points(match), scratch, out);
}

// Implements encode_plain() for byte-level tokenizers, faster than the general pipeline. Requires: the normalizer, if there is
// one, leaves this text unchanged.
int32_t TokenizerImpl::encode_byte_level(std::string_view text, int32_t first_code_point, Offsets offsets,
                                         ScratchImpl& scratch, Sequence* out) const {
  if (normalized_tokens_.surely_absent(text)) {
    encode_byte_words(text, first_code_point, offsets, scratch, out);
  } else {
    scratch.normalized_parts.clear();
    normalized_tokens_.split(text, &scratch.normalized_parts);
    for (const TextPart& part : scratch.normalized_parts) {
      const std::string_view bytes = text.substr(part.begin, part.end - part.begin);
      const auto begin =
          first_code_point + static_cast<int32_t>(count_code_points(text.substr(0, part.begin)));
      if (part.id == TextPart::kPlainText) {
        encode_byte_words(bytes, begin, offsets, scratch, out);
        continue;
      }
      append_added(part.id, {begin, begin + static_cast<int32_t>(count_code_points(bytes))}, bytes, offsets,
                   scratch, out);
    }
  }
  return static_cast<int32_t>(count_code_points(text));
}

void TokenizerImpl::encode_byte_words(std::string_view text, int32_t first_code_point, Offsets offsets,
                                      ScratchImpl& scratch, Sequence* out) const {
  // If add_prefix_space inserts a space before the text (num_added = 1), this space has no position in the original text. It then has the
  // position of the first character of the text.
  int32_t num_added = 0;
  if (spec_.byte_level->adds_space && !text.empty() && text[0] != ' ') {
    scratch.spaced_text.assign(1, ' ');
    scratch.spaced_text += text;
    text = scratch.spaced_text;
    num_added = 1;
  }
  ByteWords words{text, first_code_point, num_added, offsets};
  if (!spec_.byte_level->has_splitters) return encode_byte_part(0, text.size(), words, scratch, out);
  Words& parts = scratch.pipeline.words;
  parts.text.assign(text, first_code_point);
  spec_.pipeline->split_except_last(&parts);
  size_t chars = 0, byte = 0;  // the current position in the text, counted in code points and in bytes
  const auto byte_of = [&](size_t position) {
    for (; chars < position; ++chars) byte += decode_valid_utf8(text.data() + byte).num_bytes;
    return byte;
  };
  for (const Words::Part& part : parts.parts) {
    const size_t begin = byte_of(part.begin);
    encode_byte_part(begin, byte_of(part.end), words, scratch, out);
  }
}

// Encodes the bytes [begin, end) of words.text. Requires: successive calls for one text pass ascending ranges, because the number
// of code points before the current byte is kept in `words` and only counted forward.
void TokenizerImpl::encode_byte_part(size_t begin, size_t end, ByteWords& words, ScratchImpl& scratch,
                                     Sequence* out) const {
  const std::string_view text = words.text.substr(begin, end - begin);
  // Returns the number of code points of the original text before byte `byte` of this range.
  const auto starts_before = [&](size_t byte) {
    for (; words.counted < begin + byte; ++words.counted)
      words.num_chars += (words.text[words.counted] & 0xC0) != 0x80;
    return words.num_chars - words.num_added;
  };
  for (size_t word = 0; word < text.size();) {
    const size_t word_end = byte_level_word_end(spec_.byte_level->pattern, text, word);
    scratch.word_tokens.clear();
    model_.split_bytes(text.substr(word, word_end - word), scratch.model, &scratch.word_tokens);
    for (const WordToken& token : scratch.word_tokens) {
      out->ids.push_back(token.id);
      if (words.offsets == Offsets::kSkip) continue;
      const std::string_view bytes = text.substr(word + token.begin, token.end - token.begin);
      const int32_t first = starts_before(word + token.begin) - ((bytes[0] & 0xC0) == 0x80 ? 1 : 0);
      const int32_t last = starts_before(word + token.end);
      out->offsets.push_back(
          {words.first_code_point + std::max(first, 0), words.first_code_point + std::max(last, 1)});
      if (!spec_.offset_trimming) continue;
      const auto leading = std::min(bytes.find_first_not_of(' '), bytes.size());
      // If the token consists of spaces only, find_last_not_of() returns npos, which counts as -1 in this subtraction. `trailing` is then
      // the number of these spaces.
      const size_t trailing = bytes.size() - 1 - bytes.find_last_not_of(' ');
      if (leading > 0 || trailing > 0)
        trim_span(static_cast<int32_t>(leading), static_cast<int32_t>(trailing), scratch, out);
    }
    word = word_end;
  }
}

// Encodes a part of the text that contains none of the added tokens that are matched in the raw text. Returns the number of its
// code points.
int32_t TokenizerImpl::encode_plain(std::string_view text, int32_t first_code_point, Offsets offsets,
                                    ScratchImpl& scratch, Sequence* out) const {
  if (spec_.byte_level && model_.is_byte_level() && (!spec_.byte_level->composes || surely_composed(text))) {
    return encode_byte_level(text, first_code_point, offsets, scratch, out);
  }
  if (spec_.pipeline) return encode_with_pipeline(text, first_code_point, offsets, scratch, out);
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
    const bool identity = normalized.source.empty();
    const auto source = [&](size_t byte) {
      return identity ? first_code_point + static_cast<int32_t>(byte) : normalized.source[byte];
    };
    append_added(part.id, {source(part.begin), source(part.end - 1) + 1},
                 std::string_view(normalized.bytes).substr(part.begin, part.end - part.begin), offsets,
                 scratch, out);
  }
  return num_code_points;
}

// Encodes a whole text, including its added tokens, and appends the tokens to `out`.
void TokenizerImpl::encode_text(std::string_view text, Offsets offsets, ScratchImpl& scratch,
                                Sequence* out) const {
  scratch.pipeline.first_token = out->ids.size();
  if (text.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max()) / 3) {
    throw_error(ErrorCode::kBadData,
                "a text of {} bytes is too long to encode at once (limit {}); cut it into parts", text.size(),
                std::numeric_limits<int32_t>::max() / 3);
  }
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
  // Computes the code point index of a byte position from the previous position. It may also have to count backwards, because two
  // parts can overlap in white space (AddedTokenMatcher::split).
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
    append_added(part.id, {begin, position(part.end)}, text.substr(part.begin, part.end - part.begin),
                 offsets, scratch, out);
  }
}

namespace {

// The tokens of a sequence that remain after truncation: `count` tokens from index `begin` on.
struct Kept {
  const Sequence* sequence;
  size_t begin;
  size_t count;
};

Kept keep(const Sequence& sequence, int64_t count, TextSide side) {
  const size_t kept = narrow<size_t>(count);
  return {&sequence, side == TextSide::kLeft ? sequence.ids.size() - kept : 0, kept};
}

// Reserves space for `more` elements, at least doubling the capacity, so that many small appends take linear time in total.
template <typename T>
void make_room(std::vector<T>* vector, size_t more) {
  const size_t needed = vector->size() + more;
  if (needed > vector->capacity()) vector->reserve(std::max(needed, 2 * vector->capacity()));
}

// Fills word_starts for the tokens that truncation kept: the index of the word for the first kept token of each word, and kNoWord for its
// other tokens.
void append_word_starts(const Kept& kept, Encoding* out) {
  int32_t previous = Encoding::kNoWord;
  for (size_t i = kept.begin; i < kept.begin + kept.count; ++i) {
    const int32_t word = kept.sequence->words[i];
    out->word_starts.push_back(word == previous ? Encoding::kNoWord : word);
    previous = word;
  }
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
  scratch.first.clear();
  scratch.second.clear();
  encode_text(text.first, options.offsets, scratch, &scratch.first);
  if (!text.second) return append_sequences(TextCount::kOne, options, scratch, out);
  encode_text(*text.second, options.offsets, scratch, &scratch.second);
  return append_sequences(TextCount::kPair, options, scratch, out);
}

AppendedTokens TokenizerImpl::append_words(std::span<const std::string_view> words,
                                           const EncodeOptions& options, ScratchImpl& scratch,
                                           Encoding* out) const {
  scratch.first.clear();
  scratch.second.clear();
  for (size_t i = 0; i < words.size(); ++i) {
    encode_text(words[i], options.offsets, scratch, &scratch.first);
    scratch.first.words.resize(scratch.first.ids.size(), narrow<int32_t>(i));
  }
  const size_t before = out->ids.size();
  const AppendedTokens appended = append_sequences(TextCount::kOne, options, scratch, out);
  // append_sequences() adds entries to word_starts only if a word resulted in a token. If none did, the entries for the special tokens are
  // added here.
  out->word_starts.resize(before + narrow<size_t>(appended.num_tokens), Encoding::kNoWord);
  return appended;
}

// Truncates the one or two sequences in `scratch`, and appends them to `out` together with the special tokens, in the order of
// the tokenizer's template.
AppendedTokens TokenizerImpl::append_sequences(TextCount count, const EncodeOptions& options,
                                               const ScratchImpl& scratch, Encoding* out) const {
  const bool pair = count == TextCount::kPair;
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

  const bool has_words = !scratch.first.words.empty();
  const size_t before = out->ids.size();
  for (const TemplatePiece& piece : pair ? spec_.pair : spec_.single) {
    if (piece.kind == TemplatePiece::Kind::kFirst) {
      append_kept(first, piece.type_id, options.offsets, out);
      if (has_words) append_word_starts(first, out);
    } else if (piece.kind == TemplatePiece::Kind::kSecond) {
      append_kept(second, piece.type_id, options.offsets, out);
    } else if (options.special_tokens == SpecialTokens::kAdd) {
      out->ids.insert(out->ids.end(), piece.special_ids.begin(), piece.special_ids.end());
      out->type_ids.insert(out->type_ids.end(), piece.special_ids.size(), piece.type_id);
      if (options.offsets == Offsets::kRecord) {
        out->offsets.insert(out->offsets.end(), piece.special_ids.size(), TextSpan{});
      }
      if (has_words) {
        out->word_starts.insert(out->word_starts.end(), piece.special_ids.size(), Encoding::kNoWord);
      }
    }
  }
  const int64_t num_cut = num_first - counts.first + num_second - counts.second;
  out->num_cut += num_cut;
  return {narrow<int64_t>(out->ids.size() - before), num_cut};
}

KeptTokens truncate(int64_t first, int64_t second, int64_t max_tokens, Truncation strategy) {
  if (max_tokens == 0) return {0, 0};
  const int64_t excess = first + second - max_tokens;
  if (excess <= 0) return {first, second};
  if (strategy != Truncation::kLongestFirst) {
    const bool cut_first = strategy == Truncation::kOnlyFirst;
    const int64_t available = cut_first ? first : second;
    if (available <= excess) {
      throw_error(
          ErrorCode::kUsage,
          "truncation {} has to remove {} tokens of a text that has only {}; use longest_first or a larger "
          "maximum length",
          cut_first ? "only_first" : "only_second", excess, available);
    }
    return cut_first ? KeptTokens{first - excess, second} : KeptTokens{first, second - excess};
  }
  int64_t shorter = std::min(first, second);
  int64_t longer = std::max(shorter, max_tokens - shorter);
  if (shorter + longer > max_tokens) {
    shorter = max_tokens / 2;
    longer = max_tokens - shorter;
  }
  return first > second ? KeptTokens{longer, shorter} : KeptTokens{shorter, longer};
}

}  // namespace plimsoll::text
