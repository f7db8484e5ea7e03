#include "plimsoll/environment_report.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/environment_facts.h"
#include "base/opened_library.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "device/monitor/monitor_sample.h"
#include "hardware/cpu_isa.h"
#include "io/hub/content_digest.h"
#include "io/hub/http_client.h"
#include "io/hub/hub_cache.h"
#include "run/caches.h"
#include "show/report/picture.h"

namespace plimsoll {
namespace {

using OrderedJson = nlohmann::ordered_json;

SystemFacts system_facts() {
  SystemFacts facts{.c_library = std::string("glibc ") + gnu_get_libc_version()};
  utsname system{};
  if (uname(&system) == 0) {
    facts.kernel = std::string(system.sysname) + " " + system.release;
    facts.architecture = system.machine;
  }
  std::ifstream file("/etc/os-release");
  constexpr std::string_view kKey = "PRETTY_NAME=";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    facts.distribution = line.substr(kKey.size());
    std::erase(facts.distribution, '"');
  }
  return facts;
}

// Returns the flags of the first processor in /proc/cpuinfo. Only the first one is read, because Linux takes long to
// write the entries of many processors.
std::string first_cpu_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) return line.substr(std::min(line.find(':') + 1, line.size()));
  }
  return {};
}

ProcessorFacts processor_facts() {
  ProcessorFacts facts{.name = cpu_name(),
                       .isa = cpu_isa(),
                       .num_processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
                       .usable = usable_cpus(),
                       .cgroup_limit = cgroup_processors(),
                       .thread_limit = thread_limit()};
  constexpr std::string_view kFlags[] = {"fma",      "f16c",     "avx2",        "avx_vnni",    "avx512f",
                                         "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                                         "amx_tile", "amx_bf16", "amx_int8",    "amx_fp16"};
  std::istringstream flags(first_cpu_flags());
  for (std::string flag; flags >> flag;) {
    if (std::ranges::find(kFlags, flag) != std::end(kFlags)) facts.flags.push_back(flag);
  }
  return facts;
}

std::vector<LibraryFacts> library_facts() {
  struct Row {
    const char* name;
    const char* purpose;
    std::vector<std::string> names;
  };
  const Row rows[] = {
      {"CUDA driver", "computation on GPUs", {kCudaDriver}},
      {"cuBLASLt", "products of matrices on GPUs", cublaslt_names()},
      {"NCCL", "communication between GPUs", nccl_names()},
      {"NVML", "monitor, memory and clocks of GPUs", {Nvml::kLibraryName}},
      {"libcurl", "downloads", {kCurlLibrary}},
      {"libcrypto", "hashes of downloads", {kCryptoLibrary}},
      {"cairo", "plots of bench as PNG files", {kCairoLibrary}},
  };
  std::vector<LibraryFacts> facts;
  for (const Row& row : rows)
    facts.push_back({.name = row.name, .purpose = row.purpose, .search = search_library(row.names)});
  return facts;
}

GpuFacts gpu_facts() {
  const Nvml& nvml = Nvml::installed();
  if (!nvml.is_open()) return {.why_no_gpu = nvml.why_not()};
  GpuFacts facts{.driver = nvml.driver_version(), .cuda = nvml.cuda_version(), .gpus = nvml.all()};
  if (facts.gpus.empty()) facts.why_no_gpu = "the NVIDIA driver lists none";
  return facts;
}

std::vector<CacheFolder> cache_folders(const Environment& environment) {
  std::vector<CacheFolder> caches{
      {.holds = "models and data sets of the Hugging Face hub",
       .path = hub_cache_folder(hub_environment(environment))},
      {.holds = "measurements of this machine", .path = cache_folder("", environment)}};
  for (CacheFolder& cache : caches) {
    std::error_code ignored;
    if (cache.path.ends_with('/')) cache.path.pop_back();
    cache.exists = !cache.path.empty() && std::filesystem::is_directory(cache.path, ignored);
  }
  return caches;
}

EnvironmentFacts environment_facts(const Environment& environment) {
  return {.build = build_facts(),
          .build_id = program_build(),
          .system = system_facts(),
          .processor = processor_facts(),
          .products = cpu_product_library(),
          .memory = machine_memory(),
          .nodes = numa_nodes(),
          .nvidia = gpu_facts(),
          .libraries = library_facts(),
          .loader_folders = loader_folders(),
          .variables = reported_variables(),
          .caches = cache_folders(environment)};
}

template <typename T>
OrderedJson fact_or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

OrderedJson fact_or_null(std::string_view text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

OrderedJson gpus_json(const GpuFacts& nvidia) {
  OrderedJson list = OrderedJson::array();
  for (const GpuSample& gpu : nvidia.gpus) {
    list.push_back({{"index", gpu.index},
                    {"name", fact_or_null(gpu.name)},
                    {"compute_capability",
                     gpu.sm ? OrderedJson(fmt::format("{}.{}", *gpu.sm / 10, *gpu.sm % 10)) : OrderedJson()},
                    {"memory_total_bytes", gpu.memory ? OrderedJson(gpu.memory->total_bytes) : OrderedJson()},
                    {"memory_used_bytes", gpu.memory ? OrderedJson(gpu.memory->used_bytes) : OrderedJson()},
                    {"fault", fact_or_null(gpu.fault)}});
  }
  return {{"driver", fact_or_null(nvidia.driver)},
          {"cuda", fact_or_null(cuda_version_text(nvidia.cuda))},
          {"why_no_gpu", fact_or_null(nvidia.why_no_gpu)},
          {"gpus", std::move(list)}};
}

OrderedJson libraries_json(const std::vector<LibraryFacts>& libraries) {
  OrderedJson list = OrderedJson::array();
  for (const LibraryFacts& library : libraries) {
    OrderedJson tried = OrderedJson::array();
    for (const LibraryAttempt& attempt : library.search.tried)
      tried.push_back({{"name", attempt.name}, {"error", attempt.error}});
    list.push_back({{"name", library.name},
                    {"purpose", library.purpose},
                    {"file", fact_or_null(library.search.file)},
                    {"tried", std::move(tried)}});
  }
  return list;
}

std::string environment_json(const EnvironmentFacts& facts) {
  const BuildFacts& build = facts.build;
  OrderedJson nodes = OrderedJson::array();
  for (const NumaNode& node : facts.nodes)
    nodes.push_back({{"index", node.index},
                     {"processors", format_ranges(node.cpus)},
                     {"memory_bytes", node.memory_bytes}});
  OrderedJson caches = OrderedJson::array();
  for (const CacheFolder& cache : facts.caches)
    caches.push_back({{"holds", cache.holds}, {"path", fact_or_null(cache.path)}, {"exists", cache.exists}});
  const OrderedJson json = {
      {"schema_version", 1},
      {"plimsoll", build.version},
      {"build",
       {{"id", fact_or_null(facts.build_id)},
        {"compiler", build.compiler},
        {"type", fact_or_null(build.type)},
        {"sanitizer", fact_or_null(build.sanitizer)},
        {"cuda", fact_or_null(build.cuda)},
        {"cuda_architectures", fact_or_null(build.cuda_architectures)},
        {"arrow", build.has_arrow}}},
      {"system",
       {{"kernel", fact_or_null(facts.system.kernel)},
        {"architecture", fact_or_null(facts.system.architecture)},
        {"distribution", fact_or_null(facts.system.distribution)},
        {"c_library", facts.system.c_library}}},
      {"cpu",
       {{"name", fact_or_null(facts.processor.name)},
        {"instruction_set", cpu_isa_name(facts.processor.isa)},
        {"flags", facts.processor.flags},
        {"processors", facts.processor.num_processors},
        {"usable_processors", format_ranges(facts.processor.usable)},
        {"cgroup_limit", fact_or_null(facts.processor.cgroup_limit)},
        {"thread_limit", facts.processor.thread_limit}}},
      {"onednn", {{"version", facts.products.version}, {"instruction_set", facts.products.instruction_set}}},
      {"memory",
       {{"total_bytes", facts.memory.total_bytes},
        {"available_bytes", facts.memory.available_bytes},
        {"cgroup_limit_bytes", fact_or_null(facts.memory.cgroup_limit_bytes)},
        {"cgroup_used_bytes", fact_or_null(facts.memory.cgroup_used_bytes)}}},
      {"numa_nodes", std::move(nodes)},
      {"nvidia", gpus_json(facts.nvidia)},
      {"libraries", libraries_json(facts.libraries)},
      {"loader_folders", facts.loader_folders},
      {"variables", facts.variables},
      {"caches", std::move(caches)}};
  // Variables and paths may contain bytes that are not valid UTF-8. They are replaced.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

std::string_view program_version() {
  return build_facts().version;
}

EnvironmentReport describe_environment(const Environment& environment) {
  const EnvironmentFacts facts = environment_facts(environment);
  return {.text = environment_text(facts), .json = environment_json(facts)};
}

}  // namespace plimsoll
