#include "plan/build/plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "graph/analysis/copies.h"
#include "graph/analysis/liveness.h"
#include "graph/analysis/tail.h"
#include "graph/autodiff/autodiff.h"
#include "graph/ir/verify.h"
#include "graph/ops/ops.h"
#include "graph/passes/quantized_weights.h"
#include "kernels/quantization/catalog.h"
#include "models/freeze.h"
#include "plan/build/begun_graphs.h"

namespace plimsoll {
namespace {

int64_t rounded(int64_t bytes, const PlanRequest& request) {
  const int64_t alignment = arena_alignment(request.device);
  return (bytes + alignment - 1) / alignment * alignment;
}

ForwardOptions forward_options(const PlanRequest& request, Mode mode) {
  return {.mode = mode,
          .dtype = request.dtype,
          .problem_type = request.problem_type,
          .label_smoothing = request.label_smoothing};
}

// The weights of the run's model: which of them are trained, and those of adapters.
std::vector<WeightSpec> run_weights(const PlanRequest& request) {
  std::vector<WeightSpec> weights = model_weights(request.model);
  if (request.lora) add_lora_weights(weights, request.model.model_type, *request.lora);
  freeze_weights(weights, request.freeze);
  return weights;
}

QuantizedFormat quantized_format(const LoraConfig& lora) {
  switch (lora.base_weights) {
    case BaseWeights::kInt8:
      return QuantizedFormat::kInt8;
    case BaseWeights::kFp4:
      return QuantizedFormat::kFp4;
    case BaseWeights::kNf4:
    case BaseWeights::kAsLoaded:
      break;
  }
  return QuantizedFormat::kNf4;
}

// The base's matrices; the pass leaves tables alone. The parts of a weight are modules of the checkpoint.
std::vector<QuantizedWeight> quantized_weights(const PlanRequest& request) {
  std::vector<QuantizedWeight> list;
  for (const WeightSpec& spec : run_weights(request)) {
    if (spec.trainable || spec.in_adapter || spec.shape.size() != 2) continue;
    const auto parts = std::ssize(spec.parts);
    const QuantizedSizes sizes =
        quantized_sizes(quantized_format(*request.lora),
                        request.lora->double_quant ? ScaleQuantization::kDouble : ScaleQuantization::kNone,
                        spec.shape[0], spec.shape[1], parts);
    list.push_back({.name = spec.name,
                    .parts = parts,
                    .num_codes = sizes.codes,
                    .num_scales = sizes.scales,
                    .num_second_scales = sizes.second_scales});
  }
  return list;
}

ForwardGraph adapted_forward(const PlanRequest& request, Mode mode) {
  ForwardGraph forward = build_forward(request.model, forward_options(request, mode));
  if (request.lora) {
    const auto targets = lora_targets(model_weights(request.model), request.model.model_type, *request.lora);
    add_lora(forward.graph, targets, *request.lora, mode);
  }
  return forward;
}

// Whether the device's products take an fp32 weight beside 16-bit activations: its kernels say.
bool products_want_copies(const PlanRequest& request) {
  if (request.weight_copies) return true;
  const Problem problem{.op = "matmul",
                        .dtype = *request.activation_dtype,
                        .device = request.device,
                        .dims = {{"M", 64}, {"N", 64}, {"K", 64}, {"b", static_cast<int64_t>(request.dtype)}},
                        .num_threads = request.num_threads,
                        .isa = request.isa,
                        .sm = request.gpu.sm};
  return select_kernel(problem).row == nullptr;
}

// The remainder of a bf16 is exact in 16 bits; that of an fp16, whose exponents end earlier, is not.
bool splits_weights(const PlanRequest& request) {
  return request.train && request.activation_dtype == DType::kBF16 &&
         request.optimizer.master_weights != MasterWeights::kWhole && takes_split_weights(request.optimizer);
}

bool copies_at_use(const PlanRequest& request) {
  return request.copies_at_use && request.activation_dtype && !splits_weights(request);
}

// Where the pass may be left out, updates go on to write the copies.
bool updates_write_copy(const PlanRequest& request, const Shape& shape) {
  const bool pass_runs =
      copies_at_use(request) && request.passes.is_on(copies_at_use_pass(*request.activation_dtype).name);
  return !pass_runs || shape.rank() < 2;
}

// From the model's graph to one in the run's precision, with fused ops.
void lower(Graph& graph, const PlanRequest& request, PassManager& passes) {
  passes.run(graph, unread_rows_pass());
  if (request.activation_dtype) passes.run(graph, precision_pass(*request.activation_dtype));
  passes.run(graph, fuse_pass());
  if (request.lora && request.lora->base_weights != BaseWeights::kAsLoaded) {
    passes.run(graph,
               quantized_weights_pass(std::string(quantized_format_name(quantized_format(*request.lora))),
                                      quantized_weights(request)));
  }
  // What a run with adapters saves is not the base, which may be rounded once where it is loaded.
  if (request.activation_dtype && request.lora) {
    std::vector<std::string> frozen;
    for (const WeightSpec& spec : run_weights(request)) {
      if (!spec.trainable && !spec.in_adapter) frozen.push_back(spec.name);
    }
    passes.run(graph, frozen_weights_pass(*request.activation_dtype, std::move(frozen)));
  }
  if (request.activation_dtype && products_want_copies(request)) {
    // Gradients that add up over micro-batches do so in fp32.
    const bool accumulates = request.gradient_accumulation_steps > 1;
    const DType gradients = accumulates ? DType::kF32 : *request.activation_dtype;
    passes.run(graph, weight_copies_pass(request.gradient_dtype.value_or(gradients)));
    if (splits_weights(request)) passes.run(graph, split_weights_pass(*request.activation_dtype));
  }
  passes.run(graph, common_subexpression_pass());
}

std::string remainder_name(const std::string& weight) {
  return weight + ".remainder";
}

ValueId copy_of(const Graph& graph, const std::string& weight, const PlanRequest& request) {
  return request.activation_dtype ? graph.find(weight_copy_name(weight, *request.activation_dtype))
                                  : kNoValue;
}

// A table whose rows are looked up.
bool is_embedding(const Graph& graph, ValueId weight) {
  return std::ranges::any_of(graph.ops(), [&](const Op& op) {
    return op.def == &embedding_sum_op() && std::ranges::find(op.inputs, weight) != op.inputs.end();
  });
}

std::vector<int64_t> rows_of_parts(const WeightSpec& spec) {
  std::vector<int64_t> rows;
  for (const WeightPart& part : spec.parts) rows.push_back(part.num_rows);
  return rows;
}

// What is trained: what the loss is differentiated by, and what is then updated.
struct Trained {
  std::vector<ValueId> wanted;
  std::vector<Parameter> parameters;
};

Trained trained_parameters(Graph& graph, const std::vector<WeightSpec>& weights, const PlanRequest& request) {
  Trained trained;
  for (const WeightSpec& spec : weights) {
    Parameter parameter{.name = spec.name,
                        .weight = graph.find(spec.name),
                        .copy = copy_of(graph, spec.name, request),
                        .decays = spec.decays,
                        .is_embedding = is_embedding(graph, graph.find(spec.name)),
                        .part_rows = rows_of_parts(spec)};
    const ValueId read = parameter.copy != kNoValue ? parameter.copy : parameter.weight;
    if (parameter.copy != kNoValue && !updates_write_copy(request, graph.value(parameter.copy).type.shape)) {
      parameter.copy = kNoValue;
    }
    if (parameter.weight == kNoValue) {
      parameter.weight = std::exchange(parameter.copy, kNoValue);
      parameter.remainder = graph.add_value(remainder_name(spec.name),
                                            {DType::kU8, Shape{2 * spec.elements()}}, Storage::kWeight);
      graph.value(parameter.remainder).module = graph.value(parameter.weight).module;
    }
    // A frozen weight in two halves keeps both: it is saved as it was loaded.
    if (!spec.trainable) continue;
    trained.wanted.push_back(read);
    trained.parameters.push_back(std::move(parameter));
  }
  return trained;
}

OptimizerConfig optimizer_of(const PlanRequest& request) {
  OptimizerConfig config = request.optimizer;
  if (request.offload_optimizer) config.most_elements_at_once = request.offload_elements;
  return config;
}

int64_t most_logits_bytes(const PlanRequest& request) {
  return request.chunked_loss == ChunkedLoss::kAlways ? 0 : kMostLogitsBytes;
}

ProgramPlan begin_train_graph(const PlanRequest& request, const std::vector<WeightSpec>& weights) {
  PassManager passes(request.passes);
  ForwardGraph forward = adapted_forward(request, Mode::kTrain);
  Graph& graph = forward.graph;
  verify(graph, "after building the model");
  lower(graph, request, passes);
  if (request.chunked_loss != ChunkedLoss::kNever)
    passes.run(graph, chunked_loss_pass(request.train_bucket, most_logits_bytes(request)));
  auto [wanted, parameters] = trained_parameters(graph, weights, request);
  // What is small in fp16 is kept from vanishing by a scale that the gradients carry.
  const LossScale loss_scale =
      request.activation_dtype == DType::kF16 ? declare_loss_scale(graph) : LossScale();
  const std::vector<ValueId> gradients = add_backward(graph, graph.find("loss"), wanted, loss_scale.scale);
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].gradient = gradients[i];
  if (request.optimizer_in_backward) {
    if (loss_scale) {
      throw_error(
          ErrorCode::kUsage,
          "--optimizer_in_backward updates weights before it is known whether a step's loss scale was too "
          "large, which --fp16 needs; give --bf16 instead of it");
    }
    if (request.gradient_accumulation_steps > 1 || request.optimizer.max_grad_norm > 0.0) {
      throw_error(
          ErrorCode::kUsage,
          "--optimizer_in_backward needs --gradient_accumulation_steps 1 and --max_grad_norm 0, which "
          "are {} and {}",
          request.gradient_accumulation_steps, request.optimizer.max_grad_norm);
    }
    add_optimizer_in_backward(graph, parameters, optimizer_of(request));
  } else {
    add_optimizer(graph, parameters, optimizer_of(request), loss_scale);
  }
  verify(graph, "after autodiff and optimizer");
  if (request.gradient_accumulation_steps > 1) {
    graph.add_value("accumulate", {DType::kI32, Shape{1}}, Storage::kInput);
    passes.run(graph, accumulate_pass());
  }
  ProgramPlan program{.name = "train", .graph = std::move(graph), .bucket = request.train_bucket};
  program.passes = passes.records();
  return program;
}

void finish_train_graph(const PlanRequest& request, ProgramPlan& program) {
  PassManager passes(request.passes);
  Graph& graph = program.graph;
  passes.run(graph, recompute_pass(request.recompute));
  if (copies_at_use(request)) passes.run(graph, copies_at_use_pass(*request.activation_dtype));
  passes.run(graph, dead_code_pass({}));
  passes.run(graph, reorder_pass(request.train_bucket));
  passes.run(graph, in_place_pass());
  if (request.offload_activations) {
    passes.run(graph, offload_activations_pass(request.train_bucket, request.offload_least_bytes));
  }
  if (request.offload_optimizer) passes.run(graph, offload_states_pass());
  program.passes.insert(program.passes.end(), passes.records().begin(), passes.records().end());
}

ProgramPlan build_evaluate_graph(const PlanRequest& request) {
  PassManager passes(request.passes);
  ForwardGraph forward = adapted_forward(request, Mode::kEvaluate);
  Graph& graph = forward.graph;
  lower(graph, request, passes);
  if (copies_at_use(request)) passes.run(graph, copies_at_use_pass(*request.activation_dtype));
  passes.run(graph, dead_code_pass({}));
  passes.run(graph, in_place_pass());
  ProgramPlan program{.name = "evaluate", .graph = std::move(graph), .bucket = request.evaluate_bucket};
  program.passes = passes.records();
  return program;
}

// Values that no op needs a place for: outputs nobody reads and that their op can do without.
std::vector<bool> find_placeless(const Graph& graph) {
  std::vector<bool> read(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    for (ValueId id : op.inputs) {
      if (id != kNoValue) read[index_of(id)] = true;
    }
  }
  std::vector<bool> placeless(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const Value& value = graph.value(op.outputs[i]);
      placeless[index_of(op.outputs[i])] =
          !read[index_of(op.outputs[i])] && value.storage == Storage::kTransient &&
          value.version_of == kNoValue && schema_of(op).is_optional_output(static_cast<int>(i));
    }
  }
  return placeless;
}

