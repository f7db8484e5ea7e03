// Checks the arguments that concern data types, and turns them into the types of a plan.
#include <string>
#include <string_view>

#include "base/check.h"
#include "plan/request/rules.h"

namespace plimsoll {
namespace {

// Returns the device's name for an error message.
std::string device_name(const DeviceOptions& device) {
  if (device.kind == KernelDevice::kCpu) return "a CPU";
  return device.gpu.uuid.empty() ? device.gpu.name : device.gpu.product;
}

// Refuses bf16 if the device cannot compute it. `name` is the argument with which the user asks for bf16.
void require_bf16(std::string_view name, const DeviceOptions& device) {
  if (device.has_bf16()) return;
  if (device.kind == KernelDevice::kCpu) {
    throw_error(ErrorCode::kUsage,
                "--{}: this CPU cannot multiply bf16, which needs AVX512_BF16 or AMX (its instruction set: "
                "{}); leave the setting out",
                name, cpu_isa_name(device.isa));
  }
  throw_error(ErrorCode::kUsage,
              "--{}: {} has no bf16 (compute capability {}.{}; bf16 needs 8.0); leave it out{}", name,
              device_name(device), device.gpu.sm / 10, device.gpu.sm % 10,
              name == "bf16" ? ", or give --fp16" : "");
}

// Refuses fp16 on a CPU, except with the reference kernels: they compute every type, so that fp16 arithmetic can be
// examined on a CPU.
void require_fp16(std::string_view name, const DeviceOptions& device) {
  if (device.kind == KernelDevice::kCuda || device.reference_kernels) return;
  throw_error(
      ErrorCode::kUsage, "--{}: Plimsoll cannot compute fp16 on a CPU; {}", name,
      device.has_bf16()
          ? fmt::format("give --{} instead, or a GPU (--device cuda:0)",
                        name == "fp16" ? "bf16" : "bf16_full_eval")
          : "this CPU does not support bf16 either: leave the setting out, or give a GPU (--device cuda:0)");
}

// Refuses fp8 if the device cannot multiply it, except with the reference kernels, which compute every type.
void require_fp8(const DeviceOptions& device) {
  if (device.has_fp8()) return;
  if (device.kind == KernelDevice::kCpu) {
    throw_error(ErrorCode::kUsage, "--fp8: Plimsoll cannot multiply fp8 on a CPU; {}",
                device.has_bf16() ? "give --bf16 instead, or a GPU (--device cuda:0)"
                                  : "this CPU does not support bf16 either: leave the setting out, or give a "
                                    "GPU (--device cuda:0)");
  }
  throw_error(ErrorCode::kUsage,
              "--fp8: {} has no fp8 (compute capability {}.{}; fp8 needs {}.{}); give {} instead",
              device_name(device), device.gpu.sm / 10, device.gpu.sm % 10, kOldestSmOfFp8 / 10,
              kOldestSmOfFp8 % 10, device.has_bf16() ? "--bf16" : "--fp16");
}

// With --fp8, only the matrix products of training are computed in fp8. Everything else, including evaluations, is computed as with
// --bf16.
void set_fp8(const Arguments& arguments, const DeviceOptions& device, bool trains,
             PrecisionOptions& precision, RequestRemarks& remarks) {
  if (!arguments.fp8) return;
  require_fp8(device);
  if (arguments.fp16) {
    throw_error(ErrorCode::kUsage,
                "--fp8 and --fp16 exclude each other: with --fp8, everything except the fp8 matrix products "
                "is computed in bf16; leave --fp16 out");
  }
  if (arguments.load_in_4bit || arguments.load_in_8bit) {
    throw_error(ErrorCode::kUsage,
                "--fp8 and --load_in_{}bit exclude each other: fp8 matrix products can only read weights "
                "that are stored in 16 or 32 bits; leave one of the two settings out",
                arguments.load_in_4bit ? 4 : 8);
  }
  precision.activation_dtype = DType::kBF16;
  precision.fp8 = trains;
  if (!trains)
    remarks.notes.emplace_back(
        "--fp8 has no effect without training: evaluations compute matrix products in bf16");
}

// Sets bf16 for weights, activations and gradients.
void set_weight_type(const Arguments& arguments, const DeviceOptions& device, PrecisionOptions& precision) {
  if (arguments.dtype != "bfloat16") return;
  require_bf16("dtype bfloat16", device);
  if (arguments.fp16) {
    throw_error(ErrorCode::kUsage,
                "--dtype bfloat16 and --fp16 exclude each other: both operands of a matrix product must have "
                "one type; give one of the two settings");
  }
  precision.dtype = DType::kBF16;
  precision.activation_dtype = DType::kBF16;
}

void set_gradient_type(const Arguments& arguments, const DeviceOptions& device, PrecisionOptions& precision) {
  if (arguments.gradient_dtype == "auto") return;
  const DType dtype = arguments.gradient_dtype == "fp32"   ? DType::kF32
                      : arguments.gradient_dtype == "bf16" ? DType::kBF16
                                                           : DType::kF16;
  if (dtype != DType::kF32 && device.kind == KernelDevice::kCpu) {
    throw_error(ErrorCode::kUsage,
                "--gradient_dtype {}: on a CPU matrix products read fp32 weights, and a gradient has the "
                "type of its weight; leave the setting out",
                arguments.gradient_dtype);
  }
  if (dtype != DType::kF32 && dtype != precision.activation_dtype) {
    throw_error(ErrorCode::kUsage,
                "--gradient_dtype {0}: gradients can only have the type fp32 or that of the activations; "
                "give --{0} too, or leave --gradient_dtype out",
                arguments.gradient_dtype);
  }
  // Gradients of bf16 weights are bf16 by default, so --gradient_dtype bf16 has no effect on them.
  if (precision.dtype != DType::kBF16 || dtype != DType::kBF16) precision.gradient_dtype = dtype;
}

void set_weight_copies(const Arguments& arguments, const DeviceOptions& device, PrecisionOptions& precision,
                       RequestRemarks& remarks) {
  if (arguments.weight_copies != "at_use") return;
  if (device.kind == KernelDevice::kCpu) {
    remarks.notes.emplace_back(
        "--weight_copies at_use has no effect on a CPU, where matrix products round fp32 weights while they "
        "read them");
  } else if (!precision.activation_dtype || precision.dtype != DType::kF32) {
    remarks.notes.emplace_back(
        "--weight_copies at_use has no effect unless fp32 weights are used with 16-bit activations: give "
        "--fp16 or --bf16 too");
  } else {
    precision.copies_at_use = true;
    precision.fp8_codes_at_use = precision.fp8;
  }
}

// --bf16_full_eval and --fp16_full_eval have no effect on evaluations during training, which use the weights in the type in which they
// are trained, as in Trainer.
void set_full_evaluation(const Arguments& arguments, const DeviceOptions& device, bool trains,
                         PrecisionOptions& precision, RequestRemarks& remarks) {
  if (!arguments.bf16_full_eval && !arguments.fp16_full_eval) return;
  const char* name = arguments.bf16_full_eval ? "bf16_full_eval" : "fp16_full_eval";
  if (trains) {
    remarks.notes.push_back(fmt::format(
        "--{} has no effect on a run that trains, because its evaluations use the trained weights; in eval, "
        "predict and a plan without --do_train it reduces the weights to 2 bytes per parameter",
        name));
    return;
  }
  if (arguments.bf16_full_eval) {
    require_bf16(name, device);
  } else {
    require_fp16(name, device);
  }
  precision.dtype = arguments.bf16_full_eval ? DType::kBF16 : DType::kF16;
  precision.activation_dtype = precision.dtype;
}

// --tf32 is Trainer's name for one of the values of --matmul_precision. Giving both is allowed if they do not contradict each other.
void set_fp32_products(const Arguments& arguments, const DeviceOptions& device, PrecisionOptions& precision,
                       RequestRemarks& remarks) {
  const std::string& word = arguments.matmul_precision;
  const bool takes_tf32 = word == "tf32" || word == "tf32x3";
  const bool names_fp32 = takes_tf32 || word == "fp32";
  if (arguments.tf32 && names_fp32 && *arguments.tf32 != (word == "tf32")) {
    throw_error(ErrorCode::kUsage, "--tf32 {} and --matmul_precision {} contradict each other; leave one out",
                *arguments.tf32 ? "True" : "False", word);
  }
  if (!takes_tf32 && !arguments.tf32.value_or(false)) return;
  const bool on_gpu = device.kind == KernelDevice::kCuda;
  if (!on_gpu && !takes_tf32) {
    remarks.notes.emplace_back("--tf32 has no effect on a CPU");
    return;
  }
  if (!device.has_tf32()) {
    throw_error(ErrorCode::kUsage,
                "--{}: {} has no TF32 (a GPU of compute capability 8.0 or later has); leave it out",
                takes_tf32 ? "matmul_precision " + word : "tf32", device_name(device));
  }
  precision.fp32_products = word == "tf32x3" ? Fp32Products::kTf32x3 : Fp32Products::kTf32;
}

// Refuses a value of --matmul_precision that contradicts the other arguments.
void refuse_other_products(const Arguments& arguments, const PrecisionOptions& precision) {
  const std::string mixed = arguments.fp8                                ? "fp8"
                            : precision.activation_dtype == DType::kF16  ? "fp16"
                            : precision.activation_dtype == DType::kBF16 ? "bf16"
                                                                         : "";
  const std::string products =
      !mixed.empty() ? mixed : std::string(fp32_products_name(precision.fp32_products));
  if (arguments.matmul_precision == "auto" || arguments.matmul_precision == products) return;
  // For these data types there is an argument of the same name (--bf16, --fp16, --fp8), which the error message can recommend. --fp8
  // implies --bf16, so --bf16 is not recommended if --fp8 is given.
  const bool is_argument = arguments.matmul_precision == "fp16" || arguments.matmul_precision == "fp8" ||
                           (arguments.matmul_precision == "bf16" && mixed != "fp8");
  throw_error(ErrorCode::kUsage,
              "--matmul_precision {}: {} matrix products read their inputs in {}; leave it out, or {}",
              arguments.matmul_precision,
              mixed.empty() ? "without --bf16, --fp16 and --fp8" : "with --" + mixed, products,
              is_argument ? "give --" + arguments.matmul_precision
                          : fmt::format("leave --{} out", mixed.empty() ? "tf32" : mixed));
}

}  // namespace

PrecisionOptions precision_of(const Arguments& arguments, const DeviceOptions& device, bool trains,
                              RequestRemarks& remarks) {
  PrecisionOptions precision;
  if (arguments.bf16) {
    require_bf16("bf16", device);
    precision.activation_dtype = DType::kBF16;
  }
  if (arguments.fp16) {
    require_fp16("fp16", device);
    precision.activation_dtype = DType::kF16;
  }
  set_fp8(arguments, device, trains, precision, remarks);
  set_weight_type(arguments, device, precision);
  set_gradient_type(arguments, device, precision);
  set_weight_copies(arguments, device, precision, remarks);
  set_full_evaluation(arguments, device, trains, precision, remarks);
  if (precision.dtype == DType::kF32) set_fp32_products(arguments, device, precision, remarks);
  refuse_other_products(arguments, precision);
  return precision;
}

}  // namespace plimsoll
