#include "plimsoll/monitor.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include "base/check.h"
#include "device/cpu/cpu_features.h"
#include "device/cuda/cuda_device.h"
#include "device/monitor/monitor_sample.h"
#include "device/monitor/topology.h"

namespace plimsoll {
namespace {

std::string utc_text() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
}

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

struct Monitor::Impl {
  explicit Impl(MonitorOptions all) : options(std::move(all)), nvml(options.library) {}

  MonitorOptions options;
  Nvml nvml;
  std::string uuid;  // UUID of the GPU; set if the user selected the GPU as cuda:N
  std::optional<int> index;
  std::vector<ContextSample> contexts;

  bool is_wanted(const GpuSample& gpu) const {
    return index ? gpu.index == *index : uuid.empty() || gpu.uuid == uuid;
  }
  MonitorSample sample() const;
  void choose_device();
  void measure_contexts();
  ContextSample measure_context(const GpuSample& gpu, const std::vector<CudaDeviceInfo>& devices,
                                const std::string& why_none) const;
};

MonitorSample Monitor::Impl::sample() const {
  MonitorSample sample{.time = utc_text(),
                       .host = sample_host(describe_isa(cpu_isa())),
                       .with_capabilities = options.with_capabilities,
                       .with_context = options.with_context,
                       .contexts = contexts};
  if (options.with_capabilities)
    sample.host.capabilities = cpu_capabilities(cpu_isa(), has_cpu_flag({"avx512_fp16", "amx_fp16"}));
  if (!nvml.is_open()) {
    sample.why_no_gpu = nvml.why_not();
    return sample;
  }
  sample.driver = nvml.driver_version();
  sample.cuda_version = nvml.cuda_version();
  sample.gpus = nvml.all();
  if (sample.gpus.empty()) sample.why_no_gpu = "the NVIDIA driver lists none";
  std::erase_if(sample.gpus, [&](const GpuSample& gpu) { return !is_wanted(gpu); });
  if (sample.gpus.empty() && sample.why_no_gpu.empty())
    sample.why_no_gpu = fmt::format("{} is no longer listed by the driver", options.device);
  return sample;
}

void Monitor::Impl::choose_device() {
  if (options.device.empty()) return;
  constexpr std::string_view kCuda = "cuda:";
  const bool by_cuda = options.device.starts_with(kCuda);
  const std::optional<int> number =
      whole_number(std::string_view(options.device).substr(by_cuda ? kCuda.size() : 0));
  if (!number) {
    throw_error(ErrorCode::kUsage,
                "--device {}: expected the number of a GPU in nvidia-smi, or cuda:N with CUDA's number",
                options.device);
  }
  const auto refuse = [&](const std::string& why) {
    throw_error(ErrorCode::kDevice, "--device {}: {}; leave it out to list all GPUs", options.device, why);
  };
  if (by_cuda) {
    std::string why;
    const std::vector<CudaDeviceInfo> devices = visible_cuda_devices(&why);
    if (devices.empty()) refuse(why);
    if (*number >= static_cast<int>(devices.size()))
      refuse(fmt::format("{} GPU{} visible to CUDA", devices.size(), devices.size() == 1 ? " is" : "s are"));
    uuid = devices[static_cast<size_t>(*number)].uuid;
  } else {
    index = number;
  }
  if (!nvml.is_open()) refuse(nvml.why_not());
  const std::vector<GpuSample> all = nvml.all();
  if (std::ranges::none_of(all, [&](const GpuSample& gpu) { return is_wanted(gpu); })) {
    refuse(all.empty() ? "the NVIDIA driver lists no GPU"
                       : fmt::format("the driver lists {} GPU{}", all.size(), all.size() == 1 ? "" : "s"));
  }
}

// Measures the memory of an empty CUDA context on a GPU. The GPU is found by its UUID, because CUDA and NVML number the GPUs differently
// if CUDA_VISIBLE_DEVICES is set.
ContextSample Monitor::Impl::measure_context(const GpuSample& gpu, const std::vector<CudaDeviceInfo>& devices,
                                             const std::string& why_none) const {
  ContextSample context{.index = gpu.index};
  const auto found = std::ranges::find(devices, gpu.uuid, &CudaDeviceInfo::uuid);
  if (found == devices.end()) {
    context.why_not =
        devices.empty() ? why_none : "CUDA does not show this GPU to the program (CUDA_VISIBLE_DEVICES)";
    return context;
  }
  const auto before = nvml.memory(gpu.uuid);
  std::optional<GpuMemory> after;
  try {
    const CudaDevice device(found->ordinal);
    after = nvml.memory(gpu.uuid);
  } catch (const Error& error) {
    context.why_not = error.what();
    return context;
  }
  if (!before || !after) {
    context.why_not = "the driver does not report the used memory";
    return context;
  }
  context.before_bytes = before->used_bytes;
  context.after_bytes = after->used_bytes;
  return context;
}

void Monitor::Impl::measure_contexts() {
  std::string why_none;
  const std::vector<GpuSample> gpus = sample().gpus;
  if (gpus.empty()) return;
  const std::vector<CudaDeviceInfo> devices = visible_cuda_devices(&why_none);
  for (const GpuSample& gpu : gpus) contexts.push_back(measure_context(gpu, devices, why_none));
}

TopologyReport read_topology_report(const std::string& library) {
  const Topology topology = read_topology(Nvml(library));
  return {.text = topology_text(topology), .json = topology_json(topology)};
}

Monitor::Monitor(MonitorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  impl_->choose_device();
  if (impl_->options.with_context) impl_->measure_contexts();
}

Monitor::~Monitor() = default;

MonitorReport Monitor::sample() const {
  const MonitorSample sample = impl_->sample();
  return {.table = monitor_table(sample), .lines = monitor_lines(sample), .json = monitor_json(sample)};
}

}  // namespace plimsoll
