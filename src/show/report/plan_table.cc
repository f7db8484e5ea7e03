#include "show/report/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/units.h"
#include "optim/optimizers.h"
#include "plan/anatomy/anatomy.h"
#include "plan/anatomy/disk_use.h"
#include "plan/anatomy/memory.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/op_times.h"
#include "plan/search/suggest.h"
#include "show/report/pipeline_table.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

constexpr size_t kLabelWidth = 29;

// Formats how much of the model is trained: ", 0.59M trainable (0.2 %; 2.3 of 1278.5 MiB of weights)".
std::string describe_trainable(const Plan& plan) {
  int64_t trainable_bytes = 0;
  int64_t bytes = 0;
  for (const WeightSpec& spec : plan.weights) {
    const ValueType type = plan.type_of(spec.name);
    const int64_t weight_bytes = type.shape.elements({}) * dtype_bytes(type.dtype);
    bytes += weight_bytes;
    if (spec.trainable) trainable_bytes += weight_bytes;
  }
  const auto mib = [](int64_t n) { return static_cast<double>(n) / 1048576.0; };
  return fmt::format(", {} trainable ({:.1f} %; {:.1f} of {:.1f} MiB of weights)",
                     format_count(plan.num_trainable_parameters()),
                     100.0 * static_cast<double>(plan.num_trainable_parameters()) /
                         static_cast<double>(plan.num_parameters()),
                     mib(trainable_bytes), mib(bytes));
}

// Describes the ZeRO stage of a run: "divide optimizer states and gradients (ZeRO stage 2)"; "" for stage 0.
std::string describe_zero_stage(const RankOptions& ranks) {
  switch (ranks.zero_stage) {
    case ZeroStage::kNone:
      return "";
    case ZeroStage::kStates:
      return "divide optimizer states (ZeRO stage 1)";
    case ZeroStage::kGradients:
      return "divide optimizer states and gradients (ZeRO stage 2)";
    case ZeroStage::kWeights:
      return ranks.keeps_gathered ? "divide optimizer states, gradients and weights (ZeRO stage 3) and keep "
                                    "gathered weights for the backward pass"
                                  : "divide optimizer states, gradients and weights (ZeRO stage 3)";
  }
  return "";
}

// Describes what each rank stores only a part of: ", which divide optimizer states and gradients (ZeRO stage 2)".
std::string describe_division(const RankOptions& ranks) {
  if (ranks.updates_on_first) return ", the first of which makes all updates (--data_parallel_mode dp)";
  const std::string stage = describe_zero_stage(ranks);
  return stage.empty() ? "" : ", which " + stage;
}

// Describes a group of ranks that train together on the same batches, such as "2 ranks that are the stages of a pipeline".
std::string describe_group(const RankOptions& ranks) {
  const std::string_view kinds =
      ranks.divides_rows() ? "tensor and sequence parallelism" : "tensor parallelism";
  if (ranks.pipeline_size > 1 && ranks.tensor_size > 1) {
    return fmt::format("{} ranks: {} stages of a pipeline, each with {} ranks that divide {} ({})",
                       ranks.pipeline_size * ranks.tensor_size, ranks.pipeline_size, ranks.tensor_size,
                       ranks.divides_context() ? "tokens" : "its layers",
                       ranks.divides_context() ? "context parallelism" : kinds);
  }
  if (ranks.pipeline_size > 1)
    return fmt::format("{} ranks that are the stages of a pipeline", ranks.pipeline_size);
  if (ranks.divides_context())
    return fmt::format("{} ranks that divide the tokens (context parallelism)", ranks.tensor_size);
  return fmt::format("{} ranks that divide the layers ({})", ranks.tensor_size, kinds);
}

// Describes the ranks of a run and what they divide, such as "each of 2 groups of 2 ranks that divide the layers
// (tensor parallelism)".
std::string describe_ranks(const RankOptions& ranks) {
  if (ranks.pipeline_size == 1 && ranks.tensor_size == 1)
    return fmt::format("each of {} ranks{}", ranks.count, describe_division(ranks));
  const std::string group = describe_group(ranks);
  if (ranks.data_size() == 1) return group;
  const std::string stage = describe_zero_stage(ranks);
  return fmt::format("each of {} groups of {}{}", ranks.data_size(), group,
                     stage.empty() ? "" : "; the groups " + stage);
}

