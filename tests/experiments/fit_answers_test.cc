// Tests `plimsoll fit`: its answers are plans that run, and its refusals state what is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "base/file.h"
#include "plan/compile/plan.h"
#include "plan/search/method_set.h"
#include "plimsoll/fit.h"
#include "plimsoll/methods.h"
#include "plimsoll/plan.h"
#include "run/run_setup.h"
#include "tests/bad_input/binary.h"
#include "tests/experiments/words.h"
#include "tests/support/sanitized.h"
#include "tests/support/scratch_folder.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

Plan planned(const Arguments& arguments, RunPurpose purpose) {
  PlanRequest request = prepare_run(arguments, purpose, Environment{}, posix_file_system()).request;
  request.evaluate = false;
  return build_plan(request);
}

// Returns the names of the methods in all rows that fit into the memory. Checks that plans with the arguments of each row need the same
// number of bytes, and that `train --dry_run`, in a separate process, accepts the arguments of rows with at most one method.
std::set<std::string> check_commands(const FitReport& report, const Words& words, const TestFolder& folder) {
  std::set<std::string> methods;
  for (const FitRow& row : report.rows) {
    if (row.micro_batch == 0) continue;
    const Words taken = joined(joined(words, row.arguments), {"--output_dir", folder.path("out")});
    const Plan plan = planned(arguments_of(taken), RunPurpose::kTrain);
    EXPECT_EQ(plan.total_bytes(), row.total_bytes) << nlohmann::json(row.arguments);
    const Plan told = planned(arguments_of(taken), RunPurpose::kPlan);
    EXPECT_EQ(plan.arena_bytes, told.arena_bytes) << nlohmann::json(row.arguments);
    EXPECT_EQ(plan.total_bytes(), told.total_bytes()) << nlohmann::json(row.arguments);
    // To save time, a process is started only for rows with at most one method. Rows with several methods were planned above, within this
    // process.
    if (row.methods.size() < 2) {
      const ProcessResult result =
          run_plimsoll(joined(joined({"train"}, taken), {"--dry_run"}), folder.path("log"));
      EXPECT_EQ(result.exit_code, 0) << result.output;
    }
    methods.insert(row.methods.begin(), row.methods.end());
  }
  return methods;
}

Words tiny_arguments(const TestFolder& folder) {
  return {"--config_name",
          folder.path("model"),
          "--dataset_name",
          "dummy",
          "--dummy_seq_length",
          "32",
          "--dummy_num_samples",
          "64",
          "--max_seq_length",
          "32",
          "--use_cpu",
          "--num_threads",
          "1"};
}

// Returns true if the report lists the method among those from which `fit` makes its sets.
bool is_searched(const FitReport& report, std::string_view method) {
  const std::string text = " " + report.searched + ",";
  return contains(text, " " + std::string(method) + ",") || contains(text, " " + std::string(method) + ";");
}

TEST(Fit, TrainTakesEveryAnswerAndHoldsWhatItSays) {
  const TestFolder folder("fit_every");
  write_tiny_model(folder);
  const Words words = tiny_arguments(folder);
  const FitReport report =
      fit_run({.arguments = arguments_of(words), .effective_batch_size = 8, .with_other_paths = true});
  EXPECT_GE(check_commands(report, words, folder).size(), 4u);
  int searched = 0;
  for (const Method& method : method_table()) {
    // `fit` must try every method that this device supports, unless the table of methods excludes it from `fit` (not_in_fit). Two kinds are
    // not checked here: chunked losses need a task with many labels, and recompute_budget needs a memory limit.
    if (method.kind == "loss" || method.name == "recompute_budget") continue;
    // A CPU may lack instructions for bf16 products. The report then lists the method as refused.
    const bool is_refused = contains(report.refused, std::string(method.name));
    EXPECT_EQ(is_searched(report, method.name) || is_refused,
              method.not_on_cpu.empty() && method.not_in_fit.empty())
        << method.name << " in " << report.searched;
    searched += is_searched(report, method.name) ? 1 : 0;
  }
  EXPECT_GE(searched, 13);
}

