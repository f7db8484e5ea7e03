// Byte-level text, as in GPT-2: each byte of UTF-8 is represented by a printable character, and one of three known
// regular expressions splits a text into words.
//
// The general pipeline (pipeline.h) does the same with any expression, code point by code point. This is the fast path
// for GPT-2, RoBERTa, Llama 3 and Qwen: it finds words in the bytes of the text and leaves them there. Immutable after
// construction; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "io/text/aligned_text.h"
#include "io/text/json_fields.h"

namespace plimsoll::text {

// Returns the character that represents a byte.
char32_t byte_character(uint8_t byte);

// Returns the byte that a character represents, or nothing if it represents none.
std::optional<uint8_t> byte_of_character(char32_t c);

// Appends, for each UTF-8 byte of the code point `c`, the character that represents the byte in the alphabet of byte-level BPE. `span` is
// the position of `c` in the original text, and becomes that of each character.
void append_byte_characters(char32_t c, TextSpan span, AlignedText* out);

// The expressions that are matched without the general engine.
enum class WordPattern : uint8_t {
  kGpt2,         // GPT-2, RoBERTa
  kThreeDigits,  // cl100k and Llama 3: numbers in groups of up to three digits
  kOneDigit,     // Qwen 2: one digit at a time
  kNone,         // the whole text is one word
};

// Returns the regular expression of a pattern as tokenizer.json spells it.
std::string_view word_pattern_regex(WordPattern pattern);

// Returns the pattern with this expression, or nothing if it is none of the known ones.
std::optional<WordPattern> find_word_pattern(std::string_view regex);

// A pipeline whose words are parts of the original text.
struct ByteLevelSteps {
  WordPattern pattern = WordPattern::kGpt2;
  bool adds_space = false;  // puts a space before a text that does not start with one
  bool composes = false;    // normal form C is applied first
  // True if pre-tokenizers precede the last one. They split the text without changing it.
  bool has_splitters = false;
};

// Returns the steps if these fields of tokenizer.json describe a pipeline whose words are parts of the original text,
// and nothing otherwise.
std::optional<ByteLevelSteps> find_byte_level_steps(const std::optional<JsonFields>& normalizer,
                                                    const std::optional<JsonFields>& pre_tokenizer);

// Returns the end of the word that starts at `begin`. Requires: valid UTF-8, begin < text.size(), and a begin that is 0 or
// the end of the word before.
size_t byte_level_word_end(WordPattern pattern, std::string_view text, size_t begin);

// Returns true if the normal form C of the text is surely the text itself. Requires: valid UTF-8.
bool surely_composed(std::string_view text);

}  // namespace plimsoll::text
