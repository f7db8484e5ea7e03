#include "base/disguised_file.h"

#include <gtest/gtest.h>

#include <string>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

std::string message_of(std::string_view start) {
  try {
    refuse_disguised_text(start, "f.csv");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadData);
    return error.what();
  }
  return "";
}

TEST(DisguisedFile, NamesWhatTheFileIs) {
  using std::string_literals::operator""s;
  const std::pair<std::string, std::string> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 7\n", "git lfs pull"},
      {"\x1f\x8b\x08\0"s, "gzip"},
      {"PK\x03\x04\x14", "zip archive"},
      {"\x28\xb5\x2f\xfd\x04", "zstd"},
      {"\xfd"
       "7zXZ\0"s,
       "xz"},
      {"BZh91AY&SY", "bzip2"},
      {"PAR1\x15\x04", "Parquet"},
      {"ARROW1\0\0"s, "Arrow"},
      {"\x80\x04\x95", "pickle"},
      {"\xff\xfe{\0"s, "UTF-16"},
      {"\xfe\xff\0{"s, "UTF-16"},
      {"\xff\xfe\0\0{\0\0\0"s, "UTF-32"},
      {"\0\0\xfe\xff\0\0\0{"s, "UTF-32"},
      {"\n<!DOCTYPE HTML><head>", "web page"},
      {"<html lang=\"en\">", "web page"},
      {"\x40\x01\0\0\0\0\0\0{\"a\""s, "safetensors"},
      {std::string(257, 'a') + "ustar\0"s, "tar archive"},
  };
  for (const auto& [start, word] : cases) {
    const std::string message = message_of(start);
    EXPECT_TRUE(message.starts_with("f.csv: the file ")) << message;
    EXPECT_NE(message.find(word), std::string::npos) << message;
  }
}

TEST(DisguisedFile, TextIsText) {
  for (const char* text : {"", "a", "text,label\n", "version 1\n", "PK,label\n", "PAR1,label\n", "BZh text",
                           "{\"a\": 1}", "<b>bold</b>,1\n", "[PAD]\n[UNK]\n",
                           ("\xef\xbb\xbf"
                            "a,b\n"),
                           "\xc3\xa9t\xc3\xa9\n", "ARROW1,x\n", "7z,1\n"}) {
    EXPECT_EQ(message_of(text), "") << text;
  }
}

}  // namespace
}  // namespace plimsoll
