// Tests the rules that turn arguments and facts into a plan request, and the error messages of these rules.
#include "plan/request/request_of.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/check.h"

namespace plimsoll {
namespace {

RunFacts cpu_facts(CpuIsa isa = CpuIsa::kAmx) {
  RunFacts facts{.train_bucket = {.tokens = 64, .sequences = 4, .longest = 16}};
  facts.device.isa = isa;
  return facts;
}

RunFacts gpu_facts(const char* card) {
  RunFacts facts = cpu_facts();
  facts.device.kind = KernelDevice::kCuda;
  facts.device.gpu = *find_gpu_target(card);
  return facts;
}

Arguments with(const std::function<void(Arguments&)>& change) {
  Arguments arguments;
  change(arguments);
  return arguments;
}

// Returns the error message, or "" for arguments that are accepted.
std::string refusal(const Arguments& arguments, const RunFacts& facts) {
  RequestRemarks remarks;
  try {
    static_cast<void>(request_of(arguments, facts, remarks));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(RequestOf, DefaultsAreFp32OnTheGivenDevice) {
  RequestRemarks remarks;
  const PlanRequest request = request_of(Arguments(), cpu_facts(), remarks);
  EXPECT_EQ(request.precision, PrecisionOptions());
  EXPECT_EQ(request.batches.train.tokens, 64);
  EXPECT_FALSE(request.memory_limit_bytes);
  EXPECT_TRUE(remarks.notes.empty() && remarks.warnings.empty());
}

// GPUs of one machine exchange data in memory that they map from each other, unless the GPUs do not support this or NCCL is requested.
TEST(RequestOf, GpusOfOneMachineMapEachOthersMemory) {
  const auto maps_peers = [](const char* card, const std::function<void(Arguments&)>& change) {
    Arguments arguments = with(change);
    RequestRemarks remarks;
    return request_of(arguments, gpu_facts(card), remarks).ranks.maps_peers;
  };
  EXPECT_TRUE(maps_peers("h100", [](Arguments& a) { a.nproc_per_node = 8; }));
  EXPECT_FALSE(maps_peers("h100", [](Arguments&) {}));
  EXPECT_FALSE(maps_peers("h100", [](Arguments& a) { a.nproc_per_node = 16; }));
  EXPECT_FALSE(maps_peers("4090", [](Arguments& a) { a.nproc_per_node = 2; }));
  EXPECT_FALSE(maps_peers("h100", [](Arguments& a) {
    a.nproc_per_node = 2;
    a.nnodes = 2;
  }));
  EXPECT_FALSE(maps_peers("h100", [](Arguments& a) {
    a.nproc_per_node = 2;
    a.ddp_backend = "nccl";
  }));
}

// The ranks of a tensor-parallel group have consecutive numbers. Thus they are on one machine if the size of the group divides the number
// of GPUs per machine.
TEST(RequestOf, AxesOfTheMeshMapMemoryIndependently) {
  struct Wanted {
    bool data, tensor;
  };
  const auto expect_mapped = [](int64_t nodes, int64_t ranks, int64_t size, const Wanted& wanted) {
    const Arguments arguments = with([&](Arguments& a) {
      a.nnodes = nodes;
      a.nproc_per_node = ranks;
      a.tp_size = size;
    });
    RunFacts facts = gpu_facts("h100");
    facts.model.num_attention_heads = 12;
    facts.model.intermediate_size = 3072;
    RequestRemarks remarks;
    const RankOptions mapped = request_of(arguments, facts, remarks).ranks;
    EXPECT_EQ(mapped.maps_peers, wanted.data) << nodes << " x " << ranks << ", " << size;
    EXPECT_EQ(mapped.tensor_maps_peers, wanted.tensor) << nodes << " x " << ranks << ", " << size;
  };
  expect_mapped(1, 2, 2, {.data = false, .tensor = true});
  expect_mapped(1, 4, 2, {.data = true, .tensor = true});
  expect_mapped(2, 4, 2, {.data = false, .tensor = true});
  expect_mapped(2, 3, 2, {.data = false, .tensor = false});
  expect_mapped(1, 4, 1, {.data = true, .tensor = false});
}

// Tests that a plan uses the measurements for the kind of exchange (NCCL or mapped memory) that its ranks use.
TEST(RequestOf, TakesTheLinksOfItsExchange) {
  LinkCalibration calibration{.num_ranks = 4};
  for (const LinkExchange exchange :
       {LinkExchange::kGloo, LinkExchange::kMappedMemory, LinkExchange::kNccl}) {
    calibration.exchanges[exchange] = {.exchange = exchange, .num_ranks = 4};
    calibration.exchanges[exchange].curves[Collective::kAllReduce] = {{.bytes = 1, .median_ms = 1}};
  }
  const auto links = [&](RunFacts facts, int64_t ranks, const std::string& backend = "") {
    const Arguments arguments = with([&](Arguments& a) {
      a.nproc_per_node = ranks;
      a.ddp_backend = backend;
    });
    facts.calibrations.links = calibration;
    RequestRemarks remarks;
    return request_of(arguments, facts, remarks).links;
  };
  EXPECT_EQ(links(cpu_facts(), 4).exchange, LinkExchange::kGloo);
  EXPECT_TRUE(links(cpu_facts(), 2).empty());
  EXPECT_EQ(links(gpu_facts("h100"), 4).exchange, LinkExchange::kMappedMemory);
  EXPECT_EQ(links(gpu_facts("h100"), 4, "nccl").exchange, LinkExchange::kNccl);
  calibration.exchanges.extract(LinkExchange::kNccl);
  EXPECT_TRUE(links(gpu_facts("h100"), 4, "nccl").empty());
}

TEST(RequestOf, TheFirstRankMakesAllUpdatesInModeDp) {
  const auto ranks = [](int64_t count) {
    RequestRemarks remarks;
    return request_of(with([&](Arguments& a) {
                        a.nproc_per_node = count;
                        a.data_parallel_mode = "dp";
                      }),
                      cpu_facts(), remarks)
        .ranks;
  };
  EXPECT_TRUE(ranks(2).updates_on_first);
  EXPECT_EQ(ranks(2).zero_stage, ZeroStage::kStates);
  EXPECT_FALSE(ranks(1).updates_on_first);
  EXPECT_EQ(ranks(1).zero_stage, ZeroStage::kNone);
}

// If GPUs map each other's memory, ranks divide optimizer states by default, except in runs with a setting that excludes this, or with
// which its speed has not been measured.
TEST(RequestOf, DividesOptimizerStatesWhereThisIsFaster) {
  const auto stage = [](const RunFacts& facts, const std::function<void(Arguments&)>& change) {
    Arguments arguments;
    arguments.nproc_per_node = 2;
    change(arguments);
    RequestRemarks remarks;
    return request_of(arguments, facts, remarks).ranks.zero_stage;
  };
  RunFacts gpus = gpu_facts("h100");
  gpus.train = true;
  EXPECT_EQ(stage(gpus, [](Arguments&) {}), ZeroStage::kStates);
  EXPECT_EQ(stage(gpus, [](Arguments& a) { a.gradient_accumulation_steps = 2; }), ZeroStage::kStates);
  EXPECT_EQ(stage(gpus, [](Arguments& a) { a.zero_stage = 0; }), ZeroStage::kNone);
  EXPECT_EQ(stage(gpus, [](Arguments& a) { a.zero_stage = 3; }), ZeroStage::kWeights);
  const std::function<void(Arguments&)> changes[] = {[](Arguments& a) { a.nproc_per_node = 1; },
                                                     [](Arguments& a) { a.ddp_backend = "nccl"; },
                                                     [](Arguments& a) { a.optim = "adafactor"; },
                                                     [](Arguments& a) {
                                                       a.optimizer_in_backward = true;
                                                       a.max_grad_norm = 0;
                                                     },
                                                     [](Arguments& a) { a.cp_size = 2; }};
  for (const auto& change : changes) EXPECT_EQ(stage(gpus, change), ZeroStage::kNone);
  RunFacts consumer_gpus = gpu_facts("4090");
  consumer_gpus.train = true;
  EXPECT_EQ(stage(consumer_gpus, [](Arguments&) {}), ZeroStage::kNone);
  RunFacts cpus = cpu_facts();
  cpus.train = true;
  EXPECT_EQ(stage(cpus, [](Arguments&) {}), ZeroStage::kNone);
}

TEST(RequestOf, TakesNamedLinks) {
  RunFacts facts = gpu_facts("h100");
  facts.ranks.links = {.inside = "nvlink4", .between = "ib400"};
  const auto on_machines = [](int64_t ranks, int64_t machines) {
    return with([&](Arguments& a) {
      a.nproc_per_node = ranks;
      a.nnodes = machines;
    });
  };
  RequestRemarks remarks;
  const PlanRequest request = request_of(on_machines(8, 4), facts, remarks);
  EXPECT_EQ(request.named_links, facts.ranks.links);
  EXPECT_EQ(request.num_machines, 4);
  EXPECT_TRUE(request_of(Arguments(), facts, remarks).named_links.empty()) << "one rank";
  facts.ranks.links.between.clear();
  EXPECT_EQ(refusal(on_machines(8, 1), facts), "");
  EXPECT_EQ(refusal(on_machines(8, 2), facts),
            "--links nvlink4: this run is on 2 machines; also name the network between them, for example "
            "--links nvlink4,ib400");
  RunFacts cpus = cpu_facts();
  cpus.ranks.links = facts.ranks.links;
  EXPECT_EQ(
      refusal(on_machines(2, 1), cpus),
      "--links nvlink4: nvlink4 connects GPUs, but this run is on CPUs; name only the network between its "
      "machines, such as eth100, or give --device");
}

TEST(RequestOf, RefusesALibraryOfAnotherKindOfDevice) {
  EXPECT_EQ(
      refusal(with([](Arguments& a) { a.ddp_backend = "nccl"; }), cpu_facts()),
      "--ddp_backend nccl: this run is on CPUs, where processes exchange gradients through gloo; omit it");
  EXPECT_EQ(refusal(with([](Arguments& a) { a.ddp_backend = "gloo"; }), gpu_facts("h100")),
            "--ddp_backend gloo: this run is on GPUs, where processes exchange gradients through NCCL or "
            "mapped memory; "
            "omit it");
  EXPECT_EQ(refusal(with([](Arguments& a) { a.ddp_backend = "gloo"; }), cpu_facts()), "");
}

TEST(RequestOf, DividesTokensAmongRanks) {
  Arguments arguments = with([](Arguments& a) {
    a.nproc_per_node = 4;
    a.cp_size = 2;
  });
  RunFacts facts = cpu_facts();
  facts.model.num_attention_heads = 12;
  facts.train_bucket.tokens = 100;
  RequestRemarks remarks;
  const PlanRequest request = request_of(arguments, facts, remarks);
  EXPECT_EQ(request.ranks.tensor_size, 2);
  EXPECT_EQ(request.ranks.data_size(), 2);
  EXPECT_TRUE(request.ranks.divides_context());
  EXPECT_FALSE(request.ranks.divides_layers() || request.ranks.divides_rows());
  EXPECT_EQ(request.batches.train.tokens, 112);
  facts.model.num_attention_heads = 3;
  EXPECT_EQ(refusal(arguments, facts),
            "--cp_size 2: the attention heads of this model (num_attention_heads in config.json is 3) cannot "
            "be divided among 2 processes; give a --cp_size that divides 3");
  arguments.cp_size = 3;
  EXPECT_EQ(refusal(arguments, facts),
            "--cp_size 3: 4 processes (--nproc_per_node x --nnodes) cannot be divided into groups of 3; give "
            "--nproc_per_node 3 or another multiple");
}

TEST(RequestOf, DividesLayersAmongRanks) {
  const auto arguments = [](int64_t ranks, int64_t size) {
    return with([&](Arguments& a) {
      a.nproc_per_node = ranks;
      a.tp_size = size;
    });
  };
  RunFacts facts = cpu_facts();
  facts.model.num_attention_heads = 12;
  facts.model.intermediate_size = 3072;
  RequestRemarks remarks;
  const PlanRequest request = request_of(arguments(4, 2), facts, remarks);
  EXPECT_EQ(request.ranks.count, 4);
  EXPECT_EQ(request.ranks.tensor_size, 2);
  EXPECT_EQ(request.ranks.data_size(), 2);
  EXPECT_FALSE(request.ranks.divides_rows());
  EXPECT_EQ(request.batches.train, facts.train_bucket);
  // Two ranks can divide the rows of a batch evenly only if its number of tokens is a multiple of 16.
  Arguments divides_rows = arguments(4, 2);
  divides_rows.sequence_parallel = true;
  RunFacts odd = facts;
  odd.train_bucket.tokens = 16 * 5 + 1;
  odd.evaluate_bucket.tokens = 16 * 7;
  const PlanRequest of_rows = request_of(divides_rows, odd, remarks);
  EXPECT_TRUE(of_rows.ranks.divides_rows());
  EXPECT_EQ(of_rows.batches.train.tokens, 16 * 6);
  EXPECT_EQ(of_rows.batches.evaluate.tokens, 16 * 7);
  EXPECT_EQ(refusal(arguments(3, 2), facts),
            "--tp_size 2: 3 processes (--nproc_per_node x --nnodes) cannot be divided into groups of 2; give "
            "--nproc_per_node 2 or another multiple");
  EXPECT_EQ(
      refusal(arguments(5, 5), facts),
      "--tp_size 5: the attention heads of this model (num_attention_heads in config.json is 12) cannot be "
      "divided among 5 processes; give a --tp_size that divides 12");
  facts.model.intermediate_size = 3070;
  EXPECT_NE(refusal(arguments(4, 4), facts).find("intermediate_size in config.json is 3070"),
            std::string::npos);
  facts.model.intermediate_size = 3072;
  for (const char* optim : {"adafactor", "adamw_8bit"}) {
    Arguments with_states = arguments(2, 2);
    with_states.optim = optim;
    EXPECT_NE(refusal(with_states, facts)
                  .find(fmt::format("the states of --optim {} are shared by several elements", optim)),
              std::string::npos);
  }
  Arguments adapter = arguments(2, 2);
  adapter.lora_r = 4;
  EXPECT_EQ(refusal(adapter, facts), "");
  // Weights in 4 bits have a scale per block of 64 numbers, so each process needs whole blocks. Weights in 8 bits have a scale per row.
  RunFacts narrow = facts;
  narrow.model.intermediate_size = 3008;
  Arguments quantized = adapter;
  quantized.load_in_8bit = true;
  EXPECT_EQ(refusal(quantized, narrow), "");
  quantized.load_in_8bit = false;
  quantized.load_in_4bit = true;
  EXPECT_EQ(refusal(quantized, facts), "");
  EXPECT_NE(refusal(quantized, narrow)
                .find("each process would have 1504 columns of the second feed-forward matrix"),
            std::string::npos);
  quantized.bnb_4bit_use_double_quant = true;
  EXPECT_NE(refusal(quantized, facts).find("(--bnb_4bit_use_double_quant)"), std::string::npos);
  Arguments pure = arguments(2, 2);
  pure.dtype = "bfloat16";
  EXPECT_NE(refusal(pure, facts).find("rounded randomly"), std::string::npos);
}

// Tests that pipeline stages on GPUs exchange values through mapped memory, or through NCCL if it is requested.
TEST(RequestOf, StagesOfOneMachineMapEachOthersMemory) {
  RunFacts facts = gpu_facts("h100");
  facts.model.num_hidden_layers = 12;
  const auto maps = [&](const std::function<void(Arguments&)>& change) {
    const Arguments arguments = with([&](Arguments& a) {
      a.nproc_per_node = 4;
      a.pp_size = 2;
      change(a);
    });
    RequestRemarks remarks;
    return request_of(arguments, facts, remarks).ranks.pipeline_maps_peers;
  };
  EXPECT_TRUE(maps([](Arguments&) {}));
  EXPECT_FALSE(maps([](Arguments& a) { a.nnodes = 2; }));
  EXPECT_FALSE(maps([](Arguments& a) { a.ddp_backend = "nccl"; }));
  EXPECT_FALSE(maps([](Arguments& a) { a.pp_size = 1; }));
  const Arguments offload = with([](Arguments& a) {
    a.nproc_per_node = 2;
    a.pp_size = 2;
    a.offload_activations = true;
  });
  EXPECT_NE(refusal(offload, facts).find("--offload_activations does not transfer"), std::string::npos);
}

TEST(RequestOf, DividesLayersIntoStages) {
  const auto arguments = [](int64_t ranks, int64_t stages) {
    return with([&](Arguments& a) {
      a.nproc_per_node = ranks;
      a.pp_size = stages;
    });
  };
  RunFacts facts = cpu_facts();
  facts.model.num_hidden_layers = 12;
  facts.ranks.stage = 1;
  RequestRemarks remarks;
  Arguments gpipe = arguments(6, 2);
  gpipe.pipeline_schedule = "gpipe";
  const PlanRequest request = request_of(gpipe, facts, remarks);
  EXPECT_EQ(request.ranks.pipeline_size, 2);
  EXPECT_EQ(request.ranks.stage, 1);
  EXPECT_EQ(request.ranks.data_size(), 3);
  EXPECT_EQ(request.ranks.schedule, PipelineSchedule::kGpipe);
  EXPECT_EQ(request_of(arguments(2, 2), facts, remarks).ranks.schedule,
            PipelineSchedule::kOneForwardOneBackward);
  EXPECT_EQ(refusal(arguments(3, 2), facts),
            "--pp_size 2: 3 processes (--nproc_per_node x --nnodes) cannot be divided into 2 stages; give "
            "--nproc_per_node 2 or another multiple");
  EXPECT_EQ(refusal(arguments(13, 13), facts),
            "--pp_size 13: the model has 12 layers (num_hidden_layers in config.json), and every stage of a "
            "pipeline needs at least one; give a --pp_size of at most 12");
  const auto refused = [&](const std::function<void(Arguments&)>& change) {
    Arguments changed = arguments(2, 2);
    change(changed);
    return refusal(changed, facts);
  };
  EXPECT_EQ(refused([](Arguments& a) { a.lora_r = 4; }), "");
  const auto adapts_one_layer = [](Arguments& a) {
    a.lora_r = 4;
    a.lora_target_modules = {"query"};
    a.layers_to_transform = {"1"};
  };
  EXPECT_NE(refused(adapts_one_layer).find("layer 0 has no adapter"), std::string::npos);
  EXPECT_NE(refused([](Arguments& a) { a.freeze = {"*embeddings*"}; }).find("(--freeze)"), std::string::npos);
  EXPECT_NE(refused([](Arguments& a) { a.recompute = "selective"; }).find("recompute different values"),
            std::string::npos);
  EXPECT_NE(refused([](Arguments& a) { a.dtype = "bfloat16"; }).find("are rounded randomly"),
            std::string::npos);
}

TEST(RequestOf, RefusesFp16OnACpuInOneSentence) {
  const Arguments fp16 = with([](Arguments& a) { a.fp16 = true; });
  EXPECT_EQ(refusal(fp16, cpu_facts()),
            "--fp16: Plimsoll cannot compute fp16 on a CPU; give --bf16 instead, or a GPU (--device cuda:0)");
  EXPECT_NE(refusal(fp16, cpu_facts(CpuIsa::kAvx512)).find("does not support bf16 either"),
            std::string::npos);
  EXPECT_EQ(refusal(fp16, gpu_facts("t4")), "");
  RunFacts reference = cpu_facts();
  reference.device.reference_kernels = true;
  EXPECT_EQ(refusal(fp16, reference), "");
}

TEST(RequestOf, RefusesBf16WhereTheDeviceHasNone) {
  const Arguments bf16 = with([](Arguments& a) { a.bf16 = true; });
  EXPECT_NE(refusal(bf16, cpu_facts(CpuIsa::kAvx512)).find("cannot multiply bf16"), std::string::npos);
  EXPECT_NE(refusal(bf16, gpu_facts("t4")).find("t4 has no bf16"), std::string::npos);
  EXPECT_EQ(refusal(bf16, cpu_facts()), "");
}

TEST(RequestOf, Fp8MultipliesInTrainingAndImpliesBf16) {
  const Arguments fp8 = with([](Arguments& a) { a.fp8 = true; });
  RunFacts facts = gpu_facts("h100");
  facts.train_bucket.tokens = 1000;
  RequestRemarks remarks;
  const PlanRequest request = request_of(fp8, facts, remarks);
  EXPECT_TRUE(request.precision.fp8);
  EXPECT_EQ(request.precision.activation_dtype, DType::kBF16);
  EXPECT_EQ(request.precision.dtype, DType::kF32);
  EXPECT_EQ(request.batches.train.tokens, 1008);
  EXPECT_TRUE(remarks.notes.empty());
  const Arguments both = with([](Arguments& a) { a.fp8 = a.bf16 = true; });
  EXPECT_EQ(request_of(both, facts, remarks).precision, request.precision);
  const Arguments pure = with([](Arguments& a) {
    a.fp8 = true;
    a.dtype = "bfloat16";
  });
  EXPECT_TRUE(request_of(pure, facts, remarks).precision.fp8);
  const Arguments at_use = with([](Arguments& a) {
    a.fp8 = true;
    a.weight_copies = "at_use";
  });
  EXPECT_TRUE(request_of(at_use, facts, remarks).precision.fp8_codes_at_use);
  EXPECT_TRUE(remarks.notes.empty());
  facts.train = false;
  EXPECT_FALSE(request_of(fp8, facts, remarks).precision.fp8);
  EXPECT_EQ(remarks.notes,
            std::vector<std::string>{
                "--fp8 has no effect without training: evaluations compute matrix products in bf16"});
}

TEST(RequestOf, RefusesFp8WhereTheDeviceHasNone) {
  const Arguments fp8 = with([](Arguments& a) { a.fp8 = true; });
  EXPECT_EQ(refusal(fp8, cpu_facts()),
            "--fp8: Plimsoll cannot multiply fp8 on a CPU; give --bf16 instead, or a GPU (--device cuda:0)");
  EXPECT_NE(refusal(fp8, cpu_facts(CpuIsa::kAvx512)).find("does not support bf16 either"), std::string::npos);
  EXPECT_EQ(refusal(fp8, gpu_facts("a100-80gb")),
            "--fp8: a100-80gb has no fp8 (compute capability 8.0; fp8 needs 8.9); give --bf16 instead");
  EXPECT_NE(refusal(fp8, gpu_facts("t4")).find("give --fp16 instead"), std::string::npos);
  for (const char* card : {"l4", "4090", "h100", "h200", "5090"})
    EXPECT_EQ(refusal(fp8, gpu_facts(card)), "");
  RunFacts reference = cpu_facts(CpuIsa::kBaseline);
  reference.device.reference_kernels = true;
  EXPECT_EQ(refusal(fp8, reference), "");
}

TEST(RequestOf, RefusesWhatContradictsFp8) {
  const auto refused = [](const std::function<void(Arguments&)>& change) {
    return refusal(with([&](Arguments& a) {
                     a.fp8 = true;
                     change(a);
                   }),
                   gpu_facts("h100"));
  };
  EXPECT_NE(refused([](Arguments& a) { a.fp16 = true; }).find("--fp8 and --fp16 exclude each other"),
            std::string::npos);
  EXPECT_NE(refused([](Arguments& a) {
              a.load_in_4bit = true;
              a.lora_r = 8;
            }).find("--fp8 and --load_in_4bit exclude each other"),
            std::string::npos);
  EXPECT_NE(refused([](Arguments& a) {
              a.load_in_8bit = true;
              a.lora_r = 8;
            }).find("--fp8 and --load_in_8bit exclude each other"),
            std::string::npos);
  EXPECT_EQ(
      refused([](Arguments& a) { a.matmul_precision = "bf16"; }),
      "--matmul_precision bf16: with --fp8 matrix products read their inputs in fp8; leave it out, or leave "
      "--fp8 out");
  EXPECT_EQ(refused([](Arguments& a) { a.matmul_precision = "fp8"; }), "");
  EXPECT_EQ(refused([](Arguments& a) { a.lora_r = 8; }), "");
  EXPECT_EQ(
      refusal(with([](Arguments& a) { a.matmul_precision = "fp8"; }), gpu_facts("h100")),
      "--matmul_precision fp8: without --bf16, --fp16 and --fp8 matrix products read their inputs in fp32; "
      "leave it out, or give --fp8");
}

TEST(RequestOf, OffloadingNeedsAGpu) {
  const Arguments states = with([](Arguments& a) { a.offload_optimizer = "True"; });
  const Arguments activations = with([](Arguments& a) { a.offload_activations = true; });
  EXPECT_EQ(
      refusal(states, cpu_facts()),
      "--offload_optimizer: optimizer states are already in host memory on a CPU; leave it out, give a GPU "
      "(--device cuda:0), or keep the states on a disk (--offload_optimizer nvme:FOLDER)");
  EXPECT_NE(refusal(activations, cpu_facts()).find("already in host memory"), std::string::npos);
  RequestRemarks remarks;
  EXPECT_TRUE(request_of(states, gpu_facts("h200"), remarks).update.offload_states);
  EXPECT_TRUE(request_of(activations, gpu_facts("h200"), remarks).offload.activations);
  const Arguments sgd = with([](Arguments& a) {
    a.offload_optimizer = "True";
    a.optim = "sgd";
  });
  EXPECT_NE(refusal(sgd, gpu_facts("h200")).find("no states"), std::string::npos);
}

TEST(RequestOf, StatesOnADiskNeedStatesAndBuffers) {
  const Arguments disk = with([](Arguments& a) { a.offload_optimizer = "nvme:/nvme"; });
  RequestRemarks remarks;
  // Transfers to a disk need nine buffers of half a mebibyte in host memory: one for each of eight threads, and one for checkpoints. If the
  // device is a GPU, they are pinned.
  RequestRemarks of_others;
  for (const RunFacts& facts : {cpu_facts(), gpu_facts("h200")}) {
    const PlanRequest on_disk = request_of(disk, facts, remarks);
    EXPECT_TRUE(on_disk.update.offload_states && on_disk.update.states_on_disk);
    EXPECT_EQ(on_disk.host.io_bytes,
              request_of(with([](Arguments&) {}), facts, of_others).host.io_bytes + 9 * 524288);
  }
  const Arguments on_host = with([](Arguments& a) { a.offload_optimizer = "True"; });
  EXPECT_FALSE(request_of(on_host, gpu_facts("h200"), of_others).update.states_on_disk);
  const Arguments sgd = with([](Arguments& a) {
    a.offload_optimizer = "nvme:/nvme";
    a.optim = "sgd";
  });
  EXPECT_EQ(refusal(sgd, cpu_facts()),
            "--offload_optimizer: --optim sgd has no states to store on a disk; leave it out");
  RunFacts evaluates = cpu_facts();
  evaluates.train = false;
  EXPECT_FALSE(request_of(disk, evaluates, remarks).update.states_on_disk);
}

TEST(RequestOf, PagedOptimizersRunOnACpuWithANote) {
  const Arguments paged = with([](Arguments& a) { a.optim = "paged_adamw_8bit"; });
  RequestRemarks remarks;
  EXPECT_FALSE(request_of(paged, cpu_facts(), remarks).update.offload_states);
  EXPECT_EQ(remarks.notes.size(), 1U);
  EXPECT_TRUE(request_of(paged, gpu_facts("h200"), remarks).update.offload_states);
}

TEST(RequestOf, ACardLimitsMemory) {
  RequestRemarks remarks;
  const RunFacts facts = gpu_facts("h200");
  const int64_t memory = facts.device.gpu.memory_bytes;
  EXPECT_EQ(request_of(Arguments(), facts, remarks).memory_limit_bytes, memory);
  const Arguments less = with([](Arguments& a) { a.memory_limit = 1 << 30; });
  EXPECT_EQ(request_of(less, facts, remarks).memory_limit_bytes, 1 << 30);
  const Arguments more = with([&](Arguments& a) { a.memory_limit = 2 * memory; });
  EXPECT_EQ(request_of(more, facts, remarks).memory_limit_bytes, memory);
}

TEST(RequestOf, FullEvaluationInBf16IsForRunsThatDoNotTrain) {
  const Arguments full = with([](Arguments& a) { a.bf16_full_eval = true; });
  RequestRemarks remarks;
  RunFacts facts = cpu_facts();
  EXPECT_EQ(request_of(full, facts, remarks).precision.dtype, DType::kF32);
  EXPECT_EQ(remarks.notes.size(), 1U);
  facts.train = false;
  EXPECT_EQ(request_of(full, facts, remarks).precision.dtype, DType::kBF16);
}

TEST(RequestOf, ArgumentsOfTheDeviceAreCheckedBeforeTheFacts) {
  const Arguments fp16 = with([](Arguments& a) { a.fp16 = true; });
  EXPECT_THROW(check_device_arguments(fp16, cpu_facts().device, true), Error);
  EXPECT_NO_THROW(check_device_arguments(Arguments(), cpu_facts().device, true));
  const Arguments full = with([](Arguments& a) {
    a.bf16_full_eval = true;
    a.offload_optimizer = "True";
    a.optim = "sgd";
  });
  EXPECT_NO_THROW(check_device_arguments(full, gpu_facts("h200").device, true)) << "it may not train";
}

}  // namespace
}  // namespace plimsoll