TEST(Fit, TrainTakesTheAnswersOfALimit) {
  const TestFolder folder("fit_train");
  write_tiny_model(folder);
  const Words words = tiny_arguments(folder);
  // Without a memory limit, the report gives the smallest and the largest memory of all sets of methods. The limits below are the middle of
  // the two, the smallest, and 400000 bytes less than the smallest. They are so low that a run must recompute layers or use an optimizer
  // with smaller states.
  FitOptions options{.arguments = arguments_of(words), .effective_batch_size = 64, .with_other_paths = true};
  const FitReport all = fit_run(options);
  ASSERT_FALSE(all.rows.empty());
  int64_t least = all.rows[0].total_bytes;
  int64_t most = least;
  for (const FitRow& row : all.rows) {
    least = std::min(least, row.total_bytes);
    most = std::max(most, row.total_bytes);
  }
  std::set<std::string> methods;
  for (const int64_t limit : {least + (most - least) / 2, least, least - 400000}) {
    options.arguments.memory_limit = limit;
    const Words limited = joined(words, {"--memory_limit", std::to_string(limit)});
    const FitReport report = fit_run(options);
    methods.merge(check_commands(report, limited, folder));
    for (const FitRow& row : report.rows) EXPECT_LE(row.total_bytes, limit);
  }
  EXPECT_GE(methods.size(), 4u);
}

// Plans for a GPU do not need that GPU: `plan` must compute the memory that `fit` states, to the byte, on any
// machine.
TEST(Fit, EveryMethodOnACardIsPlannedToTheByte) {
  const TestFolder folder("fit_card");
  write_tiny_model(folder);
  const Words words{"--config_name",    folder.path("model"),
                    "--max_seq_length", "32",
                    "--device",         "h200",
                    "--num_threads",    "1"};
  FitOptions options{.arguments = arguments_of(words), .effective_batch_size = 8, .with_other_paths = true};
  const FitReport roomy = fit_run(options);
  for (const Method& method : method_table()) {
    if (method.kind == "loss") continue;
    EXPECT_EQ(is_searched(roomy, method.name), method.not_in_fit.empty()) << method.name;
  }
  int rows = 0;
  int64_t least = roomy.rows.front().total_bytes;
  for (const FitRow& row : roomy.rows) least = std::min(least, row.total_bytes);
  for (const int64_t limit : {int64_t{1} << 40, least, least - 100000}) {
    options.arguments.memory_limit = limit;
    const Words limited = joined(words, {"--memory_limit", std::to_string(limit)});
    for (const FitRow& row : fit_run(options).rows) {
      if (row.micro_batch == 0) continue;
      const Plan plan = planned(arguments_of(joined(limited, row.arguments)), RunPurpose::kPlan);
      EXPECT_EQ(plan.total_bytes(), row.total_bytes) << nlohmann::json(row.arguments);
      EXPECT_TRUE(plan.fits()) << nlohmann::json(row.arguments);
      ++rows;
    }
  }
  EXPECT_GE(rows, 20);
}

// There are two ways to plan a run with a set of methods: to change the request of a run that was already prepared, or
// to parse the arguments of the methods and read the files again. Checks that both have the same result, for every
// method, for every pair of methods, and for every method added to a run whose own arguments contain another one.
class WordsOfMethods {
 public:
  explicit WordsOfMethods(const Words& words) : words_(words) {}

  // Parses the arguments of the run followed by `more`, and reads the run's files. Returns nothing if the program refuses the arguments.
  std::optional<RunSpec> read(const Words& more) const {
    try {
      return prepare_run(arguments_of(joined(words_, more)), RunPurpose::kPlan, Environment{},
                         posix_file_system())
          .spec();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
      return std::nullopt;
    }
  }