Purpose purpose_of(const Graph& graph, const LiveRange& range) {
  const Value& value = graph.value(range.root);
  if (value.is_parameter_gradient) return Purpose::kGradients;
  if (value.producer != kNoOp && graph.op(value.producer).def == &copy_op()) return Purpose::kFunctionality;
  const Segment born = graph.ops()[range.first].segment;
  const Segment dies = graph.ops()[range.last].segment;
  return born == Segment::kForward && dies != Segment::kForward ? Purpose::kSaved : Purpose::kTemporary;
}

void choose_kernels(ProgramPlan& program, const PlanRequest& request) {
  program.ops.resize(program.graph.ops().size());
  std::map<std::string, Selection> cache;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const OpView op{program.graph, program.graph.ops()[i]};
    const Problem problem = kernel_problem(op, program.bucket, request);
    std::string key(problem.op);
    key += dtype_name(problem.dtype);
    for (const auto& [name, value] : problem.dims) key += "," + std::to_string(value);
    auto it = cache.find(key);
    if (it == cache.end()) {
      std::string forced;
      if (request.reference_kernels) {
        for (const KernelRow* row : kernel_rows_of(problem.op)) {
          if (row->backend == Backend::kRef) forced = row->implementation;
        }
      }
      it = cache.emplace(std::move(key), select_kernel(problem, forced)).first;
    }
    const Selection& selection = it->second;
    if (selection.row == nullptr) {
      std::string reasons;
      for (const Refusal& refusal : selection.refused) {
        reasons += fmt::format("\n  {}: {}", refusal.row->implementation, refusal.reason);
      }
      throw_error(ErrorCode::kUsage, "no kernel computes '{}' in {} on {}{}", problem.op,
                  dtype_name(problem.dtype), request.device_label,
                  reasons.empty() ? ": the catalog has no row for it" : reasons);
    }
    program.library_bytes = std::max(program.library_bytes, selection.library_bytes);
    program.ops[i] = {
        .kernel = selection.row, .refused = selection.refused, .scratch_bytes = selection.scratch_bytes};
  }
  for (const CopyInFlight& copy : find_copies(program.graph)) {
    program.ops[copy.op].copies_to = copy.to;
    program.ops[copy.op].copy_end = copy.end;
  }
}

