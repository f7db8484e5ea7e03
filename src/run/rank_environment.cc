#include "run/rank_environment.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/units.h"

namespace plimsoll {
namespace {

constexpr uint16_t kDefaultStorePort = 29500;
constexpr int kMostRanks = std::numeric_limits<int>::max();

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Variable {
  std::string name;
  std::string value;
  std::string text() const { return name + "=" + value; }
};

// The environment variables of one launcher.
class LauncherVariables {
 public:
  // `advice` tells the user what to do if a variable is wrong.
  LauncherVariables(const Environment& environment, std::string_view advice)
      : environment_(environment), advice_(advice) {}

  // Returns the name and the value of the first of these variables that is set and not empty.
  std::optional<Variable> find(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const auto found = environment_.find(name);
      if (found != environment_.end() && !found->second.empty()) return Variable{name, found->second};
    }
    return std::nullopt;
  }
  // Returns the first of the variables `names` that is set. Errors: kUsage if none is set; the message names `because`, a variable that
  // is set and requires one of them.
  Variable require(std::initializer_list<const char*> names, const Variable& because) const {
    if (std::optional<Variable> found = find(names)) return *std::move(found);
    throw_error(ErrorCode::kUsage, "{} is not set, but {} is; {}", *names.begin(), because.text(), advice_);
  }
  int number(const Variable& variable, int low, int high) const {
    const std::optional<int64_t> value = whole_number(variable.value);
    if (!value || *value < low || *value > high) {
      const std::string range =
          high == kMostRanks ? fmt::format("{} or more", low) : fmt::format("from {} to {}", low, high);
      throw_error(ErrorCode::kUsage, "{}: expected a whole number, {}; {}", variable.text(), range, advice_);
    }
    return static_cast<int>(*value);
  }
  [[noreturn]] void refuse(const Variable& variable, std::string_view reason) const {
    throw_error(ErrorCode::kUsage, "{}: {}; {}", variable.text(), reason, advice_);
  }
  // Returns MASTER_PORT, or `otherwise` if the variable is not set.
  uint16_t store_port(uint16_t otherwise) const {
    const std::optional<Variable> port = find({"MASTER_PORT"});
    return port ? static_cast<uint16_t>(number(*port, 1, 65535)) : otherwise;
  }
  // Reads the number of the rank and the number of ranks, in the run and on this host, and checks that they do not contradict each other.
  RankPlace place(const Variable& rank, const Variable& size, const Variable& local_rank,
                  const Variable& local_size, int local_size_value) const {
    RankPlace result;
    result.size = number(size, 1, kMostRanks);
    result.rank = number(rank, 0, kMostRanks);
    result.local_size = local_size_value;
    result.local_rank = number(local_rank, 0, kMostRanks);
    require_below(rank, result.rank, size, result.size);
    require_below(local_rank, result.local_rank, local_size, result.local_size);
    if (result.local_size > result.size)
      refuse(local_size, fmt::format("this is the number of ranks on this host, which cannot be more than "
                                     "{}, the number of ranks of the run",
                                     size.text()));
    return result;
  }

 private:
  void require_below(const Variable& rank, int value, const Variable& size, int end) const {
    if (value >= end) refuse(rank, fmt::format("{} has only the ranks 0 to {}", size.text(), end - 1));
  }

