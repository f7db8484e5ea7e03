// Recognizes files whose content is not what their name says, by their first bytes. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// The number of bytes at the start of a file that refuse_disguised_text() needs.
inline constexpr size_t kDisguiseBytes = 512;

// Returns true if a file that begins like this is a Git LFS pointer instead of the content.
bool is_lfs_pointer(std::string_view start);

// Returns the encoding, "UTF-16" or "UTF-32", if a text begins with its byte-order mark, and otherwise an empty string.
std::string_view encoding_of_mark(std::string_view start);

// Returns what a file is instead of text, and what to do with it, such as "a zip archive ...: unpack it", or an empty string if its
// beginning, of which kDisguiseBytes are enough, shows nothing of the kind.
std::string describe_disguise(std::string_view start);

// Checks that a file which should contain text is not a Git LFS pointer, a compressed file, an archive, a columnar file
// (Parquet, Arrow), a pickle, weights, text in UTF-16 or UTF-32, or a web page, whatever its name says. `start` is its beginning, at
// least kDisguiseBytes unless the file is shorter. Errors: kBadData; the message names the file, what it is and the remedy.
void refuse_disguised_text(std::string_view start, std::string_view path);

}  // namespace plimsoll
