// Encodes texts: added tokens, normalization, words, truncation, template.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "io/text/tokenizer_impl.h"
#include "io/text/truncation.h"
#include "io/text/unicode.h"

namespace plimsoll::text {

// Returns the end of the word that starts at `begin`, which is not white space.
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

// Encodes text without tokens of the first pass. Returns its number of code points.
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

// Appends the tokens of a text to `out`.
void TokenizerImpl::encode_text(std::string_view text, Offsets offsets, ScratchImpl& scratch,
                                Sequence* out) const {
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
  // Parts can overlap by white space (AddedTokenMatcher::split), so the position may have to move back.
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

// The tokens [begin, begin + count) of a sequence that remain after truncation.
struct Kept {
  const Sequence* sequence;
  size_t begin;
  size_t count;
};

Kept keep(const Sequence& sequence, int64_t count, TextSide side) {
  const size_t kept = narrow<size_t>(count);
  return {&sequence, side == TextSide::kLeft ? sequence.ids.size() - kept : 0, kept};
}

// Reserves space for `more` elements. The capacity doubles, so that many small appends take linear time.
template <typename T>
void make_room(std::vector<T>* vector, size_t more) {
  const size_t needed = vector->size() + more;
  if (needed > vector->capacity()) vector->reserve(std::max(needed, 2 * vector->capacity()));
}

// Appends for each token the word that starts with it. A word starts where it differs from that of the token
// before.
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
  // A text whose words give no token has no entry in `words`.
  out->word_starts.resize(before + narrow<size_t>(appended.num_tokens), Encoding::kNoWord);
  return appended;
}

// Truncates the sequences in `scratch` and appends them and the special tokens in the order of the template.
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

}  // namespace plimsoll::text
