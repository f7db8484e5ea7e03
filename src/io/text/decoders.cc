#include "io/text/decoders.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/check.h"
#include "io/text/byte_level.h"
#include "io/text/pattern.h"
#include "io/text/pipeline.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

struct Replacement {
  std::string_view from, to;
};

constexpr std::array<Replacement, 10> kCleanUp = {{{" .", "."},
                                                   {" ?", "?"},
                                                   {" !", "!"},
                                                   {" ,", ","},
                                                   {" ' ", "'"},
                                                   {" n't", "n't"},
                                                   {" 'm", "'m"},
                                                   {" 's", "'s"},
                                                   {" 've", "'ve"},
                                                   {" 're", "'re"}}};
// A replacement in addition to those of kCleanUp. The decoders of Hugging Face's tokenizers make it, but clean_up_tokenization_spaces of
// transformers does not. It is made directly before element kDoNotPosition of kCleanUp, the replacement of " 's".
constexpr Replacement kDoNot = {" do not", " don't"};
constexpr size_t kDoNotPosition = 7;

void replace_all(std::string_view from, std::string_view to, std::string* text) {
  if (from.empty()) return;
  std::string out;
  size_t done = 0;
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, done)) {
    out.append(*text, done, at - done);
    out += to;
    done = at + from.size();
  }
  if (done == 0) return;
  out.append(*text, done);
  *text = std::move(out);
}

void clean_up(std::string* text) {
  for (size_t i = 0; i < kCleanUp.size(); ++i) {
    if (i == kDoNotPosition) replace_all(kDoNot.from, kDoNot.to, text);
    replace_all(kCleanUp[i].from, kCleanUp[i].to, text);
  }
}

class ByteLevelDecoder : public DecoderStep {
 public:
  void decode(Texts* texts) const override {
    std::string bytes, token;
    for (const std::string& text : *texts) {
      token.clear();
      bool represents_bytes = true;
      for (size_t i = 0; i < text.size() && represents_bytes;) {
        const DecodedCodePoint c = decode_utf8(std::string_view(text).substr(i));
        const auto byte = byte_of_character(c.value);
        represents_bytes = byte.has_value();
        token.push_back(static_cast<char>(byte.value_or(0)));
        i += c.num_bytes;
      }
      bytes += represents_bytes ? token : text;
    }
    std::string valid;
    replace_invalid_utf8(bytes, &valid);
    texts->clear();
    texts->push_back(std::move(valid));
  }
};

class WordPieceDecoder : public DecoderStep {
 public:
  WordPieceDecoder(std::string prefix, bool cleans_up) : prefix_(std::move(prefix)), cleans_up_(cleans_up) {}
  void decode(Texts* texts) const override {
    for (size_t i = 0; i < texts->size(); ++i) {
      std::string& text = (*texts)[i];
      if (i > 0) {
        if (text.starts_with(prefix_)) {
          text.erase(0, prefix_.size());
        } else {
          text.insert(0, 1, ' ');
        }
      }
      if (cleans_up_) clean_up(&text);
    }
  }

 private:
  std::string prefix_;
  bool cleans_up_;
};

// Replaces the character that marks the beginning of a word (SentencePiece's U+2581) by a space. In the text of the first token the
// character is removed instead if the pre-tokenizer inserts a space at the beginning of a text.
class MetaspaceDecoder : public DecoderStep {
 public:
  MetaspaceDecoder(std::string mark, bool adds_space) : mark_(std::move(mark)), adds_space_(adds_space) {}
  void decode(Texts* texts) const override {
    for (size_t i = 0; i < texts->size(); ++i)
      replace_all(mark_, i == 0 && adds_space_ ? "" : " ", &(*texts)[i]);
  }

 private:
  std::string mark_;
  bool adds_space_;
};

class BpeDecoder : public DecoderStep {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void decode(Texts* texts) const override {
    for (size_t i = 0; i < texts->size(); ++i)
      replace_all(suffix_, i + 1 == texts->size() ? "" : " ", &(*texts)[i]);
  }

 private:
  std::string suffix_;
};

// Joins consecutive byte tokens such as <0x41> to a text. If the bytes are not valid UTF-8, each becomes one replacement
// character.
class ByteFallbackDecoder : public DecoderStep {
 public:
  void decode(Texts* texts) const override {
    Texts out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (is_valid_utf8(bytes)) {
        out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& text : *texts) {
      if (const auto byte = byte_of(text)) {
        bytes.push_back(*byte);
      } else {
        flush();
        out.push_back(std::move(text));
      }
    }
    flush();
    *texts = std::move(out);
  }

 private:
  static std::optional<char> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    int value = 0;
    for (const char c : token.substr(3, 2)) {
      const bool is_digit = c >= '0' && c <= '9';
      const char letter = static_cast<char>(c | 0x20);
      if (!is_digit && !(letter >= 'a' && letter <= 'f')) return std::nullopt;
      value = value * 16 + (is_digit ? c - '0' : letter - 'a' + 10);
    }
    return static_cast<char>(value);
  }
};

