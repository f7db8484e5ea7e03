// Builds graphs from a request: the model, its gradients, the optimizer and the passes.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "graph/analysis/liveness.h"
#include "graph/autodiff/autodiff.h"
#include "graph/ir/graph.h"
#include "graph/ops/chunk.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "kernels/quantization/quantization_catalog.h"
#include "lowering/lowering.h"
#include "models/freeze.h"
#include "plan/compile/graphs.h"
#include "plan/compile/kernel_choice.h"
#include "plan/compile/op_times.h"
#include "plan/compile/state_schedule.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

ForwardOptions forward_options(const PlanRequest& request, Mode mode) {
  return {.mode = mode,
          .dtype = request.precision.dtype,
          .outputs_logits = request.model.outputs_logits,
          .head_rows = request.model.label_share < 1.0 ? HeadRows::kLabelled : HeadRows::kEach};
}

// Returns the weights of the run's model and of its adapters, and marks those that are trained.
std::vector<WeightSpec> run_weights(const PlanRequest& request) {
  std::vector<WeightSpec> weights = model_weights(request.model.config);
  if (request.model.lora) add_lora_weights(weights, request.model.config.model_type, *request.model.lora);
  freeze_weights(weights, request.model.freeze);
  set_rate_factors(weights, request.model.rate_factors);
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

// Returns the matrices of the base model that are quantized. Embedding tables are included, although the quantization pass skips them
// later. A fused weight (such as query, key and value in one matrix) is quantized in blocks of WeightSpec::rows_per_unit() rows, so that
// each of the checkpoint's modules in the weight consists of whole blocks.
std::vector<QuantizedWeight> quantized_weights(const PlanRequest& request) {
  std::vector<QuantizedWeight> list;
  for (const WeightSpec& spec : run_weights(request)) {
    if (spec.trainable || spec.in_adapter || spec.shape.size() != 2) continue;
    if (is_held_as_loaded(spec, *request.model.lora)) continue;
    const int64_t parts = spec.shape[0] / spec.rows_per_unit();
    const QuantizedSizes sizes = quantized_sizes(
        quantized_format(*request.model.lora),
        request.model.lora->double_quant ? ScaleQuantization::kDouble : ScaleQuantization::kNone,
        spec.shape[0], spec.shape[1], parts);
    list.push_back({.name = spec.name,
                    .parts = parts,
                    .num_codes = sizes.codes,
                    .num_scales = sizes.scales,
                    .num_second_scales = sizes.second_scales});
  }
  return list;
}

// Builds the forward pass, its loss and the adapters. `weights` is the result of run_weights(request).
ForwardGraph adapted_forward(const PlanRequest& request, const std::vector<WeightSpec>& weights, Mode mode) {
  const ForwardOptions options = forward_options(request, mode);
  ForwardGraph forward = request.model.lora ? build_forward(request.model.config, options)
                                            : build_forward(request.model.config, options, weights);
  forward.loss = add_loss(forward.graph, forward.logits, task_of(request.model.problem_type),
                          {.dtype = request.precision.dtype == DType::kF64 ? DType::kF64 : DType::kF32,
                           .num_labels = request.model.config.num_outputs(),
                           .label_smoothing = request.model.label_smoothing,
                           .z_coefficient = mode == Mode::kTrain ? request.model.z_coefficient : 0.0});
  if (mode == Mode::kEvaluate && !task_of(request.model.problem_type).has_logits)
    add_num_correct(forward.graph, forward.logits);
  if (request.model.lora) {
    const auto targets = lora_targets(model_weights(request.model.config), request.model.config.model_type,
                                      *request.model.lora);
    add_lora(forward.graph, targets, *request.model.lora, mode);
  }
  return forward;
}

// Returns true if matrix products need 16-bit copies of weights, because no kernel of the device multiplies 16-bit activations by a weight
// of the request's type.
bool products_want_copies(const PlanRequest& request) {
  if (request.precision.weight_copies) return true;
  const KernelTarget target = kernel_target(request);
  const DType activations = *request.precision.activation_dtype;
  const MatmulProblem product{.m = 64,
                              .n = 64,
                              .k = 64,
                              .a = activations,
                              .b = request.precision.dtype,
                              .c = activations,
                              .num_threads = target.num_threads,
                              .isa = target.isa};
  const Problem problem{.kernel = "matmul", .dtype = activations, .target = target, .family = product};
  return select_kernel(problem).row == nullptr;
}

bool copies_at_use(const PlanRequest& request) {
  return request.precision.copies_at_use && request.precision.activation_dtype && !splits_weights(request);
}

// Returns true if an update writes the persistent 16-bit copy of a weight of this shape. This is not the case for a matrix if the pass
// copies_at_use makes a temporary copy right before each use. The pass does not change the copies of vectors.
bool updates_write_copy(const PlanRequest& request, const Shape& shape) {
  const bool pass_runs = copies_at_use(request) &&
                         request.passes.is_on(copies_at_use_pass(*request.precision.activation_dtype).name);
  return !pass_runs || shape.rank() < 2;
}

// Returns the first layer of each pipeline stage, which the request usually states. While a search only builds graphs, the request does not
// state it, and all stages get the same number of layers.
PipelineDivision division_of(const PlanRequest& request) {
  const RankOptions& ranks = request.ranks;
  PipelineDivision division{.stage = ranks.stage, .first_blocks = ranks.first_blocks, .chunks = ranks.chunks};
  const int64_t num_chunks = ranks.num_chunks_of_model();
  for (int64_t i = 0; ranks.first_blocks.empty() && i < num_chunks; ++i) {
    if (i == 0) division.first_blocks.clear();
    division.first_blocks.push_back(i * request.model.config.num_hidden_layers / num_chunks);
  }
  PLIMSOLL_CHECK(division.num_stages() == ranks.pipeline_size,
                 "a pipeline of {} stages must have a first layer for each stage, but {} are given",
                 ranks.pipeline_size, division.num_stages());
  return division;
}

// Runs the passes that convert the model's graph to the data types of the run, divide its rows among ranks and fuse ops.
void lower(Graph& graph, const PlanRequest& request, PassManager& passes) {
  passes.run(graph, unread_rows_pass());
  if (request.ranks.divides_rows()) passes.run(graph, sequence_parallel_pass(request.ranks.tensor_size));
  if (request.ranks.divides_context()) passes.run(graph, context_parallel_pass(request.ranks.tensor_size));
  if (request.precision.activation_dtype)
    passes.run(graph, precision_pass(*request.precision.activation_dtype));
  if (request.ranks.pipeline_size > 1) passes.run(graph, pipeline_stage_pass(division_of(request)));
  passes.run(graph, fuse_pass());
  if (request.model.lora && request.model.lora->base_weights != BaseWeights::kAsLoaded) {
    passes.run(graph, quantized_weights_pass(
                          std::string(quantized_format_name(quantized_format(*request.model.lora))),
                          quantized_weights(request)));
  }
  // A run with adapters does not save the base weights. Therefore it may round those that only matrix products read to the type of the
  // activations, once, when they are loaded.
  if (request.precision.activation_dtype && request.model.lora) {
    std::vector<std::string> frozen;
    for (const WeightSpec& spec : run_weights(request)) {
      if (!spec.trainable && !spec.in_adapter) frozen.push_back(spec.name);
    }
    passes.run(graph, frozen_weights_pass(*request.precision.activation_dtype, std::move(frozen)));
  }
  if (request.precision.activation_dtype && products_want_copies(request)) {
    // Gradients are accumulated over micro-batches in fp32.
    const bool accumulates = request.batches.accumulation_steps > 1;
    const DType gradients = accumulates ? DType::kF32 : *request.precision.activation_dtype;
    passes.run(graph, weight_copies_pass(request.precision.gradient_dtype.value_or(gradients)));
    if (splits_weights(request)) passes.run(graph, split_weights_pass(*request.precision.activation_dtype));
  }
  passes.run(graph, common_subexpression_pass());
}

// Divides layers and vocabulary among the ranks of a tensor-parallel group.
void divide_layers(Graph& graph, const PlanRequest& request, PassManager& passes) {
  if (!request.ranks.divides_layers()) return;
  passes.run(graph,
             tensor_parallel_pass(request.ranks.tensor_size,
                                  request.model.outputs_logits ? DividedHeads::kNo : DividedHeads::kYes));
}

ValueId copy_of(const Graph& graph, const std::string& weight, const PlanRequest& request) {
  return request.precision.activation_dtype
             ? graph.find(weight_copy_name(weight, *request.precision.activation_dtype))
             : kNoValue;
}

bool is_read(const OpLists& readers, ValueId weight) {
  return !readers[index_of(weight)].empty();
}

// Returns true if the weight is an embedding table, from which an op reads single rows by their indices.
bool is_embedding(const Graph& graph, const OpLists& readers, ValueId weight) {
  return weight != kNoValue && std::ranges::any_of(readers[index_of(weight)], [&](uint32_t op) {
           return graph.ops()[op].def == &embedding_sum_op();
         });
}

std::vector<int64_t> rows_of_parts(const WeightSpec& spec) {
  std::vector<int64_t> rows;
  for (const WeightPart& part : spec.parts) rows.push_back(part.num_rows);
  return rows;
}

// `wanted`: the values whose gradients the backward pass computes. `parameters`: the weights that the optimizer updates.
struct Trained {
  std::vector<ValueId> wanted;
  std::vector<Parameter> parameters;
};

Trained trained_parameters(Graph& graph, const std::vector<WeightSpec>& weights, const PlanRequest& request) {
  Trained trained;
  const OpLists readers = find_readers(graph);
  for (const WeightSpec& spec : weights) {
    Parameter parameter{.name = spec.name,
                        .weight = graph.find(spec.name),
                        .copy = copy_of(graph, spec.name, request),
                        .decays = spec.decays,
                        .rate_factor = spec.rate_factor,
                        .part_rows = rows_of_parts(spec)};
    // If this graph does not contain the weight, it belongs to another pipeline stage.
    if (parameter.weight == kNoValue && parameter.copy == kNoValue && request.ranks.pipeline_size > 1)
      continue;
    parameter.is_embedding =
        is_embedding(graph, readers, parameter.weight) || is_embedding(graph, readers, parameter.copy);
    // If some ops read the weight and others its 16-bit copy, the gradient would be incomplete, because the loss is differentiated with
    // respect to only one of the two.
    PLIMSOLL_CHECK(
        parameter.copy == kNoValue || parameter.weight == kNoValue || !is_read(readers, parameter.weight),
        "the weight '{}' cannot be trained: all ops must read either the weight or its 16-bit copy, but some "
        "read one and some the other",
        spec.name);
    const ValueId read = parameter.copy != kNoValue ? parameter.copy : parameter.weight;
    if (parameter.copy != kNoValue && !updates_write_copy(request, graph.value(parameter.copy).type.shape)) {
      parameter.copy = kNoValue;
    }
    if (parameter.weight == kNoValue) {
      parameter.weight = std::exchange(parameter.copy, kNoValue);
      const Value high = graph.value(parameter.weight);
      parameter.remainder = graph.add_value(
          remainder_name(spec.name), {DType::kU8, Shape{2 * high.type.shape.elements({})}}, Storage::kWeight);
      graph.value(parameter.remainder).module = high.module;
      if (high.split) graph.value(parameter.remainder).split = high.split->flattened(2);
    }
    // A frozen weight that is split into halves keeps both halves, because it is saved with the same bits with which it was loaded.
    if (!spec.trainable) continue;
    trained.wanted.push_back(read);
    trained.parameters.push_back(std::move(parameter));
  }
  return trained;
}

// Returns true if the run uses at least this ZeRO stage.
bool divides(const PlanRequest& request, ZeroStage stage) {
  return request.ranks.data_size() > 1 && request.ranks.zero_stage >= stage;
}

// Chooses how ranks exchange data: through mapped memory or a library. Must run after the passes that add collective operations.
void choose_exchanges(Graph& graph, const PlanRequest& request, PassManager& passes) {
  if (request.ranks.maps_peers) passes.run(graph, map_peers_pass(MeshAxis::kData));
  if (request.ranks.tensor_maps_peers) passes.run(graph, map_peers_pass(MeshAxis::kTensor));
  if (!request.ranks.pipeline_maps_peers) return;
  for (const MeshAxis axis : {MeshAxis::kPipeline, MeshAxis::kEnds}) passes.run(graph, map_peers_pass(axis));
}

// Returns true if the ranks exchange new weights during the next forward pass (gather_at_use_pass). They do not if a step has several
// micro-batches, because only the forward pass of the first one follows an update, nor with DataParallel (updates_on_first), which
// exchanges weights before each step, as in PyTorch.
bool gathers_at_use(const PlanRequest& request) {
  return divides(request, ZeroStage::kStates) && !divides(request, ZeroStage::kWeights) &&
         !request.ranks.updates_on_first && request.batches.accumulation_steps == 1 &&
         request.ranks.pipeline_size == 1 && !request.update.in_backward && !request.update.offload_states;
}

ShardOptions shard_options(const PlanRequest& request) {
  ShardOptions options{.num_ranks = request.ranks.data_size(),
                       .gradients = divides(request, ZeroStage::kGradients),
                       .accumulates = request.batches.accumulation_steps > 1,
                       .all_on_first = request.ranks.updates_on_first};
  if (divides(request, ZeroStage::kWeights))
    options.least_divided_elements = request.ranks.least_divided_elements;
  return options;
}

// Returns the weights that the ranks divide among them in the training program.
std::map<std::string, RankSlices> divided_weights(const ProgramPlan* train) {
  std::map<std::string, RankSlices> weights;
  if (train == nullptr) return weights;
  for (const Value& value : train->graph.values()) {
    if (value.storage == Storage::kWeight && value.version_of == kNoValue && value.divided)
      weights[value.name] = *value.divided;
  }
  return weights;
}

// The factor by which an update op may process more elements if the ranks exchange new weights during the next forward pass. On an H200, an
// update of 6.5 million parameters (25 MiB in fp32) takes 21 us, of which about 4 are the start and the end of the kernel.
constexpr int64_t kUpdatesAtOnce = 8;

OptimizerConfig optimizer_of(const PlanRequest& request) {
  OptimizerConfig config = request.update.optimizer;
  // Divides updates into slices, so that the ranks can exchange the new weights of one slice while the next slice is updated.
  if (divides(request, ZeroStage::kStates)) {
    config.most_elements_at_once =
        std::max<int64_t>(1, request.ranks.bucket_bytes / dtype_bytes(request.precision.dtype));
    // If weights of blocks are sent during the next forward pass, only vectors and the weights that the forward pass reads before its first
    // block are sent while updates run. Small slices then gain little, so updates are divided into fewer and larger ops, which start fewer
    // kernels.
    if (gathers_at_use(request)) config.most_elements_at_once *= kUpdatesAtOnce;
  }
  if (request.update.offload_states) config.most_elements_at_once = request.update.elements_at_once;
  return config;
}

int64_t most_logits_bytes(const PlanRequest& request) {
  return request.chunked_loss == ChunkedLoss::kAlways ? 0 : kMostLogitsBytes;
}

Fp8Choice fp8_choice(const std::vector<WeightSpec>& weights, const PlanRequest& request) {
  Fp8Choice choice{.keeps_weights = !request.precision.fp8_codes_at_use};
  for (const WeightSpec& spec : weights) {
    if (!spec.in_adapter) continue;
    choice.adapters.insert(spec.name);
    choice.adapters.insert(weight_copy_name(spec.name, *request.precision.activation_dtype));
  }
  return choice;
}

// Returns the values that the forward pass sends to another pipeline stage, or receives from it; `def` is the send or the receive op.
std::vector<ValueId> values_of(const Graph& graph, const OpSchema& def) {
  std::vector<ValueId> values;
  for (const Op& op : graph.ops()) {
    if (op.def == &def && op.segment == Segment::kForward)
      values.push_back(op.inputs.empty() ? op.outputs.front() : op.inputs.front());
  }
  return values;
}

// Moves the last op of a graph forward, to the position directly after the op that computes its first input.
void move_after_producer(Graph& graph) {
  std::vector<Op> ops = graph.ops();
  const OpId producer = graph.value(ops.back().inputs.front()).producer;
  std::rotate(ops.begin() + static_cast<std::ptrdiff_t>(index_of(producer)) + 1, ops.end() - 1, ops.end());
  graph.replace_ops(std::move(ops));
}

// Returns the chunk of layers and the channel of each send, or each receive, of the forward pass; `def` is the send or the receive op.
std::vector<std::pair<int64_t, int64_t>> routes_of(const Graph& graph, const OpSchema& def) {
  std::vector<std::pair<int64_t, int64_t>> routes;
  for (const Op& op : graph.ops()) {
    if (op.def == &def && op.segment == Segment::kForward) routes.emplace_back(chunk_of(op), channel_of(op));
  }
  return routes;
}

// Sets the attributes of the last op of a graph, which sends or receives the gradient of a value: the value's chunk of layers, and the
// channel that carries gradients of this value.
void send_back(Graph& graph, const RankOptions& ranks, const std::pair<int64_t, int64_t>& route) {
  if (ranks.chunks == 1) return;
  Attributes& attributes = graph.ops().back().attributes;
  attributes.set(kChunkAttribute, route.first);
  attributes.set(kChannelAttribute, route.second + 1);
}

// Returns the loss and the gradient at which the backward pass starts, which is 1 or, with loss scaling, the loss scale.
BackwardSeed seed_of_loss(Graph& graph, ValueId loss_scale) {
  const ValueId loss = graph.newest(graph.find("loss"));
  if (loss_scale != kNoValue) return {.value = loss, .gradient = loss_scale};
  graph.set_current_module(graph.op(graph.value(loss).producer).module);
  return {.value = loss, .gradient = emit(graph, fill_op(), {loss}, {{"value", 1.0}}, "d_loss")};
}

// Appends the backward pass of a stage of a pipeline: gradients of sent values are received from the next stage, and gradients of received
// values are sent to the previous stage. Returns the gradients of the values in `wanted`.
std::vector<ValueId> add_stage_backward(Graph& graph, const PlanRequest& request, std::vector<ValueId> wanted,
                                        ValueId loss_scale) {
  const size_t num_parameters = wanted.size();
  const RankOptions& ranks = request.ranks;
  const std::vector<ValueId> received = values_of(graph, receive_op());
  const std::vector<std::pair<int64_t, int64_t>> received_routes = routes_of(graph, receive_op());
  wanted.insert(wanted.end(), received.begin(), received.end());
  std::vector<ValueId> gradients;
  // Gradients that are sent or received are set to zero in the rows after the last token, because ops that sum over rows include these
  // rows.
  constexpr bool kZeroTail = true;
  if (ranks.is_last_stage() && ranks.chunks == 1) {
    gradients = add_backward(graph, graph.newest(graph.find("loss")), wanted, loss_scale);
  } else {
    std::vector<BackwardSeed> seeds;
    graph.set_segment(Segment::kBackward);
    graph.set_module(kPipelineModule);
    const std::vector<ValueId> sent = values_of(graph, send_op());
    const std::vector<std::pair<int64_t, int64_t>> routes = routes_of(graph, send_op());
    const int64_t next = (ranks.stage + 1) % ranks.pipeline_size;
    for (size_t i = 0; i < sent.size(); ++i) {
      const Value value = graph.value(sent[i]);
      seeds.push_back({.value = sent[i],
                       .gradient = emit_receive(graph, value.type, next, "d_" + value.name, kZeroTail)});
      send_back(graph, ranks, routes[i]);
    }
    // The loss is computed in the last chunk of layers of the last stage; all other chunks send their results to the next chunk.
    if (ranks.is_last_stage()) seeds.push_back(seed_of_loss(graph, loss_scale));
    gradients = add_backward(graph, seeds, wanted);
  }
  graph.set_module(kPipelineModule);
  for (size_t i = num_parameters; i < gradients.size(); ++i) {
    const std::string name = graph.value(received[i - num_parameters]).name;
    PLIMSOLL_CHECK(gradients[i] != kNoValue,
                   "'{}' is received from the previous pipeline stage, but no weight of this stage or an "
                   "earlier one needs its gradient",
                   name);
    graph.value(gradients[i]).is_parameter_gradient = false;
    const int64_t previous = (ranks.stage + ranks.pipeline_size - 1) % ranks.pipeline_size;
    emit_send(graph, gradients[i], previous, "d_" + name, kZeroTail);
    send_back(graph, ranks, received_routes[i - num_parameters]);
    if (received.size() == 1 || ranks.chunks > 1) move_after_producer(graph);
  }
  gradients.resize(num_parameters);
  return gradients;
}

// Returns the names of the graph values in which the updates store the weights with these names.
std::set<std::string> names_in_updates(const Graph& graph, std::span<const Parameter> parameters,
                                       const std::set<std::string>& names) {
  std::set<std::string> read;
  for (const Parameter& parameter : parameters) {
    if (names.contains(parameter.name)) read.insert(graph.value(parameter.weight).name);
  }
  return read;
}

// The gradient of an embedding table is computed some rows at a time only if this lowers the peak by at least this number of bytes,
// because each group of rows takes additional ops. A graph does not show the scratch memory of its kernels, which is 32 MiB for matrix
// products on a GPU. If the peak of the graph falls by less than that, the peak of the plan may not fall at all.
constexpr int64_t kLeastGainBytes = int64_t{34} << 20;

// Returns a pass that runs the given one and undoes its change unless the change lowers the peak by at least kLeastGainBytes.
Pass where_peak_falls(Pass pass, const Bucket& bucket) {
  pass.run = [run = std::move(pass.run), bucket](Graph& graph) {
    Graph changed = graph;
    run(changed);
    if (peak_bytes(graph, bucket) - peak_bytes(changed, bucket) >= kLeastGainBytes)
      graph = std::move(changed);
  };
  return pass;
}

DelayOptions delay_options(const PlanRequest& request) {
  return {.op_ms =
              [&](const OpView& op) {
                const Bucket usual = usual_bucket(request.batches.train, request.model.label_share);
                const OpSchema& schema = schema_of(op.op);
                return estimated_ms(schema, op, schema.cost(op, usual), usual, request);
              },
          .exchange_ms =
              [&](const Graph& graph) {
                std::vector<double> ms(graph.ops().size(), 0.0);
                for (const TimedTransfer& transfer : timed_transfers(graph, request.batches.train)) {
                  if (transfer.queue == Queue::kCommunication)
                    ms[transfer.op] =
                        rank_exchange_ms(request, transfer.collective, transfer.bytes, transfer.axis);
                }
                return ms;
              },
          .bucket = request.batches.train};
}

void finish_train_graph(const PlanRequest& request, ProgramPlan& program) {
  PassManager passes(request.passes);
  Graph& graph = program.graph;
  passes.run(graph, recompute_pass(request.recompute));
  if (copies_at_use(request)) passes.run(graph, copies_at_use_pass(*request.precision.activation_dtype));
  passes.run(graph, dead_code_pass({}));
  passes.run(graph, reorder_pass(request.batches.train));
  if (request.ranks.data_size() > 1) passes.run(graph, delay_gradients_pass(delay_options(request)));
  if (request.update.offload_states) {
    passes.run(graph, slice_updates_pass(request.update.elements_at_once, SlicedUpdates::kAll));
  } else if (request.update.in_backward) {
    passes.run(graph, where_peak_falls(slice_updates_pass(request.update.elements_at_once,
                                                          SlicedUpdates::kOfLookedUpTables),
                                       request.batches.train));
  }
  if (divides(request, ZeroStage::kWeights)) {
    const bool keeps = request.ranks.keeps_gathered;
    passes.run(graph, gather_weights_pass(
                          {}, keeps ? GatheredWeights::kKeptForBackward : GatheredWeights::kGatheredAgain));
  }
  if (gathers_at_use(request)) passes.run(graph, gather_at_use_pass());
  choose_exchanges(graph, request, passes);
  if (request.ranks.chunks > 1) passes.run(graph, pipeline_chunks_pass());
  passes.run(graph, in_place_pass());
  if (request.offload.activations) {
    ActivationHeadroom room;
    if (request.offload.saved_in_headroom) room = find_activation_headroom(graph, request);
    passes.run(graph,
               offload_activations_pass(request.batches.train, request.offload.least_bytes, std::move(room)));
  }
  if (request.update.offload_states) {
    std::optional<UpdateOrder> order;
    if (request.offload.early_states) order = find_update_order(graph, request);
    if (order) program.update_place = order->place;
    if (order && order->place.is_at_use) passes.run(graph, updates_at_use_pass());
    passes.run(graph, offload_states_pass(order ? std::move(order->room) : MemoryHeadroom(),
                                          request.update.states_on_disk ? Space::kDisk : Space::kHost));
  }
  passes.finish(graph);
  program.passes.insert(program.passes.end(), passes.records().begin(), passes.records().end());
}

// Returns true if the device has a fast kernel for this op, which a pass intends to create. The plain reference kernels do not count.
bool has_fast_kernel(const OpView& op, const PlanRequest& request) {
  const KernelRow* row = select_kernel(lower_op(op, request.batches.evaluate, kernel_target(request))).row;
  return row != nullptr && row->backend != Backend::kRef;
}

// Changes a program such that it returns only the largest logits of each sequence instead of all.
void select_top_logits(Graph& graph, int64_t num_candidates) {
  const ValueId logits = graph.find("logits");
  graph.value(logits).storage = Storage::kTransient;
  graph.set_current_module(graph.value(logits).module);
  constexpr std::array kNames{"top_logits", "top_ids", "log_sum"};
  for (const ValueId output : emit_all(graph, top_logits_op(), {logits}, {{"k", num_candidates}},
                                       std::vector<std::string>(kNames.begin(), kNames.end()))) {
    graph.value(output).storage = Storage::kOutput;
  }
}

// Builds the program that generates texts. A run of the program reads the new tokens of each sequence, adds their keys and values to the KV
// cache, and returns the logits for the token that follows the last one. Prefill and decoding are the same program with many and with one
// new token per sequence.
ProgramPlan build_generate_graph(const PlanRequest& request) {
  PassManager passes(request.passes);
  const GenerationOptions& generation = request.generation;
  ForwardOptions options = forward_options(request, Mode::kEvaluate);
  options.outputs_logits = true;
  options.cache = KvCacheSizes{.num_pages = generation.num_pages,
                               .page_size = generation.page_size,
                               .pages_per_sequence = generation.pages_per_sequence};
  ForwardGraph forward = build_forward(request.model.config, options);
  Graph& graph = forward.graph;
  if (request.model.lora) {
    const auto targets = lora_targets(model_weights(request.model.config), request.model.config.model_type,
                                      *request.model.lora);
    add_lora(graph, targets, *request.model.lora, Mode::kEvaluate);
  }
  lower(graph, request, passes);
  if (generation.sizes.candidates > 0) select_top_logits(graph, generation.sizes.candidates);
  const auto has_kernel = [&](const OpView& op) { return has_fast_kernel(op, request); };
  passes.run(graph, norm_linear_pass(has_kernel));
  passes.run(graph, linear_gelu_pass(has_kernel));
  passes.run(graph, linear_add_pass(has_kernel));
  if (copies_at_use(request)) passes.run(graph, copies_at_use_pass(*request.precision.activation_dtype));
  passes.run(graph, dead_code_pass({}));
  passes.run(graph, in_place_pass());
  passes.finish(graph);
  ProgramPlan program{
      .name = std::string(kGenerateProgram), .graph = std::move(graph), .bucket = request.batches.generate};
  program.passes = passes.records();
  return program;
}

}  // namespace

