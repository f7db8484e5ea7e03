// Grapheme clusters: what people see as one character (Unicode Standard Annex 29, extended clusters), with the
// versions of Unicode that Hugging Face's tokenizers have. Thread-safe: free functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll::text {

// Returns the end of the cluster that starts at `begin`. Requires: begin < text.size().
size_t grapheme_end(std::u32string_view text, size_t begin);

// Returns the name and version of the source of the table.
std::string_view grapheme_tables_source();

}  // namespace plimsoll::text
