#include "base/disguised_file.h"

#include <algorithm>

#include "base/check.h"

namespace plimsoll {
namespace {

using std::string_view_literals::operator""sv;

struct Disguise {
  std::string_view start;
  std::string_view what;
};

constexpr Disguise kDisguises[] = {
    {"version https://git-lfs"sv,
     "a Git LFS pointer instead of the content: run `git lfs pull` in its folder, or download the file "
     "itself"},
    {"\x1f\x8b"sv, "compressed with gzip, whatever its name says: unpack it with `gunzip -c FILE > NEW`"},
    {"PK\x03\x04"sv, "a zip archive (Excel's .xlsx is one too): unpack it, or save the table as CSV"},
    {"\x28\xb5\x2f\xfd"sv, "compressed with zstd, whatever its name says: unpack it with `zstd -d`"},
    {"\xfd"
     "7zXZ"sv,
     "compressed with xz, whatever its name says: unpack it with `xz -d`"},
    {"BZh91AY&SY"sv, "compressed with bzip2, whatever its name says: unpack it with `bunzip2`"},
    {"7z\xbc\xaf"sv, "a 7z archive: unpack it"},
    {"\xd0\xcf\x11\xe0"sv, "an old Excel or Word file: save the table as CSV"},
    {"PAR1\x15"sv, "a Parquet file: write its rows as CSV or JSON Lines"},
    {"ARROW1\0"sv, "an Arrow file: write its rows as CSV or JSON Lines"},
    {"SQLite format 3"sv, "an SQLite database: write its rows as CSV or JSON Lines"},
    {"\x80\x02"sv, "a Python pickle, which is not read because it can execute code"},
    {"\x80\x03"sv, "a Python pickle, which is not read because it can execute code"},
    {"\x80\x04"sv, "a Python pickle, which is not read because it can execute code"},
    {"\x80\x05"sv, "a Python pickle, which is not read because it can execute code"},
    {"\xff\xfe"sv, "text in UTF-16: save it as UTF-8"},
    {"\xfe\xff"sv, "text in UTF-16: save it as UTF-8"},
    {"%PDF-"sv, "a PDF document"},
};

// Returns true if the text begins so, apart from blanks and case.
bool begins_with_tag(std::string_view text, std::string_view tag) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (text.size() < tag.size()) return false;
  return std::ranges::equal(text.substr(0, tag.size()), tag, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

}  // namespace

void refuse_disguised_text(std::string_view start, std::string_view path) {
  for (const Disguise& disguise : kDisguises) {
    if (!start.starts_with(disguise.start)) continue;
    throw_error(ErrorCode::kBadData, "{}: the file is {}", path, disguise.what);
  }
  constexpr size_t kTarMagicOffset = 257;
  if (start.size() > kTarMagicOffset && start.substr(kTarMagicOffset).starts_with("ustar")) {
    throw_error(ErrorCode::kBadData, "{}: the file is a tar archive: unpack it with `tar -xf`", path);
  }
  // A safetensors file begins with the length of its header in 8 bytes.
  if (start.size() > 9 && start[8] == '{' && start.substr(2, 6) == std::string_view("\0\0\0\0\0\0", 6)) {
    throw_error(ErrorCode::kBadData, "{}: the file contains weights (safetensors), but text is expected",
                path);
  }
  if (begins_with_tag(start, "<!doctype html") || begins_with_tag(start, "<html")) {
    throw_error(
        ErrorCode::kBadData,
        "{}: the file is a web page: the download failed, or it needs a login. Download the file itself (on "
        "the Hugging Face hub, with `resolve` instead of `blob` in its address)",
        path);
  }
}

}  // namespace plimsoll