// What the captured programs hold on the GPU: 2.0 to 2.4 MiB for the 610 ops of BERT-large in one bucket,
// measured on an H200 as what NVML counts more than in a run without them.
constexpr int64_t kGraphBytesPerOp = 4096;
int64_t graph_bytes_of(const Plan& plan) {
  const auto bytes = [](const std::optional<ProgramPlan>& program, int buckets) {
    if (!program) return int64_t{0};
    const int64_t kept = std::min<int64_t>({buckets, kMaxCapturedBuckets, std::ssize(program->ladder)});
    // Every value that is copied is a node of its own.
    int64_t nodes = std::ssize(program->graph.ops());
    for (const Op& op : program->graph.ops()) nodes += op.def == &copy_op() ? std::ssize(op.outputs) - 1 : 0;
    return kept * nodes * kGraphBytesPerOp;
  };
  return bytes(plan.train, plan.request.train_buckets) + bytes(plan.evaluate, plan.request.evaluate_buckets);
}

// Offsets of one space's buffers, relative to its transient region.
Layout assign(std::vector<TransientBuffer>& buffers, const PlanRequest& request) {
  if (buffers.empty()) return {};
  std::vector<LiveBuffer> live;
  live.reserve(buffers.size());
  for (const TransientBuffer& buffer : buffers) live.push_back({buffer.bytes, buffer.first, buffer.last});
  const int64_t alignment = arena_alignment(request.device);
  Layout layout =
      request.separate_buffers ? separate_offsets(live, alignment) : assign_offsets(live, alignment);
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i].offset = layout.offsets[i];
  return layout;
}