  void expect_same(const PlanRequest& made, const RunSpec& run, const std::string& what) const {
    const PlanRequest said = request_of(run);
    const auto parts = [](const PlanRequest& r) {
      return std::tie(r.precision.dtype, r.precision.activation_dtype, r.precision.gradient_dtype,
                      r.update.optimizer, r.precision.fp32_products, r.precision.copies_at_use, r.recompute,
                      r.chunked_loss, r.update.in_backward, r.update.offload_states, r.offload.activations,
                      r.model.freeze, r.model.lora, r.batches.evaluate);
    };
    EXPECT_TRUE(parts(made) == parts(said)) << what;
    EXPECT_EQ(build_plan(made).total_bytes(), build_plan(said).total_bytes()) << what;
  }

 private:
  Words words_;
};

// Returns the methods that changed_request() can add to a prepared run. It cannot add the others, which depend on the
// batch size or on the model.
std::vector<const Method*> made_methods() {
  std::vector<const Method*> methods;
  for (const Method& method : method_table()) {
    if (method.kind == "accumulation") continue;
    if (method.name == "selective" || method.name == "recompute_budget") continue;
    methods.push_back(&method);
  }
  return methods;
}

TEST(Methods, MakeOfARequestWhatTheirWordsSay) {
  if (test::kIsSanitized) GTEST_SKIP() << "two minutes of plans like those of the tests around it";
  const TestFolder folder("fit_methods");
  write_tiny_model(folder);
  int made = 0;
  int refused = 0;
  for (const Words& device : {Words{"--device", "h200"}, Words{"--device", "t4"}, Words{"--use_cpu"}}) {
    const Words words = joined(
        {"--config_name", folder.path("model"), "--max_seq_length", "16", "--num_threads", "1"}, device);
    const WordsOfMethods reader(words);
    const RunSpec own = *reader.read({});
    const std::vector<const Method*> methods = made_methods();
    for (const Method* a : methods) {
      const std::optional<RunSpec> base = reader.read(words_of(MethodSet().with(*a), own));
      for (const Method* b : methods) {
        // Two methods are applied in two ways: both at once to the run, and b to a run whose own arguments already
        // select a.
        const MethodSet pair = MethodSet().with(*a).with(*b);
        if (a == b || a->kind != b->kind) {
          const std::optional<PlanRequest> request = changed_request(own, pair);
          const std::optional<RunSpec> said = reader.read(words_of(pair, own));
          const std::string what = device.back() + ": " + pair.text();
          if (request) {
            ++made;
            ASSERT_TRUE(said.has_value()) << what;
            reader.expect_same(*request, *said, what);
          } else {
            ++refused;
          }
        }
        if (!base) continue;
        const MethodSet alone = MethodSet().with(*b);
        const std::optional<PlanRequest> more = changed_request(*base, alone);
        if (!more) continue;
        Words all = words_of(MethodSet().with(*a), own);
        all = joined(all, words_of(alone, *base));
        const std::optional<RunSpec> said = reader.read(all);
        const std::string what =
            device.back() + ": " + std::string(a->name) + ", then " + std::string(b->name);
        ASSERT_TRUE(said.has_value()) << what;
        reader.expect_same(*more, *said, what);
      }
    }
  }
  EXPECT_GE(made, 300);
  EXPECT_GE(refused, 100);
}