std::optional<int64_t> quantization_block(const LoraConfig& lora) {
  if (lora.base_weights == BaseWeights::kAsLoaded || lora.base_weights == BaseWeights::kInt8)
    return std::nullopt;
  return kQuantizationBlock;
}

bool splits_weights(const PlanRequest& request) {
  return request.train && request.precision.activation_dtype == DType::kBF16 &&
         request.update.optimizer.master_weights != MasterWeights::kWhole &&
         optimizer_row(request.update.optimizer.kind).takes_split_weights;
}

std::string remainder_name(const std::string& weight) {
  return weight + ".remainder";
}

int64_t num_predictions(const PlanRequest& request, const Bucket& bucket) {
  return is_per_token(task_of(request.model.problem_type).labels) ? bucket.tokens : bucket.sequences;
}

bool chunks_loss(const PlanRequest& request, const Bucket& train_bucket) {
  const int64_t logits_bytes =
      num_predictions(request, train_bucket) * request.model.config.num_outputs() *
      dtype_bytes(request.precision.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  return request.train && task_of(request.model.problem_type).has_chunked_loss &&
         request.chunked_loss != ChunkedLoss::kNever && logits_bytes > most_logits_bytes(request);
}

GradientGraph begin_gradients(const PlanRequest& request) {
  GradientGraph begun{.weights = run_weights(request), .passes = PassManager(request.passes)};
  PassManager& passes = begun.passes;
  ForwardGraph forward = adapted_forward(request, begun.weights, Mode::kTrain);
  Graph& graph = forward.graph;
  passes.changed(graph, "after building the model");
  const bool is_pipelined = request.ranks.pipeline_size > 1;
  if (is_pipelined) begun.shared_by_ends = weights_of_both_ends(graph, division_of(request).first_blocks);
  divide_layers(graph, request, passes);
  lower(graph, request, passes);
  if (request.chunked_loss != ChunkedLoss::kNever)
    passes.run(graph, chunked_loss_pass(request.batches.train, most_logits_bytes(request),
                                        usual_bucket(request.batches.train, request.model.label_share)));
  auto [wanted, parameters] = trained_parameters(graph, begun.weights, request);
  // Multiplying the loss by a scale keeps small gradients from being rounded to zero in fp16.
  if (request.precision.activation_dtype == DType::kF16) begun.loss_scale = declare_loss_scale(graph);
  const ValueId scale = begun.loss_scale.scale;
  const std::vector<ValueId> gradients =
      is_pipelined ? add_stage_backward(graph, request, wanted, scale)
                   : add_backward(graph, graph.newest(graph.find("loss")), wanted, scale);
  begun.shared_by_ends = names_in_updates(graph, parameters, begun.shared_by_ends);
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].gradient = gradients[i];
  begun.parameters = std::move(parameters);
  begun.graph = std::move(graph);
  return begun;
}

