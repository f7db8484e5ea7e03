#include "show/report/plan_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "hardware/gpu_constant.h"
#include "plan/anatomy/memory.h"
#include "plan/compile/kernel_choice.h"
#include "plan/search/suggest.h"
#include "plan/search/testing/run_case.h"

namespace plimsoll {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the cells of the first line of the table that starts with this label.
std::vector<std::string> cells(const std::string& table, const std::string& label) {
  for (const std::string& line : lines_of(table)) {
    if (!line.starts_with(label)) continue;
    std::istringstream rest(line.substr(
        label.size(), line.find('|') == std::string::npos ? line.size() : line.find('|') - label.size()));
    std::vector<std::string> found;
    for (std::string word; rest >> word;) found.push_back(word);
    return found;
  }
  return {};
}

TEST(PlanTable, NeverWiderThanAHundredColumns) {
  int printed = 0;
  for (PlanRequest request : all_plan_cases()) {
    if (printed % 3 == 0) request.memory_limit_bytes = 1000 + printed * 10'000'000;
    const Plan plan = build_plan(request);
    SharedGraphs shared;
    const std::string savings = format_savings(plan, cheapest_savings(plan, run_of(request), shared));
    for (const std::string& text : {plan_table(plan), module_table(plan), plan_why(plan), savings}) {
      for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 100u) << line;
      EXPECT_TRUE(text.empty() || text.ends_with('\n'));
    }
    for (char c : plan_table(plan, {}, Characters::kAscii)) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
    ++printed;
  }
  EXPECT_GE(printed, 49);
}

TEST(PlanTable, ShowsTheAnatomyToTheDigit) {
  const Plan plan = build_plan(preset_request("bert-large-uncased", 4, 512));
  const std::string table = plan_table(plan, {.model = "bert-large-uncased", .device = "cpu, 2 threads"});
  const MemoryAnatomy anatomy = memory_anatomy(plan);
  EXPECT_EQ(cells(table, "memory, MiB"),
            (std::vector<std::string>{"load", "resume", "train", "eval", "save"}));
  std::vector<std::string> totals;
  std::vector<std::string> weights;
  for (const PhaseMemory& phase : anatomy.phases) {
    totals.push_back(format_mib(phase.total_bytes));
    weights.push_back(format_mib(phase.by_purpose[index_of(Purpose::kWeights)]));
  }
  EXPECT_EQ(cells(table, "  total"), totals);
  EXPECT_EQ(cells(table, "  model weights"), weights);
  EXPECT_EQ(weights[0], "1278.5") << "335.1 million parameters of 4 bytes";
  for (const char* words :
       {"bert-large-uncased for sequence classification, 335.1M parameters, fp32, AdamW\n",
        "batch 4 x 512 (2048 tokens), on cpu, 2 threads\n", "| forward   ", "| backward  ", "| optimizer ",
        "\npeak: train, ",
        "rule of thumb for AdamW in fp32: 16 bytes per parameter, 5114 MiB; this plan: 12.",
        "tensor contractions", "statistical normalizations", "element-wise operators", " samples/s; forward ",
        "not calibrated here"}) {
    EXPECT_NE(table.find(words), std::string::npos) << words << "\n" << table;
  }
}

TEST(PlanTable, NamesThePrecision) {
  PlanRequest request = small_request();
  EXPECT_NE(plan_table(build_plan(request)).find(" parameters, fp32, AdamW\n"), std::string::npos);
  request.precision.activation_dtype = DType::kBF16;
  request.device.isa = CpuIsa::kAmx;
  EXPECT_NE(plan_table(build_plan(request)).find(" parameters, bf16 mixed, AdamW\n"), std::string::npos);
  request.precision.fp8 = true;
  EXPECT_NE(plan_table(build_plan(request)).find(" parameters, fp8 and bf16 mixed, AdamW\n"),
            std::string::npos);
  request = small_request();
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  request.precision.fp32_products = Fp32Products::kTf32x3;
  EXPECT_NE(plan_table(build_plan(request)).find(" parameters, fp32 (tf32x3 products), AdamW\n"),
            std::string::npos);
}