// Transient buffers and scratch get offsets relative to the transient region of their space.
void lay_out(ProgramPlan& program, const PlanRequest& request) {
  const std::vector<bool> placeless = find_placeless(program.graph);
  for (const LiveRange& range : find_live_ranges(program.graph, program.bucket)) {
    if (placeless[index_of(range.root)]) continue;
    const bool is_on_host = program.graph.value(range.root).space == Space::kHost;
    (is_on_host ? program.host_buffers : program.buffers)
        .push_back({.root = range.root,
                    .purpose = purpose_of(program.graph, range),
                    .bytes = rounded(range.bytes, request),
                    .first = range.first,
                    .last = range.last});
  }
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].scratch_bytes == 0) continue;
    program.buffers.push_back(
        {.op = i, .bytes = rounded(program.ops[i].scratch_bytes, request), .first = i, .last = i});
  }
  const Layout layout = assign(program.buffers, request);
  program.transient_bytes = layout.bytes;
  program.lower_bound_bytes = layout.lower_bound_bytes;
  const Layout host = assign(program.host_buffers, request);
  program.host_transient_bytes = host.bytes;
  program.host_lower_bound_bytes = host.lower_bound_bytes;
}

bool is_read(const Graph& graph, const std::string& name) {
  const ValueId id = graph.find(name);
  return std::ranges::any_of(
      graph.ops(), [id](const Op& op) { return std::ranges::find(op.inputs, id) != op.inputs.end(); });
}

