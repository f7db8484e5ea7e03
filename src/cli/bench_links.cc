#include "cli/bench_links.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

#include "cli/child.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/output.h"
#include "plimsoll/links.h"

namespace plimsoll::cli {
namespace {

int start_ranks(int num_ranks, const std::vector<std::string>& words) {
  RankCommand command{.words = {own_program(), "bench"}, .num_ranks = num_ranks};
  command.words.insert(command.words.end(), words.begin(), words.end());
  return launch_ranks(command);
}

int measure_as_rank(const Arguments& arguments, const BenchWords& words) {
  const Environment environment = program_environment();
  const bool is_first = is_first_rank(environment);
  if (!is_first) leave_output_to_first_rank();
  const bool draws = is_first && is_terminal();
  const LinkBenchReport report =
      bench_links(arguments, words.links_options, environment, [&](const std::string& text) {
        if (!draws) return;
        std::fprintf(stderr, "\r\033[K%s", text.c_str());
        std::fflush(stderr);
      });
  if (draws) std::fputs("\r\033[K", stderr);
  if (!is_first) return 0;
  if (!report.table.empty()) print(report.table);
  say_all({}, report.notes);
  if (!report.path.empty())
    print("wrote " + report.path + "; plans for these ranks read this file (--link_calibration auto)");
  if (words.json) {
    std::ifstream file(report.path);
    print_json(std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
  }
  return 0;
}

}  // namespace

int run_bench_links(const BenchWords& read, const std::vector<std::string>& words) {
  ParseResult parsed = parse_arguments(read.more);
  Arguments& arguments = parsed.arguments;
  const std::optional<int> num_local = num_local_ranks(process_environment());
  if (num_local) return measure_as_rank(arguments, read);
  use_all_gpus(parsed, num_local);
  if (arguments.nproc_per_node < 2) {
    throw Error(ErrorCode::kUsage,
                "bench: --links: links are measured between processes, and these arguments start one; give "
                "--nproc_per_node 2 or more, with --use_cpu for CPUs");
  }
  const auto num_ranks = static_cast<int>(arguments.nproc_per_node);
  if (const int code = start_ranks(num_ranks, words); code != 0 || !ranks_use_gpus(arguments)) return code;
  if (!has_nccl() || process_environment().contains("NCCL_P2P_DISABLE")) return 0;
  // A process reads NCCL_P2P_DISABLE only when it opens NCCL, so it must be set before the ranks start.
  setenv("NCCL_P2P_DISABLE", "1", 1);
  return start_ranks(num_ranks, words);
}

}  // namespace plimsoll::cli
