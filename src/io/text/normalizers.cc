// Implements the normalizers of tokenizer.json, which change a text before it is split.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "io/text/bert_normalizer.h"
#include "io/text/byte_level.h"
#include "io/text/pattern.h"
#include "io/text/pipeline.h"
#include "io/text/unicode.h"
#include "io/text/unicode_properties.h"

namespace plimsoll::text {
namespace {

class BertSteps : public Normalizer {
 public:
  explicit BertSteps(const NormalizerSpec& spec) : normalizer_(spec) {}
  void normalize(AlignedText* text) const override {
    std::string bytes;
    for (const char32_t c : text->chars) append_utf8(c, &bytes);
    NormalizedText normalized;
    normalizer_.normalize(bytes, 0, &normalized);
    AlignedText out;
    out.begin = text->begin;
    for (size_t i = 0; i < normalized.bytes.size();) {
      const DecodedCodePoint c = decode_valid_utf8(normalized.bytes.data() + i);
      const size_t source = normalized.source.empty() ? i : static_cast<size_t>(normalized.source[i]);
      out.push(c.value, text->spans[source]);
      i += c.num_bytes;
    }
    *text = std::move(out);
  }

 private:
  BertNormalizer normalizer_;
};

class Form : public Normalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  void normalize(AlignedText* text) const override { apply_normal_form(form_, text); }

 private:
  NormalForm form_;
};

class Lowercase : public Normalizer {
 public:
  void normalize(AlignedText* text) const override {
    std::vector<ChangedCodePoint> changed;
    std::u32string lower;
    for (const char32_t c : text->chars) {
      lower.clear();
      UnicodeTable::get().to_lower(c, &lower);
      for (size_t i = 0; i < lower.size(); ++i) changed.push_back({lower[i], i > 0 ? 1 : 0});
    }
    change_text(changed, 0, text);
  }
};

class StripAccents : public Normalizer {
 public:
  void normalize(AlignedText* text) const override {
    const UnicodeProperties& properties = UnicodeProperties::get();
    filter_text([&](char32_t c) { return (properties.flags(c) & kCombiningMark) == 0; }, text);
  }
};

// Removes white space at the beginning of the text, at its end, or both.
class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void normalize(AlignedText* text) const override {
    const auto is_space = [](char32_t c) { return (UnicodeTable::get().flags(c) & kWhitespace) != 0; };
    size_t begin = 0, end = text->chars.size();
    while (left_ && begin < end && is_space(text->chars[begin])) ++begin;
    while (right_ && end > begin && is_space(text->chars[end - 1])) --end;
    text->chars = text->chars.substr(begin, end - begin);
    text->spans.erase(text->spans.begin() + static_cast<std::ptrdiff_t>(end), text->spans.end());
    text->spans.erase(text->spans.begin(), text->spans.begin() + static_cast<std::ptrdiff_t>(begin));
  }

 private:
  bool left_, right_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::u32string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void normalize(AlignedText* text) const override { replace_matches(pattern_, content_, text); }

 private:
  Pattern pattern_;
  std::u32string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::u32string prefix) : prefix_(std::move(prefix)) {}
  void normalize(AlignedText* text) const override { prepend_text(prefix_, text); }

 private:
  std::u32string prefix_;
};