// Persistent buffers of both programs in one list; a name is one buffer, as large as its largest use.
void add_persistent(Plan& plan, const ProgramPlan& program) {
  for (const Value& value : program.graph.values()) {
    const bool exchanged = value.storage == Storage::kInput || value.storage == Storage::kOutput;
    if (!exchanged && !is_persistent(value.storage)) continue;
    if (value.version_of != kNoValue) continue;
    const int64_t bytes = rounded(std::max<int64_t>(value.bytes(program.bucket), 1), plan.request);
    const auto [it, inserted] = plan.persistent_by_name.emplace(value.name, plan.persistent.size());
    if (inserted) {
      plan.persistent.push_back({.name = value.name,
                                 .storage = value.storage,
                                 .type = value.type,
                                 .bytes = bytes,
                                 .module = program.graph.module_name(value.module),
                                 .space = value.space});
      continue;
    }
    PersistentBuffer& buffer = plan.persistent[it->second];
    PLIMSOLL_CHECK(buffer.storage == value.storage && buffer.type == value.type,
                   "'{}' is {} {} in one program and {} {} in another", value.name,
                   storage_name(buffer.storage), type_text(buffer.type), storage_name(value.storage),
                   type_text(value.type));
    buffer.bytes = std::max(buffer.bytes, bytes);
    if (buffer.space == value.space) continue;
    // What the host keeps may be declared elsewhere, but nothing reads it there.
    PLIMSOLL_CHECK(buffer.space == Space::kHost && !is_read(program.graph, value.name),
                   "'{}' lies in the host's memory in one program and in the device's in another",
                   value.name);
  }
}

void place_persistent(Plan& plan) {
  int64_t device = 0;
  int64_t host = 0;
  for (Storage storage :
       {Storage::kWeight, Storage::kOptimizerState, Storage::kGradient, Storage::kInput, Storage::kOutput}) {
    for (PersistentBuffer& buffer : plan.persistent) {
      if (buffer.storage != storage) continue;
      int64_t& end = buffer.space == Space::kHost ? host : device;
      buffer.offset = end;
      end += buffer.bytes;
    }
  }
  plan.persistent_bytes = device;
  plan.host_persistent_bytes = host;
}

