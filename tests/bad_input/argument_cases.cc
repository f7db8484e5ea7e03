// Test cases of bad input: arguments that are unknown, contradictory or out of range.
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

bool cpu_has_bf16() {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find(" avx512_bf16") != std::string::npos || text.find(" amx_bf16") != std::string::npos;
}

std::vector<Case> value_cases() {
  return {

      argument("ArgumentsGood", 0, {"weights"}, {}),
      argument("ArgumentMoreThreadsThanProcessors", 0,
               {"warning: --num_threads 4096 is more than the ", "slower than with "},
               {"--num_threads", "4096"}),
      argument("ArgumentIdle", 0, {"note: --eval_steps has no effect with --eval_strategy no"},
               {"--eval_steps", "5"}),
      argument("ArgumentUnknown", 2, {"--learning_rat", "did you mean 'learning_rate'"},
               {"--learning_rat", "1"}),
      argument("ArgumentWithoutValue", 2, {"--learning_rate"}, {"--learning_rate"}),
      argument("ArgumentWithoutDashes", 2, {"'stray'"}, {"stray"}),
      argument("ArgumentTextForNumber", 2, {"--max_steps", "ten"}, {"--max_steps", "ten"}),
      argument("ArgumentFractionForInteger", 2, {"--seed", "1.5"}, {"--seed", "1.5"}),
      argument("ArgumentNotUtf8", 2, {"--run_name", "not UTF-8"}, {"--run_name", "caf\xe9"}),
      argument("ArgumentKeyNotUtf8", 2, {"--optim_args", "not UTF-8"},
               {"--optim", "sgd", "--optim_args", "\x8bmomentum=0.5"}),
      argument("ArgumentNaN", 2, {"--learning_rate", "nan"}, {"--learning_rate", "nan"}),
      argument("ArgumentInfinite", 2, {"--learning_rate"}, {"--learning_rate", "1e999"}),
      argument("ArgumentsThatLeaveNothingToDo", 2, {"--do_train False", "--do_eval or --do_predict"},
               {"--do_train", "False"}),
      argument("ArgumentOutOfRange", 2, {"--adam_beta1", "1.5", "[0, 1)"}, {"--adam_beta1", "1.5"}),
      argument("ArgumentZeroBatch", 2, {"--per_device_train_batch_size", "0"},
               {"--per_device_train_batch_size", "0"}),
      argument("ArgumentEnormousBatch", 2, {"--per_device_train_batch_size"},
               {"--per_device_train_batch_size", "9223372036854775807"}),
      argument("ArgumentEnormousData", 2, {"--dummy_num_samples"},
               {"--dummy_num_samples", "9223372036854775807"}),
      argument("ArgumentEnormousAccumulation", 2, {"--gradient_accumulation_steps"},
               {"--gradient_accumulation_steps", "9223372036854775807"}),
      argument("ArgumentManyDummyTokens", 2, {"--dummy_num_samples 2147483647 sequences", "give fewer"},
               {"--dummy_num_samples", "2147483647"}),
      argument("ArgumentEnormousLabels", 2, {"--num_labels: 1000000000 is outside"},
               {"--num_labels", "1000000000"}),
      argument("ArgumentWrongBool", 2, {"--do_eval", "maybe"}, {"--do_eval", "maybe"}),
      argument("ArgumentChoiceMistyped", 2, {"'epochs'", "did you mean 'epoch'"},
               {"--eval_strategy", "epochs"}),
      argument("ArgumentRefused", 2, {"--neftune_noise_alpha", "not in this version"},
               {"--neftune_noise_alpha", "5"}),
      argument("ArgumentEnormousSteps", 2, {"--max_steps"}, {"--max_steps", "1000000000000"}),
      argument("ArgumentEnormousEpochs", 2, {"--num_train_epochs"}, {"--num_train_epochs", "1e30"}),
      argument("ArgumentOldName", 0, {"old name", "eval_strategy"}, {"--evaluation_strategy", "epoch"}),
      argument("ArgumentRemovedName", 0, {"fp16_backend", "ignored"}, {"--fp16_backend", "auto"}),
  };
}

