// libFuzzer target for the readers of tokenizer files, and for encoding with every tokenizer that these readers accept.
//
// The first byte of the input selects the file and the options. A 0x1E byte separates the content of the file from the text to
// encode. The content is a complete file, or the part of a tokenizer.json after a fixed model, or a regular expression, or the
// merges of a BPE model. Every input must cause an Error{kBadData} or give a tokenizer with these properties: the vectors of an
// encoding have equal lengths; the offsets are inside the text, and the begin of a token is not after its end; there are at most
// max_length tokens; decoded text is valid UTF-8, as a whole and in each piece of a stream. The two implementations of BertNormalizer are
// compared in bert_normalizer_test.cc.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "io/text/byte_level.h"
#include "io/text/tokenizer.h"
#include "io/text/tokenizer_spec.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

constexpr const char* kVocab =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nab\n##ab\nthe\n\xC3\xA9\n##\xC3\xA9\n\xE4\xB8\xAD\n.\n";

// The beginning of a tokenizer.json with a WordPiece model. The input continues the file with the steps of the pipeline.
constexpr const char* kModel =
    R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 20, "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##a": 4, "ab": 5, "the": 6,
        "\u0120": 7, "##\u2581": 8, "\u00e9": 9}}, )";

// The beginnings of tokenizer.json files with a BPE model with byte fallback, and with a Unigram model. The input continues the
// file.
constexpr const char* kBpeModel =
    R"({"model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3,
        "\u2581": 4, "\u2581a": 5, "aab": 6, "<0xC3>": 7, "<0xA9>": 8, "\u0120": 9, "\u0120a": 10, "aa": 11},
        "merges": ["a b", "\u2581 a", "a ab", "\u0120 a", "a a"]}, )";
constexpr const char* kUnigramModel =
    R"({"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["<unk>", 0], ["a", -2.5], ["ab", -3], ["b", -2.5],
        ["\u2581", -1.25], ["\u2581a", -2], ["<0xC3>", 0], ["<0xA9>", 0], ["aab", -6], ["a", -7]]}, )";

// Returns a tokenizer.json with a byte-level BPE model, which has a token for every byte and three merges.
std::string byte_level_json(const std::string& pattern) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    append_utf8(byte_character(static_cast<uint8_t>(byte)), &character);
    vocab[character] = byte;
  }
  vocab["th"] = 256;
  vocab["the"] = 257;
  vocab["\u0120the"] = 258;
  const nlohmann::json split = {
      {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", pattern}}}};
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return nlohmann::json(
             {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"t h", "th e", "\u0120 the"}}}},
              {"normalizer", {{"type", "NFC"}}},
              {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
              {"decoder", byte_level},
              {"post_processor", byte_level}})
      .dump();
}

std::string valid_utf8(const std::string& text) {
  std::string valid;
  replace_invalid_utf8(text, &valid);
  return valid;
}

constexpr uint8_t kNumChoices = 12;

TokenizerFiles files_of(uint8_t choice, std::string file) {
  TokenizerFiles files;
  files.folder = "fuzz";
  files.vocab_txt = kVocab;
  switch (choice % kNumChoices) {
    case 0:
      files.tokenizer_json = std::move(file);
      break;
    case 1:
      files.vocab_txt = "[UNK]\n[CLS]\n[SEP]\n" + file;
      break;
    case 2:
      files.tokenizer_config = std::move(file);
      break;
    case 3:
      files.special_tokens_map = std::move(file);
      break;
    case 4:
      files.added_tokens = std::move(file);
      break;
    case 6:
      files.tokenizer_json = std::string(kModel) + file + "}";
      break;
    case 8:
      files.tokenizer_json = std::string(kBpeModel) + file + "}";
      break;
    case 9:
      files.tokenizer_json = std::string(kUnigramModel) + file + "}";
      break;
    case 10:
      files.vocab_json = R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3, "abb": 4})";
      files.merges_txt = std::move(file);
      files.model_config = R"({"model_type": "gpt2"})";
      break;
    case 11:
      files.tokenizer_json = byte_level_json(
          file.empty() ? std::string(word_pattern_regex(WordPattern::kThreeDigits)) : valid_utf8(file));
      break;
    case 7:
      files.tokenizer_json = std::string(kModel) +
                             R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated", )" +
                             R"("pattern": {"Regex": )" + nlohmann::json(valid_utf8(file)).dump() + "}}}";
      break;
    default:
      break;  // the files are fixed, and the input is only the text to encode
  }
  return files;
}

void check_encoding(const Encoding& encoding, std::string_view text, const EncodeOptions& options) {
  PLIMSOLL_CHECK(encoding.ids.size() == encoding.type_ids.size() &&
                 encoding.ids.size() == encoding.offsets.size());
  std::string valid;
  replace_invalid_utf8(text, &valid);
  const int64_t length = count_code_points(valid);
  for (const TextSpan& span : encoding.offsets) {
    PLIMSOLL_CHECK(0 <= span.begin && span.begin <= span.end && span.end <= length, "offset {} {} of {}",
                   span.begin, span.end, length);
  }
  PLIMSOLL_CHECK(!options.max_length || static_cast<int64_t>(encoding.ids.size()) <= *options.max_length);
}

void check_decoding(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  PLIMSOLL_CHECK(is_valid_utf8(tokenizer.decode(ids)));
  TokenStream stream(tokenizer);
  const size_t count = std::min<size_t>(ids.size(), 200);
  for (size_t i = 0; i < count; ++i) PLIMSOLL_CHECK(is_valid_utf8(stream.push(ids[i])));
  PLIMSOLL_CHECK(is_valid_utf8(stream.finish()));
}

void fuzz(const uint8_t* data, size_t size) {
  if (size == 0) return;
  const uint8_t choice = data[0];
  const std::string input(data + 1, data + size);
  const size_t cut = input.find('\x1E');
  const std::string file = input.substr(0, cut);
  const std::string text = choice % kNumChoices == 5  ? input
                           : cut == std::string::npos ? input
                                                      : input.substr(cut + 1);
  try {
    const Tokenizer tokenizer(parse_tokenizer_files(files_of(choice, file)));
    const Encoding encoding = tokenizer.encode(text);
    check_encoding(encoding, text, {});
    check_decoding(tokenizer, encoding.ids);
    // If the input may contain a template for special tokens, the limit max_length is not tested: a template can contain the text several
    // times, so that the result exceeds the limit.
    if (choice % kNumChoices == 0 || (choice % kNumChoices >= 6 && choice % kNumChoices <= 9)) return;
    const EncodeOptions options{.max_length = choice / kNumChoices % 16,
                                .truncation_side = choice & 0x80 ? TextSide::kLeft : TextSide::kRight};
    check_encoding(tokenizer.encode_pair(text, text, options), text, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadData && error.code() != ErrorCode::kUsage) std::abort();
  }
}

}  // namespace
}  // namespace plimsoll::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  plimsoll::text::fuzz(data, size);
  return 0;
}
