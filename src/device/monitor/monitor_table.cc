#include "device/monitor/monitor_sample.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "device/monitor/throttle.h"

namespace plimsoll {
namespace {

void add_row(std::string& text, const char* name, const std::string& words) {
  if (!words.empty()) text += fmt::format("  {:<12}  {}\n", name, words);
}

std::string joined(std::string left, const std::string& right) {
  if (!left.empty() && !right.empty()) left += ", ";
  return left + right;
}

std::string format_memory(const GpuMemory& memory) {
  return fmt::format("{} MiB used, {} free, of {}; {} more reserved by the driver",
                     whole_mib(memory.used_bytes), whole_mib(memory.free_bytes),
                     whole_mib(memory.total_bytes), whole_mib(memory.reserved_bytes));
}

// Formats "NAME 1980 of 1980 MHz", without the limit if it is unknown; "" if the value itself is unknown.
template <typename T>
std::string of_limit(const char* name, std::optional<T> value, std::optional<T> limit, const char* unit) {
  if (!value) return {};
  const std::string words = *name == '\0' ? std::string() : std::string(name) + " ";
  return limit ? fmt::format("{}{:.0f} of {:.0f} {}", words, double(*value), double(*limit), unit)
               : fmt::format("{}{:.0f} {}", words, double(*value), unit);
}

std::string utilisation_words(const GpuSample& gpu) {
  if (!gpu.gpu_percent) return {};
  return fmt::format("GPU {} %, memory {} %", *gpu.gpu_percent, gpu.memory_percent.value_or(0));
}

std::string temperature_words(const GpuSample& gpu) {
  if (!gpu.thermals.celsius) return {};
  std::string words = fmt::format("{} C, {}", *gpu.thermals.celsius, describe_temperature_verdict(gpu));
  if (gpu.thermals.slowdown_c) words += fmt::format(", slows down at {} C", *gpu.thermals.slowdown_c);
  if (gpu.thermals.slowdown_margin_c)
    words += fmt::format(", slows down after {} C more", *gpu.thermals.slowdown_margin_c);
  return words;
}

std::string ecc_words(const GpuSample& gpu) {
  if (!gpu.ecc.corrected && !gpu.ecc.uncorrected) return {};
  const int64_t corrected = gpu.ecc.corrected.value_or(0);
  const int64_t uncorrected = gpu.ecc.uncorrected.value_or(0);
  if (corrected + uncorrected == 0) return "none since the driver was loaded";
  return fmt::format("{} corrected, {} not, since the driver was loaded{}", corrected, uncorrected,
                     uncorrected > 0 ? ": results may be wrong; reset the GPU and have it checked" : "");
}

std::string pcie_words(const GpuSample& gpu) {
  if (!gpu.pcie.generation || !gpu.pcie.width) return {};
  std::string words = fmt::format("generation {} x{}", *gpu.pcie.generation, *gpu.pcie.width);
  if (gpu.pcie.max_generation && gpu.pcie.max_width)
    words += fmt::format(", at most {} x{}", *gpu.pcie.max_generation, *gpu.pcie.max_width);
  return words;
}

void add_events(std::string& text, const GpuSample& gpu) {
  if (!gpu.clocks.events) return;
  const std::vector<ClockEvent> events = clock_events(gpu);
  if (events.empty()) add_row(text, "throttle", "none: nothing reduces the clocks");
  for (const ClockEvent& event : events) {
    add_row(text, "throttle",
            event.name + (event.is_throttling || event.advice.empty() ? "" : ", not a fault") +
                (event.advice.empty() ? "" : ": " + event.advice));
  }
}

void add_processes(std::string& text, const GpuSample& gpu) {
  if (!gpu.has_processes) return;
  int64_t named_bytes = 0;
  for (const GpuProcess& process : gpu.processes) named_bytes += process.used_bytes;
  if (!gpu.processes.empty()) {
    text += fmt::format("  {:<12}  {:>8}  {:>8}  {}\n", "processes", "pid", "MiB", "name");
    for (const GpuProcess& process : gpu.processes) {
      text += fmt::format("  {:<12}  {:>8}  {:>8}  {}\n", "", process.pid,
                          process.used_bytes > 0 ? std::to_string(whole_mib(process.used_bytes)) : "-",
                          process.name.empty() ? "(of another container)" : process.name);
    }
  } else {
    add_row(text, "processes", "the driver lists none");
  }
  // Inside a container the driver does not list the processes outside of it, so their memory is shown as a sum.
  const int64_t others = gpu.memory ? whole_mib(gpu.memory->used_bytes - named_bytes) : 0;
  if (others > 0)
    add_row(text, "", fmt::format("{} MiB are used by processes that the driver does not name", others));
}

void add_capabilities(std::string& text, const std::vector<Capability>& capabilities) {
  for (const Capability& capability : capabilities) {
    add_row(text, capability.format.c_str(),
            fmt::format("{:<3}  {}", capability.is_there ? "yes" : "no", capability.why));
  }
}

void add_capabilities(std::string& text, const GpuSample& gpu) {
  if (!gpu.sm) {
    add_row(text, "capabilities", "unknown: the driver does not report the compute capability");
    return;
  }
  add_capabilities(text, gpu_capabilities(*gpu.sm));
}

void add_context(std::string& text, const ContextSample& context) {
  add_row(text, "context",
          context.why_not.empty()
              ? fmt::format(
                    "{} MiB for an empty context: {} MiB of the GPU were used before its creation, {} after",
                    whole_mib(context.after_bytes - context.before_bytes), whole_mib(context.before_bytes),
                    whole_mib(context.after_bytes))
              : "not measured: " + context.why_not);
}

std::string gpu_title(const GpuSample& gpu) {
  std::string title = fmt::format("GPU {}", gpu.index);
  if (!gpu.name.empty()) title += "  " + gpu.name;
  // Shows the first 12 characters of the UUID, which are enough to distinguish the GPUs of one machine.
  if (!gpu.uuid.empty()) title += "  " + gpu.uuid.substr(0, 12);
  if (gpu.sm) title += fmt::format("  compute capability {}.{}", *gpu.sm / 10, *gpu.sm % 10);
  return title + "\n";
}

void add_gpu(std::string& text, const GpuSample& gpu, const MonitorSample& sample) {
  text += "\n" + gpu_title(gpu);
  if (!gpu.fault.empty()) {
    add_row(text, "fault", gpu.fault);
    return;
  }
  if (gpu.memory) add_row(text, "memory", format_memory(*gpu.memory));
  add_row(text, "utilisation", utilisation_words(gpu));
  add_row(text, "clocks",
          joined(of_limit("SM", gpu.clocks.sm_mhz, gpu.clocks.max_sm_mhz, "MHz"),
                 of_limit("memory", gpu.clocks.memory_mhz, gpu.clocks.max_memory_mhz, "MHz")));
  add_row(text, "power",
          joined(of_limit("", gpu.power.watts, gpu.power.limit_w, "W"), describe_power_verdict(gpu)));
  add_row(text, "temperature", temperature_words(gpu));
  if (gpu.thermals.fan_percent) add_row(text, "fan", fmt::format("{} %", *gpu.thermals.fan_percent));
  add_events(text, gpu);
  add_row(text, "ECC errors", ecc_words(gpu));
  add_row(text, "PCIe", pcie_words(gpu));
  if (gpu.nvlinks.all)
    add_row(text, "NVLink", fmt::format("{} of {} links up", *gpu.nvlinks.up, *gpu.nvlinks.all));
  for (const ContextSample& context : sample.contexts) {
    if (context.index == gpu.index) add_context(text, context);
  }
  if (sample.with_capabilities) add_capabilities(text, gpu);
  add_processes(text, gpu);
  std::string refused;
  for (const std::string& figure : gpu.refused) refused = joined(std::move(refused), figure);
  add_row(text, "not shown", refused);
}

void add_sum(std::string& text, const MonitorSample& sample) {
  const GpuSum sum = sum_of(sample.gpus);
  text += fmt::format("\nall {} GPUs\n", sample.gpus.size());
  add_row(text, "memory", format_memory(sum.memory));
  add_row(text, "utilisation", fmt::format("GPU {:.0f} % on average", sum.mean_gpu_percent));
  add_row(text, "power", fmt::format("{:.0f} W", sum.power_w));
}

std::string host_memory_words(const MachineMemory& memory) {
  std::string words = fmt::format("{} MiB available, of {}", whole_mib(memory.available_bytes),
                                  whole_mib(memory.total_bytes));
  if (memory.cgroup_limit_bytes)
    words +=
        fmt::format("; the limit of its control group is {}, of which {} are used",
                    whole_mib(*memory.cgroup_limit_bytes), whole_mib(memory.cgroup_used_bytes.value_or(0)));
  return words;
}

std::string load_words(const HostSample& host) {
  return host.load ? fmt::format("{:.2f} runnable threads on average over one minute", *host.load)
                   : std::string();
}

void add_host(std::string& text, const HostSample& host) {
  text += "\nhost\n";
  add_row(text, "CPU", joined(host.cpu, host.isa));
  add_row(text, "threads", std::to_string(host.num_threads));
  add_row(text, "load", load_words(host));
  if (host.memory.total_bytes > 0) add_row(text, "memory", host_memory_words(host.memory));
  add_capabilities(text, host.capabilities);
}

std::string line_of(const GpuSample& gpu) {
  if (!gpu.fault.empty()) return fmt::format("GPU {}  {}", gpu.index, gpu.fault);
  std::string line = fmt::format("GPU {}", gpu.index);
  if (gpu.memory)
    line +=
        fmt::format("  {} of {} MiB", whole_mib(gpu.memory->used_bytes), whole_mib(gpu.memory->total_bytes));
  if (gpu.gpu_percent) line += fmt::format("  {} %", *gpu.gpu_percent);
  if (gpu.clocks.sm_mhz) line += fmt::format("  {} MHz", *gpu.clocks.sm_mhz);
  if (gpu.power.watts) line += fmt::format("  {:.0f} W", *gpu.power.watts);
  if (gpu.thermals.celsius) line += fmt::format("  {} C", *gpu.thermals.celsius);
  const std::string events = clock_event_names(gpu);
  return line + (events.empty() ? "" : "  " + events);
}

}  // namespace

std::string monitor_table(const MonitorSample& sample) {
  std::string text;
  if (sample.gpus.empty()) {
    text = no_gpu_sentence(sample) + "\n";
    add_host(text, sample.host);
    return text;
  }
  const std::string cuda = cuda_version_text(sample.cuda_version);
  text = joined("driver " + (sample.driver.empty() ? "of an unknown version" : sample.driver),
                cuda.empty() ? cuda : "CUDA up to " + cuda) +
         fmt::format(", {} GPU{}\n", sample.gpus.size(), sample.gpus.size() == 1 ? "" : "s");
  for (const GpuSample& gpu : sample.gpus) add_gpu(text, gpu, sample);
  if (sample.gpus.size() > 1) add_sum(text, sample);
  if (!sample.host.capabilities.empty()) add_host(text, sample.host);
  return text;
}

std::string monitor_lines(const MonitorSample& sample) {
  std::string text;
  for (const GpuSample& gpu : sample.gpus) text += sample.time + "  " + line_of(gpu) + "\n";
  if (!sample.gpus.empty()) return text;
  return fmt::format("{}  host  load {:.2f}  {} of {} MiB available\n", sample.time,
                     sample.host.load.value_or(0), whole_mib(sample.host.memory.available_bytes),
                     whole_mib(sample.host.memory.total_bytes));
}

}  // namespace plimsoll
