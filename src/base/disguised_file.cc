#include "base/disguised_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace plimsoll {
namespace {

// Returns all characters of a string literal. Unlike a conversion to string_view, it does not end at the first NUL character.
template <size_t N>
constexpr std::string_view bytes(const char (&literal)[N]) {
  return {literal, N - 1};
}

struct Disguise {
  std::string_view start;
  std::string_view what;
};

constexpr std::string_view kPointerStart = "version https://git-lfs";

constexpr Disguise kDisguises[] = {
    {kPointerStart,
     "a Git LFS pointer instead of the content: run `git lfs pull` in its folder, or download the file "
     "itself"},
    {bytes("\x1f\x8b"),
     "compressed with gzip, whatever its name says: unpack it with `gunzip -c FILE > NEW`"},
    {bytes("PK\x03\x04"), "a zip archive (Excel's .xlsx is one too): unpack it, or save the table as CSV"},
    {bytes("\x28\xb5\x2f\xfd"),
     "compressed with zstd, whatever its name says: unpack it with `zstd -dc < FILE > NEW`"},
    {bytes("\xfd"
           "7zXZ"),
     "compressed with xz, whatever its name says: unpack it with `xz -dc < FILE > NEW`"},
    {bytes("BZh91AY&SY"),
     "compressed with bzip2, whatever its name says: unpack it with `bzip2 -dc < FILE > NEW`"},
    {bytes("7z\xbc\xaf"), "a 7z archive: unpack it"},
    {bytes("\xd0\xcf\x11\xe0"), "an old Excel or Word file: save the table as CSV"},
    {bytes("PAR1\x15"), "a Parquet file: write its rows as CSV or JSON Lines"},
    {bytes("ARROW1\0"), "an Arrow file: write its rows as CSV or JSON Lines"},
    {bytes("SQLite format 3"), "an SQLite database: write its rows as CSV or JSON Lines"},
    {bytes("\x80\x02"),
     "a Python pickle, which is not read because it can execute code; get the file in its own format"},
    {bytes("\x80\x03"),
     "a Python pickle, which is not read because it can execute code; get the file in its own format"},
    {bytes("\x80\x04"),
     "a Python pickle, which is not read because it can execute code; get the file in its own format"},
    {bytes("\x80\x05"),
     "a Python pickle, which is not read because it can execute code; get the file in its own format"},
    {bytes("%PDF-"), "a PDF document"},
};

// Returns true if the text begins with the tag, in small or capital letters, possibly after blanks.
bool begins_with_tag(std::string_view text, std::string_view tag) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (text.size() < tag.size()) return false;
  return std::ranges::equal(text.substr(0, tag.size()), tag, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

}  // namespace

std::string_view encoding_of_mark(std::string_view start) {
  // The mark of UTF-32 in little-endian order begins with that of UTF-16.
  if (start.starts_with(bytes("\xff\xfe\0\0")) || start.starts_with(bytes("\0\0\xfe\xff"))) return "UTF-32";
  return start.starts_with(bytes("\xff\xfe")) || start.starts_with(bytes("\xfe\xff")) ? "UTF-16" : "";
}

bool is_lfs_pointer(std::string_view start) {
  return start.starts_with(kPointerStart);
}

std::string describe_disguise(std::string_view start) {
  for (const Disguise& disguise : kDisguises) {
    if (start.starts_with(disguise.start)) return std::string(disguise.what);
  }
  if (const std::string_view encoding = encoding_of_mark(start); !encoding.empty())
    return fmt::format("text in {}: save it as UTF-8", encoding);
  constexpr size_t kTarMagicOffset = 257;
  if (start.size() > kTarMagicOffset && start.substr(kTarMagicOffset).starts_with("ustar"))
    return "a tar archive: unpack it with `tar -xf`";
  // A safetensors file begins with the length of its header as an 8-byte number, followed by the header, which is JSON.
  if (start.size() > 9 && start[8] == '{' && start.substr(2, 6) == std::string_view("\0\0\0\0\0\0", 6))
    return "a file of weights (safetensors), but text is expected: name a text file";
  if (begins_with_tag(start, "<!doctype html") || begins_with_tag(start, "<html")) {
    return "a web page: the download failed, or it needs a login. Download the file itself (on the Hugging "
           "Face "
           "hub, with `resolve` instead of `blob` in its address)";
  }
  return {};
}

void refuse_disguised_text(std::string_view start, std::string_view path) {
  if (const std::string what = describe_disguise(start); !what.empty())
    throw_error(ErrorCode::kBadData, "{}: the file is {}", path, what);
}

}  // namespace plimsoll
