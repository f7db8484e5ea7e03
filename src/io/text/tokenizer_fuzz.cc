// libFuzzer target: the readers of the tokenizer's files, and encoding with every tokenizer that they accept.
//
// The first byte selects the file and the options; a 0x1E byte separates the file from the text. One choice puts the
// input into a tokenizer.json as its "normalizer", "pre_tokenizer" and "post_processor", another makes it a regular
// expression. For any input, the result must be an Error{kBadData} or a tokenizer with these properties: equal lengths; offsets
// inside the text and in order within a token; at most max_length tokens. The slow implementation of the
// normalizer is compared elsewhere.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "io/text/tokenizer.h"
#include "io/text/tokenizer_spec.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

constexpr const char* kVocab =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nab\n##ab\nthe\n\xC3\xA9\n##\xC3\xA9\n\xE4\xB8\xAD\n.\n";

// The beginning of a tokenizer.json, to which the input adds the steps.
constexpr const char* kModel =
    R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 20, "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##a": 4, "ab": 5, "the": 6,
        "\u0120": 7, "##\u2581": 8, "\u00e9": 9}}, )";

std::string valid_utf8(const std::string& text) {
  std::string valid;
  replace_invalid_utf8(text, &valid);
  return valid;
}

TokenizerFiles files_of(uint8_t choice, std::string file) {
  TokenizerFiles files;
  files.folder = "fuzz";
  files.vocab_txt = kVocab;
  switch (choice % 8) {
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
    case 7:
      files.tokenizer_json = std::string(kModel) +
                             R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated", )" +
                             R"("pattern": {"Regex": )" + nlohmann::json(valid_utf8(file)).dump() + "}}}";
      break;
    default:
      break;  // the fixed vocabulary; the complete input is text
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

void fuzz(const uint8_t* data, size_t size) {
  if (size == 0) return;
  const uint8_t choice = data[0];
  const std::string input(data + 1, data + size);
  const size_t cut = input.find('\x1E');
  const std::string file = input.substr(0, cut);
  const std::string text = choice % 8 == 5 ? input : cut == std::string::npos ? input : input.substr(cut + 1);
  try {
    const Tokenizer tokenizer(parse_tokenizer_files(files_of(choice, file)));
    check_encoding(tokenizer.encode(text), text, {});
    // Templates in the input may repeat a text, so a limit holds only for those that do not.
    if (choice % 8 == 0 || choice % 8 >= 6) return;
    const EncodeOptions options{.max_length = choice / 8 % 16,
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