// For a plan that generates texts, describes the number and length of the sequences for which it reserves memory.
// For other plans, describes the estimated speed.
std::string describe_work(const Plan& plan) {
  const GenerationOptions& generation = plan.request.generation;
  if (generation.num_pages > 0) {
    const Bucket& bucket = plan.request.batches.generate;
    return fmt::format(
        "{} of up to {} tokens, a KV cache of {} pages x {} tokens", counted(bucket.sequences, "sequence"),
        generation.pages_per_sequence * generation.page_size, generation.num_pages, generation.page_size);
  }
  return fmt::format("about {} samples/s (estimate)", short_number(operations_anatomy(plan).samples_per_s()));
}

// Returns true if several ranks train. The table then has a line that describes them.
bool trains_on_ranks(const Plan& plan) {
  return plan.trains() && plan.request.ranks.count > 1;
}

std::string describe_batch(const Plan& plan) {
  const Bucket& bucket = plan.trains() ? plan.request.batches.train : plan.request.batches.evaluate;
  std::string text = fmt::format("{} x {} ({} tokens)", bucket.sequences, bucket.longest, bucket.tokens);
  const int64_t steps = plan.trains() ? plan.request.batches.accumulation_steps : 1;
  if (steps > 1) text += fmt::format(", {} accumulated to {}", steps, bucket.sequences * steps);
  return text;
}

std::string title(const Plan& plan, const PlanLabels& labels, size_t columns) {
  const PlanRequest& request = plan.request;
  std::string first = fmt::format("{} for {}, {} parameters, {}", labels.model_of(request),
                                  task_of(request.model.problem_type).head().description,
                                  format_count(plan.num_parameters()), describe_precision(request));
  if (plan.trains()) first += ", " + describe_optimizer(request.update.optimizer);
  if (plan.trains() && plan.num_trainable_parameters() < plan.num_parameters())
    first += describe_trainable(plan);
  std::string text = request.generation.num_pages > 0 ? describe_work(plan) : "batch " + describe_batch(plan);
  if (trains_on_ranks(plan)) text += ", on " + describe_ranks(request.ranks);
  return wrapped(first, columns) + wrapped(text + ", on " + labels.device, columns) + "\n";
}

// Draws a value from 0 to 1 as a bar with one of eight heights.
std::string bar(double height, Characters characters) {
  static constexpr std::array<const char*, 9> kUnicodeBars{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<const char*, 9> kAsciiBars{" ", "_", ".", ":", "-", "=", "+", "*", "#"};
  const auto level = static_cast<size_t>(std::clamp(height * 8.0 + 0.5, 1.0, 8.0));
  return characters == Characters::kUnicode ? kUnicodeBars[level] : kAsciiBars[level];
}

// Draws a curve of characters: the memory of temporary tensors during one part of a step (forward, backward or
// optimizer) over its estimated time, relative to the peak.
std::string sparkline(const std::vector<OpEstimate>& ops, const std::vector<double>& heights, Segment segment,
                      size_t cells, Characters characters) {
  double total_ms = 0;
  for (const OpEstimate& op : ops) total_ms += op.segment == segment ? op.ms : 0.0;
  std::vector<double> highest(cells, -1.0);
  double start = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].segment != segment) continue;
    const double end = start + ops[i].ms;
    const auto cell = [&](double at) {
      return total_ms > 0
                 ? std::min(cells - 1, static_cast<size_t>(at / total_ms * static_cast<double>(cells)))
                 : 0;
    };
    for (size_t c = cell(start); c <= cell(end); ++c) highest[c] = std::max(highest[c], heights[i]);
    start = end;
  }
  std::string line;
  for (double height : highest) line += height < 0 ? " " : bar(height, characters);
  return line;
}

// Returns lines that are printed to the right of the memory table. They show how the memory of a training step changes over time.
std::vector<std::string> sparklines(const Plan& plan, Characters characters) {
  if (!plan.trains()) return {};
  const std::vector<OpEstimate> ops = estimate_ops(plan, plan.programs.at(kTrainProgram));
  const MemoryTimeline timeline = memory_timeline(plan, plan.programs.at(kTrainProgram));
  std::vector<double> heights;
  for (const PurposeBytes& bytes : timeline.by_op) {
    const int64_t live = std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) - plan.persistent_bytes;
    heights.push_back(static_cast<double>(live) / static_cast<double>(std::max<int64_t>(
                                                      plan.programs.at(kTrainProgram).transient_bytes, 1)));
  }
  return {"train, by time", "forward   " + sparkline(ops, heights, Segment::kForward, 8, characters),
          "backward  " + sparkline(ops, heights, Segment::kBackward, 8, characters),
          "optimizer " + sparkline(ops, heights, Segment::kOptimizer, 3, characters)};
}

