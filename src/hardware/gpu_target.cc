#include "hardware/gpu_target.h"

#include <algorithm>
#include <array>

#include "base/units.h"

namespace plimsoll {
namespace {

// The memory that a process holds on a GPU outside its arena: what NVML (version 2) reports as `used`, minus the arena and the captured
// CUDA graphs. On an H200 with driver 580 and CUDA 13.0 it was 528 to 533 MiB in runs of BERT-base and BERT-large in fp32, tf32 and bf16;
// the CUDA context alone takes 527 of them. The constant adds an allowance for library kernels that other shapes load.
constexpr int64_t kConstant = 560 * kMiB;
constexpr const char* kMeasuredConstant = "measured on 2026-11-21 on an H200, driver 580, CUDA 13.0";
constexpr const char* kTakenConstant =
    "not measured on this GPU; the value is that of an H200 on 2026-11-21, driver 580, CUDA 13.0";
constexpr const char* kSheet = "NVIDIA's data sheet, dense";

// Memory as printed by nvidia-smi; rates from the public data sheets, without sparsity. A card with several form factors has the rates of
// its SXM version. Links are PCI Express with 16 lanes of the generation named in the data sheet: 16 GB/s each way for the third, 32 for
// the fourth and 64 for the fifth. The links to other GPUs are NVLink on SXM cards: 450 GB/s each way for the fourth generation, 300 for
// the third and 150 for the second; otherwise PCI Express.
const std::array kTargets{
    GpuTarget{"h200", "H200", 90, 143771 * kMiB, 4800, 67, 494, 989, 989, 64, 450, kConstant, kSheet,
              kMeasuredConstant},
    GpuTarget{"h100", "H100", 90, 81559 * kMiB, 3350, 67, 494, 989, 989, 64, 450, kConstant, kSheet,
              kTakenConstant},
    GpuTarget{"a100-80gb", "A100-SXM4-80GB", 80, 81920 * kMiB, 2039, 19.5, 156, 312, 312, 32, 300, kConstant,
              kSheet, kTakenConstant},
    GpuTarget{"a100-40gb", "A100-SXM4-40GB", 80, 40960 * kMiB, 1555, 19.5, 156, 312, 312, 32, 300, kConstant,
              kSheet, kTakenConstant},
    GpuTarget{"l4", "L4", 89, 23034 * kMiB, 300, 30.3, 60, 121, 121, 32, 32, kConstant, kSheet,
              kTakenConstant},
    GpuTarget{"a10g", "A10G", 86, 23028 * kMiB, 600, 35, 35, 70, 70, 32, 32, kConstant, kSheet,
              kTakenConstant},
    GpuTarget{"t4", "T4", 75, 15360 * kMiB, 320, 8.1, 0, 0, 65, 16, 16, kConstant, kSheet, kTakenConstant},
    GpuTarget{"v100-16gb", "V100-SXM2-16GB", 70, 16160 * kMiB, 900, 15.7, 0, 0, 125, 16, 150, kConstant,
              kSheet, kTakenConstant},
    GpuTarget{"5090", "RTX 5090", 120, 32607 * kMiB, 1792, 104.8, 104.8, 209.5, 209.5, 64, 64, kConstant,
              kSheet, kTakenConstant, "", false},
    GpuTarget{"4090", "RTX 4090", 89, 24564 * kMiB, 1008, 82.6, 82.6, 165.2, 165.2, 32, 32, kConstant, kSheet,
              kTakenConstant, "", false},
    GpuTarget{"3090", "RTX 3090", 86, 24576 * kMiB, 936, 35.6, 35.6, 71, 71, 32, 32, kConstant, kSheet,
              kTakenConstant, "", false},
};

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

// Returns a shortened form of a card's name for comparisons: letters and digits in lower case, without brand names and without
// form factors such as "SXM".
std::string bare_card_name(std::string_view name) {
  std::string text = lower_case(name);
  for (const std::string_view word :
       {"nvidia", "geforce", "tesla", "rtx", "sxm2", "sxm4", "sxm5", "sxm", "pcie"}) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word))
      text.erase(at, word.size());
  }
  std::erase_if(text, [](char c) { return (c < 'a' || c > 'z') && (c < '0' || c > '9'); });
  return text;
}

}  // namespace