class FuseDecoder : public DecoderStep {
 public:
  void decode(Texts* texts) const override {
    std::string all;
    for (const std::string& text : *texts) all += text;
    texts->clear();
    texts->push_back(std::move(all));
  }
};

// Removes up to `start` copies of a character from the beginning of each token's text, and up to `stop` copies from its end.
class StripDecoder : public DecoderStep {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void decode(Texts* texts) const override {
    for (std::string& text : *texts) {
      std::string_view rest = text;
      for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      text = std::string(rest);
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class ReplaceDecoder : public DecoderStep {
 public:
  ReplaceDecoder(Pattern pattern, std::u32string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void decode(Texts* texts) const override {
    AlignedText aligned;
    for (std::string& text : *texts) {
      aligned.assign(text, 0);
      replace_matches(pattern_, content_, &aligned);
      text.clear();
      for (const char32_t c : aligned.chars) append_utf8(c, &text);
    }
  }

 private:
  Pattern pattern_;
  std::u32string content_;
};

// Decodes the output of connectionist temporal classification: of equal consecutive tokens only one is kept, and blanks are
// removed.
class CtcDecoder : public DecoderStep {
 public:
  CtcDecoder(std::string blank, std::string delimiter, bool cleans_up)
      : blank_(std::move(blank)), delimiter_(std::move(delimiter)), cleans_up_(cleans_up) {}
  void decode(Texts* texts) const override {
    texts->erase(std::unique(texts->begin(), texts->end()), texts->end());
    for (std::string& text : *texts) {
      replace_all(blank_, "", &text);
      if (!cleans_up_) continue;
      clean_up(&text);
      replace_all(delimiter_, " ", &text);
    }
    std::erase_if(*texts, [](const std::string& text) { return text.empty(); });
  }

 private:
  std::string blank_, delimiter_;
  bool cleans_up_;
};

// Reads a field that must be a count, an integer that is not negative.
int64_t required_count(const JsonFields& fields, const char* key) {
  const auto value = fields.integer(key);
  if (!value || *value < 0) {
    throw_error(ErrorCode::kBadData, "{} is {} but should be an integer of at least 0; correct the file",
                fields.name_of(key), value ? std::to_string(*value) : "missing");
  }
  return *value;
}

// Reads a field that must be a text of exactly one character.
std::string required_character(const JsonFields& fields, const char* key) {
  std::string text = fields.required_text(key);
  if (to_code_points(text).size() != 1) {
    throw_error(ErrorCode::kBadData, "{} is '{}' but should be one character; correct the file",
                fields.name_of(key), text);
  }
  return text;
}

std::unique_ptr<DecoderStep> read_step(const JsonFields& fields, const std::string& type) {
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "WordPiece") {
    return std::make_unique<WordPieceDecoder>(fields.required_text("prefix"),
                                              fields.flag_or("cleanup", true));
  }
  if (type == "Metaspace") {
    // Older files contain the flag add_prefix_space instead of the field prepend_scheme.
    const bool adds_space = fields.text("prepend_scheme").value_or("always") != "never" &&
                            fields.flag_or("add_prefix_space", true);
    return std::make_unique<MetaspaceDecoder>(required_character(fields, "replacement"), adds_space);
  }
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(fields.required_text("suffix"));
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Strip") {
    std::string content = required_character(fields, "content");
    const int64_t start = required_count(fields, "start");
    return std::make_unique<StripDecoder>(std::move(content), start, required_count(fields, "stop"));
  }
  if (type == "Replace") {
    Pattern pattern = read_pattern(fields);
    return std::make_unique<ReplaceDecoder>(std::move(pattern),
                                            to_code_points(fields.required_text("content")));
  }
  if (type == "CTC") {
    std::string blank = fields.required_text("pad_token");
    return std::make_unique<CtcDecoder>(std::move(blank), fields.required_text("word_delimiter_token"),
                                        fields.flag_or("cleanup", true));
  }
  throw_error(ErrorCode::kBadData,
              "{} is '{}', a decoder that Plimsoll does not have; use a tokenizer without it",
              fields.name_of("type"), type);
}

void read_steps(const JsonFields& fields, Decoder* decoder) {
  const std::string type = fields.text("type").value_or("(none)");
  if (type != "Sequence") {
    decoder->steps.push_back(read_step(fields, type));
    return;
  }
  for (const JsonFields& step : fields.required_objects("decoders")) read_steps(step, decoder);
}

}  // namespace

std::string Decoder::decode(Texts texts) const {
  for (const auto& step : steps) step->decode(&texts);
  std::string result;
  for (const std::string& text : texts) result += text;
  return result;
}

void read_decoder(const JsonFields& fields, Decoder* decoder) {
  describe(fields);  // throws if decoders are nested too deeply
  read_steps(fields, decoder);
}

std::string clean_up_spaces(std::string text) {
  for (const Replacement& replacement : kCleanUp) replace_all(replacement.from, replacement.to, &text);
  return text;
}

}  // namespace plimsoll::text