// `fit` does not read the training file, but its type determines the task, just as in a run.
TEST(Fit, TheTrainingFileDecidesTheTask) {
  const test::ScratchFolder folder;
  const auto table_of = [&](const std::string& model, const std::string& file, const Words& more = {}) {
    Words words{"--config_name", model, "--device", "l4"};
    if (!file.empty()) words.insert(words.end(), {"--train_file", file});
    words.insert(words.end(), more.begin(), more.end());
    return in_one_line(fit_run({.arguments = arguments_of(words), .effective_batch_size = 1}).table);
  };
  const std::string text = folder.write("corpus.txt", "good stories\n");
  const std::string rows = folder.write("rows.tsv", "text\tlabel\ngood\t1\nbad\t0\n");
  // With a plain text file GPT-2 is trained as a language model, in blocks of 1024 tokens.
  EXPECT_TRUE(contains(table_of("gpt2", text), "gpt2, 1024 tokens")) << table_of("gpt2", text);
  EXPECT_TRUE(contains(table_of("gpt2", text, {"--block_size", "256"}), "gpt2, 256 tokens"));
  EXPECT_TRUE(contains(table_of("gpt2", "/nonexistent/corpus.txt.gz"), "gpt2, 1024 tokens"))
      << "it is not read";
  EXPECT_TRUE(contains(table_of("gpt2", rows), "gpt2, 128 tokens"));
  EXPECT_TRUE(contains(table_of("gpt2", ""), "gpt2, 128 tokens"));
  EXPECT_TRUE(contains(table_of("gpt2", text, {"--problem_type", "single_label_classification"}),
                       "gpt2, 128 tokens"));
  // If the model has no head for language modelling, a classifier is planned, also with a plain text file.
  EXPECT_TRUE(contains(table_of("bert-base-uncased", text), "bert-base-uncased, 128 tokens"));
  // If the model is a language model but the rows of the file have labels, `fit` plans the training of a
  // classifier, as `train` does.
  const std::string lm = PLIMSOLL_SOURCE_DIR "/tests/parity/models/gpt2_lm";
  EXPECT_TRUE(contains(table_of(lm, ""), "gpt2_lm, 64 tokens")) << table_of(lm, "");
  EXPECT_TRUE(contains(table_of(lm, rows, {"--max_seq_length", "32"}), "gpt2_lm, 32 tokens"));
  // With a file of tagged words (CoNLL) a token classifier is trained. The number of different tags does not
  // matter.
  const std::string tags = folder.write("words.conll", "good O\n\n");
  // Removes the command at the end of the report, because it contains the file name.
  const auto answers = [](const std::string& table) { return table.substr(0, table.find("plimsoll train")); };
  EXPECT_EQ(answers(table_of("bert-base-uncased", tags)),
            answers(table_of("bert-base-uncased", "", {"--problem_type", "token_classification"})));
}

// The printed command has placeholders for what a user has to fill in (MODEL, FILE), and each is explained
// once.
TEST(Fit, SaysOnceWhatAUserHasToFillIn) {
  const Words bert{"--config_name", "bert-base-uncased", "--device", "l4"};
  const std::string table = fit_run({.arguments = arguments_of(bert), .effective_batch_size = 1}).table;
  EXPECT_TRUE(contains(table, "plimsoll train --model_name_or_path MODEL --train_file FILE --")) << table;
  EXPECT_EQ(table.find("FILE: the training data"), table.rfind("FILE: the training data")) << table;
  EXPECT_TRUE(contains(in_one_line(table), "in Hugging Face's cache, of the model bert-base-uncased;"))
      << table;
  EXPECT_FALSE(contains(table, "--config_name")) << table;
  EXPECT_TRUE(contains(table, ", 1 sequence per step")) << table;
  const TestFolder folder("fit_fill_in");
  write_tiny_model(folder);
  const std::string whole =
      fit_run({.arguments = arguments_of(tiny_arguments(folder)), .effective_batch_size = 8}).table;
  EXPECT_FALSE(contains(whole, "FILE")) << "random data needs none: " << whole;
}