ProgramPlan begin_training(const PlanRequest& request, GradientGraph gradients) {
  PassManager& passes = gradients.passes;
  Graph& graph = gradients.graph;
  if (request.update.in_backward) {
    PLIMSOLL_CHECK(!gradients.loss_scale && request.batches.accumulation_steps == 1 &&
                       request.update.optimizer.max_grad_norm == 0.0,
                   "weights can only be updated in the backward pass without a loss scale, gradient "
                   "accumulation and gradient clipping, but one of these is on");
    add_optimizer_in_backward(graph, gradients.parameters, optimizer_of(request));
  } else {
    add_optimizer(graph, gradients.parameters, optimizer_of(request), gradients.loss_scale);
  }
  passes.changed(graph, "after autodiff and optimizer");
  if (request.batches.accumulation_steps > 1) {
    graph.add_input("accumulate", {DType::kI32, Shape{1}}, {.source = InputSource::kAccumulate});
    // If the ranks divide gradients, accumulate_pass() is skipped: the pass shard_states later makes each rank accumulate its slice of
    // the gradients.
    if (!divides(request, ZeroStage::kGradients)) passes.run(graph, accumulate_pass());
  }
  passes.run(graph, loss_with_gradients_pass(usual_bucket(request.batches.train, request.model.label_share)));
  if (request.precision.fp8) passes.run(graph, fp8_products_pass(fp8_choice(gradients.weights, request)));
  if (request.ranks.divides_rows()) passes.run(graph, row_gradients_pass(request.ranks.tensor_size));
  if (request.ranks.divides_context())
    passes.run(graph, context_gradients_pass(request.ranks.tensor_size, request.ranks.bucket_bytes));
  if (request.ranks.data_size() > 1)
    passes.run(graph, reduce_gradients_pass(request.ranks.data_size(), request.ranks.bucket_bytes));
  if (divides(request, ZeroStage::kStates)) passes.run(graph, shard_states_pass(shard_options(request)));
  if (request.ranks.divides_layers()) passes.run(graph, tensor_states_pass(request.ranks.tensor_size));
  if (request.ranks.pipeline_size > 1)
    passes.run(graph, pipeline_states_pass(division_of(request), std::move(gradients.shared_by_ends)));
  ProgramPlan program{
      .name = std::string(kTrainProgram), .graph = std::move(graph), .bucket = request.batches.train};
  program.passes = passes.records();
  return program;
}