  const Environment& environment_;
  std::string_view advice_;
};

std::optional<RankPlace> torchrun_place(const Environment& environment) {
  const LauncherVariables variables(
      environment,
      "start every rank with torchrun or with plimsoll train --nproc_per_node, or unset RANK and WORLD_SIZE");
  const std::optional<Variable> rank = variables.find({"RANK"});
  if (!rank) return std::nullopt;
  const Variable size = variables.require({"WORLD_SIZE"}, *rank);
  const bool is_alone = variables.number(size, 1, kMostRanks) == 1;
  const Variable local_rank = is_alone ? variables.find({"LOCAL_RANK"}).value_or(Variable{"LOCAL_RANK", "0"})
                                       : variables.require({"LOCAL_RANK"}, size);
  const Variable local_size =
      is_alone ? variables.find({"LOCAL_WORLD_SIZE"}).value_or(Variable{"LOCAL_WORLD_SIZE", "1"})
               : variables.require({"LOCAL_WORLD_SIZE"}, size);
  RankPlace place =
      variables.place(*rank, size, local_rank, local_size, variables.number(local_size, 1, kMostRanks));
  if (is_alone) return place;
  place.store_host = variables.require({"MASTER_ADDR"}, size).value;
  place.store_port = variables.store_port(kDefaultStorePort);
  const std::optional<Variable> agent_store = variables.find({"TORCHELASTIC_USE_AGENT_STORE"});
  if (agent_store && agent_store->value == "True")
    place.store_port = static_cast<uint16_t>(place.store_port < 65535 ? place.store_port + 1 : 65534);
  return place;
}

std::optional<RankPlace> open_mpi_place(const Environment& environment) {
  const LauncherVariables variables(environment, "start every rank with mpirun");
  const std::optional<Variable> size = variables.find({"OMPI_COMM_WORLD_SIZE"});
  if (!size || variables.number(*size, 1, kMostRanks) == 1) return std::nullopt;
  const Variable rank = variables.require({"OMPI_COMM_WORLD_RANK"}, *size);
  const Variable local_rank = variables.require({"OMPI_COMM_WORLD_LOCAL_RANK"}, *size);
  const Variable local_size = variables.require({"OMPI_COMM_WORLD_LOCAL_SIZE"}, *size);
  RankPlace place =
      variables.place(rank, *size, local_rank, local_size, variables.number(local_size, 1, kMostRanks));
  if (const std::optional<Variable> host = variables.find({"MASTER_ADDR"})) {
    place.store_host = host->value;
  } else if (place.local_size == place.size) {
    place.store_host = "127.0.0.1";
  } else {
    throw_error(
        ErrorCode::kUsage,
        "MASTER_ADDR is not set, but {} and {} mean several hosts; give the host of rank 0: mpirun -x "
        "MASTER_ADDR=HOST",
        size->text(), local_size.text());
  }
  place.store_port = variables.store_port(kDefaultStorePort);
  return place;
}

// Returns the number of tasks of a node from a list such as "2(x3),1": two tasks on each of three nodes, then one.
// Returns nothing if the list is malformed or has fewer nodes.
std::optional<int> tasks_of_node(std::string_view list, int64_t node) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    int64_t num_nodes = 1;
    if (const size_t times = entry.find("(x"); times != std::string_view::npos) {
      if (!entry.ends_with(')')) return std::nullopt;
      const auto repeated = whole_number(entry.substr(times + 2, entry.size() - times - 3));
      if (!repeated || *repeated < 1) return std::nullopt;
      num_nodes = *repeated;
      entry = entry.substr(0, times);
    }
    const auto tasks = whole_number(entry);
    if (!tasks || *tasks < 0 || *tasks > kMostRanks) return std::nullopt;
    if (node < num_nodes) return static_cast<int>(*tasks);
    node -= num_nodes;
  }
  return std::nullopt;
}

// Returns the first host of a list such as "node[1-3,07],other", or an empty string if the list is malformed.
std::string first_host(std::string_view list) {
  std::string host;
  size_t at = 0;
  for (; at < list.size() && list[at] != ','; ++at) {
    if (list[at] == ']') return {};
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const size_t end = list.find(']', at);
    if (end == std::string_view::npos) return {};
    const std::string_view ranges = list.substr(at + 1, end - at - 1);
    const std::string_view first = ranges.substr(0, ranges.find_first_of("-,"));
    if (first.empty()) return {};
    host += first;
    at = end;
  }
  return host;
}

// Returns true if srun started this process as a task of a normal job step. Slurm also runs special steps, such as a batch script or an
// interactive shell, whose ids are the largest 32-bit numbers.
bool is_task_of_srun(const LauncherVariables& variables) {
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;
  const std::optional<Variable> step = variables.find({"SLURM_STEP_ID", "SLURM_STEPID"});
  if (!step || !variables.find({"SLURM_PROCID"})) return false;
  const std::optional<int64_t> number = whole_number(step->value);
  if (!number) variables.refuse(*step, "expected a whole number");
  return *number >= 0 && *number < kFirstSpecialStep;
}

