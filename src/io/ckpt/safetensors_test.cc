#include "io/ckpt/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "base/file_fault.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

template <typename T>
std::vector<T> random_values(const std::string& name, int64_t count) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = philox_element({hash64(name), 0, 0}, static_cast<uint64_t>(i));
    values.push_back(static_cast<T>(static_cast<int32_t>(bits)));
  }
  return values;
}

std::string length_prefix(uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

std::string file_of(const std::string& json, int64_t num_data_bytes) {
  return length_prefix(json.size()) + json + std::string(static_cast<size_t>(num_data_bytes), '\x01');
}

std::string failure_of(const std::string& content) {
  MemoryFileSystem files;
  write_synced_file(files, "/m.safetensors", content);
  try {
    SafetensorsFile::open(files, "/m.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::kBadData)) << error.what();
    return error.what();
  }
  return "accepted";
}

struct BadFile {
  const char* name;
  std::string content;
  std::vector<const char*> message_parts;
};

std::vector<BadFile> bad_files() {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto two = [](int64_t begin, int64_t end) {
    return fmt::format(
        R"({{"a":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},"b":{{"dtype":"F32","shape":[2],"data_offsets":[{},{}]}}}})",
        begin, end);
  };
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return fmt::format(R"({{"a":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
  };
  std::vector<BadFile> cases = {
      {"empty file", "", {"has 0 bytes", "smallest safetensors file has 10"}},
      {"nine bytes", "123456789", {"has 9 bytes"}},
      {"4 GB header",
       length_prefix(4294967296) + "{}",
       {"announce a header of 4294967296 bytes", "at most 100000000"}},
      {"2^64-1 header",
       length_prefix(~uint64_t{0}) + "{}",
       {"announce a header of 18446744073709551615 bytes"}},
      {"just above the limit", length_prefix(100000001) + "{}", {"100000001", "at most 100000000"}},
      {"header cut", length_prefix(1000) + "{}", {"the header ends at byte 1008", "only 10", "incomplete"}},
      {"LFS pointer",
       "version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
       {"Git LFS pointer", "git lfs pull"}},
      {"zip", "PK\x03\x04 and then some more", {"zip archive"}},
      {"web page", "<!DOCTYPE html><html>", {"web page"}},
      {"bare JSON", "{\"a\": 1, \"b\": 22222}", {"plain JSON"}},
      {"GGUF", "GGUF\x03 .............", {"GGUF"}},
      {"not JSON", file_of("hello world", 0), {"line 1, column 1: not valid JSON"}},
      {"list", file_of("[]", 0), {"the header is a list"}},
      {"JSON cut", file_of(good.substr(0, 20), 0), {"not valid JSON"}},
      {"invalid UTF-8", file_of("{\"\xff\":1}", 0), {"byte 0xFF is not valid UTF-8"}},
      {"NUL padding", file_of(good + std::string(3, '\0'), 8), {"a NUL byte"}},
      {"byte-order mark", file_of("\xef\xbb\xbf" + good, 8), {"byte-order mark"}},
      {"two values", file_of(good + good, 8), {"not valid JSON"}},
      {"deep nesting", file_of("{\"a\":" + std::string(50000, '['), 0), {"tensor 'a' is a list"}},
      {"deep nesting in an unknown member",
       file_of("{\"a\":{\"x\":" + std::string(50000, '['), 0),
       {"nested deeper than 64"}},
      {"duplicate names",
       file_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"a\":{}}", 0),
       {"the key 'a' occurs twice"}},
      {"duplicate members",
       file_of("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0),
       {"the key 'dtype' occurs twice in one object, in '{\"a\":"}},
      {"duplicate metadata",
       file_of("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0),
       {"the key 'a' occurs twice"}},
      {"metadata number",
       file_of("{\"__metadata__\":{\"a\":1}}", 0),
       {"__metadata__ contains a number", "strings to strings"}},
      {"metadata nested", file_of("{\"__metadata__\":{\"a\":{}}}", 0), {"__metadata__ contains an object"}},
      {"metadata list", file_of("{\"__metadata__\":[]}", 0), {"__metadata__ contains a list"}},
      {"tensor a number", file_of("{\"a\":1}", 0), {"tensor 'a' is a number"}},
      {"no dtype", file_of("{\"a\":{\"shape\":[0],\"data_offsets\":[0,0]}}", 0), {"tensor 'a' has no dtype"}},
      {"no shape",
       file_of("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", 0),
       {"tensor 'a' has no shape"}},
      {"no offsets",
       file_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0),
       {"tensor 'a' has no data_offsets"}},
      {"unknown dtype", file_of(one("\"F128\"", "[1]", "[0,16]"), 16), {"the type 'F128'"}},
      {"lower-case dtype", file_of(one("\"f32\"", "[1]", "[0,4]"), 4), {"the type 'f32'"}},
      {"dtype number", file_of(one("1", "[1]", "[0,4]"), 4), {"dtype of tensor 'a' has a number"}},
      {"shape number", file_of(one("\"F32\"", "1", "[0,4]"), 4), {"shape of tensor 'a' has a number"}},
      {"shape nested", file_of(one("\"F32\"", "[[1]]", "[0,4]"), 4), {"shape of tensor 'a' has a list"}},
      {"shape negative", file_of(one("\"F32\"", "[-1]", "[0,4]"), 4), {"the negative number -1"}},
      {"shape fraction", file_of(one("\"F32\"", "[1.0]", "[0,4]"), 4), {"'1.0', which is not an integer"}},
      {"shape string", file_of(one("\"F32\"", "[\"1\"]", "[0,4]"), 4), {"shape of tensor 'a' has a string"}},
      {"shape over 64 bits",
       file_of(one("\"F32\"", "[99999999999999999999]", "[0,4]"), 4),
       {"not an integer"}},
      {"shape over 63 bits",
       file_of(one("\"F32\"", "[18446744073709551615]", "[0,4]"), 4),
       {"exceeds the size of any file"}},
      {"shape overflow",
       file_of(one("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4),
       {"[4294967296, 4294967296] overflows"}},
      {"bits overflow", file_of(one("\"F32\"", "[1152921504606846976]", "[0,4]"), 4), {"overflows"}},
      {"half bytes",
       file_of(one("\"F4\"", "[3]", "[0,2]"), 2),
       {"takes 12 bits", "not a whole number of bytes"}},
      {"one offset", file_of(one("\"F32\"", "[1]", "[0]"), 4), {"has 1 numbers, but two are expected"}},
      {"three offsets", file_of(one("\"F32\"", "[1]", "[0,4,8]"), 4), {"more than two numbers"}},
      {"offsets reversed",
       file_of(one("\"F32\"", "[1]", "[4,0]"), 4),
       {"ends at byte 0, before its start at byte 4"}},
      {"wrong size for shape",
       file_of(one("\"F32\"", "[2,3]", "[0,20]"), 20),
       {"shape [2, 3] of F32 takes 24 bytes", "span 20"}},
      {"wrong dtype for size",
       file_of(one("\"F16\"", "[2]", "[0,8]"), 8),
       {"shape [2] of F16 takes 4 bytes", "span 8"}},
      {"starts late",
       file_of(one("\"F32\"", "[1]", "[4,8]"), 8),
       {"'a' begins at data byte 4", "the data begins at byte 0", "gap"}},
      {"hole", file_of(two(12, 20), 20), {"'b' begins at data byte 12", "'a' ends at byte 8", "gap"}},
      {"overlap", file_of(two(4, 12), 12), {"'b' begins at data byte 4", "'a' ends at byte 8", "overlap"}},
      {"same bytes twice", file_of(two(0, 8), 8), {"'b' begins at data byte 0", "overlap"}},
      {"data cut",
       file_of(good, 5),
       {"tensor 'a' takes bytes 62 to 70", "only 67", "incomplete", "expected size 70"}},
      {"first tensor cut is named", file_of(two(8, 16), 3), {"tensor 'a' takes", "incomplete"}},
      {"trailing bytes",
       file_of(good, 20),
       {"has 82 bytes", "end at byte 70", "12 more bytes follow", "truncate -s 70"}},
      {"trailing bytes, no tensors", file_of("{}", 4), {"has 14 bytes", "end at byte 10"}},
      {"offset near 2^63",
       file_of(one("\"U8\"", "[9223372036854775800]", "[0,9223372036854775800]"), 4),
       {"'a'"}},
  };
  return cases;
}

TEST(Safetensors, BadFilesAreRefusedWithTheReason) {
  const std::vector<BadFile> cases = bad_files();
  ASSERT_GE(cases.size(), 50u);
  for (const BadFile& bad : cases) {
    const std::string message = failure_of(bad.content);
    EXPECT_TRUE(message.starts_with("/m.safetensors")) << bad.name << ": " << message;
    for (const char* part : bad.message_parts) {
      EXPECT_NE(message.find(part), std::string::npos)
          << bad.name << ": wanted '" << part << "' in: " << message;
    }
  }
}

TEST(Safetensors, UnusualButValidFilesAreRead) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::pair<const char*, std::string> cases[] = {
      {"trailing spaces", file_of(good + "     ", 8)},
      {"leading and trailing whitespace", file_of("\n\t " + good + " \r\n", 8)},
      {"unaligned data", file_of(good, 8)},
      {"no tensors", file_of("{}", 0)},
      {"null metadata", file_of(R"({"__metadata__":null})", 0)},
      {"rank 0", file_of(R"({"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8)},
      {"empty tensors",
       file_of(
           R"({"a":{"dtype":"F64","shape":[0,5],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
           0)},
      {"empty tensor with sizes that overflow",
       file_of(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0)},
      {"names in any order",
       file_of(
           R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           2)},
      {"names beyond ASCII",
       file_of("{\"gewicht.ä.重み.\\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
               1)},
      {"unknown members",
       file_of(
           R"({"a":{"x":{"y":[1.5,null,{"z":true}]},"dtype":"U8","shape":[1],"data_offsets":[0,1],"w":-1}})",
           1)},
      {"sub-byte type", file_of(R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3)},
      {"unknown top key of tensor form",
       file_of(R"({"__format__":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)},
  };
  for (const auto& [name, content] : cases) EXPECT_EQ(failure_of(content), "accepted") << name;
}

TEST(Safetensors, TypesRoundTrip) {
  int64_t num_types = 0;
  for (int i = 0; i < kNumStoredTypes; ++i) {
    const auto type = static_cast<StoredType>(i);
    EXPECT_EQ(parse_stored_type(stored_type_name(type)), type);
    if (const auto dtype = stored_type_dtype(type)) {
      EXPECT_EQ(stored_type_bits(type), 8 * dtype_bytes(*dtype));
      ++num_types;
    }
  }
  EXPECT_EQ(num_types, 8);
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32, DType::kU8}) {
    EXPECT_EQ(stored_type_dtype(to_stored_type(dtype)), dtype);
  }
}

// The test compares the exact bytes of a file, so that any change of the writer is detected.
TEST(Safetensors, WritesCanonicalBytes) {
  MemoryFileSystem files;
  const float a[2] = {1.0f, -2.0f};
  const uint8_t b[3] = {7, 8, 9};
  const int64_t c = 5;
  const std::vector<TensorSource> tensors = {
      {.name = "b", .dtype = DType::kU8, .shape = {3}, .data = b},
      {.name = "z", .dtype = DType::kF32, .shape = {0}, .data = nullptr},
      {.name = "a\"", .dtype = DType::kF32, .shape = {1, 2}, .data = a},
      {.name = "c", .dtype = DType::kI64, .shape = {}, .data = &c},
  };
  const WrittenFile written = write_safetensors(files, "/x.safetensors", tensors);
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"c":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("a\"":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},"z":{"dtype":"F32","shape":[0],"data_offsets":[16,16]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  std::string expected = length_prefix(padded.size()) + padded;
  expected.append(reinterpret_cast<const char*>(&c), 8);
  expected.append(reinterpret_cast<const char*>(a), 8);
  expected.append(reinterpret_cast<const char*>(b), 3);
  const auto file = files.open_read("/x.safetensors");
  std::string bytes(static_cast<size_t>(file->size_bytes()), '\0');
  read_exactly(*file, std::as_writable_bytes(std::span(bytes)), 0, "its bytes");
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(written.name, "x.safetensors");
  EXPECT_EQ(written.size_bytes, std::ssize(expected));
  EXPECT_EQ(written.hash, hash128(expected));
}

TEST(Safetensors, LargeTensorsRoundTripFromMemoryAndFromFill) {
  MemoryFileSystem files;
  const int64_t rows = 333;
  // The tensor has about a megabyte, so that it is read in several chunks, of which the last one is incomplete.
  const int64_t columns = 777;
  const auto values = random_values<float>("large", rows * columns);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  int64_t expected_offset = 0;
  const std::vector<TensorSource> tensors = {
      {.name = "m", .dtype = DType::kF32, .shape = {rows, columns}, .data = values.data()},
      {.name = "f",
       .dtype = DType::kF32,
       .shape = {rows, columns},
       .fill =
           [&](int64_t offset, std::span<std::byte> out) {
             EXPECT_EQ(offset, expected_offset);
             EXPECT_LE(std::ssize(out), kFileChunkBytes);
             std::memcpy(out.data(), bytes + offset, out.size());
             expected_offset += std::ssize(out);
           }},
  };
  write_safetensors(files, "/l", tensors, {{"format", "pt"}, {"note", "ä\n"}});
  const SafetensorsFile file = SafetensorsFile::open(files, "/l");
  EXPECT_EQ(file.metadata().at("note"), "ä\n");
  EXPECT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.find("nothing"), nullptr);
  for (const char* name : {"m", "f"}) {
    std::vector<float> read(values.size());
    file.read(*file.find(name), {read.data(), DType::kF32});
    EXPECT_EQ(read, values) << name;
    std::vector<float> part(static_cast<size_t>(3 * columns));
    file.read_rows(*file.find(name), {100, 3}, {part.data(), DType::kF32});
    EXPECT_EQ(std::memcmp(part.data(), values.data() + 100 * columns, part.size() * 4), 0);
    std::vector<double> wide(values.size());
    file.read(*file.find(name), {wide.data(), DType::kF64});
    for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(wide[i], static_cast<double>(values[i]));
  }
}

TEST(Safetensors, ConvertsBetweenAllFloatingTypes) {
  MemoryFileSystem files;
  const double values[] = {0.0,    -0.0,     1.0, -1.5,         3.0e-8,   65504.0,
                           1.0e30, -1.0e-40, 0.1, std::nan(""), HUGE_VAL, -HUGE_VAL};
  const int64_t count = std::size(values);
  const DType types[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
  int num_pairs = 0;
  for (const DType from : types) {
    std::vector<std::byte> stored(static_cast<size_t>(count * dtype_bytes(from)));
    for (int64_t i = 0; i < count; ++i) View{stored.data(), from}.store(i, values[i]);
    const std::vector<TensorSource> tensors = {
        {.name = "t", .dtype = from, .shape = {count}, .data = stored.data()}};
    write_safetensors(files, "/t", tensors);
    const SafetensorsFile file = SafetensorsFile::open(files, "/t");
    for (const DType to : types) {
      std::vector<std::byte> read(static_cast<size_t>(count * dtype_bytes(to)));
      std::vector<std::byte> expected(read.size());
      file.read(*file.find("t"), {read.data(), to});
      for (int64_t i = 0; i < count; ++i) {
        View{expected.data(), to}.store(i, ConstView{stored.data(), from}.load(i));
        const double a = ConstView{read.data(), to}.load(i);
        const double b = ConstView{expected.data(), to}.load(i);
        EXPECT_TRUE((std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)))
            << dtype_name(from) << " to " << dtype_name(to) << ": " << a << " for " << b;
      }
      ++num_pairs;
    }
  }
  EXPECT_EQ(num_pairs, 16);
}

TEST(Safetensors, RefusesConversionsThatLoseMeaning) {
  MemoryFileSystem files;
  const int64_t ids[2] = {1, 2};
  const std::vector<TensorSource> tensors = {
      {.name = "ids", .dtype = DType::kI64, .shape = {2}, .data = ids}};
  write_safetensors(files, "/t", tensors);
  const SafetensorsFile file = SafetensorsFile::open(files, "/t");
  float out[2];
  try {
    file.read(*file.find("ids"), {out, DType::kF32});
    FAIL();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("/t: tensor 'ids' (at byte "), std::string::npos) << message;
    EXPECT_NE(message.find("is stored as I64, which cannot be converted to f32"), std::string::npos)
        << message;
  }
  int64_t same[2];
  file.read(*file.find("ids"), {same, DType::kI64});
  EXPECT_EQ(same[1], 2);
}

TEST(Safetensors, ReadErrorsOfTheDiskAreReported) {
  MemoryFileSystem disk;
  const float value = 1.0f;
  const std::vector<TensorSource> tensors = {
      {.name = "t", .dtype = DType::kF32, .shape = {1}, .data = &value}};
  write_safetensors(disk, "/t", tensors);
  FaultyFileSystem files(disk);
  const SafetensorsFile file = SafetensorsFile::open(files, "/t");
  files.fail_reads_of("/t", EIO);
  float out = 0;
  try {
    file.read(*file.find("t"), {&out, DType::kF32});
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    EXPECT_EQ(error.error_number(), EIO);
  }
}

TEST(Safetensors, WriterRefusesTwoTensorsOfOneName) {
  MemoryFileSystem files;
  const std::vector<TensorSource> tensors = {{.name = "t", .shape = {0}}, {.name = "t", .shape = {0}}};
  EXPECT_THROW(write_safetensors(files, "/t", tensors), Error);
}

// If any single byte of a small file is changed, the file must either be refused or be read without memory errors (which ASan and UBSan
// detect).
TEST(Safetensors, EveryOneByteChangeIsHandled) {
  const std::string good = file_of(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})",
      9);
  int64_t num_refused = 0;
  for (size_t i = 0; i < good.size() - 9; ++i) {
    for (const int change : {1, 0x20, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      num_refused += failure_of(bad) != "accepted" ? 1 : 0;
    }
  }
  EXPECT_GT(num_refused, 300);
}

}  // namespace
}  // namespace plimsoll
