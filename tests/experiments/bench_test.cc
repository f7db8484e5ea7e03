// Tests `plimsoll bench` with a model of two layers: the table, its files, sweeps, refusals, and continuing
// after it was killed.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "plimsoll/experiments.h"
#include "plimsoll/plan.h"
#include "tests/bad_input/binary.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

// The sanitizers use about 130 MiB of memory per process, which no plan includes, so measured memory is not
// compared with the plan.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

Words bench_arguments(const TestFolder& folder, const Words& more) {
  Words words{"bench",
              "--output_dir",
              folder.path("out"),
              "--use_cpu",
              "--config_name",
              folder.path("model"),
              "--num_threads",
              "1",
              "--dummy_seq_length",
              "12",
              "--max_seq_length",
              "12",
              "--dummy_num_samples",
              "24",
              "--repeats",
              "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

nlohmann::json table_of(const TestFolder& folder) {
  return nlohmann::json::parse(read_file(folder.path("out") + "/experiments.json"));
}

TEST(Bench, MakesTheTableAndItsFiles) {
  const TestFolder folder("bench_table");
  write_tiny_model(folder);
  const ProcessResult result = run_plimsoll(
      bench_arguments(folder, {"--experiments", "--only", "gradient accumulation,SGD,8-bit AdamW"}),
      folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const nlohmann::json table = table_of(folder);
  const nlohmann::json& rows = table.at("rows");
  ASSERT_GE(rows.size(), 4u);
  for (const char* date : {table.at("date").get_ref<const std::string&>().c_str(),
                           rows[0].at("figures").at("date").get_ref<const std::string&>().c_str()}) {
    int year = 0, second = 0;
    char zone = 0;
    EXPECT_EQ(std::sscanf(date, "%4d-%*2d-%*2dT%*2d:%*2d:%2d%c", &year, &second, &zone), 3) << date;
    EXPECT_GE(year, 2024) << date;
    EXPECT_EQ(zone, 'Z') << date;
  }
  EXPECT_FALSE(table.at("program").at("version").get<std::string>().empty());
  EXPECT_FALSE(table.at("machine").at("cpu").get<std::string>().empty());
  EXPECT_EQ(table.at("summary").at("reference"), "vanilla, batch 4");
  // The caption of the plot names the CPU. The name must be the one that the run of the first row of the table of experiments printed.
  const std::string device = rows[0].at("figures").at("device");
  EXPECT_TRUE(contains(read_file(folder.path("out") + "/rows/01-vanilla-batch-4/output.txt"),
                       "device " + device + "\n"))
      << device;
  EXPECT_TRUE(device.starts_with("cpu: ")) << device;
  EXPECT_TRUE(contains(result.output, "predictions use a calibration")) << result.output;
  EXPECT_FALSE(contains(result.output, "as calibration")) << result.output;
  int measured = 0;
  for (const nlohmann::json& row : rows) {
    // A row contains either measurements or the reason why it could not be run.
    EXPECT_NE(row.at("figures").is_null(), row.at("refused").get<std::string>().empty()) << row.dump(1);
    if (row.at("figures").is_null()) continue;
    ++measured;
    const nlohmann::json& figures = row.at("figures");
    EXPECT_GT(figures.at("samples_per_s").get<double>(), 0) << row.dump(1);
    EXPECT_GT(figures.at("predicted_samples_per_s").get<double>(), 0) << row.dump(1);
    if (!kSanitized) {
      EXPECT_LE(figures.at("measured_bytes").get<int64_t>(), figures.at("predicted_bytes").get<int64_t>());
    }
    EXPECT_LE(figures.at("high_water_bytes").get<int64_t>(), figures.at("arena_bytes").get<int64_t>());
    EXPECT_FALSE(
        fs::exists(folder.path("out") + "/rows/" + row.at("key").get<std::string>() + "/model.safetensors"))
        << "nobody reads the weights of a row";
  }
  EXPECT_GE(measured, 3);
  for (const char* words : {"vanilla, batch 4", "each method alone", "SGD", "fastest: ", "predicted speed"})
    EXPECT_TRUE(contains(result.output, words)) << words << " in " << result.output;
  for (const char* name : {"experiments.csv", "experiments.svg"})
    EXPECT_GT(fs::file_size(folder.path("out") + "/" + name), 100u) << name;
}

// `bench --parallel` runs each training of its table with two ranks. The results in the table are those that
// the first rank reports.
TEST(Bench, ComparesHowRanksTrainTogether) {
  const TestFolder folder("bench_parallel");
  write_tiny_model(folder);
  const ProcessResult result =
      run_plimsoll(bench_arguments(folder, {"--parallel", "--nproc_per_node", "2"}), folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const nlohmann::json table = table_of(folder);
  ASSERT_EQ(table.at("rows").size(), 5u);
  for (const nlohmann::json& row : table.at("rows")) {
    ASSERT_FALSE(row.at("figures").is_null()) << row.dump(1);
    EXPECT_GT(row.at("figures").at("samples_per_s").get<double>(), 0);
    EXPECT_GT(row.at("figures").at("predicted_samples_per_s").get<double>(), 0);
    EXPECT_GT(row.at("figures").at("predicted_bytes").get<int64_t>(), 0);
  }
  // All rows train on the same batches. Their losses differ at most by the rounding of the norm with which gradients are clipped.
  const double loss = table.at("rows")[0].at("figures").at("loss");
  for (const nlohmann::json& row : table.at("rows"))
    EXPECT_NEAR(row.at("figures").at("loss").get<double>(), loss, 1e-5 * loss) << row.at("name");
  EXPECT_TRUE(contains(result.output, "2 x DataParallel")) << result.output;
}

TEST(Bench, SweepsAGridWithMetrics) {
  const TestFolder folder("bench_sweep");
  write_tiny_model(folder);
  const std::string rows = write_uneven_rows(folder, 30);
  const ProcessResult result = run_plimsoll({"bench",
                                             "--output_dir",
                                             folder.path("out"),
                                             "--use_cpu",
                                             "--num_threads",
                                             "1",
                                             "--config_name",
                                             folder.path("model"),
                                             "--tokenizer_name",
                                             folder.path("model"),
                                             "--train_file",
                                             rows,
                                             "--validation_file",
                                             rows,
                                             "--do_eval",
                                             "--max_steps",
                                             "3",
                                             "--sweep",
                                             "per_device_train_batch_size=2,3",
                                             "--sweep",
                                             "optim=adamw_torch,sgd"},
                                            folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const nlohmann::json table = table_of(folder).at("rows");
  ASSERT_EQ(table.size(), 4u);
  EXPECT_EQ(table[1].at("name"), "per_device_train_batch_size=2 optim=sgd");
  for (const nlohmann::json& row : table)
    EXPECT_TRUE(row.at("figures").at("evaluation").contains("eval_accuracy")) << row.dump(1);
  EXPECT_TRUE(contains(result.output, "accuracy")) << result.output;
}

// The tests run with an environment that hides all GPUs from CUDA. `bench --device cuda:0` must then end with the exit code for a missing
// device.
TEST(Bench, AGpuThatIsNotThereIsTheDevicesFault) {
  const TestFolder folder("bench_no_gpu");
  for (const Words& what : {Words{"--experiments"}, Words{"--calibrate"}, Words{"--sweep", "seed=1,2"}}) {
    Words words{"bench", "--device", "cuda:0", "--output_dir", folder.path("out")};
    words.insert(words.end(), what.begin(), what.end());
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 7) << result.output;
    EXPECT_NE(result.output.find("--device cuda:0"), std::string::npos) << result.output;
  }
}

TEST(Bench, RepeatsRowsAndRunsThemAgainWhenAsked) {
  const TestFolder folder("bench_repeats");
  write_tiny_model(folder);
  Words words = bench_arguments(folder, {"--experiments", "--only", "SGD;DataLoader"});
  words[std::find(words.begin(), words.end(), "--repeats") - words.begin() + 1] = "3";
  const ProcessResult first = run_plimsoll(words, folder.path("log"));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_TRUE(contains(first.output, "vanilla, batch 4, run 3: ")) << first.output;
  const nlohmann::json rows = table_of(folder).at("rows");
  for (const nlohmann::json& row : rows) {
    const size_t num_runs = row.at("figures").at("speeds").size();
    EXPECT_TRUE(num_runs >= 3 && num_runs <= 5) << row.dump(1);
    EXPECT_FALSE(row.at("figures").at("spread").is_null());
  }
  EXPECT_FALSE(contains(first.output, "run once")) << first.output;
  EXPECT_TRUE(contains(first.output, "DataLoader, 4 workers")) << first.output;

  words.insert(words.end(), {"--rerun", "DataLoader"});
  const ProcessResult again = run_plimsoll(words, folder.path("log"));
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_TRUE(contains(again.output, "vanilla, batch 4: there already")) << again.output;
  EXPECT_FALSE(contains(again.output, "DataLoader, 4 workers: there already")) << again.output;
  EXPECT_TRUE(contains(again.output, "DataLoader, 4 workers, run 2: ")) << again.output;
}

// If bench is killed at any time and started again with the same arguments, it must repeat only the row that
// was not finished and keep the results of all finished rows.
TEST(Bench, GoesOnAfterItWasKilled) {
  const TestFolder folder("bench_kill");
  write_tiny_model(folder);
  const Words words = bench_arguments(folder, {"--experiments", "--only", "SGD,batch"});
  const std::string first_row = folder.path("out") + "/rows/01-vanilla-batch-4/row.json";
  {
    Process bench(words, folder.path("log"));
    for (int waited = 0; !fs::exists(first_row) && waited < 30000; ++waited) sleep_us(1000);
    bench.send(SIGKILL);
    bench.wait();
  }
  ASSERT_TRUE(fs::exists(first_row));
  const fs::file_time_type written = fs::last_write_time(first_row);
  const ProcessResult result = run_plimsoll(words, folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "vanilla, batch 4: there already")) << result.output;
  EXPECT_EQ(fs::last_write_time(first_row), written);
  // Results that were measured with other arguments must not be reused, so all rows run again.
  Words others = words;
  others.insert(others.end(), {"--seed", "7"});
  const ProcessResult again = run_plimsoll(others, folder.path("log"));
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_FALSE(contains(again.output, "there already")) << again.output;
}

TEST(Bench, ASweepsValuesMayHaveCommas) {
  const TestFolder folder("bench_commas");
  write_tiny_model(folder);
  const ProcessResult result = run_plimsoll(
      bench_arguments(folder,
                      {"--dataset_name", "dummy", "--max_steps", "2", "--sweep", "seed=1,2", "--sweep",
                       "optim_args=momentum_dtype=float32;momentum_dtype=bfloat16,variance_dtype=bfloat16"}),
      folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const nlohmann::json table = table_of(folder).at("rows");
  ASSERT_EQ(table.size(), 4u);
  EXPECT_EQ(table[3].at("name"), "seed=2 optim_args=momentum_dtype=bfloat16,variance_dtype=bfloat16");
  for (const nlohmann::json& row : table) EXPECT_FALSE(row.at("figures").is_null()) << row.dump(1);
  // The table must print long row names completely, because rows may differ only at the end of the name.
  EXPECT_TRUE(contains(result.output, "  seed=1\n    optim_args=momentum_dtype=float32 ")) << result.output;
}

TEST(Bench, HelpIsPrintedWhateverItIsAskedBeside) {
  const TestFolder folder("bench_help");
  for (const Words& words :
       {Words{"bench", "--help"}, Words{"bench", "--experiments", "--help"},
        Words{"bench", "--calibrate", "-h"}, Words{"bench", "--sweep", "seed=1,2", "--help"},
        Words{"merge", "--adapter", "x", "--help"}}) {
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_TRUE(contains(result.output, "usage: plimsoll " + words[0])) << result.output;
    for (size_t at = 0; at < result.output.size();) {
      const size_t end = std::min(result.output.find('\n', at), result.output.size());
      EXPECT_LE(end - at, 104u) << result.output.substr(at, end - at);
      at = end + 1;
    }
  }
}

// `bench --peer` compares each row with another program, Trainer. If that program cannot run any row, bench
// must report this before it spends time on the first row.
TEST(Bench, APeerThatCannotRunIsSaidBeforeAnyRow) {
  const TestFolder folder("bench_no_peer");
  write_tiny_model(folder);
  std::ofstream(folder.path("peer.sh")) << "echo 'ModuleNotFoundError: no module' >&2; exit 1\n";
  const auto refused = [&](const Words& more, const Words& expected) {
    Words words = bench_arguments(folder, {"--experiments", "--peer"});
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 2) << result.output;
    for (const std::string& word : expected) EXPECT_TRUE(contains(result.output, word)) << result.output;
    EXPECT_FALSE(contains(result.output, "[1/")) << result.output;
    EXPECT_FALSE(fs::exists(folder.path("out") + "/calibration")) << "the peer is asked first";
  };
  refused({"--peer_python", "/bin/sh", "--peer_script", folder.path("peer.sh")},
          {"--peer: /bin/sh: ModuleNotFoundError: no module", "--peer_python", "omit --peer"});
  // Without --peer_script, bench must find its own script from any working directory. The interpreter that is given here does not exist. An
  // error about the interpreter shows that bench has found the script.
  refused({"--peer_python", folder.path("none")}, {"none cannot be run", "--peer_python"});
  refused({"--peer_script", folder.path("none.py")}, {"--peer_script", "the file does not exist"});
}

// A shell script simulates the script that runs Hugging Face's Trainer. It reports measurements for most rows
// and refuses 8-bit SGD, as the real script refuses rows that Trainer does not support.
TEST(Bench, APeerStandsBesideEachRowThatItHas) {
  const TestFolder folder("bench_peer");
  write_tiny_model(folder);
  std::ofstream(folder.path("peer.sh"))
      << "case \"$*\" in\n"
         "  --check) exit 0 ;;\n"
         "  *sgd_8bit*) echo no such optimizer; exit 1 ;;\n"
         "  *selective*) exec python3 " PLIMSOLL_SOURCE_DIR
         "/bench/experiments_peer.py \"$@\" ;;\n"
         "esac\n"
         "printf '{\"samples_per_s\": 2.5, \"measured_bytes\": 1048576, \"refused\": \"\"}' > \"$1\"\n";
  const Words words =
      bench_arguments(folder, {"--experiments", "--only", "SGD,selective", "--peer", "--peer_python",
                               "/bin/sh", "--peer_script", folder.path("peer.sh")});
  const ProcessResult result = run_plimsoll(words, folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  std::map<std::string, nlohmann::json> peers;
  const nlohmann::json rows = table_of(folder).at("rows");
  for (const nlohmann::json& row : rows) peers[row.at("name")] = row.at("peer");
  ASSERT_EQ(peers.size(), 4u) << result.output;
  for (const char* name : {"vanilla, batch 4", "SGD"}) {
    EXPECT_EQ(peers.at(name).at("samples_per_s"), 2.5) << name;
    EXPECT_EQ(peers.at(name).at("refused"), "") << name;
  }
  EXPECT_EQ(peers.at("8-bit SGD with momentum").at("refused"), "no such optimizer");
  EXPECT_EQ(peers.at("selective recompute").at("refused"), "Trainer has nothing like --recompute selective");
  EXPECT_TRUE(contains(result.output, "compared with Hugging Face's Trainer")) << result.output;
  EXPECT_TRUE(contains(result.output, "Trainer 2.5 samples/s, 1 MiB")) << result.output;
  // A refusal by Trainer's script is stored as the result of the row, so that the next bench does not run this
  // row again.
  const ProcessResult again = run_plimsoll(words, folder.path("log"));
  EXPECT_TRUE(contains(again.output, "[4/4] 8-bit SGD with momentum: there already")) << again.output;
}

// If bench is killed while Trainer's script runs a row, the next bench must run only that row again.
TEST(Bench, GoesOnWithTheRowWhosePeerWasKilled) {
  const TestFolder folder("bench_peer_kill");
  write_tiny_model(folder);
  const auto peer = [&](const std::string& hangs_for) {
    std::ofstream(folder.path("peer.sh"))
        << "case \"$*\" in --check) exit 0 ;; *" << hangs_for << "*) exec sleep 100 ;; esac\n"
        << "printf '{\"samples_per_s\": 2.5, \"measured_bytes\": 1048576, \"refused\": \"\"}' > \"$1\"\n";
  };
  const Words words =
      bench_arguments(folder, {"--experiments", "--only", "Adagrad", "--peer", "--peer_python", "/bin/sh",
                               "--peer_script", folder.path("peer.sh")});
  peer("adagrad_8bit");
  const std::vector<Experiment> all = document_experiments(ExperimentDevice::kCpu, {});
  const auto row = std::ranges::find(all, "8-bit Adagrad", &Experiment::name);
  ASSERT_NE(row, all.end());
  const std::string started = folder.path("out") + "/rows/" + row->key + "/peer_output.txt";
  {
    Process bench(words, folder.path("log"));
    for (int waited = 0; !fs::exists(started) && waited < 60000; ++waited) sleep_us(1000);
    bench.send(SIGKILL);
    bench.wait();
  }
  ASSERT_TRUE(fs::exists(started));
  peer("nothing");
  const ProcessResult result = run_plimsoll(words, folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "[2/3] Adagrad: there already")) << result.output;
  EXPECT_FALSE(contains(result.output, "[3/3] 8-bit Adagrad: there already")) << result.output;
  EXPECT_EQ(table_of(folder).at("rows")[2].at("peer").at("samples_per_s"), 2.5);
}

// Returns the first child of a process, or 0 if it has none.
pid_t child_of(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream children("/proc/" + id + "/task/" + id + "/children");
  pid_t child = 0;
  return children >> child ? child : 0;
}

// A row whose run crashes must still be a line of the table, and the exit code must show that something failed.
TEST(Bench, ARowThatCrashesIsReportedAtTheEnd) {
  const TestFolder folder("bench_crash");
  write_tiny_model(folder);
  Process bench(bench_arguments(folder, {"--sweep", "max_steps=100000,3", "--dataset_name", "dummy"}),
                folder.path("log"));
  const auto has_started = [&] {
    for (const fs::directory_entry& row : fs::directory_iterator(folder.path("out") + "/rows")) {
      if (fs::exists(row.path() / "log.jsonl")) return true;
    }
    return false;
  };
  for (int waited = 0; !(fs::exists(folder.path("out") + "/rows") && has_started()) && waited < 30000;
       ++waited)
    sleep_us(1000);
  const pid_t row = child_of(bench.pid());
  ASSERT_GT(row, 0);
  ASSERT_EQ(kill(row, SIGKILL), 0);
  const ProcessResult result = bench.wait();
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_TRUE(contains(result.output, "1 row was neither completed nor refused")) << result.output;
  const nlohmann::json rows = table_of(folder).at("rows");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(contains(rows[0].at("refused"), "ended with exit code 137")) << rows[0].dump(1);
  EXPECT_FALSE(rows[1].at("figures").is_null()) << rows[1].dump(1);
}

// If training diverges, a loss of NaN or infinity is a result of the row and must not be reported as a failure
// of bench.
TEST(Bench, ARowWhoseLossIsNotFiniteIsNoFault) {
  const TestFolder folder("bench_not_finite");
  write_tiny_model(folder);
  const ProcessResult result = run_plimsoll(
      bench_arguments(
          folder, {"--sweep", "learning_rate=1e-4,1e30", "--max_grad_norm", "0", "--dataset_name", "dummy"}),
      folder.path("log"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(contains(table_of(folder).at("rows")[1].at("refused"), "ended with exit code 5"))
      << result.output;
}

TEST(Bench, StopsAtASignalAndSaysHowToGoOn) {
  const TestFolder folder("bench_stop");
  write_tiny_model(folder);
  Process bench(bench_arguments(folder, {"--experiments", "--max_steps", "100000"}), folder.path("log"));
  const std::string started = folder.path("out") + "/rows/01-vanilla-batch-4/log.jsonl";
  for (int waited = 0; !fs::exists(started) && waited < 30000; ++waited) sleep_us(1000);
  bench.send(SIGINT);
  const ProcessResult result = bench.wait();
  EXPECT_EQ(result.exit_code, 6) << result.output;
  EXPECT_TRUE(contains(result.output, "continue with row 1")) << result.output;
}

TEST(Bench, RefusesWhatItCannotRead) {
  const TestFolder folder("bench_words");
  const auto refused = [&](const Words& words, const std::string& expected) {
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_TRUE(contains(result.output, expected)) << result.output;
  };
  refused({"bench", "--use_cpu"}, "--experiments, or --parallel, or --sweep");
  refused({"bench", "--parallel", "--use_cpu", "--output_dir", folder.path("parallel")},
          "--parallel compares how several processes train together, and these arguments start one; give "
          "--nproc_per_node 2 or more");
  refused({"bench", "--sweep", "nonsense"}, "expected NAME=VALUE");
  refused({"bench", "--sweep", "nonsense=1,2"}, "'nonsense' is not an argument");
  refused({"bench", "--sweep", "seed=1,,2"}, "a value is empty");
  refused({"bench", "--experiments", "--output_dir"}, "needs a value");
  for (const char* repeats : {"0", "-1", "x", "3x", "101", ""})
    refused({"bench", "--experiments", "--repeats", repeats}, "expected a number of runs from 1 to 100");
  refused(
      {"bench", "--experiments", "--use_cpu", "--rerun", "nonsense", "--output_dir", folder.path("rerun")},
      "--rerun nonsense: no experiment has a name that contains it");
  refused({"bench", "--sweep", "optim_args=momentum_dtype=bfloat16,variance_dtype=bfloat16"},
          "put ';' between the values of the sweep");
  refused({"bench", "--sweep", "lora_target_modules=query,value"},
          "a value of --lora_target_modules is a list and contains commas");
  refused({"bench", "--sweep", "seed=1;"}, "a value is empty");
  refused(
      {"bench", "--output_dir", folder.path("out"), "--use_cpu", "--experiments", "--only", "SGD,nonsense"},
      "--only nonsense: no experiment has a name that contains it; the experiments are\n  vanilla, batch "
      "4\n");
  refused(
      {"bench", "--output_dir", folder.path("out"), "--sweep", "seed=1,2", "--only", "seed=3"},
      "--only seed=3: no experiment has a name that contains it; the experiments are\n  seed=1\n  seed=2\n");
}

TEST(Experiments, TheNineOfTheDocumentsComeFirstOnBothDevices) {
  for (const ExperimentDevice device : {ExperimentDevice::kCpu, ExperimentDevice::kGpu}) {
    const std::vector<Experiment> rows = document_experiments(device, {"--seed", "3"});
    ASSERT_GE(rows.size(), 14u);
    const std::string half = device == ExperimentDevice::kGpu ? "--fp16" : "--bf16";
    for (const size_t i : {3u, 4u, 6u, 8u})
      EXPECT_EQ(std::count(rows[i].words.begin(), rows[i].words.end(), half), 1) << rows[i].name;
    for (const Experiment& row : rows) {
      EXPECT_EQ(std::count(row.words.begin(), row.words.end(), "--per_device_train_batch_size"), 1)
          << row.name;
      EXPECT_EQ(row.words.back(), "3");
    }
    EXPECT_EQ(rows[4].note.empty(), device == ExperimentDevice::kGpu);
  }
}

// On the cards that the table of experiments is meant for, every row must be accepted, and no two rows may have
// the same arguments.
TEST(Experiments, EveryRowOfAGpuIsARun) {
  std::set<std::string> names;
  std::set<std::string> keys;
  std::set<Words> runs;
  for (const Experiment& row : document_experiments(ExperimentDevice::kGpu, {"--device", "h200"})) {
    EXPECT_NO_THROW({
      const PlanReport plan = plan_run(parse_arguments(row.words).arguments);
      EXPECT_TRUE(plan.fits) << row.name;
    }) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    EXPECT_TRUE(runs.insert(row.words).second) << row.name;
  }
  for (const char* name :
       {"acc., fp16", "bf16, batch 32, selective recompute", "LoRA, rank 8, base in 8 bits",
        "the smallest in fp32, nothing offloaded", "update in backward, offloaded optimizer"})
    EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace plimsoll::testing
