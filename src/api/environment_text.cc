#include <fmt/format.h>

#include "api/environment_facts.h"
#include "base/units.h"
#include "device/monitor/monitor_sample.h"

namespace plimsoll {
namespace {

constexpr size_t kNameColumns = 15;

std::string fact_line(std::string_view name, std::string_view value) {
  return fmt::format("  {:<{}} {}\n", name, kNameColumns, value.empty() ? "unknown" : value);
}

std::string gibibytes(int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / static_cast<double>(kMiB << 10));
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string build_text(const EnvironmentFacts& facts) {
  const BuildFacts& build = facts.build;
  std::string text = fmt::format("plimsoll {}\n\nbuild\n", build.version);
  text +=
      fact_line("compiler", fmt::format("{}{}{}{}{}", build.compiler, build.type.empty() ? "" : ", ",
                                        build.type, build.sanitizer.empty() ? "" : ", ", build.sanitizer));
  text += fact_line("CUDA", build.cuda.empty()
                                ? "not built: the program runs on CPUs only"
                                : fmt::format("{}, architectures {}", build.cuda, build.cuda_architectures));
  text +=
      fact_line("Apache Arrow", build.has_arrow ? "yes" : "not built: Parquet and Arrow files are not read");
  return text + fact_line("id", facts.build_id);
}

std::string machine_text(const EnvironmentFacts& facts) {
  const ProcessorFacts& cpu = facts.processor;
  const MachineMemory& memory = facts.memory;
  std::string text = "\nsystem\n";
  text += fact_line("distribution", facts.system.distribution);
  text += fact_line("kernel", fmt::format("{}, {}", facts.system.kernel, facts.system.architecture));
  text += fact_line("C library", facts.system.c_library);
  text += "\nCPU\n" + fact_line("name", cpu.name);
  text += fact_line("instructions", fmt::format("{} ({})", describe_isa(cpu.isa),
                                                cpu.flags.empty() ? "no flags" : joined(cpu.flags)));
  text += fact_line(facts.products.name, fmt::format("{}, uses at most {}", facts.products.version,
                                                     facts.products.instruction_set));
  text += fact_line("processors",
                    fmt::format("{}, of which this process may use {}", cpu.num_processors,
                                cpu.usable.empty() ? "an unknown number" : format_ranges(cpu.usable)));
  text +=
      fact_line("control group", cpu.cgroup_limit ? fmt::format("time of {:g} processors", *cpu.cgroup_limit)
                                                  : "no limit of processor time");
  text += "\nmemory\n";
  text += fact_line("total", fmt::format("{}, {} available", gibibytes(memory.total_bytes),
                                         gibibytes(memory.available_bytes)));
  text +=
      fact_line("control group", memory.cgroup_limit_bytes
                                     ? fmt::format("limit {}, {} used", gibibytes(*memory.cgroup_limit_bytes),
                                                   gibibytes(memory.cgroup_used_bytes.value_or(0)))
                                     : "no limit of memory");
  for (const NumaNode& node : facts.nodes) {
    text +=
        fact_line(fmt::format("NUMA node {}", node.index),
                  fmt::format("{}, processors {}", gibibytes(node.memory_bytes), format_ranges(node.cpus)));
  }
  return text;
}

std::string gpu_text(const GpuFacts& nvidia) {
  std::string text = "\nNVIDIA\n";
  if (!nvidia.driver.empty()) {
    const std::string cuda = cuda_version_text(nvidia.cuda);
    text += fact_line("driver", nvidia.driver + (cuda.empty() ? "" : ", CUDA up to " + cuda));
  }
  if (!nvidia.why_no_gpu.empty()) text += fact_line("GPUs", "none: " + nvidia.why_no_gpu);
  for (const GpuSample& gpu : nvidia.gpus) {
    std::string what = gpu.fault.empty() ? gpu.name : gpu.name + ", " + gpu.fault;
    if (gpu.sm) what += fmt::format(", compute capability {}.{}", *gpu.sm / 10, *gpu.sm % 10);
    if (gpu.memory)
      what += fmt::format(", {} with {} used", gibibytes(gpu.memory->total_bytes),
                          gibibytes(gpu.memory->used_bytes));
    text += fact_line(fmt::format("GPU {}", gpu.index), what);
  }
  return text;
}

std::string library_text(const EnvironmentFacts& facts) {
  std::string text = "\nlibraries that are opened when they are needed\n";
  bool lacks_one = false;
  for (const LibraryFacts& library : facts.libraries) {
    const bool is_found = !library.search.file.empty();
    text +=
        fact_line(library.name, is_found ? library.search.file : "not found; needed for " + library.purpose);
    if (is_found) continue;
    lacks_one = true;
    for (const LibraryAttempt& attempt : library.search.tried)
      text += fmt::format("  {:<{}}   {}\n", "", kNameColumns, attempt.error);
  }
  if (!lacks_one) return text;
  text += fact_line("searched", "names without a folder are searched in the cache of ldconfig and in");
  for (const std::string& folder : facts.loader_folders)
    text += fmt::format("  {:<{}}   {}\n", "", kNameColumns, folder);
  return text;
}

}  // namespace

std::string environment_text(const EnvironmentFacts& facts) {
  std::string text = build_text(facts) + machine_text(facts) + gpu_text(facts.nvidia) + library_text(facts);
  text += "\nvariables of the environment\n";
  for (const auto& [name, value] : facts.variables) text += fmt::format("  {}={}\n", name, value);
  if (facts.variables.empty()) text += "  none that changes what Plimsoll does\n";
  text += "\ncaches\n";
  for (const CacheFolder& cache : facts.caches) {
    const std::string where = cache.path.empty() ? "no folder, because neither HOME nor XDG_CACHE_HOME is set"
                              : cache.exists     ? cache.path
                                                 : cache.path + " (does not exist yet)";
    text += fmt::format("  {}: {}\n", where, cache.holds);
  }
  return text;
}

}  // namespace plimsoll
