#include "io/text/pipeline.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "io/text/pattern.h"
#include "io/text/unicode.h"
#include "io/text/unicode_properties.h"

namespace plimsoll::text {
namespace {

// A grapheme cluster (what a reader sees as one character) of up to this number of bytes is looked up in the table as a whole. A
// longer cluster is looked up code point by code point. Hugging Face's tokenizers do the same.
constexpr size_t kMaxClusterBytes = 5;

// Decodes base64 that is padded with '='. Returns nothing if the text is malformed.
std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t value = 0;
    size_t num_padding = 0;
    for (size_t j = 0; j < 4; ++j) {
      const char c = text[i + j];
      const size_t digit = kAlphabet.find(c);
      if (c == '=' && i + 4 == text.size() && j >= 2) {
        ++num_padding;
      } else if (digit == std::string_view::npos || num_padding > 0) {
        return std::nullopt;
      }
      value = value << 6 | (c == '=' ? 0 : static_cast<uint32_t>(digit));
    }
    for (size_t j = 0; j < 3 - num_padding; ++j) out.push_back(static_cast<char>(value >> (16 - 8 * j)));
  }
  return out;
}

class Precompiled : public Normalizer {
 public:
  Precompiled(std::vector<uint32_t> units, std::string values)
      : units_(std::move(units)), values_(std::move(values)) {}

  void normalize(AlignedText* text) const override {
    std::vector<ChangedCodePoint> changed;
    bool modified = false;
    std::string bytes;
    const auto map_part = [&](size_t begin, size_t end) {
      bytes.clear();
      for (size_t i = begin; i < end; ++i) append_utf8(text->chars[i], &bytes);
      if (end - begin > 1 && bytes.size() > kMaxClusterBytes) return false;
      const auto value = find(bytes);
      if (!value) return false;
      replace(end - begin, to_code_points(*value), &changed);
      modified = true;
      return true;
    };
    for (size_t begin = 0; begin < text->chars.size();) {
      const size_t end = grapheme_end(text->chars, begin);
      if (!map_part(begin, end)) {
        for (size_t i = begin; i < end; ++i) {
          const bool mapped = end - begin > 1 && map_part(i, i + 1);
          if (!mapped) changed.push_back({text->chars[i], 0});
        }
      }
      begin = end;
    }
    if (modified) change_text(changed, 0, text);
  }

 private:
  // Finds the shortest prefix of `key` that the table contains, and returns its replacement, or nothing.
  std::optional<std::string_view> find(std::string_view key) const {
    // A node is a 32-bit number in the format of the library Darts-clone: a label or a value, a flag for leaves, and the offset
    // of the children.
    const auto offset = [](uint32_t unit) { return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); };
    size_t node = offset(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      node ^= byte;
      if (node >= units_.size()) return std::nullopt;
      const uint32_t unit = units_[node];
      if ((unit & ((1u << 31) | 0xFF)) != byte) return std::nullopt;
      node ^= offset(unit);
      if ((unit & (1u << 8)) == 0) continue;
      if (node >= units_.size()) return std::nullopt;
      const size_t begin = units_[node] & ((1u << 31) - 1);
      if (begin >= values_.size()) return std::string_view();
      const size_t end = std::min(values_.find('\0', begin), values_.size());
      return std::string_view(values_).substr(begin, end - begin);
    }
    return std::nullopt;
  }

  // Records that `count` code points are replaced by `value`. If `value` is longer, its last code points are marked as
  // insertions. If `value` is shorter, its last code point is marked so that it also removes the remaining old code points.
  static void replace(size_t count, std::u32string_view value, std::vector<ChangedCodePoint>* changed) {
    for (size_t i = 0; i < value.size(); ++i) changed->push_back({value[i], i >= count ? 1 : 0});
    if (value.size() < count && !changed->empty()) {
      changed->back().change -= static_cast<int32_t>(count - value.size());
    }
  }

  std::vector<uint32_t> units_;
  std::string values_;
};

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(const JsonFields& fields) {
  const std::string name = fields.name_of("precompiled_charsmap");
  const auto text = fields.text("precompiled_charsmap");
  const auto data = text ? decode_base64(*text) : std::nullopt;
  uint32_t num_bytes = 0;
  if (data && data->size() >= sizeof num_bytes) std::memcpy(&num_bytes, data->data(), sizeof num_bytes);
  if (!data || num_bytes < sizeof(uint32_t) || num_bytes % sizeof(uint32_t) != 0 ||
      num_bytes > data->size() - sizeof num_bytes) {
    throw_error(ErrorCode::kBadData,
                "{} is not the base64 text of a SentencePiece character map; copy the file again", name);
  }
  std::vector<uint32_t> units(num_bytes / sizeof(uint32_t));
  std::memcpy(units.data(), data->data() + sizeof num_bytes, num_bytes);
  std::string values = data->substr(sizeof num_bytes + num_bytes);
  if (!is_valid_utf8(values)) {
    throw_error(ErrorCode::kBadData, "{} has strings that are not valid UTF-8; copy the file again", name);
  }
  return std::make_unique<Precompiled>(std::move(units), std::move(values));
}

}  // namespace plimsoll::text