TEST(PlanTable, TheVerdictStandsLast) {
  PlanRequest request = small_request();
  const auto last_line = [](const PlanRequest& r) { return lines_of(plan_table(build_plan(r))).back(); };
  EXPECT_TRUE(last_line(request).starts_with("needs ")) << last_line(request);
  request.memory_limit_bytes = int64_t{4} << 30;
  EXPECT_TRUE(last_line(request).starts_with("fits: ")) << last_line(request);
  request.memory_limit_bytes = 1 << 20;
  EXPECT_TRUE(last_line(request).starts_with("will not fit: ")) << last_line(request);
  // The last line of the table and the error message of require_fit() must state the same figures.
  for (const int64_t limit : {int64_t{1} << 20, build_plan(request).total_bytes() - 1}) {
    request.memory_limit_bytes = limit;
    const std::string line = last_line(request);
    const size_t needed = line.find(" MiB needed, ");
    const size_t shortage = line.find("short by ");
    ASSERT_TRUE(needed != std::string::npos && shortage != std::string::npos) << line;
    try {
      require_fit(build_plan(request), run_of(request));
      FAIL() << "it fits";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with(line.substr(0, needed))) << message << "\n" << line;
      EXPECT_NE(message.find(line.substr(shortage) + "\n"), std::string::npos) << message << "\n" << line;
    }
  }
  EXPECT_NE(last_line(request).find("short by 1 byte"), std::string::npos) << last_line(request);
}

TEST(SavingsText, SaysWhatToTypeWhatItSavesAndWhatItCosts) {
  const Plan plan = build_plan(small_request());
  const int64_t total = plan.total_bytes();
  const std::vector<Suggestion> savings{
      {.arguments = "--bf16",
       .total_bytes = total - (40 << 20),
       .relative_time = 0.2,
       .note = "rounds differently"},
      {.arguments = "--per_device_train_batch_size 2 --gradient_accumulation_steps 2",
       .total_bytes = total - (3 << 19),
       .relative_time = 1.123,
       .note = "same effective batch; gradients then accumulate"},
      {.arguments = "--optim sgd", .total_bytes = total - (1 << 20)},
      {.arguments = "--slow", .total_bytes = total - (1 << 20), .relative_time = 2.5}};
  const std::vector<std::string> expected{
      "cheapest ways to save more memory, each planned (estimated time per sample):",
      "  --bf16: -40.0 MiB, 5.0 x faster; rounds differently",
      "  --per_device_train_batch_size 2 --gradient_accumulation_steps 2: -1.5 MiB, +12 % time; same",
      "    effective batch; gradients then accumulate",
      "  --optim sgd: -1.0 MiB, same time",
      "  --slow: -1.0 MiB, 2.5 x slower"};
  EXPECT_EQ(lines_of(format_savings(plan, savings)), expected);
  EXPECT_EQ(format_savings(plan, {}), "");
}

TEST(PlanWhy, NamesKernelsPassesSavedValuesAndFormulas) {
  PlanRequest request = small_request();
  request.passes.disabled.insert("fuse");
  const std::string why = plan_why(build_plan(request));
  for (const char* words :
       {"kernels of train, ", "  matmul ", "passes of train\n", "  fuse ", "switched off",
        "passes of evaluate\n", "saved for the backward pass, at the peak", "encoder.layer.*.",
        "rules of thumb", "> AdamW in fp32", "AdamW, mixed precision"}) {
    EXPECT_NE(why.find(words), std::string::npos) << words << "\n" << why;
  }
}

// With data parallelism, every rank has the same plan. The samples per second in the table are the sum over all ranks.
TEST(PlanTable, StatesTheNumberOfRanksAndTheAssumedRateBetweenThem) {
  PlanRequest request = small_request();
  EXPECT_EQ(plan_table(build_plan(request)).find("rank"), std::string::npos);
  request.ranks.count = 4;
  const std::string table = plan_table(build_plan(request));
  EXPECT_NE(table.find(", on each of 4 ranks"), std::string::npos) << table;
  EXPECT_NE(table.find("between ranks, assumed"), std::string::npos) << table;
  EXPECT_NE(table.find("\n  communication "), std::string::npos) << table;
}