ProgramPlan build_evaluation(const PlanRequest& request, const std::vector<WeightSpec>& weights,
                             const ProgramPlan* train) {
  PassManager passes(request.passes);
  ForwardGraph forward = adapted_forward(request, weights, Mode::kEvaluate);
  Graph& graph = forward.graph;
  divide_layers(graph, request, passes);
  lower(graph, request, passes);
  const auto has_kernel = [&](const OpView& op) { return has_fast_kernel(op, request); };
  passes.run(graph, linear_gelu_pass(has_kernel));
  const auto fills_card = [&](const OpView& op) {
    const MatmulProblem product = matmul_problem(op, request.batches.evaluate, kernel_target(request));
    return linear_norm_takes_own_product(linear_layer(product, request.device.gpu.sm)) && has_kernel(op);
  };
  passes.run(graph, linear_norm_pass(fills_card));
  passes.run(graph, linear_add_pass(has_kernel));
  passes.run(graph, first_token_attention_pass(has_kernel));
  if (request.chunked_loss != ChunkedLoss::kNever && !request.model.outputs_logits)
    passes.run(graph, chunked_loss_pass(request.batches.evaluate, most_logits_bytes(request),
                                        usual_bucket(request.batches.evaluate, request.model.label_share)));
  if (copies_at_use(request)) passes.run(graph, copies_at_use_pass(*request.precision.activation_dtype));
  passes.run(graph, dead_code_pass({}));
  if (divides(request, ZeroStage::kStates)) passes.run(graph, gather_weights_pass(divided_weights(train)));
  choose_exchanges(graph, request, passes);
  if (request.ranks.chunks > 1) passes.run(graph, pipeline_chunks_pass());
  passes.run(graph, in_place_pass());
  passes.finish(graph);
  ProgramPlan program{
      .name = std::string(kEvaluateProgram), .graph = std::move(graph), .bucket = request.batches.evaluate};
  program.passes = passes.records();
  return program;
}

