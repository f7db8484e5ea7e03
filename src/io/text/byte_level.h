// Byte-level text, as in GPT-2: each byte of UTF-8 is represented by a printable character, and one of three known regular
// expressions splits a text into words.
//
// The general pipeline (pipeline.h) does the same for any regular expression, code point by code point. This is the fast path for
// GPT-2, RoBERTa, Llama 3 and Qwen: it finds the words in the original bytes and does not convert them to printable characters.
// Immutable after construction; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "io/text/aligned_text.h"
#include "io/text/json_fields.h"

namespace plimsoll::text {

// Returns the printable character by which byte-level BPE represents a byte.
char32_t byte_character(uint8_t byte);

// Returns the byte that this character represents in byte-level BPE, or nothing if it represents none.
std::optional<uint8_t> byte_of_character(char32_t c);

// Appends, for each UTF-8 byte of the code point `c`, the printable character that represents the byte in byte-level BPE. `span`
// is the range of `c` in the original text; each appended character gets this range.
void append_byte_characters(char32_t c, TextSpan span, AlignedText* out);

// The regular expressions for which there is special code instead of the general regular expression engine.
enum class WordPattern : uint8_t {
  kGpt2,         // the expression of GPT-2 and RoBERTa
  kThreeDigits,  // the expression of cl100k and Llama 3, which divides numbers into groups of up to 3 digits
  kOneDigit,     // the expression of Qwen 2, which makes each digit a separate word
  kNone,         // no expression: the whole text is one word
};

// Returns the regular expression of a word pattern in the spelling of tokenizer.json files.
std::string_view word_pattern_regex(WordPattern pattern);

// Returns the word pattern with this regular expression, or nothing if there is none.
std::optional<WordPattern> find_word_pattern(std::string_view regex);

// The settings of a byte-level tokenizer whose words are parts of the original text, so that no converted copy of the text is
// needed.
struct ByteLevelSteps {
  WordPattern pattern = WordPattern::kGpt2;
  bool adds_space = false;  // inserts a space before a text that does not start with one
  bool composes = false;    // converts the text to normalization form NFC first
  // True if tokenizer.json lists other pre-tokenizers before the byte-level one. They split the text but do not change it.
  bool has_splitters = false;
};

// Returns the settings if these fields of tokenizer.json describe a byte-level tokenizer whose words are parts of the original
// text. Otherwise returns nothing, and the general pipeline must be used.
std::optional<ByteLevelSteps> find_byte_level_steps(const std::optional<JsonFields>& normalizer,
                                                    const std::optional<JsonFields>& pre_tokenizer);

// Returns the end of the word that starts at `begin`. Requires: valid UTF-8; begin < text.size(); `begin` is 0 or the end of the
// previous word.
size_t byte_level_word_end(WordPattern pattern, std::string_view text, size_t begin);

// Returns true if the text is certainly in normalization form NFC already. If it returns false, the text may or may not be in this form.
// Requires: valid UTF-8.
bool surely_composed(std::string_view text);

}  // namespace plimsoll::text
