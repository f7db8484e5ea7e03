#include "tests/ranks/rank_processes.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/training/tiny_folder.h"
#include "tests/training/tiny_words.h"

namespace plimsoll::testing {
namespace {

// Returns this number of ranks and of accumulation steps. On GPUs, a run with more than two ranks is replaced by one
// with at most two ranks and more accumulation steps, so that a step still processes the same batches.
Layout fitting(const Layout& layout) {
  if (!on_gpus() || layout.ranks <= 2) return layout;
  return layout.ranks % 2 == 0 ? Layout{.ranks = 2, .accumulation = layout.accumulation * layout.ranks / 2}
                               : Layout{.ranks = 1, .accumulation = layout.accumulation * layout.ranks};
}

}  // namespace

bool on_gpus() {
  return std::getenv("PLIMSOLL_TEST_DEVICE") != nullptr;
}

std::vector<std::string> words_of(const std::string& model, const std::string& output_dir,
                                  const Layout& wanted, int steps, const std::vector<std::string>& more) {
  const Layout layout = fitting(wanted);
  std::vector<std::string> words = tiny_train_words(model, output_dir, steps);
  words.insert(words.end(),
               {"--device", on_gpus() ? "auto" : "cpu", "--nproc_per_node", std::to_string(layout.ranks),
                "--gradient_accumulation_steps", std::to_string(layout.accumulation), "--optim", "sgd",
                "--learning_rate", "0.05"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void wait_for(Process& process, const std::string& path) {
  for (int i = 0; i < 60000 && process.is_running() && !std::filesystem::exists(path); ++i) sleep_us(1000);
}

std::vector<std::string> variables_of(int rank, int port, int num_ranks) {
  const std::string number = std::to_string(rank), size = std::to_string(num_ranks);
  return {"RANK=" + number,           "LOCAL_RANK=" + number,  "WORLD_SIZE=" + size,
          "LOCAL_WORLD_SIZE=" + size, "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port)};
}

std::vector<pid_t> ranks_of(const Process& launcher) {
  const std::string pid = std::to_string(launcher.pid());
  std::istringstream children(read_file("/proc/" + pid + "/task/" + pid + "/children"));
  std::vector<pid_t> ranks;
  for (pid_t child = 0; children >> child;) ranks.push_back(child);
  return ranks;
}

std::vector<double> logged_values(const std::string& output_dir, const std::string& key) {
  std::istringstream lines(read_file(output_dir + "/log.jsonl"));
  std::vector<double> values;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (record.contains(key)) values.push_back(record.at(key));
  }
  return values;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void wait_for_step(Process& process, const std::string& run, int64_t step) {
  for (int i = 0; i < 60000 && process.is_running(); ++i) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(run, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("checkpoint-") && std::atoll(name.c_str() + 11) >= step) return;
    }
    sleep_us(500);
  }
}

void wait_for_save(Process& process, const std::string& run) {
  for (int i = 0; i < 60000 && process.is_running(); ++i) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(run, ignored)) {
      if (entry.path().filename().string().starts_with("tmp-checkpoint-")) return;
    }
    sleep_us(50);
  }
}

}  // namespace plimsoll::testing