// `begin` and `host_begin`: where the program's transient regions start.
void resolve_offsets(const Plan& plan, int64_t begin, int64_t host_begin, ProgramPlan& program) {
  program.offsets.assign(program.graph.values().size(), -1);
  for (TransientBuffer& buffer : program.host_buffers) {
    buffer.offset += host_begin;
    program.offsets[index_of(buffer.root)] = buffer.offset;
  }
  for (TransientBuffer& buffer : program.buffers) {
    buffer.offset += begin;
    if (buffer.root != kNoValue) {
      program.offsets[index_of(buffer.root)] = buffer.offset;
    } else {
      program.ops[buffer.op].scratch_offset = buffer.offset;
    }
  }
  for (size_t i = 0; i < program.offsets.size(); ++i) {
    const ValueId root = root_of(program.graph, ValueId{static_cast<uint32_t>(i)});
    program.offsets[i] = program.offsets[index_of(root)];
    if (program.graph.value(root).storage == Storage::kTransient) continue;
    const auto it = plan.persistent_by_name.find(program.graph.value(root).name);
    if (it != plan.persistent_by_name.end()) program.offsets[i] = plan.persistent[it->second].offset;
  }
}

}  // namespace

std::string_view purpose_name(Purpose purpose) {
  switch (purpose) {
    case Purpose::kWeights:
      return "model weights";
    case Purpose::kOptimizerStates:
      return "optimizer states";
    case Purpose::kGradients:
      return "gradients";
    case Purpose::kSaved:
      return "saved for the backward pass";
    case Purpose::kTemporary:
      return "temporary buffers";
    case Purpose::kFunctionality:
      return "functionality-specific";
    case Purpose::kStaging:
      return "data staging";
    case Purpose::kConstant:
      return "device constant";
  }
  return "?";
}

const PersistentBuffer& Plan::buffer(const std::string& name) const {
  const auto it = persistent_by_name.find(name);
  PLIMSOLL_CHECK(it != persistent_by_name.end(), "the plan has no persistent buffer '{}'", name);
  return persistent[it->second];
}

ValueType Plan::type_of(const std::string& name) const {
  const auto split = split_weights.find(name);
  if (split == split_weights.end()) return buffer(name).type;
  return {DType::kF32, buffer(split->second.high).type.shape};
}

int64_t Plan::staging_bytes() const {
  int64_t bytes = 0;
  for (const PersistentBuffer& buffer : persistent) {
    if (buffer.storage == Storage::kInput || buffer.storage == Storage::kOutput) bytes += buffer.bytes;
  }
  return bytes;
}

int64_t Plan::num_parameters() const {
  int64_t n = 0;
  for (const WeightSpec& spec : weights) n += spec.elements();
  return n;
}

int64_t Plan::num_trainable_parameters() const {
  int64_t n = 0;
  for (const WeightSpec& spec : weights) n += spec.trainable ? spec.elements() : 0;
  return n;
}

std::vector<Bucket> make_ladder(const Bucket& largest) {
  std::vector<Bucket> ladder;
  int64_t tokens = 16;
  while (tokens < largest.tokens) {
    ladder.push_back({.tokens = tokens, .sequences = largest.sequences, .longest = largest.longest});
    int64_t octave = 16;
    while (octave * 2 <= tokens) octave *= 2;
    tokens += std::max<int64_t>(16, octave / 16);
  }
  ladder.push_back(largest);
  return ladder;
}

const Bucket& bucket_for(const ProgramPlan& program, int64_t tokens) {
  const auto it =
      std::lower_bound(program.ladder.begin(), program.ladder.end(), tokens,
                       [](const Bucket& bucket, int64_t wanted) { return bucket.tokens < wanted; });
  PLIMSOLL_CHECK(it != program.ladder.end(),
                 "a batch of {} tokens does not fit into the largest bucket of {}", tokens,
                 program.bucket.tokens);
  return *it;
}