TEST(PlanTable, StatesTheMeasuredRateAndLatencyBetweenRanks) {
  PlanRequest request = small_request();
  request.ranks.count = 4;
  request.links = {.exchange = LinkExchange::kGloo, .num_ranks = 4, .date = "2026-11-27"};
  request.links.curves[Collective::kAllReduce] = {{.bytes = 1000, .median_ms = 0.25},
                                                  {.bytes = 1'000'000, .median_ms = 3}};
  const std::string table = plan_table(build_plan(request), {}, Characters::kUnicode, 1000);
  EXPECT_NE(
      table.find(
          "; 0.5 GB/s and 0.25 ms per exchange between ranks by Gloo, measured here on 2026-11-27 (bench "
          "--links)"),
      std::string::npos)
      << table;
  EXPECT_EQ(table.find("assumed"), std::string::npos) << table;
}

// With several GPUs, connections between GPUs need memory outside the arena for the exchange of gradients. The table must list it.
TEST(PlanTable, NamesTheMemoryOfTheConnectionsBetweenGpus) {
  PlanRequest request = small_request();
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  const int64_t alone = build_plan(request).constant_bytes();
  request.ranks = {.count = 4};
  const Plan nccl = build_plan(request);
  EXPECT_GE(nccl.constant_bytes(), alone + kNcclBytes);
  EXPECT_NE(plan_table(nccl).find("NCCL of 4 GPUs"), std::string::npos) << plan_table(nccl);
  request.ranks.maps_peers = true;
  const Plan mapped = build_plan(request);
  EXPECT_LT(mapped.constant_bytes(), alone + kNcclBytes / 2);
  EXPECT_NE(plan_table(mapped).find("mapped memory of 4 GPUs"), std::string::npos) << plan_table(mapped);
  EXPECT_NE(plan_table(mapped).find("161.0 GB/s and 0.045 ms per all_reduce"), std::string::npos)
      << plan_table(mapped);
}

TEST(PlanWhy, SaysWhichPassesDoNotRunAndWhichDoAllTheSame) {
  PlanRequest request = small_request();
  EXPECT_EQ(format_stopped_passes(build_plan(request)), "");
  request.batches.accumulation_steps = 2;
  request.passes.stop_after = "recompute";
  request.passes.disabled = {"reorder"};
  EXPECT_EQ(format_stopped_passes(build_plan(request)),
            "--stop_after_pass recompute skips dead_code, in_place");
  request.passes.stop_after = kStopAfterNone;
  const Plan plan = build_plan(request);
  EXPECT_EQ(
      format_stopped_passes(plan),
      "--stop_after_pass none skips unread_rows, fuse, common_subexpression, "
      "loss_with_gradients, recompute, dead_code, in_place; accumulate still runs, because it is needed for "
      "--gradient_accumulation_steps above 1");
  EXPECT_NE(plan_why(plan).find(" ms, needed\n"), std::string::npos) << plan_why(plan);
}

TEST(PlanWhy, SaysHowEachProductIsDone) {
  PlanRequest request = small_request();
  EXPECT_EQ(plan_why(build_plan(request)).find("matrix products of"), std::string::npos);
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  request.precision.fp32_products = Fp32Products::kTf32x3;
  request.products.workspace_bytes = 5 << 19;
  const ProductKey key =
      list_matmuls(build_plan(request).programs.at(kTrainProgram), request.batches.train, request)
          .begin()
          ->first;
  request.products.tuning.products[key] = {
      .ms = 0.125, .first_ms = 0.25, .num_candidates = 8, .words = "algorithm 66, tile 20"};
  const std::string why = plan_why(build_plan(request));
  for (const char* words :
       {"matrix products of train, 128 tokens, 2.5 MiB of workspace for each", "f32*f32->f32 by tf32x3",
        "matmul_cuda_tf32x3", "the library's first choice, not measured",
        "0.125 ms, the fastest of 8 (the library's first choice: 0.250 ms): algorithm 66, tile 20"}) {
    EXPECT_NE(why.find(words), std::string::npos) << words << "\n" << why;
  }
  for (const std::string& line : lines_of(why)) EXPECT_LE(display_width(line), 100u) << line;
}

