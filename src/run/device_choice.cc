#include "run/device_choice.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/units.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "device/cuda/cuda_device.h"
#include "device/monitor/host.h"
#include "device/monitor/nvml.h"
#include "kernels/catalog/catalog.h"
#include "plimsoll/plan.h"

namespace plimsoll {

namespace {

std::string table_names() {
  std::string names;
  for (const GpuTarget& target : gpu_targets())
    names += (names.empty() ? "" : ", ") + target.name + (runs_release(target) ? "" : " (plan only)");
  return names;
}

ChosenDevice cpu_device(DeviceOptions options) {
  options.kind = KernelDevice::kCpu;
  const int threads = options.num_threads;
  return {.options = options, .label = fmt::format("cpu, {} thread{}", threads, threads == 1 ? "" : "s")};
}

ChosenDevice gpu_device(const CudaDeviceInfo& info, DeviceOptions options) {
  options.kind = KernelDevice::kCuda;
  options.gpu = gpu_target_of(info.name, info.sm, info.num_multiprocessors, info.total_bytes);
  options.gpu.uuid = info.uuid;
  return {.options = std::move(options),
          .label = fmt::format("cuda:{}, {}", info.ordinal, info.name),
          .gpu_ordinal = info.ordinal};
}

ChosenDevice visible_gpu(const std::string& name, DeviceOptions options) {
  const std::string_view digits = std::string_view(name).substr(std::string_view("cuda:").size());
  int ordinal = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  std::string why;
  const std::vector<CudaDeviceInfo> devices = visible_cuda_devices(&why);
  if (ordinal >= static_cast<int>(devices.size())) {
    throw_error(
        ErrorCode::kDevice,
        "--device {}: {}. Choose another device, or --device cpu; plans can also be made for {}", name,
        devices.empty()
            ? why
            : fmt::format("only {} GPU{} visible", devices.size(), devices.size() == 1 ? " is" : "s are"),
        table_names());
  }
  return gpu_device(devices[static_cast<size_t>(ordinal)], std::move(options));
}

// Returns ", did you mean 'v100-16gb'?" with the most similar name of a device, or "" if none is similar.
std::string suggested_device(const std::string& name) {
  std::vector<std::string> names = similar_gpu_targets(name);
  std::string lower = name;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "cpu" || lower == "auto" || lower.starts_with("cuda:")) names = {lower};
  if (lower == "gpu" || lower == "cuda") names = {"cuda:0"};
  return names.empty() ? "" : fmt::format(", did you mean '{}'?", fmt::join(names, "' or '"));
}

ChosenDevice card_of_table(const Arguments& arguments, RunPurpose purpose, DeviceOptions options,
                           std::vector<std::string>& notes) {
  const std::string& name = arguments.device;
  const std::optional<GpuTarget> target = find_gpu_target(name);
  if (!target) {
    throw_error(ErrorCode::kUsage,
                "--device {}: expected auto, cpu, cuda:N, or, to make a plan only, the name of a card: {}{}",
                name, table_names(), suggested_device(name));
  }
  if (!ends_with_plan(purpose, arguments)) {
    throw_error(ErrorCode::kUsage,
                "--device {}: plans can be made for this card; to run on a GPU of this machine, give cuda:N",
                name);
  }
  if (!runs_release(*target)) {
    notes.push_back(fmt::format(
        "--device {}: plan only; releases of Plimsoll contain code for compute capability {}.{} and later, "
        "and this card has {}.{}",
        name, kOldestSmOfReleases / 10, kOldestSmOfReleases % 10, target->sm / 10, target->sm % 10));
  }
  options.kind = KernelDevice::kCuda;
  options.gpu = *target;
  return {.options = std::move(options),
          .label = fmt::format("{} (from the table, not a card in this machine; rates of {})", target->name,
                               target->provenance)};
}

// Chooses the GPU of this rank.
ChosenDevice gpu_of_rank(const std::vector<CudaDeviceInfo>& devices, const RankPlace& place,
                         DeviceOptions options) {
  if (devices.size() == 1) return gpu_device(devices.front(), std::move(options));
  if (place.local_size > std::ssize(devices)) {
    throw_error(ErrorCode::kUsage,
                "{} ranks on this machine need one GPU each, but {} are visible: give --nproc_per_node {} or "
                "--use_cpu, or "
                "change CUDA_VISIBLE_DEVICES",
                place.local_size, devices.size(), devices.size());
  }
  ChosenDevice device = gpu_device(devices[static_cast<size_t>(place.local_rank)], std::move(options));
  if (devices.size() > 1) device.options.gpu.maps_peers = visible_gpus_map_each_other();
  return device;
}

ChosenDevice device_of(const Arguments& arguments, RunPurpose purpose, const RankPlace& place,
                       DeviceOptions options, std::vector<std::string>& notes) {
  if (arguments.device == "cpu") return cpu_device(std::move(options));
  if (arguments.device.starts_with("cuda:")) return visible_gpu(arguments.device, std::move(options));
  if (arguments.device != "auto") return card_of_table(arguments, purpose, std::move(options), notes);
  // If the reference kernels are requested, which run only on a CPU, GPUs are not listed: listing them opens the driver, which takes
  // memory of the process.
  const std::vector<CudaDeviceInfo> devices =
      options.reference_kernels ? std::vector<CudaDeviceInfo>() : visible_cuda_devices();
  if (devices.empty()) return cpu_device(std::move(options));
  return gpu_of_rank(devices, place, std::move(options));
}

int64_t needed_mib(const Plan& plan) {
  return (plan.total_bytes() + kMiB - 1) / kMiB;
}

// Returns a line for each process that uses the card, as far as the driver lists them.
std::string holders_text(const std::string& uuid) {
  std::string text;
  for (const GpuProcess& process : gpu_processes(uuid)) {
    text += fmt::format("\n    process {} {}: {} MiB", process.pid, process.name, process.used_bytes / kMiB);
  }
  return text;
}

bool are_references(const StringList& kernels) {
  return std::ranges::find(kernels, "ref") != kernels.end();
}

// Returns the device options of a CPU, with the kernel implementations that --kernels names (`kernels`). Errors: kUsage for a name that
// is not in the kernel catalog, and for two implementations of one kernel.
DeviceOptions options_for_kernels(const StringList& kernels, int num_threads) {
  DeviceOptions options{
      .num_threads = num_threads, .isa = cpu_isa(), .reference_kernels = are_references(kernels)};
  // the implementations that --kernels names, by the kernel that each of them implements
  std::map<std::string_view, std::string_view> forced;
  for (const std::string& name : kernels) {
    if (name == "auto" || name == "ref") continue;
    const KernelRow* row = find_kernel_row(name);
    if (row == nullptr) {
      std::vector<std::string_view> names{"auto", "ref"};
      for (const KernelRow& known : kernel_rows()) names.push_back(known.implementation);
      throw_error(
          ErrorCode::kUsage,
          "--kernels {}: no kernel has this name (docs/KERNELS.md lists the names, and plimsoll plan --why "
          "those that a run uses){}",
          name, did_you_mean(name, names));
    }
    const auto [place, is_new] = forced.emplace(row->kernel, row->implementation);
    if (!is_new) {
      throw_error(ErrorCode::kUsage, "--kernels {},{}: both compute {}; give one of them", place->second,
                  name, row->kernel);
    }
    options.forced_kernels.push_back(name);
  }
  return options;
}

// Refuses kernels named by --kernels that do not run on the chosen device.
void check_kernels_of_device(const DeviceOptions& device) {
  if (device.is_gpu() && device.reference_kernels) {
    throw_error(ErrorCode::kUsage, "--kernels ref: these kernels run on a CPU only; give --device cpu too");
  }
  for (const std::string& name : device.forced_kernels) {
    const bool is_for_gpus = find_kernel_row(name)->backend == Backend::kCuda;
    if (is_for_gpus == device.is_gpu()) continue;
    throw_error(ErrorCode::kUsage, "--kernels {}: this kernel runs on a {} only, and the run is on a {}",
                name, is_for_gpus ? "GPU" : "CPU", device.is_gpu() ? "GPU; give --device cpu too" : "CPU");
  }
}

}  // namespace