// Implements the normalizer Nmt, whose rules are those of the NMT toolkit: control characters are dropped, and all kinds of white
// space become plain spaces.
class Nmt : public Normalizer {
 public:
  void normalize(AlignedText* text) const override {
    filter_text(
        [](char32_t c) {
          return !((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
                   c == 0x8F || c == 0x9F);
        },
        text);
    constexpr char32_t kSpaces[] = {0x09,   0x0A,   0x0C,   0x0D,   0x1680, 0x200B, 0x200C, 0x200D,
                                    0x200E, 0x200F, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD};
    for (char32_t& c : text->chars) {
      if (std::find(std::begin(kSpaces), std::end(kSpaces), c) != std::end(kSpaces)) c = U' ';
    }
  }
};

// Replaces each byte by the printable character that represents it in byte-level BPE.
class ByteLevelNormalizer : public Normalizer {
 public:
  void normalize(AlignedText* text) const override {
    AlignedText out;
    out.begin = text->begin;
    for (size_t i = 0; i < text->chars.size(); ++i)
      append_byte_characters(text->chars[i], text->spans[i], &out);
    *text = std::move(out);
  }
};

bool required_flag(const JsonFields& fields, const char* key) {
  const auto value = fields.flag(key);
  if (!value) {
    throw_error(ErrorCode::kBadData, "{} is missing; copy the file again from its source",
                fields.name_of(key));
  }
  return *value;
}

std::unique_ptr<Normalizer> read_normalizer(const JsonFields& fields, const std::string& type) {
  static const std::map<std::string, NormalForm> kForms = {{"NFD", NormalForm::kNfd},
                                                           {"NFKD", NormalForm::kNfkd},
                                                           {"NFC", NormalForm::kNfc},
                                                           {"NFKC", NormalForm::kNfkc}};
  if (const auto form = kForms.find(type); form != kForms.end()) return std::make_unique<Form>(form->second);
  if (type == "BertNormalizer") return make_bert_normalizer(read_bert_normalizer(fields));
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Strip") {
    return std::make_unique<Strip>(required_flag(fields, "strip_left"), required_flag(fields, "strip_right"));
  }
  if (type == "Replace") {
    return std::make_unique<Replace>(read_pattern(fields), to_code_points(fields.required_text("content")));
  }
  if (type == "Prepend") return std::make_unique<Prepend>(to_code_points(fields.required_text("prepend")));
  if (type == "Precompiled") return read_precompiled(fields);
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  throw_error(ErrorCode::kBadData,
              "{} is '{}', a normalizer that Plimsoll does not have; use a tokenizer without it",
              fields.name_of("type"), type);
}

// The maximum nesting of a normalizer or pre-tokenizer. Real pipelines have much less, and unlimited recursion would exhaust the
// stack.
constexpr int kMaxNesting = 32;

void append_description(const Json& value, const JsonFields& fields, int depth, std::string* out) {
  if (depth > kMaxNesting) {
    throw_error(ErrorCode::kBadData, "{} is nested more than {} times; copy the file again from its source",
                fields.name_of("type"), kMaxNesting);
  }
  if (value.is_object()) {
    *out += '{';
    for (const auto& [key, member] : value.get_ref<const Json::object_t&>()) {
      *out += Json(key).dump() + ':';
      append_description(member, fields, depth + 1, out);
      *out += ',';
    }
    *out += '}';
  } else if (value.is_array()) {
    *out += '[';
    for (const Json& member : value) {
      append_description(member, fields, depth + 1, out);
      *out += ',';
    }
    *out += ']';
  } else {
    *out += value.dump();
  }
}

}  // namespace

std::string describe(const JsonFields& fields) {
  std::string result;
  append_description(fields.json(), fields, 0, &result);
  return result;
}

NormalizerSpec read_bert_normalizer(const JsonFields& fields) {
  NormalizerSpec spec;
  spec.clean_text = required_flag(fields, "clean_text");
  spec.handle_chinese_chars = required_flag(fields, "handle_chinese_chars");
  spec.strip_accents = fields.flag("strip_accents");
  spec.lowercase = required_flag(fields, "lowercase");
  return spec;
}

std::unique_ptr<Normalizer> make_bert_normalizer(const NormalizerSpec& spec) {
  return std::make_unique<BertSteps>(spec);
}

void read_normalizers(const JsonFields& fields, std::vector<std::unique_ptr<Normalizer>>* steps) {
  const std::string type = fields.text("type").value_or("(none)");
  if (type != "Sequence") {
    steps->push_back(read_normalizer(fields, type));
    return;
  }
  for (const JsonFields& step : fields.required_objects("normalizers")) read_normalizers(step, steps);
}

}  // namespace plimsoll::text