struct Row {
  std::string label;
  std::vector<int64_t> bytes;
};

// Returns the label of the table row for gradients. It names their data types if not all are fp32: "gradients (bf16, fp32)".
std::string gradient_label(const Plan& plan) {
  std::string types;
  if (plan.trains() && plan.request.precision.activation_dtype) {
    for (DType dtype : gradient_dtypes(plan.programs.at(kTrainProgram)))
      types += fmt::format("{}{}", types.empty() ? "" : ", ", describe_precision(dtype));
  }
  const std::string name(purpose_name(Purpose::kGradients));
  return types.empty() ? name : fmt::format("{} ({})", name, types);
}

// Removes the last row of the table if it is zero in every phase.
void drop_if_empty(std::vector<Row>& rows) {
  const std::vector<int64_t>& bytes = rows.back().bytes;
  if (std::all_of(bytes.begin(), bytes.end(), [](int64_t one) { return one == 0; })) rows.pop_back();
}

std::vector<Row> memory_rows(const Plan& plan, const MemoryAnatomy& anatomy) {
  std::vector<Row> rows;
  const auto add = [&](std::string_view label, auto value_of) {
    Row row{.label = std::string(label), .bytes = {}};
    for (const PhaseMemory& phase : anatomy.phases) row.bytes.push_back(value_of(phase));
    rows.push_back(std::move(row));
  };
  for (int p = 0; p < kNumPurposes; ++p) {
    const auto purpose = static_cast<Purpose>(p);
    if (purpose == Purpose::kConstant) continue;
    add(purpose == Purpose::kGradients ? gradient_label(plan) : std::string(purpose_name(purpose)),
        [&](const PhaseMemory& phase) { return phase.by_purpose[index_of(purpose)]; });
    drop_if_empty(rows);
  }
  add("gaps between buffers", [](const PhaseMemory& phase) { return phase.gaps_bytes; });
  drop_if_empty(rows);
  add("arena in use", [](const PhaseMemory& phase) { return phase.arena_bytes; });
  add("device constant", [](const PhaseMemory& phase) { return phase.constant_bytes; });
  add("total", [](const PhaseMemory& phase) { return phase.total_bytes; });
  return rows;
}

std::string memory_table(const Plan& plan, const MemoryAnatomy& anatomy, Characters characters,
                         size_t columns) {
  const std::vector<std::string> beside = sparklines(plan, characters);
  const size_t width = anatomy.phases.size() > 4 ? 9 : 10;
  std::vector<std::string> lines{left_aligned("memory, MiB", kLabelWidth)};
  for (const PhaseMemory& phase : anatomy.phases) lines[0] += right_aligned(phase_name(phase.phase), width);
  for (const Row& row : memory_rows(plan, anatomy)) {
    lines.push_back(left_aligned("  " + row.label, kLabelWidth));
    for (int64_t bytes : row.bytes) lines.back() += right_aligned(format_mib(bytes), width);
  }
  std::string text;
  size_t widest = 0;
  for (const std::string& line : beside) widest = std::max(widest, display_width(line));
  if (display_width(lines[0]) + 4 + widest > columns) {
    // On a narrow terminal, the lines of memory over time follow below the table instead of to the right of it.
    for (const std::string& line : lines) text += line + "\n";
    for (size_t i = 1; i < beside.size(); ++i) text += "  by time, " + beside[i] + "\n";
    return text;
  }
  for (size_t i = 0; i < lines.size(); ++i)
    text += lines[i] + (i < beside.size() ? "  | " + beside[i] : "") + "\n";
  return text;
}

std::string describe_constant(const Plan& plan, const MemoryAnatomy& anatomy, size_t columns) {
  std::vector<std::string> parts;
  for (const ConstantLine& line : anatomy.constants) {
    if (line.bytes > 0) parts.push_back(line.name + " " + format_mib(line.bytes));
  }
  if (parts.empty()) return "";
  const std::string source = plan.is_on_gpu() ? "; " + plan.request.device.gpu.constant_provenance : "";
  return wrapped(fmt::format("device constant: {} MiB{}", fmt::join(parts, ", "), source), columns);
}

