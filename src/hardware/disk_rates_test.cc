#include "hardware/disk_rates.h"

#include <gtest/gtest.h>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

TEST(DiskRates, AreReadAsTheyWereWritten) {
  const DiskRates rates{
      .read_gb_per_s = 3.25, .write_gb_per_s = 1.5, .both_gb_per_s = 2.75, .date = "2026-11-27"};
  EXPECT_EQ(parse_disk_rates(disk_rates_json(rates), "x.json"), rates);
  EXPECT_TRUE(rates.is_measured());
  EXPECT_FALSE(DiskRates().is_measured());
}

TEST(DiskRates, DamagedFilesAreRefused) {
  DiskRates zero{.read_gb_per_s = 0, .date = "2026-11-27"};
  for (const std::string& text :
       {std::string("{"), std::string(R"({"schema_version": 2})"), disk_rates_json(zero)}) {
    try {
      static_cast<void>(parse_disk_rates(text, "x.json"));
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadData);
      EXPECT_NE(std::string(error.what()).find("x.json"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace plimsoll