ChosenDevice choose_device(const Arguments& arguments, RunPurpose purpose, const RankPlace& place,
                           int num_threads, std::vector<std::string>& notes) {
  ChosenDevice device =
      device_of(arguments, purpose, place, options_for_kernels(arguments.kernels, num_threads), notes);
  check_kernels_of_device(device.options);
  device.holds_gpu_driver = is_cuda_driver_open();
  return device;
}

int64_t gpu_used_bytes(const PlanRequest& request) {
  // Opening the GPU driver takes 20 MiB of the process's memory, which the plan of a run on a CPU does not include.
  if (request.device.kind != KernelDevice::kCuda) return 0;
  const auto memory = gpu_memory(request.device.gpu.uuid);
  return memory ? memory->used_bytes : 0;
}

void require_free_memory(const Plan& plan, const std::string& device_label) {
  if (!plan.is_on_gpu()) return;
  const auto memory = gpu_memory(plan.request.device.gpu.uuid);
  if (!memory || plan.total_bytes() <= memory->free_bytes) return;
  const std::string holders = holders_text(plan.request.device.gpu.uuid);
  throw_error(ErrorCode::kWillNotFit,
              "will not fit now: {} MiB needed, {} of {} MiB are free on {}{}\n  wait until it is free, "
              "choose another GPU (CUDA_VISIBLE_DEVICES, --device cuda:N), or plan a smaller run",
              needed_mib(plan), memory->free_bytes / kMiB, memory->total_bytes / kMiB, device_label,
              holders.empty() ? "; the driver lists no process that uses the rest" : "; held by" + holders);
}

std::string describe_gpu_memory(const Plan& plan) {
  if (!plan.is_on_gpu()) return {};
  const auto memory = gpu_memory(plan.request.device.gpu.uuid);
  const std::string planned = fmt::format("\n  planned: {} MiB", needed_mib(plan));
  if (!memory) return planned + "; the driver does not report the memory of the card now";
  return planned +
         fmt::format("; {} of {} MiB are used on the card now, {} are free", memory->used_bytes / kMiB,
                     memory->total_bytes / kMiB, memory->free_bytes / kMiB) +
         holders_text(plan.request.device.gpu.uuid);
}

std::string device_line(const ChosenDevice& device) {
  const DeviceOptions& options = device.options;
  if (options.kind == KernelDevice::kCpu)
    return cpu_device_line(options.num_threads, options.isa, cpu_name());
  return fmt::format("device {}, compute capability {}.{}, {:.1f} GiB", device.label, options.gpu.sm / 10,
                     options.gpu.sm % 10, static_cast<double>(options.gpu.memory_bytes) / double(1 << 30));
}

int64_t num_ranks_on_this_machine(const Arguments& arguments) {
  if (arguments.device != "auto" || are_references(arguments.kernels)) return 1;
  return std::max<int64_t>(1, std::ssize(visible_cuda_devices()));
}

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int num_run_threads(const Arguments& arguments) {
  if (arguments.num_threads > 0) return static_cast<int>(arguments.num_threads);
  return std::clamp(available_threads() / static_cast<int>(arguments.nproc_per_node), 1, thread_limit());
}

}  // namespace plimsoll
