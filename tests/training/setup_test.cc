// Tests what a run determines before it makes its plan: the device, the model folder, the labels, and the notes
// about arguments. Also tests the metrics of the two validation sets of MNLI.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/units.h"
#include "plimsoll/plan.h"
#include "plimsoll/trainer.h"
#include "run/run_setup.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::TestFolder;

RunSetup setup_of(const Arguments& arguments, RunPurpose purpose) {
  return prepare_run(arguments, purpose, {}, posix_file_system());
}

std::string refusal(const Arguments& arguments, RunPurpose purpose) {
  try {
    setup_of(arguments, purpose);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::string written(const TestFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder.path(name)) << text;
  return folder.path(name);
}

// Returns arguments that train a tiny model, which has a vocabulary, on a data file with these rows.
Arguments arguments_with_file(const TestFolder& folder, const std::string& rows) {
  const std::string model = testing::write_tiny_model(folder);
  testing::write_uneven_rows(folder, 4);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.dataset_name.clear();
  arguments.dummy_num_samples = Arguments{}.dummy_num_samples;
  arguments.dummy_seq_length = Arguments{}.dummy_seq_length;
  arguments.tokenizer_name = model;
  arguments.max_steps = 1;
  arguments.train_file = written(folder, "train.csv", rows);
  return arguments;
}

// A plan for a GPU can be made from real data on a machine without this GPU.
TEST(Setup, APlanThatReadsDataNeedsNoGpu) {
  const TestFolder folder("plan_for_card");
  const Arguments with_file = arguments_with_file(folder, "sentence,label\na b,x\nc,y\n");
  const std::string model = folder.path("model");
  for (Arguments arguments : {with_file, testing::tiny_arguments(model, folder.path("run"))}) {
    arguments.device = "l4";
    arguments.tuning_cache = folder.path("tuning");
    const RunSetup plan = setup_of(arguments, RunPurpose::kPlan);
    EXPECT_TRUE(plan.data.train);
    EXPECT_EQ(plan.request.device.kind, KernelDevice::kCuda);
    EXPECT_FALSE(plan.measures_products) << "there is no GPU to measure on";
    EXPECT_NE(refusal(arguments, RunPurpose::kTrain).find("--device l4: plans can be made for this card"),
              std::string::npos);
    arguments.dry_run = true;
    const RunSetup dry = setup_of(arguments, RunPurpose::kTrain);
    EXPECT_FALSE(dry.measures_products);
    EXPECT_EQ(build_plan(dry.request).total_bytes(), build_plan(plan.request).total_bytes());
    EXPECT_TRUE(Trainer(arguments).plan().fits);
  }
}

std::string all_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// For each padded batch size (bucket) of an evaluation, the kernel calls are prepared once, which needs memory. The
// plan must count this memory.
TEST(Setup, ThePlanCountsTheBucketsOfAnEvaluation) {
  const TestFolder folder("evaluation_buckets");
  Arguments arguments;
  arguments.config_name = arguments.tokenizer_name = testing::write_tiny_model(folder);
  arguments.train_file = testing::write_uneven_rows(folder, 40);
  arguments.output_dir = folder.path("run");
  arguments.max_steps = 2;
  arguments.per_device_eval_batch_size = 1;
  arguments.num_threads = 1;
  const auto constant_of = [&](const std::string& file) {
    arguments.validation_file = file;
    arguments.do_eval = true;
    return build_plan(setup_of(arguments, RunPurpose::kTrain).request).constant_bytes();
  };
  // The texts of the first file have 3 tokens and are padded to 16. Those of the second file have 3 to 22 tokens, and
  // some are padded to as many as 32.
  std::ofstream(folder.path("even.csv")) << "sentence,label\na,even\nb,odd\nc,even\n";
  const int64_t even = constant_of(folder.path("even.csv"));
  std::ofstream(folder.path("uneven.csv"))
      << "sentence,label\na,even\nb,odd\na b c d e f g h i j k l m n o p q r s t,even\n";
  const int64_t uneven = constant_of(folder.path("uneven.csv"));
  EXPECT_GT(uneven - even, 200 * 1024) << "a bucket more";
  EXPECT_LT(uneven - even, 4 * kMiB);
}

// BERT-large with exact fp32 master weights must fit into 1300 MiB of GPU memory if everything that can be
// offloaded is in host memory. The GPU then stores bf16 weights, fp32 embeddings, the memory for the backward
// pass of one layer, and the optimizer states of the elements that are being updated.
TEST(Setup, AWorkspaceOfFourMiBPlansExactMastersWithinThirteenHundredMiB) {
  const TestFolder folder("matmul_workspace");
  Arguments arguments;
  arguments.config_name = "bert-large-uncased";
  arguments.dataset_name = "dummy";
  arguments.dummy_num_samples = 64;
  arguments.dummy_seq_length = arguments.max_seq_length = 512;
  arguments.per_device_train_batch_size = arguments.per_device_eval_batch_size = 1;
  arguments.max_steps = 6;
  arguments.save_strategy = "no";
  arguments.output_dir = folder.path("run");
  arguments.device = "h200";
  arguments.bf16 = arguments.optimizer_in_backward = true;
  arguments.offload_optimizer = "True";
  arguments.offload_activations = true;
  arguments.gradient_checkpointing = true;
  arguments.max_grad_norm = 0;
  const RunSetup as_usual = setup_of(arguments, RunPurpose::kPlan);
  EXPECT_EQ(as_usual.request.products.workspace_bytes, 32 * kMiB);
  int64_t above = build_plan(as_usual.request).total_bytes();
  EXPECT_GT(above, 1320 * kMiB);
  for (const int64_t mib : {16, 8, 4}) {
    arguments.matmul_workspace = mib * kMiB + 100;
    const RunSetup setup = setup_of(arguments, RunPurpose::kPlan);
    EXPECT_EQ(setup.request.products.workspace_bytes, mib * kMiB);
    const Plan plan = build_plan(setup.request);
    EXPECT_LT(plan.total_bytes(), above) << mib << " MiB";
    EXPECT_FALSE(plan.split_weights.empty());
    int64_t most = 0;
    for (const OpPlan& op : plan.programs.at(kTrainProgram).ops) {
      if (op.kernel->implementation.starts_with("matmul_cuda")) most = std::max(most, op.scratch_bytes);
    }
    EXPECT_EQ(most, mib * kMiB);
    above = plan.total_bytes();
  }
  EXPECT_LE(above, 1300 * kMiB);
  // On a CPU, kernels request the workspace that they need, so --matmul_workspace has no effect.
  arguments.device = "cpu";
  arguments.bf16 = arguments.offload_activations = false;
  arguments.offload_optimizer = "False";
  const RunSetup on_cpu = setup_of(arguments, RunPurpose::kPlan);
  EXPECT_NE(all_of(on_cpu.diagnostics.notes).find("--matmul_workspace has no effect on a CPU"),
            std::string::npos);
  EXPECT_EQ(on_cpu.request.products.workspace_bytes, 32 * kMiB);
}

TEST(Setup, AConfigJsonStandsForItsFolder) {
  const TestFolder folder("config_file");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  const RunSetup of_folder = setup_of(arguments, RunPurpose::kPlan);
  arguments.config_name = model + "/config.json";
  const RunSetup of_file = setup_of(arguments, RunPurpose::kPlan);
  EXPECT_EQ(of_file.model.config.hidden_size, 16);
  EXPECT_EQ(of_file.model.label, of_folder.model.label);
  arguments.config_name = written(folder, "other.json", "{}");
  EXPECT_NE(refusal(arguments, RunPurpose::kPlan).find("is a file"), std::string::npos);
}

TEST(Setup, AModelKeepsItsLabelsWhereTheDataHasAPartOfThem) {
  const TestFolder folder("part_of_labels");
  Arguments arguments = arguments_with_file(folder, "sentence,label\na,neg\nb,neu\nc,pos\n");
  {
    Trainer trainer(arguments);
    trainer.train();
    trainer.save_model(folder.path("tuned"));
  }
  arguments.config_name.clear();
  arguments.model_name_or_path = folder.path("tuned");
  arguments.output_dir = folder.path("again");
  arguments.train_file = written(folder, "part.csv", "sentence,label\na,POS\nb,neg\nc,POS\n");
  const std::vector<std::string> list = {"neg", "neu", "POS"};
  for (const RunPurpose purpose : {RunPurpose::kPlan, RunPurpose::kTrain}) {
    const RunSetup setup = setup_of(arguments, purpose);
    EXPECT_EQ(setup.model.config.num_labels, 3);
    EXPECT_EQ(setup.model.config.id2label, list);
    EXPECT_EQ(setup.data.train->labels.classes, (std::vector<int32_t>{2, 0, 2}));
    ASSERT_FALSE(setup.diagnostics.notes.empty());
    EXPECT_EQ(setup.diagnostics.notes[0],
              "the training data has 2 of the model's 3 labels: the model keeps its list, neg, neu, POS");
  }
  EXPECT_EQ(Trainer(arguments).train().step, 1);

  // The labels of the data replace those of the model if the head is newly initialized, or if the data has a
  // label that the model lacks.
  arguments.ignore_mismatched_sizes = true;
  EXPECT_EQ(setup_of(arguments, RunPurpose::kTrain).model.config.num_labels, 2);
  arguments.ignore_mismatched_sizes = false;
  arguments.train_file = written(folder, "other.csv", "sentence,label\na,pos\nb,odd\n");
  EXPECT_EQ(setup_of(arguments, RunPurpose::kTrain).model.config.num_labels, 2);
}

TEST(Setup, EachSetOfMnliHasItsOwnTimeAndRows) {
  const TestFolder folder("mnli");
  Arguments arguments = arguments_with_file(folder, "");
  arguments.train_file.clear();
  std::filesystem::create_directories(folder.path("MNLI"));
  const std::string header = "index\tsentence1\tsentence2\tgold_label\n";
  const std::string row = "0\ta\tb\tneutral\n";
  written(folder, "MNLI/train.tsv", header + row + row);
  written(folder, "MNLI/dev_matched.tsv", header + row);
  written(folder, "MNLI/dev_mismatched.tsv", header + row + row + row);
  arguments.task_name = "mnli";
  arguments.dataset_name = folder.path("MNLI");
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 1;
  arguments.do_eval = true;
  arguments.skip_memory_metrics = false;
  Trainer trainer(arguments);
  const TrainOutput output = trainer.train();
  const MetricMap metrics = trainer.evaluate();
  EXPECT_EQ(metrics.at("eval_samples"), 1);
  EXPECT_EQ(metrics.at("eval_samples_mm"), 3);
  const std::vector<std::string> names = {"eval_loss", "eval_accuracy", "eval_runtime",
                                          "eval_samples_per_second", "eval_steps_per_second"};
  MetricMap logged;
  for (const LogRecord& record : output.log_history) {
    if (record.values.contains("eval_loss")) logged = record.values;
  }
  for (const std::string& name : names) {
    for (const std::string& key : {name, name + "_mm"}) {
      EXPECT_TRUE(metrics.contains(key)) << key;
      EXPECT_TRUE(logged.contains(key)) << key << " in the log";
    }
  }
  EXPECT_TRUE(metrics.contains("eval_mem_cpu_alloc_delta_mm"));
  // The two validation sets have one row and three rows, and each is one batch. The rates of the second
  // evaluation must be computed from its own rows and time.
  EXPECT_NEAR(metrics.at("eval_samples_per_second_mm") / metrics.at("eval_steps_per_second_mm"), 3.0, 0.1);
  EXPECT_NEAR(metrics.at("eval_samples_per_second") / metrics.at("eval_steps_per_second"), 1.0, 0.1);
}

// If the run ends before an interval (for example of logging) is reached, a note must say so. The data has two rows, so an epoch has two
// micro-batches of one row. A step has up to three micro-batches, so the two are one step.
TEST(Setup, ARunSaysWhatItsStepsDoNotReach) {
  const TestFolder folder("unreached");
  Arguments arguments = arguments_with_file(folder, "sentence,label\na,x\nb,y\n");
  arguments.validation_file = arguments.train_file;
  arguments.do_eval = true;
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 7;
  arguments.logging_strategy = "steps";
  arguments.logging_steps = 500;
  arguments.per_device_train_batch_size = 1;
  arguments.gradient_accumulation_steps = 3;
  arguments.max_steps = 6;
  const RunSetup beyond = setup_of(arguments, RunPurpose::kTrain);
  const std::string notes = all_of(beyond.diagnostics.notes);
  EXPECT_NE(notes.find("--logging_steps 500 is more than the run's 6 optimizer steps: no training "
                       "loss is logged or plotted; choose a smaller number\n"),
            std::string::npos)
      << notes;
  EXPECT_NE(
      notes.find("--eval_steps 7 is more than the run's 6 optimizer steps: the only evaluation is the one at "
                 "its end\n"),
      std::string::npos)
      << notes;
  EXPECT_NE(
      all_of(beyond.diagnostics.warnings)
          .find("--gradient_accumulation_steps 3 exceeds the number of micro-batches of an epoch: each step "
                "consists of 2 micro-batches and ends with the epoch\n"),
      std::string::npos)
      << all_of(beyond.diagnostics.warnings);
  arguments.logging_steps = 6;
  arguments.eval_steps = 6;
  arguments.gradient_accumulation_steps = 2;
  const RunSetup reached = setup_of(arguments, RunPurpose::kTrain);
  const std::string said = all_of(reached.diagnostics.notes) + all_of(reached.diagnostics.warnings);
  EXPECT_EQ(said.find("more than the run's"), std::string::npos) << said;
  EXPECT_EQ(said.find("more than an epoch"), std::string::npos) << said;
}

// If a run accumulates gradients although a larger micro-batch would fit into the memory of the machine, a
// note must say so.
TEST(Setup, ARunSaysThatItAccumulatesNeedlessly) {
  const TestFolder folder("needless");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.per_device_train_batch_size = 1;
  arguments.gradient_accumulation_steps = 16;
  const Trainer trainer(arguments);
  const std::string warnings = all_of(trainer.plan().warnings);
  EXPECT_NE(warnings.find("16 micro-batches of batch size 1 are accumulated although larger ones fit: "
                          "--per_device_train_batch_size 16 --gradient_accumulation_steps 1"),
            std::string::npos)
      << warnings;
}

}  // namespace
}  // namespace plimsoll