namespace {

// Returns true if both requests compute the training loss with the same ops: both from all logits at once, or both in chunks of rows that
// the same rule chooses for the same batch size.
bool chunk_loss_alike(const PlanRequest& a, const PlanRequest& b) {
  const bool whole = !chunks_loss(a, a.batches.train) && !chunks_loss(b, b.batches.train);
  return whole || (a.chunked_loss == b.chunked_loss && a.batches.train == b.batches.train);
}

bool accumulate_alike(const PlanRequest& a, const PlanRequest& b) {
  return (a.batches.accumulation_steps > 1) == (b.batches.accumulation_steps > 1);
}

// Returns true if both requests have the same forward graphs, apart from parts that depend on the batch size. With accumulation, gradients
// of 16-bit copies of weights have the data type of the accumulated gradients, so both requests must accumulate, or neither.
bool share_forward(const PlanRequest& a, const PlanRequest& b) {
  if (a.passes.dump || b.passes.dump) return false;
  return a.model == b.model && a.precision == b.precision && a.device == b.device && a.passes == b.passes &&
         a.ranks == b.ranks && splits_weights(a) == splits_weights(b) &&
         (!a.precision.activation_dtype || accumulate_alike(a, b));
}

}  // namespace

bool share_begun_graphs(const PlanRequest& a, const PlanRequest& b) {
  if (a.passes.dump || b.passes.dump) return false;
  const GraphRequest& graphs_a = a;
  const GraphRequest& graphs_b = b;
  return graphs_a == graphs_b && accumulate_alike(a, b) && chunk_loss_alike(a, b);
}