// Cases of recomputation, offloading and memory limits.
std::vector<Case> memory_cases() {
  return {

      argument("RecomputeContradicts", 2, {"--gradient_checkpointing means --recompute full", "none"},
               {"--gradient_checkpointing", "--recompute", "none"}),
      argument("RecomputeUnknown", 2, {"--recompute", "all", "selective"}, {"--recompute", "all"}),
      argument("RecomputeBudgetTooSmall", 3,
               {"--recompute_budget 1.0 MiB: nothing fits", "MiB more; give --recompute_budget"},
               {"--recompute_budget", "1MiB"}),
      argument("OffloadOptimizerOnCpu", 2, {"--offload_optimizer", "already", "cuda:0"},
               {"--offload_optimizer"}),
      argument("OffloadToADiskWithoutAFolder", 2,
               {"--offload_optimizer nvme:: no folder is named", "nvme:/path"},
               {"--offload_optimizer", "nvme:"}),
      argument("OffloadToAnUnknownPlace", 2,
               {"--offload_optimizer tape: expected True, False or nvme:FOLDER"},
               {"--offload_optimizer", "tape"}),
      argument("OffloadToAFolderThatDoesNotExist", 2,
               {"--offload_optimizer nvme:/nowhere/nvme", "'/nowhere/nvme' does not exist; create it"},
               {"--offload_optimizer", "nvme:/nowhere/nvme"}),
      argument("OffloadToAFile", 2, {"--offload_optimizer nvme:/dev/null", "is not a folder"},
               {"--offload_optimizer", "nvme:/dev/null"}),
      // The folder /proc is not writable for ordinary users. Root may write there, but /proc has 0 bytes of disk space,
      // so for root the error is that the disk is full.
      argument("OffloadToAFolderThatCannotBeWritten", geteuid() == 0 ? 3 : 2,
               {"--offload_optimizer nvme:/proc",
                geteuid() == 0 ? "the disk of '/proc', where 0 bytes" : "may not write to '/proc'"},
               {"--offload_optimizer", "nvme:/proc"}),
      argument("OffloadToADiskWithoutStates", 2, {"--optim sgd has no states to store on a disk"},
               {"--offload_optimizer", "nvme:/tmp", "--optim", "sgd"}),
      argument("OffloadToADiskWithDividedStates", 2,
               {"--zero_stage 1 keeps", "nvme:/tmp stores them on a disk"},
               {"--offload_optimizer", "nvme:/tmp", "--zero_stage", "1", "--nproc_per_node", "2"}),
      argument("OffloadActivationsOnTheCpuThatWasAskedFor", 2, {"--offload_activations", "already", "cuda:0"},
               {"--offload_activations", "--device", "cpu"}),
      argument("OffloadActivationsWithABudget", 2,
               {"--recompute_budget", "--offload_activations", "one of them"},
               {"--offload_activations", "--recompute_budget", "1GiB"}),
      argument("PagedOptimizerOnCpu", 0, {"paged_adamw_8bit", "already in host memory"},
               {"--optim", "paged_adamw_8bit"}),
      argument("ArgumentMemoryLimit", 3,
               {"--memory_limit", "1.0 MiB allowed (--memory_limit)", "--optim sgd"},
               {"--memory_limit", "1MiB"}),
      argument("ArgumentMemoryLimitUnit", 2, {"--memory_limit", "12 apples"},
               {"--memory_limit", "12 apples"}),
  };
}