std::string describe_peak(const MemoryAnatomy& anatomy, size_t columns) {
  const PhaseMemory& phase = anatomy.phases[anatomy.largest];
  const PeakPlace* peak = anatomy.peak_of(phase.phase);
  if (peak == nullptr) return "";
  const std::string module = describe_module(peak->module);
  return wrapped(
      fmt::format("peak: {}, {}{} ({}, op {} of {})", phase_name(phase.phase), segment_name(peak->segment),
                  module.empty() ? "" : " of " + module, peak->op, peak->position + 1, peak->num_ops),
      columns);
}

std::string describe_arena(const Plan& plan, size_t columns) {
  const double above = 100.0 * (static_cast<double>(plan.arena_bytes) /
                                    static_cast<double>(std::max<int64_t>(plan.lower_bound_bytes, 1)) -
                                1.0);
  const std::string text = fmt::format(
      "arena {} MiB, allocated once at the start; {:.1f} % above the lower bound of this schedule ({})",
      format_mib(plan.arena_bytes), above, format_mib(plan.lower_bound_bytes));
  return wrapped(text, columns);
}

// Describes the memory that the run holds on the host, by purpose.
std::string describe_host(const Plan& plan, size_t columns) {
  if (plan.host_arena_bytes == 0) return "";
  const PurposeBytes bytes = host_purposes(plan);
  std::vector<std::string> parts;
  for (int p = 0; p < kNumPurposes; ++p) {
    const int64_t part = bytes[static_cast<size_t>(p)];
    if (part > 0)
      parts.push_back(fmt::format("{} {}", purpose_name(static_cast<Purpose>(p)), format_mib(part)));
  }
  return wrapped(
      fmt::format("pinned host memory {} MiB, also allocated once: {}; {:.1f} % above the lower bound ({})",
                  format_mib(plan.host_arena_bytes), fmt::join(parts, ", "),
                  100.0 * (static_cast<double>(plan.host_arena_bytes) /
                               static_cast<double>(plan.host_lower_bound_bytes) -
                           1.0),
                  format_mib(plan.host_lower_bound_bytes)),
      columns);
}

// Describes the file of optimizer states on a disk, and the time that a step takes to read and write it.
std::string describe_disk(const Plan& plan, size_t columns) {
  if (plan.disk_bytes == 0) return "";
  const DiskUse use = disk_use(plan);
  const DiskRates& rates = plan.request.disk;
  return wrapped(fmt::format("disk: optimizer states {} MiB in one file; a step reads {:.1f} and writes "
                             "{:.1f} MB, which takes {:.0f} ms at "
                             "{:.1f} GB/s ({}); {} MiB of the arena hold states between reading and writing "
                             "them, and {} MiB of {} memory "
                             "are transfer buffers",
                             format_mib(use.stored_bytes), static_cast<double>(use.read_bytes) / 1e6,
                             static_cast<double>(use.written_bytes) / 1e6, use.ms, rates.both_gb_per_s,
                             rates.is_measured() ? "measured on " + rates.date : "assumed",
                             format_mib(use.staging_bytes), format_mib(use.buffers_bytes),
                             plan.is_on_gpu() ? "pinned host" : "other"),
                 columns);
}

// Describes the host memory into which a GPU's checkpoint is copied so that it can be written in the background.
// Returns "" for a CPU, where this copy is in the table of memory.
std::string describe_checkpoint_copy(const Plan& plan, size_t columns) {
  if (!plan.is_on_gpu() || plan.host.checkpoint_bytes == 0) return "";
  return wrapped(
      fmt::format("pinned host memory {} MiB for the copy of a checkpoint that is written in the background",
                  format_mib(plan.host.checkpoint_bytes)),
      columns);
}

std::string describe_formulas(const Plan& plan, size_t columns) {
  const ParameterBytes parameters = parameter_bytes(plan);
  for (const QuotedFormula& formula : parameters.quoted) {
    if (!formula.applies) continue;
    return wrapped(
        fmt::format("rule of thumb for {1}: {0:g} bytes per parameter, {2:.0f} MiB; this plan: {3:.1f} + "
                    "{4:.1f} for activations (--why)",
                    formula.bytes_per_parameter, formula.name, static_cast<double>(formula.bytes) / 1048576.0,
                    parameters.sum(), parameters.activations),
        columns);
  }
  return "";
}

