#include "device/monitor/monitor_sample.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "device/monitor/throttle.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

void put_memory(Json& object, const std::optional<GpuMemory>& memory) {
  const auto put = [&](const char* name, int64_t GpuMemory::*member) {
    object[name] = memory ? Json(whole_mib((*memory).*member)) : Json(nullptr);
  };
  put("memory_used_mib", &GpuMemory::used_bytes);
  put("memory_free_mib", &GpuMemory::free_bytes);
  put("memory_total_mib", &GpuMemory::total_bytes);
  put("memory_reserved_mib", &GpuMemory::reserved_bytes);
}

Json throttle_json(const GpuSample& gpu) {
  if (!gpu.clocks.events) return nullptr;
  Json list = Json::array();
  for (const ClockEvent& event : clock_events(gpu)) {
    list.push_back(
        {{"reason", event.name}, {"throttles", event.is_throttling}, {"advice", text_or_null(event.advice)}});
  }
  return list;
}

Json processes_json(const GpuSample& gpu) {
  if (!gpu.has_processes) return nullptr;
  Json list = Json::array();
  for (const GpuProcess& process : gpu.processes) {
    list.push_back(
        {{"pid", process.pid},
         {"name", text_or_null(process.name)},
         {"memory_used_mib", process.used_bytes > 0 ? Json(whole_mib(process.used_bytes)) : Json()}});
  }
  return list;
}

Json capabilities_json(const std::vector<Capability>& capabilities) {
  Json object = Json::object();
  for (const Capability& capability : capabilities)
    object[capability.format] = {{"yes", capability.is_there}, {"why", capability.why}};
  return object;
}

Json context_json(const ContextSample& context) {
  if (!context.why_not.empty()) return {{"mib", nullptr}, {"why_not", context.why_not}};
  return {{"mib", whole_mib(context.after_bytes - context.before_bytes)},
          {"memory_used_before_mib", whole_mib(context.before_bytes)},
          {"memory_used_after_mib", whole_mib(context.after_bytes)}};
}

void put_figures(Json& object, const GpuSample& gpu) {
  put_memory(object, gpu.memory);
  object["utilization_gpu_percent"] = value_or_null(gpu.gpu_percent);
  object["utilization_memory_percent"] = value_or_null(gpu.memory_percent);
  object["clock_sm_mhz"] = value_or_null(gpu.clocks.sm_mhz);
  object["clock_sm_max_mhz"] = value_or_null(gpu.clocks.max_sm_mhz);
  object["clock_memory_mhz"] = value_or_null(gpu.clocks.memory_mhz);
  object["clock_memory_max_mhz"] = value_or_null(gpu.clocks.max_memory_mhz);
  object["power_w"] = value_or_null(gpu.power.watts);
  object["power_limit_w"] = value_or_null(gpu.power.limit_w);
  object["power_verdict"] = text_or_null(std::string(verdict_name(power_verdict(gpu))));
  object["temperature_c"] = value_or_null(gpu.thermals.celsius);
  object["temperature_verdict"] = text_or_null(std::string(verdict_name(temperature_verdict(gpu))));
  object["temperature_slowdown_c"] = value_or_null(gpu.thermals.slowdown_c);
  object["temperature_margin_c"] = value_or_null(gpu.thermals.slowdown_margin_c);
  object["fan_percent"] = value_or_null(gpu.thermals.fan_percent);
  object["throttle"] = throttle_json(gpu);
  object["ecc_corrected"] = value_or_null(gpu.ecc.corrected);
  object["ecc_uncorrected"] = value_or_null(gpu.ecc.uncorrected);
  object["pcie_generation"] = value_or_null(gpu.pcie.generation);
  object["pcie_generation_max"] = value_or_null(gpu.pcie.max_generation);
  object["pcie_width"] = value_or_null(gpu.pcie.width);
  object["pcie_width_max"] = value_or_null(gpu.pcie.max_width);
  object["nvlinks_up"] = value_or_null(gpu.nvlinks.up);
  object["nvlinks"] = value_or_null(gpu.nvlinks.all);
  object["processes"] = processes_json(gpu);
}

Json gpu_json(const GpuSample& gpu, const MonitorSample& sample) {
  Json object;
  object["index"] = gpu.index;
  object["name"] = text_or_null(gpu.name);
  object["uuid"] = text_or_null(gpu.uuid);
  object["compute_capability"] =
      gpu.sm ? Json(fmt::format("{}.{}", *gpu.sm / 10, *gpu.sm % 10)) : Json(nullptr);
  object["fault"] = text_or_null(gpu.fault);
  put_figures(object, gpu);
  object["refused"] = gpu.refused;
  if (sample.with_capabilities)
    object["capabilities"] = gpu.sm ? capabilities_json(gpu_capabilities(*gpu.sm)) : Json(nullptr);
  for (const ContextSample& context : sample.contexts) {
    if (context.index == gpu.index) object["context"] = context_json(context);
  }
  return object;
}

Json host_json(const HostSample& host) {
  Json object;
  object["cpu"] = text_or_null(host.cpu);
  object["isa"] = text_or_null(host.isa);
  object["threads"] = host.num_threads;
  object["load"] = value_or_null(host.load);
  object["memory_available_mib"] = whole_mib(host.memory.available_bytes);
  object["memory_total_mib"] = whole_mib(host.memory.total_bytes);
  object["cgroup_limit_mib"] =
      host.memory.cgroup_limit_bytes ? Json(whole_mib(*host.memory.cgroup_limit_bytes)) : Json(nullptr);
  if (!host.capabilities.empty()) object["capabilities"] = capabilities_json(host.capabilities);
  return object;
}

}  // namespace

std::string monitor_json(const MonitorSample& sample) {
  Json object;
  object["time"] = sample.time;
  object["driver"] = text_or_null(sample.driver);
  object["cuda"] = text_or_null(cuda_version_text(sample.cuda_version));
  object["why_no_gpu"] = text_or_null(sample.why_no_gpu);
  object["gpus"] = Json::array();
  for (const GpuSample& gpu : sample.gpus) object["gpus"].push_back(gpu_json(gpu, sample));
  if (sample.gpus.size() > 1) {
    const GpuSum sum = sum_of(sample.gpus);
    Json& all = object["sum"];
    put_memory(all, sum.memory);
    all["utilization_gpu_percent"] = sum.mean_gpu_percent;
    all["power_w"] = sum.power_w;
  }
  object["host"] = host_json(sample.host);
  // Invalid UTF-8 in the name of a process is replaced, because dump() would otherwise throw.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace plimsoll