// plan_why() must also list the matrix products that Plimsoll's own kernels compute instead of cuBLASLt. In an
// evaluation, some of these products are part of a larger op.
TEST(PlanWhy, ListsTheProductsOfItsOwnKernels) {
  PlanRequest request = preset_request("bert-large-uncased", 32, 512);
  request.precision.activation_dtype = DType::kBF16;
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  const Plan plan = build_plan(request);
  const std::string why = plan_why(plan);
  // The sizes of two matrix products of a layer. The forward pass multiplies matrices of these sizes, and so
  // does the computation of gradients.
  for (const char* product :
       {"\n  16384 x 3072 x 1024 nt bf16*bf16->bf16 ", "\n  16384 x 4096 x 1024 nt bf16*bf16->bf16 "}) {
    const size_t at = why.find(product);
    ASSERT_NE(at, std::string::npos) << product << why;
    EXPECT_NE(why.substr(at + 1, 300).find("computed by matmul_cuda_wgmma, a kernel of Plimsoll"),
              std::string::npos)
        << why.substr(at, 300);
  }
  for (const char* words :
       {" norm ", " gelu ", "a part of linear_norm_cuda, ", "a part of linear_gelu_cuda, "})
    EXPECT_NE(why.find(words, why.find("matrix products of evaluate")), std::string::npos) << words;
  // The two lists together (products of the library, and of kernels of Plimsoll) must contain every matrix product of
  // the training program.
  const auto is_matmul = [](const Op& op) { return op.def->name() == "matmul"; };
  int64_t counted = 0;
  for (const auto& [key, product] :
       list_matmuls(plan.programs.at(kTrainProgram), plan.programs.at(kTrainProgram).bucket, request))
    counted += product.count;
  for (const auto& [key, product] :
       list_custom_matmuls(plan.programs.at(kTrainProgram), plan.programs.at(kTrainProgram).bucket, request))
    counted += product.count;
  EXPECT_EQ(counted, std::ranges::count_if(plan.programs.at(kTrainProgram).graph.ops(), is_matmul));
}

TEST(PlanWhy, SaysHowProductsAreMeasured) {
  PlanRequest request = small_request();
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  const Plan plan = build_plan(request);
  EXPECT_NE(plan_why(plan).find("a run on the card with --tuning_cache auto"), std::string::npos);
  for (const ProgramPlan& program : plan.programs) {
    for (const auto& [key, product] : list_matmuls(program, program.bucket, request))
      request.products.tuning.products[key] = {
          .ms = 1, .first_ms = 1, .num_candidates = 2, .words = "tile 1"};
  }
  EXPECT_EQ(plan_why(build_plan(request)).find("--tuning_cache"), std::string::npos)
      << "all of them were measured";
}

// For a GPU, the table and the JSON must state how many CUDA graphs a run captures, and for how many batch sizes
// (buckets) the program is compiled.
TEST(PlanWhy, CountsCapturedPrograms) {
  PlanRequest request = small_request();
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  const auto said = [&](const CapturedBuckets& buckets) {
    request.captured_buckets = buckets;
    const Plan plan = build_plan(request);
    std::string text = plan_table(plan) + plan_why(plan);
    for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 100u) << line;
    std::replace(text.begin(), text.end(), '\n', ' ');
    for (size_t at = 0; (at = text.find("  ", at)) != std::string::npos;) text.erase(at, 1);
    return text;
  };
  std::string text = said({.train = 3, .update = 3, .evaluate = 1});
  EXPECT_NE(text.find("captured programs (9 graphs of training, 1 of evaluation) "), std::string::npos)
      << text;
  EXPECT_NE(text.find("captured programs: 9 graphs of training in 3 buckets, "), std::string::npos) << text;
  EXPECT_NE(text.find("; 1 graph of evaluation in 1 bucket, "), std::string::npos) << text;
  text = said({.train = 0, .update = 0, .evaluate = 1});
  EXPECT_NE(text.find("captured programs (1 graph of evaluation) "), std::string::npos) << text;
  text = said({.train = 0, .update = 0, .evaluate = 0});
  EXPECT_EQ(text.find("captured programs ("), std::string::npos) << text;
  EXPECT_NE(text.find("captured programs: none of training; none of evaluation; a segment (forward, backward "
                      "or update) is captured"),
            std::string::npos)
      << text;
  request.device.kind = KernelDevice::kCpu;
  EXPECT_EQ(said({}).find("captured programs"), std::string::npos);
}