uint16_t slurm_port(const LauncherVariables& variables) {
  constexpr int64_t kFirstPort = 15000;
  constexpr int64_t kNumPorts = 15000;
  constexpr int64_t kStepStride = 7919;
  const std::optional<Variable> job = variables.find({"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return kDefaultStorePort;
  const std::optional<int64_t> job_number = whole_number(job->value);
  if (!job_number || *job_number < 0) variables.refuse(*job, "expected a whole number");
  const std::optional<Variable> step = variables.find({"SLURM_STEP_ID", "SLURM_STEPID"});
  const int64_t step_number = step ? whole_number(step->value).value_or(0) : 0;
  return static_cast<uint16_t>(kFirstPort + (*job_number + kStepStride * step_number) % kNumPorts);
}

std::optional<RankPlace> slurm_place(const Environment& environment) {
  const LauncherVariables variables(environment, "start every rank with srun");
  const std::optional<Variable> size = variables.find({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  if (!size || !is_task_of_srun(variables)) return std::nullopt;
  if (variables.number(*size, 1, kMostRanks) == 1) return std::nullopt;
  const Variable rank = variables.require({"SLURM_PROCID"}, *size);
  const Variable local_rank = variables.require({"SLURM_LOCALID"}, *size);
  const Variable local_size = variables.require(
      {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}, *size);
  const Variable node = variables.find({"SLURM_NODEID"}).value_or(Variable{"SLURM_NODEID", "0"});
  const bool is_list = local_size.name != "SLURM_NTASKS_PER_NODE";
  const std::optional<int> tasks =
      tasks_of_node(local_size.value, is_list ? variables.number(node, 0, kMostRanks) : 0);
  if (!tasks || *tasks < 1) {
    variables.refuse(
        local_size, fmt::format("expected the number of tasks of each node, such as 2(x3),1, with one for {}",
                                node.text()));
  }
  // SLURM_NTASKS_PER_NODE is set per job and may be greater than the number of tasks per node of this step.
  const int local_tasks = is_list ? *tasks : std::min(*tasks, variables.number(*size, 1, kMostRanks));
  RankPlace place = variables.place(rank, *size, local_rank, local_size, local_tasks);
  if (const std::optional<Variable> host = variables.find({"MASTER_ADDR"})) {
    place.store_host = host->value;
  } else {
    const Variable nodes =
        variables.require({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}, *size);
    place.store_host = first_host(nodes.value);
    if (place.store_host.empty()) {
      variables.refuse(nodes, "expected a list of nodes such as node[1-3,07],other, or else MASTER_ADDR");
    }
  }
  place.store_port = variables.store_port(slurm_port(variables));
  return place;
}

// The rank and the number of ranks of a process that was started by a launcher.
struct LaunchedRank {
  Launcher launcher = Launcher::kNone;
  std::optional<RankPlace> place;
};

LaunchedRank launched_rank(const Environment& environment) {
  struct Reader {
    Launcher launcher;
    std::optional<RankPlace> (*place_of)(const Environment&);
  };
  constexpr Reader kReaders[] = {{Launcher::kTorchrun, torchrun_place},
                                 {Launcher::kOpenMpi, open_mpi_place},
                                 {Launcher::kSlurm, slurm_place}};
  for (const Reader& reader : kReaders) {
    if (std::optional<RankPlace> place = reader.place_of(environment)) return {reader.launcher, place};
  }
  // Scripts for Slurm often export WORLD_SIZE themselves. So WORLD_SIZE without RANK is an error only if no launcher has set the
  // rank.
  const auto size = environment.find("WORLD_SIZE");
  if (size != environment.end() && !size->second.empty() && size->second != "1") {
    throw_error(ErrorCode::kUsage,
                "RANK is not set, but WORLD_SIZE={} is; start every rank with torchrun, or unset WORLD_SIZE",
                size->second);
  }
  return {};
}

}  // namespace

std::optional<RankPlace> launched_rank_place(const Environment& environment) {
  return launched_rank(environment).place;
}

Launcher launcher_of(const Environment& environment) {
  return launched_rank(environment).launcher;
}

void require_equal_machines(const RankPlace& place) {
  if (place.size % place.local_size == 0) return;
  throw_error(ErrorCode::kUsage,
              "the environment describes {} of which {} run on this machine, but every machine of a run has "
              "the same number of ranks, and {} is no multiple of {}: start the same number of processes on "
              "every machine",
              counted(place.size, "rank"), place.local_size, place.size, place.local_size);
}

RankPlace rank_place(const Environment& environment) {
  return launched_rank_place(environment).value_or(RankPlace{});
}

bool is_first_rank(const Environment& environment) {
  return rank_place(environment).is_first();
}

std::optional<int> num_local_ranks(const Environment& environment) {
  const std::optional<RankPlace> place = launched_rank_place(environment);
  return place ? std::optional(place->local_size) : std::nullopt;
}

}  // namespace plimsoll