// With random data, the number of steps with each padded size is known for every split of a batch into micro-batches.
// From these numbers `fit` must count the CUDA graphs that a GPU will capture, as a run with the same arguments does.
TEST(Fit, CountsTheCapturedProgramsOfEachSplit) {
  const TestFolder folder("fit_captured");
  write_tiny_model(folder);
  std::set<int> updates;
  for (const char* max_steps : {"1", "3", "7"}) {
    const Words words{"--config_name",
                      folder.path("model"),
                      "--dataset_name",
                      "dummy",
                      "--dummy_seq_length",
                      "20",
                      "--dummy_num_samples",
                      "22",
                      "--max_steps",
                      max_steps,
                      "--do_eval",
                      "--per_device_eval_batch_size",
                      "4",
                      "--device",
                      "h200",
                      "--tuning_cache",
                      folder.path("tuning"),
                      "--num_threads",
                      "1"};
    for (const int64_t effective : {2, 8, 30}) {
      const FitReport report = fit_run({.arguments = arguments_of(words), .effective_batch_size = effective});
      ASSERT_FALSE(report.rows.empty());
      for (const FitRow& row : report.rows) {
        ASSERT_GT(row.micro_batch, 0);
        // Skips micro-batches of more than 22 sequences: the data has 22 rows, so a run cannot fill such a
        // batch, while `fit` plans it at full size.
        if (row.micro_batch > 22) continue;
        const Arguments arguments = arguments_of(joined(words, row.arguments));
        const RunSetup told = prepare_run(arguments, RunPurpose::kPlan, Environment{}, posix_file_system());
        EXPECT_EQ(build_plan(told.request).total_bytes(), row.total_bytes) << nlohmann::json(row.arguments);
        Arguments dry = arguments;
        dry.dry_run = true;
        const RunSetup run = prepare_run(dry, RunPurpose::kTrain, Environment{}, posix_file_system());
        EXPECT_EQ(run.request.captured_buckets, told.request.captured_buckets);
        EXPECT_EQ(build_plan(run.request).total_bytes(), row.total_bytes) << nlohmann::json(row.arguments);
        updates.insert(told.request.captured_buckets.update);
      }
    }
  }
  EXPECT_GE(updates.size(), 2u);
}

Words bert_base(const std::string& devices) {
  return {"fit", "--config_name", "bert-base-uncased", "--device", devices, "--effective_batch_size", "4"};
}

// Released binaries contain GPU code for compute capability 7.5 and later, so `fit` must not recommend older
// cards.
TEST(Fit, OffersNoCardOnWhichNoReleaseRuns) {
  const TestFolder folder("fit_cards");
  const auto output_of = [&](const Words& words) {
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  };
  const std::string all = output_of(bert_base("all"));
  EXPECT_TRUE(contains(all, "not compared: v100-16gb (7.0): releases of Plimsoll run on")) << all;
  EXPECT_EQ(all.find("v100-16gb"), all.rfind("v100-16gb")) << all;
  EXPECT_TRUE(contains(all, " t4 ")) << all;
  // If the user requests a card that released programs do not support, `fit` compares it too, but prints no command to train on it.
  const std::string named = output_of(bert_base("t4,V100-16GB"));
  EXPECT_TRUE(contains(named, "plan only: v100-16gb (7.0)")) << named;
  EXPECT_FALSE(contains(named, "on v100")) << named;
  EXPECT_TRUE(contains(named, "on t4: ")) << named;
  const std::string alone = output_of(bert_base("v100-16gb"));
  EXPECT_TRUE(contains(alone, "to plan the first:\n  plimsoll plan --device v100-16gb --config_name "))
      << alone;
  EXPECT_FALSE(contains(alone, "plimsoll train")) << alone;
  EXPECT_FALSE(contains(output_of(bert_base("l4,t4")), "plan only"));
  const ProcessResult unknown = run_plimsoll(bert_base("l5"), folder.path("log"));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(contains(unknown.output, "v100-16gb (plan only)")) << unknown.output;
}