// Cases of frozen parameters and adapters.
std::vector<Case> adapter_argument_cases() {
  return {

      argument("ArgumentFreezeMatchesNothing", 2,
               {"--freeze bert.embedings.*", "the nearest names are bert.embeddings."},
               {"--freeze", "bert.embedings.*"}),
      argument("ArgumentFreezeAPart", 2, {"*.query.weight", "self.key.weight", "frozen together"},
               {"--freeze", "*.query.weight"}),
      argument("ArgumentLoraRank", 2, {"--lora_r: 0 is outside [1, 65536]"}, {"--lora_r", "0"}),
      argument("ArgumentFreezeEverything", 2, {"--freeze *", "nothing is left to train", "classifier"},
               {"--freeze", "*"}),
      argument("ArgumentLoraAlpha", 2, {"--lora_alpha", "-1", "(0, inf)"}, {"--lora_alpha", "-1"}),
      argument("ArgumentLoraBias", 2, {"--lora_bias all", "--modules_to_save"}, {"--lora_bias", "all"}),
      argument("ArgumentDora", 2,
               {"--use_dora True: not in this version", "--lora_target_modules all-linear"}, {"--use_dora"}),
      argument("ArgumentRankPattern", 2, {"--rank_pattern query=4", "--lora_r"},
               {"--lora_r", "2", "--rank_pattern", "query=4"}),
      argument("ArgumentAnotherTask", 2, {"--task_type CAUSAL_LM", "--problem_type"},
               {"--task_type", "CAUSAL_LM"}),
      argument("ArgumentInt8Threshold", 0, {"note: --llm_int8_threshold has no effect here"},
               {"--lora_r", "2", "--load_in_8bit", "--llm_int8_threshold", "4"}),
      argument("ArgumentSkipModules", 2, {"--llm_int8_skip_modules poler", "the nearest names are"},
               {"--lora_r", "2", "--load_in_8bit", "--llm_int8_skip_modules", "poler"}),
      argument("ArgumentSkipAPart", 2, {"--llm_int8_skip_modules self.query", "all three"},
               {"--lora_r", "2", "--load_in_4bit", "--llm_int8_skip_modules", "self.query"}),
      argument("ArgumentComputeTypeOfWeights", 2,
               {"--bnb_4bit_compute_dtype bfloat16", "float32; give --bf16 for bfloat16"},
               {"--lora_r", "2", "--load_in_4bit", "--bnb_4bit_compute_dtype", "bfloat16"}),
      argument("ArgumentExcludedModule", 2, {"--exclude_modules quary", "the nearest names are query"},
               {"--exclude_modules", "quary"}),
      argument("ArgumentLayerToTransform", 2, {"--layers_to_transform 99", "this model has 0 to "},
               {"--layers_to_transform", "99"}),
      argument("ArgumentFourBitsOfNothing", 2, {"--load_in_4bit", "--lora_r"}, {"--load_in_4bit"}),
      argument("ArgumentBothBits", 2, {"--load_in_4bit and --load_in_8bit"},
               {"--lora_r", "2", "--load_in_4bit", "--load_in_8bit"}),
      argument("ArgumentLoraTarget", 2, {"--lora_target_modules quary", "the nearest names are query"},
               {"--lora_target_modules", "quary"}),
      argument("ArgumentLoraExpression", 2, {"not a valid regular expression"},
               {"--lora_target_modules", ".*[query"}),
      argument("ArgumentLoraModuleToSave", 2, {"--modules_to_save poler"}, {"--modules_to_save", "poler"}),
  };
}

std::vector<Case> optimizer_cases() {
  return {

      argument("ArgumentOptimizerUnknown", 2, {"--optim", "did you mean 'adamw_torch'"},
               {"--optim", "adamw_troch"}),
      argument("ArgumentOptimizerNotHere", 2, {"galore_adamw", "low rank", "--optim adamw_8bit"},
               {"--optim", "galore_adamw"}),
      argument("ArgumentSgd8BitWithoutMomentum", 2, {"--optim sgd_8bit", "momentum=0.9", "--optim sgd"},
               {"--optim", "sgd_8bit"}),
      argument("ArgumentOptimizerSetting", 2, {"momentun"},
               {"--optim", "sgd", "--optim_args", "momentun=0.9"}),
      argument("ArgumentScheduleSetting", 2, {"--lr_scheduler_kwargs", "num_cycle", "num_cycles"},
               {"--lr_scheduler_type", "cosine", "--lr_scheduler_kwargs", "num_cycle=2"}),
      argument("ArgumentOptimizerInBackward", 2, {"lomo", "--optimizer_in_backward", "--optim sgd"},
               {"--optim", "lomo"}),
  };
}

std::vector<Case> precision_cases() {
  return {

      argument("ArgumentsContradict", 2, {"--fp16 and --bf16 exclude"}, {"--fp16", "--bf16"}),
      argument("ArgumentFp16OnCpu", 2, {"--fp16", "on a CPU"}, {"--fp16"}),
      argument("ArgumentFp16OnTheCpuThatWasAskedFor", 2, {"--fp16", "cannot compute fp16 on a CPU", "cuda:0"},
               {"--fp16", "--use_cpu"}),
      // If the CPU has bf16 instructions, --bf16 is not an error.
      cpu_has_bf16() ? argument("ArgumentBf16OnCpu", 0, {"bf16 mixed"}, {"--bf16"})
                     : argument("ArgumentBf16OnCpu", 2, {"--bf16", "leave the setting out"}, {"--bf16"}),
      argument("ArgumentGradientType", 2, {"--gradient_dtype bf16", "CPU", "leave the setting out"},
               {"--gradient_dtype", "bf16"}),
      argument("ArgumentProductsInBf16", 2, {"--matmul_precision bf16", "fp32", "--bf16"},
               {"--matmul_precision", "bf16"}),
      argument("ArgumentProductsContradict", 2, {"--tf32 True", "--matmul_precision tf32x3", "contradict"},
               {"--matmul_precision", "tf32x3", "--tf32"}),
      argument("ArgumentProductsOnACpu", 2, {"--matmul_precision tf32x3", "no TF32", "8.0"},
               {"--matmul_precision", "tf32x3"}),
      argument("ArgumentTf32OfATuringCard", 2, {"--tf32: t4 has no TF32 (a GPU"},
               {"--device", "t4", "--tf32"}),
  };
}