bool share_gradients(const PlanRequest& a, const PlanRequest& b) {
  return a.train && b.train && share_forward(a, b) && chunk_loss_alike(a, b);
}

bool share_evaluation(const PlanRequest& a, const PlanRequest& b) {
  // If the ranks divide weights, the training program determines which weights are divided, also for evaluation.
  const bool divide_alike =
      (!divides(a, ZeroStage::kStates) && !divides(b, ZeroStage::kStates)) || share_begun_graphs(a, b);
  return a.evaluate && b.evaluate && a.train == b.train && share_forward(a, b) && divide_alike &&
         a.chunked_loss == b.chunked_loss && a.batches.evaluate == b.batches.evaluate;
}

PlanGraphs build_graphs(const PlanRequest& request) {
  return finish_graphs(request, begin_graphs(request));
}

PlanGraphs begin_graphs(const PlanRequest& request) {
  PlanGraphs graphs;
  if (request.train) {
    GradientGraph gradients = begin_gradients(request);
    graphs.weights = gradients.weights;
    graphs.programs.add(begin_training(request, std::move(gradients)));
  } else {
    graphs.weights = run_weights(request);
  }
  if (request.evaluate)
    graphs.programs.add(build_evaluation(request, graphs.weights, graphs.programs.find(kTrainProgram)));
  if (request.generation.num_pages > 0) graphs.programs.add(build_generate_graph(request));
  return graphs;
}

PlanGraphs finish_graphs(const PlanRequest& request, PlanGraphs begun) {
  if (ProgramPlan* train = begun.programs.find(kTrainProgram)) finish_train_graph(request, *train);
  ProgramPlan* evaluate = begun.programs.find(kEvaluateProgram);
  if (evaluate != nullptr && evaluate->bucket != request.batches.evaluate) {
    *evaluate = build_evaluation(request, begun.weights, begun.programs.find(kTrainProgram));
  }
  return begun;
}

}  // namespace plimsoll