// Describes the network links that the user specified by name: "292.0 GB/s between ranks and 0.13 ms per
// all_reduce, from nvlink4 inside 8 machines and ib400 between them, assumed".
std::string describe_named_links(const PlanRequest& request) {
  const RankLinks& links = request.named_links;
  const std::string inside = links.inside.empty() ? "the device's links" : links.inside;
  const RankLink data = rank_link(request);
  std::string text = fmt::format("{:.1f} GB/s between ranks", data.gb_per_s);
  if (data.latency_ms > 0) text += fmt::format(" and {} ms per all_reduce", short_number(data.latency_ms));
  text += request.num_machines > 1 ? fmt::format(", from {} inside {} machines and {} between them", inside,
                                                 request.num_machines, links.between)
                                   : fmt::format(", from {}", inside);
  if (request.ranks.tensor_size > 1) {
    text += fmt::format("; {:.1f} GB/s between ranks that divide {}",
                        rank_link(request, MeshAxis::kTensor).gb_per_s,
                        request.ranks.divides_context() ? "tokens" : "the layers");
  }
  return text + ", assumed (--links)";
}

std::string operations_table(const Plan& plan, size_t columns) {
  const OperationsAnatomy operations = operations_anatomy(plan);
  const OpTotals total = operations.total();
  std::string text = "\n" +
                     left_aligned(plan.trains()                           ? "operations of a step"
                                  : plan.request.generation.num_pages > 0 ? "largest forward pass"
                                                                          : "operations of a batch",
                                  kLabelWidth) +
                     right_aligned("GFLOP", 12) + right_aligned("GB moved", 12) +
                     right_aligned("est. ms", 12) + right_aligned("share", 9) + "\n";
  for (int g = 0; g < kNumOpGroups; ++g) {
    const auto group = static_cast<OpGroup>(g);
    const OpTotals sums = operations.group(group);
    if (sums.flops == 0 && sums.bytes == 0) continue;
    text += left_aligned(fmt::format("  {}", op_group_name(group)), kLabelWidth) +
            right_aligned(fmt::format("{:.1f}", sums.flops / 1e9), 12) +
            right_aligned(fmt::format("{:.1f}", sums.bytes / 1e9), 12) +
            right_aligned(fmt::format("{:.1f}", sums.ms), 12) +
            right_aligned(format_share(sums.ms, total.ms), 9) + "\n";
  }
  text += plan.request.generation.num_pages > 0
              ? fmt::format("{} in that pass", counted(plan.request.batches.generate.tokens, "token"))
              : fmt::format("about {} samples/s", short_number(operations.samples_per_s()));
  if (plan.trains()) {
    text += fmt::format("; forward {}, backward {}, optimizer {}",
                        format_share(operations.segment(Segment::kForward).ms, total.ms),
                        format_share(operations.segment(Segment::kBackward).ms, total.ms),
                        format_share(operations.segment(Segment::kOptimizer).ms, total.ms));
  }
  std::string source = fmt::format(
      "estimate, {}; rates of {}",
      plan.request.cpu_calibration.empty() ? "not calibrated here" : "calibrated here", operations.rates);
  if (plan.trains() && plan.request.ranks.count > 1) source += "; " + describe_rank_link(plan.request);
  return text + "\n" + wrapped(source, columns);
}

std::string verdict(const Plan& plan, size_t columns) {
  const int64_t needed = plan.total_bytes();
  if (!plan.request.memory_limit_bytes)
    return "\n" +
           wrapped(fmt::format("needs {} MiB; no --memory_limit is given", format_mib(needed)), columns);
  const int64_t limit = *plan.request.memory_limit_bytes;
  if (needed > limit) {
    return "\n" + wrapped(fmt::format("will not fit: {} MiB needed, {} MiB allowed, short by {}",
                                      format_mib(needed), format_mib(limit), format_shortage(needed - limit)),
                          columns);
  }
  return "\n" +
         wrapped(fmt::format("fits: {} MiB needed, {} MiB allowed, {} MiB ({}) remain free",
                             format_mib(needed), format_mib(limit), format_mib(limit - needed),
                             format_share(static_cast<double>(limit - needed), static_cast<double>(limit))),
                 columns);
}