std::span<const GpuTarget> gpu_targets() {
  return kTargets;
}

std::optional<GpuTarget> find_gpu_target(std::string_view name) {
  const std::string wanted = lower_case(name);
  const auto it =
      std::find_if(kTargets.begin(), kTargets.end(), [&](const GpuTarget& t) { return t.name == wanted; });
  return it == kTargets.end() ? std::nullopt : std::optional(*it);
}

std::vector<std::string> similar_gpu_targets(std::string_view name) {
  std::vector<std::string> similar;
  const std::string wanted = bare_card_name(name);
  if (wanted.size() < 2) return similar;
  for (const GpuTarget& target : kTargets) {
    const std::string own = bare_card_name(target.name);
    // Two spellings are accepted. The wanted name may lack the end of a name in the table, usually the memory size: "v100" for "v100-16gb".
    // Or it may add a memory size to a name in the table: "h200141gb" for "h200".
    const bool is_memory_left_out = own.starts_with(wanted);
    const bool is_memory_added = wanted.starts_with(own) && own.size() > 2;
    if (is_memory_left_out || is_memory_added) similar.emplace_back(target.name);
  }
  return similar;
}

GpuTarget gpu_target_of(std::string_view cuda_name, int sm, int num_multiprocessors, int64_t memory_bytes) {
  for (const GpuTarget& target : kTargets) {
    if (cuda_name.find(target.product) == std::string_view::npos) continue;
    // The name is not sufficient: a search for "L4" also finds "L40S". So the compute capability must be equal too, and the memory size
    // must differ by at most 10 %.
    const double ratio = static_cast<double>(memory_bytes) / static_cast<double>(target.memory_bytes);
    if (target.sm != sm || ratio < 0.9 || ratio > 1.1) continue;
    GpuTarget found = target;
    found.memory_bytes = memory_bytes;
    if (cuda_name.find("PCIe") != std::string_view::npos) found.peer_gb_per_s = found.link_gb_per_s;
    return found;
  }
  // A multiprocessor executes 128 fp32 fused multiply-adds per cycle
  // (64 for compute capability 7.5 and 8.0), at about 1.5 GHz. Tensor
  // cores execute four times (consumer cards) to fifteen times as many.
  const double f32 = num_multiprocessors * (sm == 75 || sm == 80 ? 64 : 128) * 2 * 1.5e-3;
  return {.name = "cuda",
          .product = std::string(cuda_name),
          .sm = sm,
          .memory_bytes = memory_bytes,
          .memory_gb_per_s = 500,
          .f32_tflops = f32,
          .tf32_tflops = sm >= 80 ? 2 * f32 : 0,
          .bf16_tflops = sm >= 80 ? 4 * f32 : 0,
          .f16_tflops = 4 * f32,
          .link_gb_per_s = sm >= 80 ? 32.0 : 16.0,
          .peer_gb_per_s = sm >= 80 ? 32.0 : 16.0,
          .constant_bytes = kConstant,
          .provenance =
              "estimated from the number of multiprocessors, because the table does not contain this GPU",
          .constant_provenance = kTakenConstant};
}

std::string describe_capability(const GpuTarget& target) {
  return target.name + " (" + std::to_string(target.sm / 10) + "." + std::to_string(target.sm % 10) + ")";
}

double product_gflops(const GpuTarget& target, DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 1e3 * (target.bf16_tflops > 0 ? target.bf16_tflops : target.f32_tflops);
    case DType::kF16:
      return 1e3 * target.f16_tflops;
    case DType::kF64:
      return 1e3 * target.f32_tflops / 2;
    case DType::kE4M3:
    case DType::kE5M2:
      return 1e3 * (target.sm >= kOldestSmOfFp8 ? 2 * target.bf16_tflops : 0);
    default:
      return 1e3 * target.f32_tflops;
  }
}

}  // namespace plimsoll
