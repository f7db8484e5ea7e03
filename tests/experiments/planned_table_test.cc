// Tests `plimsoll plan --experiments`: each row of its table must state what `plan` predicts for the arguments of the row, and next to this
// prediction the measurements that Hugging Face's documents state.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "plimsoll/experiments.h"
#include "plimsoll/plan.h"
#include "tests/bad_input/binary.h"
#include "tests/experiments/words.h"
#include "tests/support/places.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

constexpr const char* kLoaderRow = "DataLoader, 4 workers";

// The table must show the measurements of Hugging Face's page "How to fit a bigger model and train it faster",
// in the order of the page.
TEST(PlannedTable, IsNextToTheFiguresOfThePage) {
  const ExperimentPlan plan = plan_experiments({"--device", "v100-16gb"});
  ASSERT_EQ(plan.rows.size(), 10u) << "the nine experiments and the DataLoader";
  const std::vector<DocumentFigures> page{{8.86, 14949},  {7.75, 8681},  {5.99, 6775},
                                          {18.64, 13939}, {10.09, 7275}, {7.96, 12295},
                                          {9.06, 4847},   {9.15, 13085}, {10.35, 5363}};
  for (size_t i = 0; i < page.size(); ++i)
    EXPECT_EQ(plan.rows[i].document, page[i]) << plan.rows[i].experiment.name;
  EXPECT_EQ(plan.rows[0].experiment.name, "vanilla, batch 4");
  EXPECT_EQ(plan.rows[8].experiment.name, "acc., checkpointing, fp16, 8-bit");
  EXPECT_EQ(plan.rows[9].experiment.name, kLoaderRow);
  EXPECT_FALSE(plan.rows[9].document.has_value());
  EXPECT_TRUE(
      contains(in_one_line(plan.table), "a plan does not estimate how long a step waits for its batch"))
      << plan.table;
  // The planned memory and speed must show the same effects as the measurements on Hugging Face's page: every method
  // saves memory, fp16 is faster, and gradient checkpointing is slower.
  for (const PlannedExperiment& row : plan.rows) {
    EXPECT_TRUE(row.fits) << row.experiment.name;
    EXPECT_LE(row.total_bytes, plan.rows[0].total_bytes) << row.experiment.name;
  }
  EXPECT_GT(plan.rows[3].samples_per_s, 2 * plan.rows[0].samples_per_s) << "fp16";
  EXPECT_LT(plan.rows[2].samples_per_s, plan.rows[1].samples_per_s) << "checkpointing";
}

TEST(PlannedTable, PredictsWhatPlanPredicts) {
  for (const char* device : {"v100-16gb", "l4"}) {
    for (const PlannedExperiment& row : plan_experiments({"--device", device}).rows) {
      const PlanReport report = plan_run(arguments_of(row.experiment.words));
      EXPECT_EQ(row.total_bytes, report.total_bytes) << row.experiment.name;
      EXPECT_EQ(row.samples_per_s, report.speed.samples_per_s) << row.experiment.name;
    }
  }
}

TEST(PlannedTable, AllRowsAreThoseOfBench) {
  const std::vector<std::string> smaller{"--config_name", "MiniLM-L6-H384-uncased"};
  const std::vector<Experiment> rows =
      document_experiments(ExperimentDevice::kGpu, joined(smaller, {"--device", "h200"}));
  const ExperimentPlan plan = plan_experiments(joined(smaller, {"--device", "h200"}), PlannedRows::kAll);
  ASSERT_EQ(plan.rows.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(plan.rows[i].experiment, rows[i]);
    EXPECT_EQ(plan.rows[i].refused, "") << rows[i].name;
    EXPECT_FALSE(plan.rows[i].document.has_value()) << "the page measured another model";
  }
  EXPECT_FALSE(contains(plan.table, "Tesla")) << plan.table;
}

