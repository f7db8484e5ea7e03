// Compares event files byte for byte with those of tensorboardX (fixtures/make_events.py), and tests that the file of a killed process
// can be read.
#include "io/events/event_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace plimsoll {
namespace {

std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string temporary_file(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) / name).string();
}

// The expected checksums are those of RFC 3720, appendix B.4, and that of "123456789", with which implementations of CRCs are usually
// checked.
TEST(Crc32c, HasTheKnownAnswers) {
  const auto of = [](const std::string& text) { return crc32c(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), 0u);
  EXPECT_EQ(of("123456789"), 0xe3069283u);
  EXPECT_EQ(of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(of(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(EventFiles, HaveTheBytesOfTensorboardX) {
  constexpr double kBegin = 1764300000.5;
  constexpr double kLater = 1764300001.25;
  const std::string path = temporary_file("plimsoll_events_test");
  EventFile file(posix_file_system(), path, kBegin);
  file.add_text("args", "    {\"learning_rate\": 5e-05}\n", 0, kBegin);
  const std::pair<int64_t, double> losses[] = {
      {0, 0.0}, {1, 0.693147}, {300, -1.5e30}, {int64_t{1} << 40, std::numeric_limits<double>::quiet_NaN()}};
  for (const auto& [step, loss] : losses)
    file.add_scalars(step, kLater, {{"train/loss", loss}, {"eval/accuracy", 0.875}});
  file.add_scalars(7, kLater, {});
  EXPECT_EQ(bytes_of_file(path),
            bytes_of_file(std::string(PLIMSOLL_SOURCE_DIR) + "/src/io/events/fixtures/tensorboardx.events"));
  std::filesystem::remove(path);
}

// Every call must write complete records, so that the file can be read if the process was killed before the last calls.
TEST(EventFiles, GrowByCompleteRecords) {
  const std::string whole =
      bytes_of_file(std::string(PLIMSOLL_SOURCE_DIR) + "/src/io/events/fixtures/tensorboardx.events");
  const std::string path = temporary_file("plimsoll_events_growth_test");
  EventFile file(posix_file_system(), path, 1764300000.5);
  std::string before = bytes_of_file(path);
  EXPECT_TRUE(whole.starts_with(before));
  for (int64_t step = 1; step < 4; ++step) {
    file.add_scalars(step, 1.0, {{"train/loss", 1.0}});
    const std::string after = bytes_of_file(path);
    EXPECT_TRUE(after.starts_with(before));
    // A record consists of the length of its data (8 bytes), a checksum (4 bytes), the data, and another checksum (4 bytes). The number of
    // appended bytes must be that of a whole record with the length that the record states.
    const std::string record = after.substr(before.size());
    uint64_t length = 0;
    for (size_t i = 0; i < 8; ++i)
      length |= static_cast<uint64_t>(static_cast<unsigned char>(record[i])) << (8 * i);
    EXPECT_EQ(record.size(), 8 + 4 + length + 4);
    before = after;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace plimsoll
