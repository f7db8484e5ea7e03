#include "run/device_choice.h"

#include <algorithm>
#include <charconv>

#include "base/optimizer_names.h"
#include "base/units.h"
#include "device/cpu/cpu_features.h"
#include "device/cuda/cuda_device.h"
#include "device/monitor/host.h"
#include "device/monitor/nvml.h"

namespace plimsoll {
namespace {

std::string table_names() {
  std::string names;
  for (const GpuTarget& target : gpu_targets()) names += (names.empty() ? "" : ", ") + target.name;
  return names;
}

void take_gpu(const CudaDeviceInfo& info, PlanRequest& request) {
  request.device.kind = KernelDevice::kCuda;
  request.executor.gpu_ordinal = info.ordinal;
  request.device.gpu = gpu_target_of(info.name, info.sm, info.num_multiprocessors, info.total_bytes);
  request.device.gpu.uuid = info.uuid;
  request.labels.device = fmt::format("cuda:{}, {}", info.ordinal, info.name);
}

void take_visible_gpu(const std::string& name, PlanRequest& request) {
  const std::string_view digits = std::string_view(name).substr(std::string_view("cuda:").size());
  int ordinal = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  std::string why;
  const std::vector<CudaDeviceInfo> devices = visible_cuda_devices(&why);
  if (ordinal >= static_cast<int>(devices.size())) {
    throw_error(ErrorCode::kDevice,
                "--device {}: {}. Take another device, or --device cpu; a plan can be made for {}", name,
                devices.empty() ? why
                                : fmt::format("only {} GPU{} visible", devices.size(),
                                              devices.size() == 1 ? " is" : "s are"),
                table_names());
  }
  take_gpu(devices[static_cast<size_t>(ordinal)], request);
}

void take_card_of_table(const std::string& name, RunPurpose purpose, PlanRequest& request,
                        std::vector<std::string>& notes) {
  const std::optional<GpuTarget> target = find_gpu_target(name);
  if (!target) {
    throw_error(ErrorCode::kUsage, "--device {}: expected auto, cpu, cuda:N, or for a plan one of {}", name,
                table_names());
  }
  if (purpose != RunPurpose::kPlan) {
    throw_error(ErrorCode::kUsage,
                "--device {}: a card to plan for; to run on a GPU of this machine give cuda:N", name);
  }
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *target;
  request.labels.device = fmt::format("{} (from the table, not a card in this machine; rates of {})",
                                      target->name, target->provenance);
  if (target->sm < kOldestSmOfReleases) {
    notes.push_back(fmt::format(
        "--device {}: plan only; releases of this program have code from compute capability {}.{} on, "
        "this card has {}.{}",
        name, kOldestSmOfReleases / 10, kOldestSmOfReleases % 10, target->sm / 10, target->sm % 10));
  }
}

void take_cpu(PlanRequest& request) {
  request.device.kind = KernelDevice::kCpu;
  request.labels.device =
      fmt::format("cpu, {} thread{}", request.device.num_threads, request.device.num_threads == 1 ? "" : "s");
}

// As a refusal names it: where its rates come from is of no matter there.
std::string device_name(const PlanRequest& request) {
  if (request.device.kind == KernelDevice::kCpu) return "a CPU";
  return request.device.gpu.uuid.empty() ? request.device.gpu.name : request.labels.device;
}

bool has_bf16(const PlanRequest& request) {
  return request.device.kind == KernelDevice::kCuda ? request.device.gpu.bf16_tflops > 0
                                                    : has_bf16_products(request.device.isa);
}

// `name` is the argument that asks for it.
void require_bf16(std::string_view name, const PlanRequest& request) {
  if (has_bf16(request)) return;
  if (request.device.kind == KernelDevice::kCpu) {
    throw_error(ErrorCode::kUsage,
                "--{}: this CPU multiplies no bf16 (it needs AVX512_BF16 or AMX, it has {}); leave it out",
                name, cpu_isa_name(request.device.isa));
  }
  throw_error(ErrorCode::kUsage,
              "--{}: {} has no bf16 (compute capability {}.{}; 8.0 has it); leave it out{}", name,
              device_name(request), request.device.gpu.sm / 10, request.device.gpu.sm % 10,
              name == "bf16" ? ", or give --fp16" : "");
}

// The references compute every type, so that fp16's arithmetic can be looked at on a CPU.
void require_fp16(std::string_view name, const PlanRequest& request) {
  if (request.device.kind == KernelDevice::kCuda || request.device.reference_kernels) return;
  throw_error(ErrorCode::kUsage, "--{}: Plimsoll cannot compute fp16 on a CPU; {}", name,
              has_bf16(request)
                  ? fmt::format("give --{} instead, or a GPU (--device cuda:0)",
                                name == "fp16" ? "bf16" : "bf16_full_eval")
                  : "this one has no bf16 either: leave it out, or give a GPU (--device cuda:0)");
}

void set_gradient_type(const Arguments& arguments, PlanRequest& request) {
  if (arguments.gradient_dtype == "auto") return;
  const DType dtype = arguments.gradient_dtype == "fp32"   ? DType::kF32
                      : arguments.gradient_dtype == "bf16" ? DType::kBF16
                                                           : DType::kF16;
  if (dtype != DType::kF32 && request.device.kind == KernelDevice::kCpu) {
    throw_error(ErrorCode::kUsage,
                "--gradient_dtype {}: on a CPU products read fp32 weights, and a gradient has the type of "
                "its weight; "
                "leave it out",
                arguments.gradient_dtype);
  }
  if (dtype != DType::kF32 && dtype != request.precision.activation_dtype) {
    throw_error(ErrorCode::kUsage,
                "--gradient_dtype {0}: products write gradients in fp32 or in the type that they compute in; "
                "give --{0} "
                "too, or leave it out",
                arguments.gradient_dtype);
  }
  request.precision.gradient_dtype = dtype;
}

void set_weight_copies(const Arguments& arguments, PlanRequest& request, std::vector<std::string>& notes) {
  request.precision.copies_at_use = arguments.weight_copies == "at_use";
  if (!request.precision.copies_at_use) return;
  if (request.device.kind == KernelDevice::kCpu) {
    notes.emplace_back(
        "--weight_copies at_use has no effect on a CPU, whose products round fp32 weights on their way");
  } else if (!request.precision.activation_dtype || request.precision.dtype != DType::kF32) {
    notes.emplace_back(
        "--weight_copies at_use has no effect where nothing of fp32 is beside 16 bits: give --fp16 or --bf16 "
        "too");
  }
}

// Pure bf16: weights, activations and gradients.
void set_weight_type(const Arguments& arguments, PlanRequest& request) {
  if (arguments.dtype != "bfloat16") return;
  require_bf16("dtype bfloat16", request);
  if (arguments.fp16) {
    throw_error(ErrorCode::kUsage,
                "--dtype bfloat16 and --fp16 exclude each other: products read both operands in one "
                "type; give one of them");
  }
  request.precision.dtype = DType::kBF16;
  request.precision.activation_dtype = DType::kBF16;
}

// As in Trainer, whose evaluations during training read the weights that training holds.
void set_full_evaluation(const Arguments& arguments, PlanRequest& request, std::vector<std::string>& notes) {
  if (!arguments.bf16_full_eval && !arguments.fp16_full_eval) return;
  const char* name = arguments.bf16_full_eval ? "bf16_full_eval" : "fp16_full_eval";
  if (request.train) {
    notes.push_back(
        fmt::format("--{} has no effect while training, whose evaluations read the weights that it holds; "
                    "eval and predict, and "
                    "a plan without --do_train, hold 2 bytes a parameter",
                    name));
    return;
  }
  if (arguments.bf16_full_eval) {
    require_bf16(name, request);
  } else {
    require_fp16(name, request);
  }
  request.precision.dtype = arguments.bf16_full_eval ? DType::kBF16 : DType::kF16;
  request.precision.activation_dtype = request.precision.dtype;
}

// --tf32 is Trainer's name for one of --matmul_precision's words; the two may say the same but not
// contradict.
void set_fp32_products(const Arguments& arguments, PlanRequest& request, std::vector<std::string>& notes) {
  const std::string& word = arguments.matmul_precision;
  const bool takes_tf32 = word == "tf32" || word == "tf32x3";
  const bool names_fp32 = takes_tf32 || word == "fp32";
  if (arguments.tf32 && names_fp32 && *arguments.tf32 != (word == "tf32")) {
    throw_error(ErrorCode::kUsage, "--tf32 {} and --matmul_precision {} contradict each other; leave one out",
                *arguments.tf32 ? "True" : "False", word);
  }
  if (!takes_tf32 && !arguments.tf32.value_or(false)) return;
  const bool on_gpu = request.device.kind == KernelDevice::kCuda;
  if (!on_gpu && !takes_tf32) {
    notes.emplace_back("--tf32 has no effect on a CPU");
    return;
  }
  if (!on_gpu || request.device.gpu.tf32_tflops == 0) {
    throw_error(ErrorCode::kUsage,
                "--{}: {} has no TF32 (a GPU of compute capability 8.0 or later has); leave it out",
                takes_tf32 ? "matmul_precision " + word : "tf32", device_name(request));
  }
  request.precision.fp32_products = word == "tf32x3" ? Fp32Products::kTf32x3 : Fp32Products::kTf32;
}

void set_precision(const Arguments& arguments, PlanRequest& request, std::vector<std::string>& notes) {
  if (arguments.bf16) {
    require_bf16("bf16", request);
    request.precision.activation_dtype = DType::kBF16;
  }
  if (arguments.fp16) {
    require_fp16("fp16", request);
    request.precision.activation_dtype = DType::kF16;
  }
  set_weight_type(arguments, request);
  set_gradient_type(arguments, request);
  set_weight_copies(arguments, request, notes);
  set_full_evaluation(arguments, request, notes);
  if (request.precision.dtype != DType::kF32) return;
  set_fp32_products(arguments, request, notes);
}

// An update of offloaded states holds some 20 bytes an element, twice where one comes while another goes. With
// products that are given less, such updates would make up the peak: they shrink alike. BERT-large, 1 x 512 in
// bf16 with all that saves memory, is planned at 1327, 1310, 1302 and 1298 MiB with 32, 16, 8 and 4 MiB.
constexpr int64_t kWorkspacePerElementAtOnce = 16;
constexpr int64_t kLeastElementsAtOnce = int64_t{512} << 10;

void set_matmul_workspace(const Arguments& arguments, PlanRequest& request, std::vector<std::string>& notes) {
  if (!arguments.matmul_workspace) return;
  if (request.device.kind != KernelDevice::kCuda) {
    notes.emplace_back(
        "--matmul_workspace has no effect on a CPU, whose products take what their kernels ask for");
    return;
  }
  request.products.workspace_bytes = *arguments.matmul_workspace / 256 * 256;
  request.update.elements_at_once = std::clamp(request.products.workspace_bytes / kWorkspacePerElementAtOnce,
                                               kLeastElementsAtOnce, request.update.elements_at_once);
}

int64_t needed_mib(const Plan& plan) {
  return (plan.total_bytes() + kMiB - 1) / kMiB;
}

// A line for each process that computes on the card, where the driver names any.
std::string holders_text(const std::string& uuid) {
  std::string text;
  for (const GpuProcess& process : gpu_processes(uuid)) {
    text += fmt::format("\n    process {} {}: {} MiB", process.pid, process.name, process.used_bytes / kMiB);
  }
  return text;
}

// What lies in the host's memory. On a CPU everything does.
void set_offload(const Arguments& arguments, PlanRequest& request, std::vector<std::string>& notes) {
  const OptimizerName* name = find_optimizer_name(arguments.optim);
  const bool is_paged = name != nullptr && name->is_paged;
  if (request.device.kind == KernelDevice::kCpu) {
    if (arguments.offload_optimizer) {
      throw_error(ErrorCode::kUsage,
                  "--offload_optimizer: optimizer states are already in host memory on a CPU; leave it "
                  "out, or give a GPU (--device cuda:0)");
    }
    if (arguments.offload_activations) {
      throw_error(ErrorCode::kUsage,
                  "--offload_activations: activations are already in host memory on a CPU; leave it out, or "
                  "give a GPU (--device cuda:0)");
    }
    if (is_paged && request.train) {
      notes.push_back(
          fmt::format("--optim {}: on a CPU states lie in the host's memory already, so that it is {}",
                      arguments.optim, name->runs));
    }
    return;
  }
  request.offload.activations = request.train && arguments.offload_activations;
  if (!arguments.offload_optimizer && !is_paged) return;
  // Of training in 16 bits with masters of fp32 these can move.
  const bool has_masters = request.precision.activation_dtype && request.precision.dtype == DType::kF32;
  if (request.train && optimizer_state_names(request.update.optimizer).empty() && !has_masters) {
    throw_error(ErrorCode::kUsage,
                "--offload_optimizer: --optim {} has no states to keep in the host's memory; leave it out",
                arguments.optim);
  }
  request.update.offload_states = request.train;
}

}  // namespace

void choose_device(const Arguments& arguments, RunPurpose purpose, int num_threads, PlanRequest& request,
                   std::vector<std::string>& notes) {
  request.device.num_threads = num_threads;
  request.device.isa = cpu_isa();
  request.device.reference_kernels = arguments.kernels == "ref";
  request.separate_buffers = arguments.debug_allocations;
  if (arguments.device == "cpu") {
    take_cpu(request);
  } else if (arguments.device == "auto") {
    // The references run on the CPU. Asking for GPUs opens the driver, which takes memory of the process.
    const std::vector<CudaDeviceInfo> devices =
        request.device.reference_kernels ? std::vector<CudaDeviceInfo>() : visible_cuda_devices();
    if (devices.empty()) {
      take_cpu(request);
    } else {
      take_gpu(devices.front(), request);
    }
  } else if (arguments.device.starts_with("cuda:")) {
    take_visible_gpu(arguments.device, request);
  } else {
    take_card_of_table(arguments.device, purpose, request, notes);
  }
  if (request.device.kind == KernelDevice::kCuda && request.device.reference_kernels) {
    throw_error(ErrorCode::kUsage, "--kernels ref: the references run on a CPU only; give --device cpu too");
  }
  request.executor.holds_gpu_driver = is_cuda_driver_open();
  set_precision(arguments, request, notes);
  set_offload(arguments, request, notes);
  set_matmul_workspace(arguments, request, notes);
  request.memory_limit_bytes = arguments.memory_limit;
  if (request.device.kind == KernelDevice::kCuda) {
    if (!arguments.memory_limit || *arguments.memory_limit > request.device.gpu.memory_bytes) {
      request.memory_limit_bytes = request.device.gpu.memory_bytes;
      request.labels.memory_limit = "the memory of " + request.device.gpu.name;
    }
  }
}

int64_t gpu_used_bytes(const PlanRequest& request) {
  // Asking the driver takes 20 MiB of the process, which the plan of a run on a CPU does not count.
  if (request.device.kind != KernelDevice::kCuda) return 0;
  const auto memory = gpu_memory(request.device.gpu.uuid);
  return memory ? memory->used_bytes : 0;
}

void require_free_memory(const Plan& plan) {
  if (!plan.is_on_gpu()) return;
  const auto memory = gpu_memory(plan.request.device.gpu.uuid);
  if (!memory || plan.total_bytes() <= memory->free_bytes) return;
  const std::string holders = holders_text(plan.request.device.gpu.uuid);
  throw_error(
      ErrorCode::kWillNotFit,
      "will not fit now: {} MiB needed, {} of {} MiB are free on {}{}\n  wait for them, take another GPU "
      "(CUDA_VISIBLE_DEVICES, --device cuda:N), or plan a smaller run",
      needed_mib(plan), memory->free_bytes / kMiB, memory->total_bytes / kMiB, plan.request.labels.device,
      holders.empty() ? "; the driver names no process that holds the rest" : "; held by" + holders);
}

std::string planned_beside_held(const Plan& plan) {
  if (!plan.is_on_gpu()) return {};
  const auto memory = gpu_memory(plan.request.device.gpu.uuid);
  const std::string planned = fmt::format("\n  planned: {} MiB", needed_mib(plan));
  if (!memory) return planned + "; of the card's memory the driver says nothing now";
  return planned +
         fmt::format("; {} of {} MiB are used on the card now, {} are free", memory->used_bytes / kMiB,
                     memory->total_bytes / kMiB, memory->free_bytes / kMiB) +
         holders_text(plan.request.device.gpu.uuid);
}

std::string device_line(const PlanRequest& request) {
  if (request.device.kind == KernelDevice::kCpu)
    return cpu_device_line(request.device.num_threads, request.device.isa, cpu_name());
  return fmt::format("device {}, compute capability {}.{}, {:.1f} GiB", request.labels.device,
                     request.device.gpu.sm / 10, request.device.gpu.sm % 10,
                     static_cast<double>(request.device.gpu.memory_bytes) / double(1 << 30));
}

}  // namespace plimsoll