std::vector<Case> device_cases() {
  return {

      argument("ArgumentDeviceNotHere", 7, {"--device cuda:99", "--device cpu"}, {"--device", "cuda:99"}),
      {"ArgumentDeviceOfTheTable",
       2,
       {"--device h200", "plan", "cuda:N"},
       [](const Ground& ground) {
         return undried(ground.train_dummy({"--device", "h200"}));
       }},
      argument("ArgumentDryRunForACardThatIsNotHere", 0, {"from the table, not a card in this machine"},
               {"--device", "h200"}),
      argument("ArgumentDryRunForACardWithoutCode", 0,
               {"note: --device v100-16gb: plan only", "for compute capability 7.5 and later",
                "this card has 7.0"},
               {"--device", "v100-16gb"}),
      argument("ArgumentBf16OfATuringCard", 2,
               {"--bf16: t4 has no bf16 (compute capability 7.5; bf16 needs 8.0)", "leave it out", "--fp16"},
               {"--device", "t4", "--bf16"}),
      argument("ArgumentSizesThatNoKernelTakes", 2,
               {"no kernel computes 'bias_dropout_residual_norm_fwd' in f32 on l4\n", "at most 4096 columns",
                "--config_overrides", "--device cpu has a kernel for it"},
               {"--device", "l4", "--config_overrides", "hidden_size=5120,num_attention_heads=40"}),
      argument("ArgumentDeviceNotInTheTable", 2, {"--device h300", "h200", "cuda:N"}, {"--device", "h300"}),
      argument("ArgumentDeviceUnknown", 2, {"--device", "abacus"}, {"--device", "abacus"}),
  };
}

std::vector<Case> pass_cases() {
  return {
      argument("ArgumentKernelUnknown", 2, {"--kernels rms_norm_fwd_rfe", "did you mean 'rms_norm_fwd_ref'"},
               {"--kernels", "rms_norm_fwd_rfe"}),
      argument("ArgumentKernelTwice", 2, {"rms_norm_fwd_ref,rms_norm_fwd_cpu", "both compute rms_norm_fwd"},
               {"--kernels", "rms_norm_fwd_ref,rms_norm_fwd_cpu"}),
      argument("ArgumentKernelOfGpu", 2, {"--kernels rms_norm_fwd_cuda", "runs on a GPU only", "CPU"},
               {"--kernels", "rms_norm_fwd_cuda", "--device", "cpu"}),
      argument("ArgumentKernelUnused", 2, {"--kernels sgd_cpu", "no op of this run computes", "plan --why"},
               {"--kernels", "sgd_cpu", "--device", "cpu"}),
      argument("ArgumentPassUnknown", 2, {"--disable_pass nothing", "the passes are"},
               {"--disable_pass", "nothing"}),
      argument("ArgumentPassNeeded", 2, {"--disable_pass accumulate", "--gradient_accumulation_steps"},
               {"--disable_pass", "accumulate", "--gradient_accumulation_steps", "2"}),
      argument("ArgumentStopAfterUnknown", 2,
               {"--stop_after_pass nothing", "the passes are none, tensor_parallel, unread_rows"},
               {"--stop_after_pass", "nothing"}),
      argument("ArgumentStopAfterAPass", 0, {"--stop_after_pass fuse skips ", "accumulate still runs"},
               {"--stop_after_pass", "fuse", "--gradient_accumulation_steps", "2"}),
  };
}

}  // namespace

std::vector<Case> argument_cases() {
  return joined({value_cases(), memory_cases(), adapter_argument_cases(), optimizer_cases(),
                 precision_cases(), device_cases(), pass_cases()});
}

}  // namespace plimsoll::testing
