// Tests `bench --links` as a user runs it, and that plans use its result.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/bad_input/binary.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class LinksOfRanks : public ::testing::Test {
 protected:
  ProcessResult run(const std::vector<std::string>& words) const {
    return run_plimsoll(words, folder_.path("log"), 120000, {"XDG_CACHE_HOME=" + folder_.path("cache")});
  }

  ProcessResult measure(const std::string& size, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"bench",     "--links",          size, "--seconds", "0.1",
                                   "--use_cpu", "--nproc_per_node", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  // Returns the time estimate of a plan for this number of ranks, as JSON.
  nlohmann::json estimate(const std::string& num_ranks, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{
        "plan", "--model_name_or_path", model_, "--use_cpu", "--nproc_per_node", num_ranks, "--json", "-"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    const size_t begin = result.output.find('{');
    const size_t end = result.output.rfind('}') + 1;
    return nlohmann::json::parse(result.output.substr(begin, end - begin)).at("estimate");
  }

  // Returns the content of the cached measurement. There must be exactly one file in the cache.
  std::string kept_file() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path("cache") + "/plimsoll/links"))
      found.push_back(entry.path().string());
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? std::string() : found[0];
  }

  const TestFolder folder_{"links"};
  const std::string model_ = write_tiny_model(folder_);
};

TEST_F(LinksOfRanks, AreMeasuredAndReadByPlans) {
  EXPECT_EQ(estimate("2").at("rank_link").at("source"), "assumed");
  const ProcessResult result = measure("64KiB");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* words :
       {"exchanges between 2 ranks by Gloo, on ", "\nall_reduce ", "\nreduce_scatter ", "\nall_gather ",
        "\nbroadcast ", "           1 KiB ", "          64 KiB ", "wrote "}) {
    EXPECT_TRUE(holds(result.output, words)) << words << "\n" << result.output;
  }
  const nlohmann::json kept = nlohmann::json::parse(file_text(kept_file()));
  const nlohmann::json& points = kept.at("exchanges").at("gloo").at("curves").at("all_reduce");
  ASSERT_EQ(points.size(), 4u) << "1, 4, 16 and 64 KiB";

  const nlohmann::json link = estimate("2").at("rank_link");
  EXPECT_EQ(link.at("source"), "measured");
  EXPECT_EQ(link.at("exchange"), "gloo");
  EXPECT_EQ(link.at("date"), kept.at("exchanges").at("gloo").at("date"));
  EXPECT_EQ(link.at("latency_ms"), points.front().at("median_ms"));
  // In an exchange between two ranks, each rank sends as many bytes as the message has, so the rate is message
  // size / time. Test and program each round this quotient at most twice.
  EXPECT_DOUBLE_EQ(link.at("gb_per_s").get<double>(),
                   65536 / (1e6 * points.back().at("median_ms").get<double>()));
  EXPECT_EQ(estimate("3").at("rank_link").at("source"), "assumed") << "measured between two";
  EXPECT_EQ(estimate("2", {"--link_calibration", "off"}).at("rank_link").at("source"), "assumed");
  const ProcessResult table =
      run({"plan", "--model_name_or_path", model_, "--use_cpu", "--nproc_per_node", "2"});
  EXPECT_TRUE(holds(table.output, "per exchange")) << table.output;
  EXPECT_FALSE(holds(table.output, "assumed")) << table.output;
}

TEST_F(LinksOfRanks, SlowLinksMakeTheStepsOfAPlanSlower) {
  ASSERT_EQ(measure("4KiB").exit_code, 0);
  const double before = estimate("2").at("ms");
  nlohmann::json kept = nlohmann::json::parse(file_text(kept_file()));
  for (nlohmann::json& point : kept.at("exchanges").at("gloo").at("curves").at("all_reduce"))
    point["median_ms"] = 1e6;
  const std::string slow = folder_.path("slow.json");
  std::ofstream(slow) << kept;
  EXPECT_GT(estimate("2", {"--link_calibration", slow}).at("ms").get<double>(), before + 9e5);
}

TEST_F(LinksOfRanks, ADamagedFileIsAWarning) {
  ASSERT_EQ(measure("4KiB").exit_code, 0);
  std::ofstream(kept_file()) << "{";
  const ProcessResult plan =
      run({"plan", "--model_name_or_path", model_, "--use_cpu", "--nproc_per_node", "2"});
  EXPECT_EQ(plan.exit_code, 0) << plan.output;
  EXPECT_TRUE(holds(plan.output, "; the rate between ranks is assumed")) << plan.output;
  const ProcessResult again = measure("4KiB");
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_TRUE(holds(again.output, "cannot be used and is replaced")) << again.output;
  EXPECT_EQ(estimate("2").at("rank_link").at("source"), "measured");
}

TEST_F(LinksOfRanks, AnUnwritableCacheIsNoticedBeforeAnythingIsMeasured) {
  std::ofstream(folder_.path("cache")) << "a file";
  const ProcessResult result = measure("1KiB");
  EXPECT_EQ(result.exit_code, 7) << result.output;
  EXPECT_TRUE(holds(result.output, folder_.path("cache"))) << result.output;
  EXPECT_FALSE(holds(result.output, "exchanges between")) << result.output;
}

}  // namespace
}  // namespace plimsoll::testing
