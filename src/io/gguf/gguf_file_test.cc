#include "io/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "base/dtype.h"
#include "base/file_fault.h"
#include "io/gguf/sentence_piece_scores.h"

namespace plimsoll {
namespace {

std::string bytes_of(FileSystem& files, const std::string& path) {
  const auto file = files.open_read(path);
  std::string text(static_cast<size_t>(file->size_bytes()), '\0');
  file->pread(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

// Returns the bytes of a number in little-endian order.
template <typename Number>
std::string le(Number value) {
  std::string text(sizeof(value), '\0');
  std::memcpy(text.data(), &value, sizeof(value));
  return text;
}
std::string counted_text(const std::string& text) {
  return le<uint64_t>(text.size()) + text;
}

GgufTensor tensor_of(std::string name, GgufType type, std::vector<int64_t> shape, std::vector<float> values) {
  const int64_t columns = shape.back();
  return {.name = std::move(name),
          .type = type,
          .shape = std::move(shape),
          .read = [values = std::move(values), columns](int64_t first_row, std::span<float> out) {
            std::copy_n(values.begin() + first_row * columns, out.size(), out.begin());
          }};
}

// Compares all bytes of a small file with those that the specification of the format requires.
TEST(GgufFile, HasTheBytesOfTheSpecification) {
  MemoryFileSystem files;
  GgufMetadata metadata;
  metadata.add("a", uint32_t{7});
  metadata.add("b", 0.5f);
  metadata.add("c", true);
  metadata.add("d", std::string("text"));
  metadata.add("e", std::vector<std::string>{"x", ""});
  metadata.add("f", std::vector<int32_t>{-1, 2});
  metadata.add("g", std::vector<float>{1.5f});
  const std::vector<GgufTensor> tensors{tensor_of("v", GgufType::kF32, {3}, {1, 2, 3}),
                                        tensor_of("m", GgufType::kF16, {2, 3}, {0, 1, 2, 3, 4, 5})};
  const int64_t size = write_gguf(files, "/model.gguf", metadata, tensors);
  std::string expected = "GGUF" + le<uint32_t>(3) + le<uint64_t>(2) + le<uint64_t>(7);
  expected += counted_text("a") + le<uint32_t>(4) + le<uint32_t>(7);
  expected += counted_text("b") + le<uint32_t>(6) + le(0.5f);
  expected += counted_text("c") + le<uint32_t>(7) + '\1';
  expected += counted_text("d") + le<uint32_t>(8) + counted_text("text");
  expected += counted_text("e") + le<uint32_t>(9) + le<uint32_t>(8) + le<uint64_t>(2) + counted_text("x") +
              counted_text("");
  expected += counted_text("f") + le<uint32_t>(9) + le<uint32_t>(5) + le<uint64_t>(2) + le<int32_t>(-1) +
              le<int32_t>(2);
  expected += counted_text("g") + le<uint32_t>(9) + le<uint32_t>(6) + le<uint64_t>(1) + le(1.5f);
  expected += counted_text("v") + le<uint32_t>(1) + le<uint64_t>(3) + le<uint32_t>(0) + le<uint64_t>(0);
  expected += counted_text("m") + le<uint32_t>(2) + le<uint64_t>(3) + le<uint64_t>(2) + le<uint32_t>(1) +
              le<uint64_t>(32);
  expected.resize((expected.size() + 31) / 32 * 32);
  expected += le(1.0f) + le(2.0f) + le(3.0f) + std::string(20, '\0');
  for (const float value : {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f}) expected += le(f32_to_f16(value));
  expected += std::string(20, '\0');
  EXPECT_EQ(bytes_of(files, "/model.gguf"), expected);
  EXPECT_EQ(size, std::ssize(expected));
  EXPECT_TRUE(is_gguf_file(files, "/model.gguf"));
}

TEST(GgufFile, TensorsOfManyPiecesAreReadInOrderAndInUnits) {
  MemoryFileSystem files;
  constexpr int64_t kRows = 3000, kColumns = 257, kUnit = 12;
  int64_t next = 0;
  const std::vector<GgufTensor> tensors{{.name = "t",
                                         .shape = {kRows, kColumns},
                                         .rows_per_unit = kUnit,
                                         .read = [&](int64_t row, std::span<float> out) {
                                           EXPECT_EQ(row, next);
                                           EXPECT_EQ(std::ssize(out) / kColumns % kUnit, 0);
                                           next += std::ssize(out) / kColumns;
                                           for (size_t i = 0; i < out.size(); ++i)
                                             out[i] =
                                                 static_cast<float>(row * kColumns + static_cast<int64_t>(i));
                                         }}};
  write_gguf(files, "/t", {}, tensors);
  EXPECT_EQ(next, kRows);
  const std::string bytes = bytes_of(files, "/t");
  const size_t data = bytes.size() - (kRows * kColumns * 4 + 31) / 32 * 32;
  for (const int64_t i : {int64_t{0}, kRows * kColumns / 2, kRows * kColumns - 1}) {
    float value = 0;
    std::memcpy(&value, bytes.data() + data + static_cast<size_t>(i) * 4, 4);
    EXPECT_EQ(value, static_cast<float>(i));
  }
}

TEST(GgufEncoding, BlocksOfEightBitsAreScaledByTheirLargestNumber) {
  std::vector<float> values(64, 0.0f);
  for (size_t i = 0; i < 32; ++i) values[i] = (static_cast<float>(i) - 15.5f) / 4.0f;
  values[3] = -127.0f / 16.0f;
  std::vector<std::byte> bytes(68);
  EXPECT_EQ(encode_gguf(GgufType::kQ8_0, values, bytes), -1);
  uint16_t scale = 0;
  std::memcpy(&scale, bytes.data(), 2);
  EXPECT_EQ(f16_to_f32(scale), 1.0f / 16.0f);
  for (size_t i = 0; i < 32; ++i)
    EXPECT_EQ(static_cast<int8_t>(bytes[2 + i]), static_cast<int8_t>(std::round(values[i] * 16.0f))) << i;
  for (size_t i = 34; i < 68; ++i) EXPECT_EQ(bytes[i], std::byte{0});
}

// The integers of a kQ8_0 block must be rounded to nearest with ties away from zero. For f16, the number just below 65520 must be
// accepted, and 65520 must be refused because it rounds to infinity.
TEST(GgufEncoding, RoundsAndRefusesAtTheBounds) {
  std::vector<float> block(32, 0.0f);
  block[0] = 127.0f;
  block[1] = 2.5f;
  block[2] = -2.5f;
  std::vector<std::byte> bytes(34);
  EXPECT_EQ(encode_gguf(GgufType::kQ8_0, block, bytes), -1);
  EXPECT_EQ(static_cast<int8_t>(bytes[3]), 3);
  EXPECT_EQ(static_cast<int8_t>(bytes[4]), -3);
  const std::vector<float> fits{1.0f, std::nextafter(65520.0f, 0.0f)}, beyond{1.0f, -65520.0f};
  std::vector<std::byte> two(4);
  EXPECT_EQ(encode_gguf(GgufType::kF16, fits, two), -1);
  EXPECT_EQ(encode_gguf(GgufType::kF16, beyond, two), 1);
  EXPECT_EQ(encode_gguf(GgufType::kBF16, beyond, two), -1);
  const std::vector<float> infinite{std::numeric_limits<float>::infinity(), 0.0f};
  EXPECT_EQ(encode_gguf(GgufType::kBF16, infinite, two), 0);
}

TEST(GgufFile, NumbersThatCannotBeStoredAreRefusedByName) {
  MemoryFileSystem files;
  const auto message = [&](GgufType type, float value) {
    const std::vector<GgufTensor> tensors{tensor_of("blk.0.ffn_up.weight", type, {1, 1}, {value})};
    try {
      write_gguf(files, "/t", {}, tensors);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadData);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(GgufType::kF16, 70000.0f),
            "the tensor 'blk.0.ffn_up.weight' contains 70000, which is too large for this type; give "
            "--outtype "
            "bf16 or f32");
  EXPECT_EQ(message(GgufType::kF32, std::nanf("")),
            "the tensor 'blk.0.ffn_up.weight' contains nan: the model is damaged; export an earlier "
            "checkpoint");
  EXPECT_TRUE(files.list("/").empty());
}

// After a failure of any system call, or a power failure before any of them, the file must be either the old one or the complete new one.
TEST(GgufFile, FailuresLeaveTheOldFileOrTheNewOne) {
  MemoryFileSystem start;
  const auto write = [](FileSystem& files, float value) {
    GgufMetadata metadata;
    metadata.add("value", value);
    const std::vector<GgufTensor> tensors{tensor_of("t", GgufType::kF32, {1}, {value}),
                                          tensor_of("u", GgufType::kF32, {1}, {value})};
    write_gguf(files, "/model.gguf", metadata, tensors);
  };
  write(start, 1.0f);
  const std::string old_bytes = bytes_of(start, "/model.gguf");
  const auto finished = start.clone();
  FaultyFileSystem counter(*finished);
  write(counter, 2.0f);
  const std::string new_bytes = bytes_of(*finished, "/model.gguf");
  ASSERT_GE(counter.num_calls(), 7);
  for (int64_t call = 0; call < counter.num_calls(); ++call) {
    const auto disk = start.clone();
    FaultyFileSystem files(*disk);
    files.fail_at(call, ENOSPC);
    EXPECT_THROW(write(files, 2.0f), FileError) << call;
    const std::string left = bytes_of(*disk, "/model.gguf");
    EXPECT_TRUE(left == old_bytes || left == new_bytes) << call;
    EXPECT_EQ(disk->list("/").size(), 1u) << "call " << call << " left a temporary file";
    for (const AfterCrash policy : kAllCrashes) {
      const auto crashed = start.clone();
      FaultyFileSystem power(*crashed);
      power.lose_power_at(call);
      EXPECT_THROW(write(power, 2.0f), PowerLoss);
      crashed->crash(policy);
      const std::string after = bytes_of(*crashed, "/model.gguf");
      EXPECT_TRUE(after == old_bytes || after == new_bytes) << call;
    }
  }
}

std::string problem_of(const std::vector<std::string>& tokens, const std::vector<text::BpeMerge>& merges) {
  return sentence_piece_scores(tokens, merges, {}).problem;
}

// The function that reads a tensor may throw any exception, for example because memory is exhausted. The temporary file must be removed
// after such an exception as well.
TEST(GgufFile, NoTemporaryFileIsLeftAfterOtherExceptions) {
  MemoryFileSystem files;
  GgufTensor tensor = tensor_of("a", GgufType::kF32, {2}, {1, 2});
  tensor.read = [](int64_t, std::span<float>) { throw std::bad_alloc(); };
  EXPECT_THROW(write_gguf(files, "/model.gguf", GgufMetadata(), {&tensor, 1}), std::bad_alloc);
  EXPECT_TRUE(files.list("/").empty());
}

TEST(SentencePieceScores, FollowTheOrderOfTheMerges) {
  const std::vector<std::string> tokens{"a", "b", "c", "ab", "bc", "abc"};
  const std::vector<text::BpeMerge> merges{{0, 1, 3}, {1, 2, 4}, {3, 2, 5}, {0, 4, 5}};
  const SentencePieceScores found = sentence_piece_scores(tokens, merges, {});
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.scores, (std::vector<float>{-4, -4, -4, 0, -1, -2}));
}

TEST(SentencePieceScores, MergesOfOtherModelsAreRefused) {
  const std::vector<std::string> tokens{"a", "b", "c", "ab", "bc", "abc"};
  EXPECT_EQ(problem_of(tokens, {{0, 1, 3}, {3, 2, 5}, {1, 2, 4}, {0, 4, 5}}),
            "the merges that make 'abc' are not next to each other in the list of merges");
  EXPECT_EQ(problem_of(tokens, {{0, 1, 3}, {1, 2, 4}, {3, 2, 5}}),
            "'a' and 'bc' make the token 'abc', but no merge joins them, so the merges were not converted "
            "from a SentencePiece model");
}

}  // namespace
}  // namespace plimsoll