// Formats the time of a step relative to that of another one: "3.4 x faster" or "2.1 x slower" for large
// differences, otherwise "+12 % time" or "same time".
std::string describe_time(double relative_time) {
  const double percent = 100.0 * (relative_time - 1.0);
  if (relative_time > 0 && relative_time <= 0.67) return fmt::format("{:.1f} x faster", 1.0 / relative_time);
  if (relative_time >= 2) return fmt::format("{:.1f} x slower", relative_time);
  if (std::abs(percent) < 0.5) return "same time";
  return fmt::format("{:+.0f} % time", percent);
}

}  // namespace

std::string_view describe_precision(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "fp64";
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
    default:
      return dtype_name(dtype);
  }
}

std::string describe_precision(const PlanRequest& request) {
  const std::string fp8 = request.precision.fp8 ? "fp8 and " : "";
  if (!request.precision.activation_dtype || *request.precision.activation_dtype == request.precision.dtype)
    return fp8 + std::string(describe_precision(request.precision.dtype)) +
           (request.precision.fp32_products == Fp32Products::kF32
                ? std::string()
                : fmt::format(" ({} products)", fp32_products_name(request.precision.fp32_products)));
  return fmt::format("{}{} mixed", fp8, describe_precision(*request.precision.activation_dtype));
}

std::string plan_table(const Plan& plan, const PlanLabels& labels, Characters characters, size_t columns) {
  const MemoryAnatomy anatomy = memory_anatomy(plan);
  return title(plan, labels, columns) + memory_table(plan, anatomy, characters, columns) +
         describe_constant(plan, anatomy, columns) + describe_peak(anatomy, columns) +
         describe_arena(plan, columns) + describe_host(plan, columns) + describe_disk(plan, columns) +
         describe_checkpoint_copy(plan, columns) + describe_formulas(plan, columns) +
         (plan.request.generation.num_pages > 0 ? cache_table(plan, columns) : "") +
         operations_table(plan, columns) + pipeline_table(plan, columns) + recompute_table(plan, columns) +
         verdict(plan, columns);
}

namespace {

// Describes the memory of the phase that needs the most, by its three largest purposes and the sum of the others.
std::string describe_purposes(const PhaseMemory& phase) {
  constexpr size_t kShown = 3;
  std::vector<std::pair<int64_t, std::string_view>> purposes;
  for (int p = 0; p < kNumPurposes; ++p) {
    const int64_t bytes = phase.by_purpose[static_cast<size_t>(p)];
    if (bytes > 0) purposes.emplace_back(bytes, purpose_name(static_cast<Purpose>(p)));
  }
  std::sort(purposes.begin(), purposes.end(), std::greater<>());
  std::string text;
  int64_t rest = phase.total_bytes;
  for (size_t i = 0; i < std::min(kShown, purposes.size()); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", purposes[i].second, format_mib(purposes[i].first));
    rest -= purposes[i].first;
  }
  return rest > 0 ? fmt::format("{}, other {}", text, format_mib(rest)) : text;
}

constexpr size_t kSummaryColumns = 100;

// Returns the line, cut to the width of the printed tables.
std::string one_line(std::string_view head, const std::string& text) {
  std::string line = fmt::format("{}{}", head, text);
  if (display_width(line) > kSummaryColumns) line = line.substr(0, kSummaryColumns - 2) + "..";
  return line + "\n";
}

std::string describe_verdict(const Plan& plan) {
  std::string needs = format_mib(plan.total_bytes()) + " MiB";
  if (!plan.request.memory_limit_bytes) return needs;
  return fmt::format("{} of {} MiB allowed", needs, format_mib(*plan.request.memory_limit_bytes));
}

}  // namespace

std::string describe_rank_link(const PlanRequest& request) {
  if (!request.named_links.empty()) return describe_named_links(request);
  const RankLink link = rank_link(request);
  if (!link.is_measured) {
    const std::string latency =
        link.latency_ms > 0 ? fmt::format(" and {} ms per all_reduce", short_number(link.latency_ms)) : "";
    return fmt::format("{:.1f} GB/s{} between ranks, assumed", link.gb_per_s, latency);
  }
  return fmt::format(
      "{} GB/s and {} ms per exchange between ranks by {}, measured here on {} (bench --links)",
      short_number(link.gb_per_s), short_number(link.latency_ms),
      describe_link_exchange(request.links.exchange), request.links.date);
}