// Releases contain no code for the V100, so the report must say that none of the listed kernels runs on it. It must not
// say so for a card that releases support, such as the T4.
TEST(PlanWhy, SaysThatACardIsForPlansAlone) {
  PlanRequest request = small_request();
  request.device.kind = KernelDevice::kCuda;
  for (const char* card : {"v100-16gb", "t4"}) {
    request.device.gpu = *find_gpu_target(card);
    const std::string why = plan_why(build_plan(request));
    const bool is_plan_only =
        why.find("none of these kernels runs on v100-16gb: releases of Plimsoll contain code for") !=
        std::string::npos;
    EXPECT_EQ(is_plan_only, std::string(card) == "v100-16gb") << why;
    EXPECT_EQ(why.find("--tuning_cache") == std::string::npos, is_plan_only)
        << "nothing can be measured there";
  }
}

TEST(PlanWhy, SaysWhyFasterKernelsDecline) {
  Plan plan = build_plan(small_request());
  const KernelRow* row = plan.programs.at(kTrainProgram).ops[0].kernel;
  plan.programs.at(kTrainProgram)
      .ops[0]
      .refused.push_back({.row = row, .reason = "K is 63, a multiple of 64 is wanted"});
  const std::string line =
      std::string(row->implementation) + " declined: K is 63, a multiple of 64 is wanted\n";
  EXPECT_NE(plan_why(plan).find(line), std::string::npos);
}

TEST(ModuleTable, ListsEveryLayer) {
  const std::string table = module_table(build_plan(small_request()));
  for (const char* words : {"  embeddings ", "  encoder.layer.0.attention ",
                            "  encoder.layer.2.feed_forward ", "  classifier "}) {
    EXPECT_NE(table.find(words), std::string::npos) << words;
  }
}

// On a terminal of 80 columns, no line may be longer than 83 columns, and no figure may be lost.
TEST(PlanTable, FitsANarrowTerminal) {
  int checked = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    const Plan plan = build_plan(request);
    const std::string table = plan_table(plan, {}, Characters::kUnicode, 80);
    for (const std::string& line : lines_of(table)) EXPECT_LE(display_width(line), 83u) << line;
    if (plan.trains()) {
      EXPECT_NE(table.find("  by time, backward  "), std::string::npos) << table;
    }
    EXPECT_NE(table.find(format_mib(plan.total_bytes())), std::string::npos);
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

// plan_summary() must return five lines, and one or two more for several ranks; plan_headline() must return one. Both
// must state the figures of the table.
TEST(PlanSummary, IsShortForEveryPlan) {
  int checked = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    const Plan plan = build_plan(request);
    const std::string summary = plan_summary(plan);
    const std::string line = plan_headline(plan);
    const bool has_ranks = plan.trains() && request.ranks.count > 1;
    const auto num_lines = std::count(summary.begin(), summary.end(), '\n');
    EXPECT_TRUE(num_lines == 5 || (has_ranks && (num_lines == 6 || num_lines == 7))) << summary;
    EXPECT_EQ(summary.find("\non      ") != std::string::npos, has_ranks) << summary;
    EXPECT_NE(summary.find(" samples/s (estimate)\n"), std::string::npos) << summary;
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
    for (const std::string& text : {summary, line}) {
      EXPECT_NE(text.find(format_mib(plan.total_bytes()) + " MiB"), std::string::npos) << text;
      for (size_t at = 0; at < text.size();) {
        const size_t end = text.find('\n', at);
        EXPECT_LE(display_width(text.substr(at, end - at)), 100u) << text;
        at = end + 1;
      }
    }
    ++checked;
  }
  EXPECT_GE(checked, 49);
}

}  // namespace
}  // namespace plimsoll
