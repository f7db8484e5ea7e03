// Tests that the fields of PlanReport contain everything that the text of a plan states: they must equal the
// values in the JSON and in the table, and sums must be correct.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plimsoll/plan.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

struct PlanCase {
  const char* name;
  std::vector<std::string> words;
};

// Plans with different devices, precisions, optimizers, offloading, recomputation, adapters and tasks.
const PlanCase kCases[] = {
    {"cpu", {"--config_name", "bert-base-uncased", "--use_cpu"}},
    {"recomputed", {"--config_name", "bert-base-uncased", "--use_cpu", "--gradient_checkpointing", "True"}},
    {"gpu", {"--config_name", "bert-large-uncased", "--device", "h100", "--bf16"}},
    {"offloaded",
     {"--config_name", "bert-large-uncased", "--device", "v100-16gb", "--fp16", "--offload_optimizer", "True",
      "--offload_activations", "True"}},
    {"accumulated",
     {"--config_name", "distilbert-base-uncased", "--use_cpu", "--optim", "adamw_8bit",
      "--gradient_accumulation_steps", "4", "--per_device_train_batch_size", "2"}},
    {"adapter", {"--config_name", "bert-base-uncased", "--use_cpu", "--lora_r", "8"}},
};

PlanReport report_of(const std::vector<std::string>& words, Savings savings = Savings::kLeaveOut) {
  return plan_run(parse_arguments(words).arguments, {}, savings);
}

void expect_purposes(const PlannedPurposes& fields, const Json& json, const char* where) {
  SCOPED_TRACE(where);
  EXPECT_EQ(fields.weights, json.at("model_weights"));
  EXPECT_EQ(fields.optimizer_states, json.at("optimizer_states"));
  EXPECT_EQ(fields.gradients, json.at("gradients"));
  EXPECT_EQ(fields.saved, json.at("saved_for_the_backward_pass"));
  EXPECT_EQ(fields.temporary, json.at("temporary_buffers"));
  EXPECT_EQ(fields.functionality, json.at("functionality_specific"));
  EXPECT_EQ(fields.staging, json.at("data_staging"));
  EXPECT_EQ(fields.constant, json.at("device_constant"));
}

TEST(PlanReport, FieldsEqualTheJson) {
  for (const PlanCase& c : kCases) {
    SCOPED_TRACE(c.name);
    const PlanReport report = report_of(c.words);
    const Json json = Json::parse(report.json);
    EXPECT_EQ(report.total_bytes, json.at("total_bytes"));
    ASSERT_EQ(report.memory.phases.size(), json.at("by_phase").size());
    for (const PlannedPhase& phase : report.memory.phases) {
      const Json& of_phase = json.at("by_phase").at(phase.name);
      expect_purposes(phase.by_purpose, of_phase.at("by_purpose"), phase.name.c_str());
      EXPECT_EQ(phase.by_purpose.gaps, of_phase.at("gaps_bytes"));
      EXPECT_EQ(phase.arena_bytes, of_phase.at("arena_bytes"));
      EXPECT_EQ(phase.total_bytes, of_phase.at("total_bytes"));
    }
    ASSERT_EQ(report.memory.modules.size(), json.at("modules").size());
    for (size_t i = 0; i < report.memory.modules.size(); ++i) {
      EXPECT_EQ(report.memory.modules[i].name, json.at("modules")[i].at("module").get<std::string>());
      EXPECT_EQ(report.memory.modules[i].saved_bytes_at_most,
                json.at("modules")[i].at("saved_bytes_at_most"));
    }
    const Json& estimate = json.at("estimate");
    EXPECT_EQ(report.speed.samples_per_step, estimate.at("samples"));
    EXPECT_EQ(report.speed.tokens_per_step, estimate.at("tokens"));
    EXPECT_DOUBLE_EQ(report.speed.step_ms, estimate.at("ms"));
    EXPECT_DOUBLE_EQ(report.speed.samples_per_s, estimate.at("samples_per_second"));
    EXPECT_EQ(report.run.num_parameters, json.at("parameters").at("num_parameters"));
    EXPECT_EQ(report.run.num_trainable_parameters, json.at("parameters").at("num_trainable_parameters"));
    ASSERT_EQ(report.memory.peaks.size(), json.at("peaks").size());
    EXPECT_EQ(report.memory.peaks.front().op, json.at("peaks")[0].at("op").get<std::string>());
  }
}