// Further arguments apply to every row. A row that contradicts them contains the reason, and the other rows are
// planned.
TEST(PlannedTable, ARowThatIsRefusedSaysWhy) {
  const ExperimentPlan plan = plan_experiments({"--device", "l4", "--recompute", "selective"});
  EXPECT_TRUE(contains(plan.rows[2].refused, "--recompute selective excludes it")) << plan.rows[2].refused;
  EXPECT_EQ(plan.rows[2].document, (DocumentFigures{5.99, 6775}));
  EXPECT_EQ(plan.rows[0].refused, "");
  EXPECT_TRUE(contains(in_one_line(plan.table), "accumulation, checkpointing: not possible: ")) << plan.table;
  const ExperimentPlan limited = plan_experiments({"--device", "t4", "--memory_limit", "5GiB"});
  EXPECT_FALSE(limited.rows[0].fits);
  EXPECT_TRUE(limited.rows[5].fits) << "Adafactor";
  EXPECT_TRUE(contains(limited.table, "! does not fit")) << limited.table;
  EXPECT_THROW(plan_experiments({"--device", "t4", "--bf16"}), Error) << "no row is possible";
}

TEST(PlannedTable, IsPrintedInEightyColumnsAndAsJson) {
  const TestFolder folder("planned_table");
  const auto run = [&](const Words& words, int code) {
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, code) << result.output;
    return result.output;
  };
  const std::string table = run({"plan", "--experiments", "--device", "v100-16gb"}, 0);
  EXPECT_TRUE(contains(table, "8.86 1.00x  14949 100%\n")) << table;
  EXPECT_TRUE(contains(table, "plan only")) << table;
  // The rows that docs/GUIDE.md shows must be those of the table.
  std::ifstream file_of_guide(place("PLIMSOLL_SOURCE", PLIMSOLL_SOURCE_DIR) + "/docs/GUIDE.md");
  const std::string guide((std::istreambuf_iterator<char>(file_of_guide)), {});
  for (const char* row : {"vanilla, batch 4 ", "gradient accumulation, 1 x 4 ",
                          "accumulation, checkpointing ", "fp16 mixed ", "DataLoader, 4 workers "}) {
    const size_t begin = table.find("\n  " + std::string(row));
    ASSERT_NE(begin, std::string::npos) << row;
    const std::string line = table.substr(begin + 1, table.find('\n', begin + 1) - begin);
    EXPECT_TRUE(contains(guide, "\n    " + line)) << "docs/GUIDE.md lacks the row:\n" << line;
  }
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(line.size() <= 80 || line.starts_with("note: ")) << line;
  const std::string path = folder.path("table.json");
  run({"plan", "--experiments", "documents", "--device", "T4", "--json", path}, 0);
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  ASSERT_EQ(json.at("rows").size(), 10u);
  EXPECT_EQ(json.at("rows")[3].at("document").at("mib"), 13939);
  EXPECT_TRUE(json.at("rows")[9].at("document").is_null());
  EXPECT_GT(json.at("rows")[9].at("predicted_bytes"), 0);
  // On a CPU the table is for a smaller model than that of Hugging Face's page, so it must not show the
  // measurements of the page.
  const std::string cpu = run({"plan", "--experiments", "--use_cpu"}, 0);
  EXPECT_TRUE(contains(cpu, "MiniLM-L6-H384-uncased, on cpu")) << cpu;
  EXPECT_FALSE(contains(cpu, "14949")) << cpu;
  EXPECT_TRUE(
      contains(run({"plan", "--experiments", "some", "--device", "t4"}, 2), "is not one of documents, all"));
  EXPECT_TRUE(contains(run({"plan", "--experiments", "--device", "v100"}, 2), "did you mean 'v100-16gb'?"));
  // `bench` has to run its rows, so it refuses a card that is not in this machine.
  for (const Words& words : {Words{"bench", "--experiments"}, Words{"bench", "--sweep", "seed=1,2"}}) {
    const std::string refused =
        run(joined(words, {"--device", "v100-16gb", "--output_dir", folder.path("out")}), 2);
    EXPECT_TRUE(contains(refused, "plimsoll plan --experiments --device v100-16gb prints the predictions"))
        << refused;
    EXPECT_EQ(refused.find("v100-16gb: plans"), refused.rfind("v100-16gb: plans")) << refused;
  }
}

}  // namespace
}  // namespace plimsoll::testing