Plan build_plan(const PlanRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = place_plan(request, build_graphs(request));
  plan.build_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

bool chunks_loss(const PlanRequest& request) {
  const int64_t logits_bytes = request.train_bucket.sequences * request.model.num_labels *
                               dtype_bytes(request.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  return request.train && request.problem_type == ProblemType::kSingleLabel &&
         request.chunked_loss != ChunkedLoss::kNever && logits_bytes > most_logits_bytes(request);
}

PlanGraphs build_graphs(const PlanRequest& request) {
  return finish_graphs(request, begin_graphs(request));
}

PlanGraphs begin_graphs(const PlanRequest& request) {
  PlanGraphs graphs{.weights = run_weights(request)};
  if (request.train) graphs.train = begin_train_graph(request, graphs.weights);
  if (request.evaluate) graphs.evaluate = build_evaluate_graph(request);
  return graphs;
}

PlanGraphs finish_graphs(const PlanRequest& request, PlanGraphs begun) {
  if (begun.train) finish_train_graph(request, *begun.train);
  return begun;
}

PlanGraphs graphs_of(Plan&& plan) {
  const auto unplaced = [](std::optional<ProgramPlan>& program) -> std::optional<ProgramPlan> {
    if (!program) return std::nullopt;
    return ProgramPlan{.name = std::move(program->name),
                       .graph = std::move(program->graph),
                       .passes = std::move(program->passes)};
  };
  return {
      .weights = std::move(plan.weights), .train = unplaced(plan.train), .evaluate = unplaced(plan.evaluate)};
}

Plan place_plan(const PlanRequest& request, PlanGraphs graphs) {
  Plan plan{.request = request, .weights = std::move(graphs.weights)};
  plan.train = std::move(graphs.train);
  plan.evaluate = std::move(graphs.evaluate);
  if (plan.train) plan.train->bucket = request.train_bucket;
  if (plan.evaluate) plan.evaluate->bucket = request.evaluate_bucket;
  for (std::optional<ProgramPlan>* program : {&plan.train, &plan.evaluate}) {
    if (!*program) continue;
    static_cast<void>(find_tails((*program)->graph));
    choose_kernels(**program, request);
    lay_out(**program, request);
    (*program)->ladder = make_ladder((*program)->bucket);
    add_persistent(plan, **program);
  }
  place_persistent(plan);
  for (const WeightSpec& spec : plan.weights) {
    if (!request.activation_dtype) break;
    const std::string copy = weight_copy_name(spec.name, *request.activation_dtype);
    if (!plan.persistent_by_name.contains(copy)) continue;
    const std::string remainder = remainder_name(spec.name);
    if (!plan.persistent_by_name.contains(remainder)) {
      plan.weight_copies.push_back({spec.name, copy});
      continue;
    }
    PLIMSOLL_CHECK(!plan.persistent_by_name.contains(spec.name),
                   "'{}' is split in one program and whole in another", spec.name);
    plan.split_weights[spec.name] = {copy, remainder};
  }
  int64_t transient = 0;
  int64_t bound = 0;
  int64_t host_transient = 0;
  int64_t host_bound = 0;
  for (std::optional<ProgramPlan>* program : {&plan.train, &plan.evaluate}) {
    if (!*program) continue;
    const int64_t below = request.separate_buffers ? transient : 0;
    const int64_t host_below = request.separate_buffers ? host_transient : 0;
    resolve_offsets(plan, plan.persistent_bytes + below, plan.host_persistent_bytes + host_below, **program);
    transient = std::max(transient, below + (*program)->transient_bytes);
    bound = std::max(bound, (*program)->lower_bound_bytes);
    host_transient = std::max(host_transient, host_below + (*program)->host_transient_bytes);
    host_bound = std::max(host_bound, (*program)->host_lower_bound_bytes);
  }
  if (plan.scales_loss()) plan.initial_states.push_back({std::string(kLossScaleState), kInitialLossScale});
  // What updates weights runs once the learning rate of the step is there.
  plan.step_schedule = {{Segment::kForward, true},
                        {Segment::kBackward, !request.optimizer_in_backward},
                        {Segment::kOptimizer, false}};
  plan.host = request.host;
  for (const std::optional<ProgramPlan>* program : {&plan.train, &plan.evaluate}) {
    if (*program) plan.host.library_bytes = std::max(plan.host.library_bytes, (*program)->library_bytes);
  }
  if (plan.is_on_gpu()) {
    plan.gpu_constant = {.context_bytes = request.gpu.constant_bytes, .graph_bytes = graph_bytes_of(plan)};
  }
  plan.arena_bytes = plan.persistent_bytes + transient;
  plan.lower_bound_bytes = plan.persistent_bytes + bound;
  plan.host_arena_bytes = plan.host_persistent_bytes + host_transient;
  plan.host_lower_bound_bytes = plan.host_persistent_bytes + host_bound;
  plan.host.data_bytes += std::max<int64_t>(0, plan.host.reading_bytes - plan.host_bytes());
  return plan;
}

}  // namespace plimsoll