// Rows whose estimated speed is within 15 % of the fastest are a tie, of which the row that changes the training least must be first. Here
// this is plain bf16, which is within 2 % of the fastest set of methods, and keeps fp32 master weights and AdamW.
TEST(Fit, PutsTheMildestOfATieFirst) {
  const Words words{"--config_name", "bert-base-uncased", "--max_seq_length", "512", "--device", "l4"};
  for (const int64_t effective : {8, 32}) {
    FitOptions options{.arguments = arguments_of(words), .effective_batch_size = effective};
    const FitReport report = fit_run(options);
    ASSERT_GE(report.rows.size(), 3u);
    const double fastest = std::ranges::max(report.rows, {}, &FitRow::samples_per_s).samples_per_s;
    for (const FitRow& row : report.rows) {
      EXPECT_EQ(row.tie == 1, row.samples_per_s * 1.15 > fastest) << nlohmann::json(row.methods);
    }
    EXPECT_EQ(report.rows[0].methods, (std::vector<std::string>{"bf16"})) << report.table;
    EXPECT_TRUE(contains(report.table, "rows with the same letter are a tie")) << report.table;
    options.devices = {"l4"};
    EXPECT_EQ(fit_run(options).rows[0].methods, report.rows[0].methods)
        << "cards are compared by the same rule";
  }
}

// A program that uses the library fills FitOptions directly. These options must be checked like those of a
// command line.
TEST(Fit, ChecksOptionsThatAProgramFilled) {
  const auto refused = [](const std::function<void(FitOptions&)>& change, const std::string& expected) {
    FitOptions options;
    options.arguments.config_name = "bert-base-uncased";
    options.arguments.device = "l4";
    options.effective_batch_size = 4;
    change(options);
    try {
      fit_run(options);
      ADD_FAILURE() << expected;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
      EXPECT_TRUE(contains(error.what(), expected)) << error.what();
    }
  };
  refused([](FitOptions& o) { o.arguments.bf16 = o.arguments.fp16 = true; },
          "--fp16 and --bf16 exclude each other");
  refused([](FitOptions& o) { o.arguments.per_device_train_batch_size = -3; }, "per_device_train_batch_size");
  refused([](FitOptions& o) { o.arguments.eval_strategy = "epochs"; }, "did you mean 'epoch'");
  refused([](FitOptions& o) { o.arguments.optim = "adam_8bit"; }, "--optim");
  refused([](FitOptions& o) { o.arguments.memory_limit = -1; }, "memory_limit");
  refused([](FitOptions& o) { o.epoch_samples = 0; }, "--epoch_samples 0");
  refused([](FitOptions& o) { o.effective_batch_size = 0; }, "--effective_batch_size 0");
  refused([](FitOptions& o) { o.prices = {{"l5", 1.0}}; }, "prices: no card is called 'l5'; the cards are ");
  refused(
      [](FitOptions& o) {
        o.prices = {{"l4", -1.0}};
      },
      "prices: the price of l4 is -1, but has to be above 0");
  refused([](FitOptions& o) { o.devices = {"l4", "l5"}; }, "--device l5");
  // use_cpu has the same effect as --device cpu. Parsing a command line sets both, but a program that uses
  // the library may set only use_cpu.
  FitOptions cpu;
  cpu.arguments.config_name = "MiniLM-L6-H384-uncased";
  cpu.arguments.use_cpu = true;
  cpu.arguments.num_threads = 1;
  cpu.effective_batch_size = 1;
  EXPECT_EQ(fit_run(cpu).rows.at(0).device, "cpu");
}

TEST(Fit, RefusesWhatItCannotRead) {
  const TestFolder folder("fit_words");
  std::ofstream(folder.path("prices")) << "l4,much\n";
  std::ofstream(folder.path("cards")) << "l4,1\nl5,1\n";
  const auto refused = [&](const Words& words, const std::string& expected) {
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_TRUE(contains(result.output, expected)) << result.output;
  };
  refused({"fit", "--prices", folder.path("prices")}, "prices:1: expected a card and its price");
  refused({"fit", "--prices", folder.path("cards")}, "cards:2: no plan can be made for the card 'l5'");
  refused({"fit", "--effective_batch_size", "0"}, "expected an integer of at least 1");
  refused({"fit", "--config_name", "bert-base-uncased", "--device", "l5"}, "--device l5");
  refused({"fit", "--memory"}, "needs a value");
}

}  // namespace
}  // namespace plimsoll::testing