std::string plan_summary(const Plan& plan, const PlanLabels& labels) {
  const MemoryAnatomy anatomy = memory_anatomy(plan);
  const PhaseMemory& phase = anatomy.phases[anatomy.largest];
  std::string model =
      fmt::format("{}, {} parameters", labels.model_of(plan.request), format_count(plan.num_parameters()));
  if (plan.trains() && plan.num_trainable_parameters() < plan.num_parameters())
    model += fmt::format(", {} trainable", format_count(plan.num_trainable_parameters()));
  model += fmt::format(", {}", describe_precision(plan.request));
  if (plan.trains()) model += ", " + describe_optimizer(plan.request.update.optimizer);
  const PeakPlace* peak = anatomy.peak_of(phase.phase);
  const std::string module = peak == nullptr ? "" : describe_module(peak->module);
  const std::string place =
      peak == nullptr ? std::string(phase_name(phase.phase))
                      : fmt::format("{}, {}{}", phase_name(phase.phase), segment_name(peak->segment),
                                    module.empty() ? "" : " of " + module);
  const bool generates = plan.request.generation.num_pages > 0;
  return one_line("plan    ", model) +
         (generates
              ? one_line("texts   ", describe_work(plan))
              : one_line("batch   ", fmt::format("{}; {}", describe_batch(plan), describe_work(plan)))) +
         (trains_on_ranks(plan) ? wrapped("on      " + describe_ranks(plan.request.ranks), kSummaryColumns, 8)
                                : "") +
         one_line("memory  ", fmt::format("{}; full tables: --dry_run", describe_verdict(plan))) +
         one_line("of it   ", describe_purposes(phase)) + one_line("peak    ", place);
}

std::string plan_headline(const Plan& plan, const PlanLabels& labels) {
  const std::string batch =
      plan.request.generation.num_pages > 0 ? "" : fmt::format("batch {}, ", describe_batch(plan));
  return one_line("plan: ", fmt::format("{}, {}, {}{}, {}", labels.model_of(plan.request),
                                        describe_precision(plan.request), batch, describe_verdict(plan),
                                        describe_work(plan)));
}

std::string format_savings(const Plan& plan, const std::vector<Suggestion>& savings, size_t columns) {
  if (savings.empty()) return "";
  std::string text =
      wrapped("cheapest ways to save more memory, each planned (estimated time per sample):", columns);
  for (const Suggestion& saving : savings) {
    std::string line =
        fmt::format("{}: -{} MiB, {}", saving.arguments, format_mib(plan.total_bytes() - saving.total_bytes),
                    describe_time(saving.relative_time));
    if (!saving.note.empty()) line += "; " + saving.note;
    text += "  " + wrapped(line, columns - 2, 4);
  }
  return text;
}

std::string module_table(const Plan& plan) {
  const std::vector<ModuleMemory> modules = module_memory(plan);
  size_t label = 10;
  for (const ModuleMemory& module : modules) label = std::max(label, module.module.size());
  label = std::min<size_t>(label, 36) + 2;
  std::string text = left_aligned("modules, MiB", label) + right_aligned("parameters", 11) +
                     right_aligned("weights", 9) + right_aligned("states", 9) +
                     right_aligned("gradients", 11) + right_aligned("saved", 9) +
                     right_aligned("temporary", 11) + "\n";
  for (const ModuleMemory& module : modules) {
    const bool empty = module.weight_bytes + module.state_bytes + module.gradient_bytes_at_most +
                           module.saved_bytes_at_most + module.temporary_bytes_at_most ==
                       0;
    if (empty) continue;
    text +=
        left_aligned("  " + (module.module.empty() ? "(no module)" : shortened(module.module, 36)), label) +
        right_aligned(module.num_parameters == 0 ? "-" : format_count(module.num_parameters), 11) +
        right_aligned(format_mib(module.weight_bytes), 9) + right_aligned(format_mib(module.state_bytes), 9) +
        right_aligned(format_mib(module.gradient_bytes_at_most), 11) +
        right_aligned(format_mib(module.saved_bytes_at_most), 9) +
        right_aligned(format_mib(module.temporary_bytes_at_most), 11) + "\n";
  }
  return text +
         "gradients, saved and temporary: the maximum of each module; these occur at different times\n";
}

}  // namespace plimsoll