TEST(PlanReport, FieldsAddUp) {
  for (const PlanCase& c : kCases) {
    SCOPED_TRACE(c.name);
    const PlanReport report = report_of(c.words);
    int64_t largest = 0;
    for (const PlannedPhase& phase : report.memory.phases) {
      EXPECT_EQ(phase.by_purpose.total(), phase.total_bytes) << phase.name;
      EXPECT_EQ(phase.by_purpose.constant, report.constant_bytes) << phase.name;
      largest = std::max(largest, phase.total_bytes);
    }
    EXPECT_EQ(largest, report.total_bytes);
    EXPECT_EQ(report.memory.phases[report.memory.largest_phase].total_bytes, report.total_bytes);
    int64_t constant = 0;
    for (const PlannedBytes& part : report.memory.constants) constant += part.bytes;
    EXPECT_EQ(constant, report.constant_bytes);
    EXPECT_EQ(report.memory.host_by_purpose.total(), report.memory.host_arena_bytes);
    double ms = 0;
    for (const PlannedOperations& group : report.speed.groups) ms += group.ms;
    EXPECT_NEAR(ms, report.speed.step_ms, 1e-9 * ms);
    EXPECT_NEAR(report.speed.forward_ms + report.speed.backward_ms + report.speed.optimizer_ms,
                report.speed.step_ms, 1e-9 * ms);
  }
}

TEST(PlanReport, FieldsAreThoseOfTheTable) {
  for (const PlanCase& c : kCases) {
    SCOPED_TRACE(c.name);
    const PlanReport report = report_of(c.words);
    const auto mib = [](int64_t bytes) {
      char text[32];
      std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / 1048576.0);
      return std::string(text);
    };
    std::vector<std::string> words{report.run.task, report.run.precision, report.run.optimizer,
                                   mib(report.arena_bytes), mib(report.total_bytes)};
    for (const PlannedPhase& phase : report.memory.phases) {
      words.push_back(phase.name);
      words.push_back(mib(phase.total_bytes));
    }
    for (const PlannedOperations& group : report.speed.groups) words.push_back(group.name);
    if (report.memory.host_arena_bytes > 0) words.push_back(mib(report.memory.host_arena_bytes));
    // The table wraps long lines between words, so line breaks are treated like blanks.
    std::string table = report.table;
    std::ranges::replace(table, '\n', ' ');
    for (const std::string& word : words)
      EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << report.table;
  }
  EXPECT_GT(report_of(kCases[3].words).memory.host_arena_bytes, 0);
  const auto recomputed_bytes = [](const PlanReport& report) {
    int64_t bytes = 0;
    for (const PlannedRecomputation& block : report.memory.recomputation) bytes += block.recomputed_bytes;
    return bytes;
  };
  const PlanReport recomputed = report_of(kCases[1].words);
  EXPECT_GT(recomputed_bytes(recomputed), 2 * recomputed_bytes(report_of(kCases[0].words)));
  EXPECT_NE(recomputed.memory.find_phase("train"), nullptr);
  EXPECT_EQ(recomputed.memory.find_phase("pretrain"), nullptr);
  int applying = 0;
  for (const PlannedRule& rule : recomputed.memory.rules) applying += rule.applies ? 1 : 0;
  EXPECT_EQ(applying, 1);
}

// A plan that does not fit has fields for the limit, the missing bytes and the changes that help.
TEST(PlanReport, ARefusalHasFields) {
  std::vector<std::string> words = kCases[0].words;
  words.insert(words.end(), {"--memory_limit", "1500MiB"});
  const PlanReport refused = report_of(words, Savings::kPlan);
  EXPECT_FALSE(refused.fits);
  EXPECT_EQ(refused.run.memory_limit_bytes, int64_t{1500} << 20);
  ASSERT_FALSE(refused.changes.empty());
  bool has_fitting = false;
  for (const PlannedChange& change : refused.changes) {
    EXPECT_NE(refused.refusal.find(change.arguments), std::string::npos) << change.arguments;
    EXPECT_EQ(change.fits, change.total_bytes <= *refused.run.memory_limit_bytes) << change.arguments;
    has_fitting = has_fitting || change.fits;
  }
  EXPECT_TRUE(has_fitting);
  EXPECT_TRUE(refused.changes.front().fits);
  const PlanReport fitting = report_of(kCases[0].words, Savings::kPlan);
  EXPECT_TRUE(fitting.fits && fitting.refusal.empty() && !fitting.run.memory_limit_bytes);
  ASSERT_FALSE(fitting.changes.empty());
  for (const PlannedChange& change : fitting.changes) {
    EXPECT_LT(change.total_bytes, fitting.total_bytes);
    EXPECT_TRUE(change.fits);
    EXPECT_GT(change.relative_time, 0);
  }
  EXPECT_TRUE(report_of(words).changes.empty()) << "nothing was asked for";
}

}  // namespace
}  // namespace plimsoll
