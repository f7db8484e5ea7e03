#include "plan/compile/op_times.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/op.h"
#include "graph/ops/ops.h"
#include "hardware/cpu_efficiency.h"
#include "hardware/cpu_target.h"
#include "hardware/gpu_efficiency.h"
#include "lowering/lowering.h"

namespace plimsoll {

double gpu_product_gflops(const GpuTarget& gpu, DType type, Fp32Products fp32) {
  if (type != DType::kF32 || fp32 == Fp32Products::kF32) return product_gflops(gpu, type);
  // tf32x3 computes one fp32 product as three tf32 products.
  return 1e3 * gpu.tf32_tflops / (fp32 == Fp32Products::kTf32x3 ? 3.0 : 1.0);
}

namespace {

// Returns the data type that determines the rate of the arithmetic of an op: the type of its first operand that contains floating-point
// numbers or quantized codes.
DType arithmetic_type(const OpView& op) {
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (!op.has_input(i)) continue;
    const DType dtype = op.input(i).type.dtype;
    if (is_floating(dtype) || is_fp8(dtype)) return dtype;
  }
  return DType::kF32;
}

GpuWork gpu_work(OpWork work) {
  switch (work) {
    case OpWork::kProduct:
      return GpuWork::kProduct;
    case OpWork::kAttention:
      return GpuWork::kAttention;
    case OpWork::kAttentionBackward:
      return GpuWork::kAttentionBackward;
    default:
      return GpuWork::kOther;
  }
}

// Returns the smallest possible time of a matrix product. Its inner dimension k is computed from its number of operations.
double least_product_ms(GpuPrecision precision, const OpView& op, const Cost& cost, const Bucket& bucket) {
  const Shape& shape = op.out_shape(0);
  const double columns = shape.rank() > 0 ? static_cast<double>(shape.last().at(bucket)) : 1.0;
  const double rows = static_cast<double>(shape.elements(bucket)) / columns;
  return gpu_least_product_ms(precision, rows, columns, cost.flops / (2 * rows * columns));
}

// Returns how many operations a kernel executes per operation that the op requires; kernels for causal attention execute more, because they
// work on whole tiles (kGpuAttentionTile).
double computed_per_needed(GpuWork work, const OpView& op, const Bucket& bucket) {
  const bool is_attention = work == GpuWork::kAttention || work == GpuWork::kAttentionBackward;
  if (!is_attention || op.attributes().integer_or("causal", 0) == 0) return 1;
  return 1 + kGpuAttentionTile / static_cast<double>(std::max<int64_t>(bucket.longest, 1));
}

// Returns the mean number of keys to which a query of an attention op attends, if all sequences have the largest length of the batch.
double keys_per_query(const OpView& op, const Bucket& bucket) {
  const auto longest = static_cast<double>(std::max<int64_t>(bucket.longest, 1));
  const bool is_causal = op.attributes().integer_or("causal", 0) != 0;
  const auto window = static_cast<double>(op.attributes().integer_or("window", 0));
  const double of_length = is_causal ? longest / 2 : longest;
  return window > 0 ? std::min(of_length, is_causal ? window : 2 * window) : of_length;
}

// Returns gpu_attention_gain() for an op of attention in training and evaluation, and 1 for any other op. Attention to cached keys has no
// dropout probability p. It reads more than it computes, and its rates were not measured.
double attention_gain(GpuWork work, GpuPrecision precision, const OpView& op, const Bucket& bucket) {
  if (work == GpuWork::kProduct || !op.attributes().has("p")) return 1;
  return gpu_attention_gain(work, precision, op.attributes().number("p") > 0, keys_per_query(op, bucket));
}

// Estimates the time of an op as sqrt(t^2 + m^2): t is the longer of the times for arithmetic and for memory traffic, at the shares of the
// nominal rates that training steps usually reach, and m is the minimum time of ops of this kind (hardware/gpu_efficiency.h).
double estimated_gpu_ms(const OpSchema& schema, const OpView& op, const Cost& cost, const Bucket& bucket,
                        const PlanRequest& request) {
  const GpuTarget& gpu = request.device.gpu;
  const double share_of_bandwidth =
      schema.group() == OpGroup::kNormalization ? kGpuShareOfBandwidthOfNorms : kGpuShareOfBandwidth;
  const double traffic = cost.bytes / (share_of_bandwidth * gpu.memory_gb_per_s * 1e9);
  const GpuWork work = gpu_work(schema.work());
  if (work == GpuWork::kOther) {
    const bool is_adafactor = schema.work() == OpWork::kFactoredUpdate;
    return std::hypot(1e3 * traffic, is_adafactor ? kGpuLeastAdafactorMs : kGpuLeastElementsMs);
  }
  const DType type = arithmetic_type(op);
  // If matrix products use tf32, attention uses it too, but it never uses tf32x3 (three tf32 products per fp32 product).
  const bool is_three = request.precision.fp32_products == Fp32Products::kTf32x3 && work == GpuWork::kProduct;
  const bool is_tf32 = type == DType::kF32 && gpu.tf32_tflops > 0 &&
                       (request.precision.fp32_products == Fp32Products::kTf32 || is_three);
  // Matrix products in fp8 are assumed to reach the same share of their nominal rate as 16-bit ones.
  const GpuPrecision precision = dtype_bytes(type) <= 2 ? GpuPrecision::kHalf
                                 : is_tf32              ? GpuPrecision::kTf32
                                                        : GpuPrecision::kF32;
  const double gflops =
      is_tf32 ? gpu_product_gflops(gpu, type, request.precision.fp32_products) : product_gflops(gpu, type);
  const double flops = cost.flops * computed_per_needed(work, op, bucket);
  const double gain = attention_gain(work, precision, op, bucket);
  const double arithmetic = flops / (gain * gpu_share_of_flops(work, precision) * gflops * 1e9);
  const double least =
      work == GpuWork::kProduct ? least_product_ms(precision, op, cost, bucket) : gpu_least_attention_ms();
  const double between =
      schema.bytes_between_products(op, bucket) / (kGpuShareOfBandwidth * gpu.memory_gb_per_s * 1e9);
  return std::hypot(1e3 * (std::max(arithmetic, traffic) + between), least);
}

CpuWork cpu_work(OpWork work, const OpView& op, CpuIsa isa) {
  const bool has_tiles = isa == CpuIsa::kAmx;
  const bool on_tiles = has_tiles && arithmetic_type(op) == DType::kBF16;
  switch (work) {
    case OpWork::kAttention:
      return on_tiles ? CpuWork::kAttentionOnTiles : CpuWork::kAttention;
    case OpWork::kAttentionBackward:
      return on_tiles ? CpuWork::kAttentionBackwardOnTiles : CpuWork::kAttentionBackward;
    case OpWork::kProduct:
      return has_tiles && arithmetic_type(op) == DType::kF32 ? CpuWork::kProductOfParts : CpuWork::kProduct;
    case OpWork::kUpdateOfCodes:
      return CpuWork::kUpdateOfCodes;
    default:
      return CpuWork::kElements;
  }
}

bool is_attention_on_tiles(CpuWork work) {
  return work == CpuWork::kAttentionOnTiles || work == CpuWork::kAttentionBackwardOnTiles;
}

// Returns the data type from whose rate of matrix products the time of an op on a CPU is estimated: the type of the operands for matrix
// products and for attention with AMX, and fp32 for all other ops, because they compute in fp32.
DType cpu_arithmetic_type(CpuWork work, const OpView& op) {
  const bool is_product = work == CpuWork::kProduct || work == CpuWork::kProductOfParts;
  return is_product || is_attention_on_tiles(work) ? arithmetic_type(op) : DType::kF32;
}

// Returns the factor by which narrow attention heads reduce the FLOP/s of attention. With AMX tiles, computing a score takes the same
// time for a narrower head although it needs fewer FLOPs.
double share_of_head_size(CpuWork work, const OpView& op) {
  if (!is_attention_on_tiles(work)) return 1;
  const auto head_size = static_cast<double>(attention_dims(op, {}).head_dim);
  return std::min(1.0, head_size / kCpuTilesHeadSize);
}

double estimated_cpu_ms(const OpSchema& schema, const OpView& op, const Cost& cost,
                        const PlanRequest& request) {
  const CpuTarget& target = cpu_target(request.device.isa);
  const CpuWork work = cpu_work(schema.work(), op, request.device.isa);
  const DType type = cpu_arithmetic_type(work, op);
  const double share = cpu_share_of_flops(work) * share_of_head_size(work, op);
  const double arithmetic =
      cost.flops / (share * product_gflops(target, type, request.device.num_threads) * 1e9);
  const double traffic = cost.bytes / (memory_gb_per_s(target, request.device.num_threads) * 1e9);
  return 1e3 * std::max(arithmetic, traffic);
}

}  // namespace

double estimated_ms(const OpSchema& schema, const OpView& op, const Cost& cost, const Bucket& bucket,
                    const PlanRequest& request) {
  if (request.device.kind == KernelDevice::kCuda) {
    const bool exchanges = request.train && request.ranks.data_size() > 1;
    return estimated_gpu_ms(schema, op, cost, bucket, request) * (exchanges ? kGpuSlowdownOfExchanges : 1.0);
  }
  const DType type = request.precision.activation_dtype.value_or(request.precision.dtype);
  const double corrected =
      request.cpu_calibration.factor(type, op.op.def->name(), op_group_name(schema.group()));
  return corrected * estimated_cpu_ms(schema, op, cost, request);
}

double estimated_decode_ms(const OpSchema& schema, const OpView& op, const Cost& cost, const Bucket& bucket,
                           const PlanRequest& request) {
  const DType type = request.precision.activation_dtype.value_or(request.precision.dtype);
  const bool has_own_kernels = request.device.is_gpu() && request.device.gpu.sm == 90 &&
                               dtype_bytes(type) == 2 && bucket.tokens <= kCudaFewRows;
  if (!has_own_kernels) return estimated_ms(schema, op, cost, bucket, request);
  const auto traffic_ms = [&](double share) {
    return 1e3 * cost.bytes / (share * request.device.gpu.memory_gb_per_s * 1e9);
  };
  const OpDef* def = op.op.def;
  if (def == &paged_attention_op())
    return std::hypot(traffic_ms(kGpuShareOfBandwidth),
                      bucket.tokens > 1 ? kGpuLeastPagedAttentionMs : kGpuLeastPagedAttentionOfOneRowMs);
  if (def == &top_logits_op()) return std::hypot(traffic_ms(kGpuShareOfBandwidth), kGpuLeastTopLogitsMs);
  if (def == &rms_norm_op() && op.attributes().integer("heads") > 1)
    return std::hypot(traffic_ms(kGpuShareOfBandwidth), kGpuNormOfHeadsMs);
  if (gpu_work(schema.work()) != GpuWork::kProduct)
    return std::hypot(traffic_ms(kGpuShareOfBandwidth), kGpuLeastDecodeElementsMs);
  const double least = bucket.tokens > 8 ? kGpuLeastFewRowsMs : kGpuLeastEightRowsMs;
  const double norm = def != &norm_linear_op()          ? 0.0
                      : bucket.tokens > kNormLinearRows ? kGpuNormOfFewRowsMs
                      : bucket.tokens > 1               ? kGpuNormInLayerMs
                                                        : kGpuNormOfOneRowMs;
  return std::hypot(traffic_ms(kGpuShareOfBandwidthOfFewRows), least) + norm;
}

double time_between_decode_runs_ms(const PlanRequest& request) {
  return request.device.is_gpu() ? kGpuBetweenDecodeRunsMs : 0.0;
}

std::vector<double> op_times(const Graph& graph, const OpKinds& kinds, const PlanRequest& request) {
  const Bucket usual = usual_bucket(request.batches.train, request.model.label_share);
  std::vector<double> kind_ms;
  kind_ms.reserve(kinds.first_op.size());
  for (const uint32_t first : kinds.first_op) {
    const OpView op{graph, graph.ops()[first]};
    const OpSchema& schema = schema_of(op.op);
    const Cost cost = schema.cost(op, usual);
    kind_ms.push_back(estimated_ms(schema, op, cost, usual, request));
  }
  std::vector<double> op_ms;
  op_ms.reserve(kinds.of_op.size());
  for (const uint32_t kind : kinds.of_op) op_ms.push_back(kind_ms[kind]);
  return op_ms;
}

double link_bytes_per_ms(const PlanRequest& request, LinkUse use) {
  const double share = use == LinkUse::kOneWay ? kGpuShareOfLinkOneWay : kGpuShareOfLinkBothWays;
  if (request.device.kind == KernelDevice::kCuda) return share * request.device.gpu.link_gb_per_s * 1e6;
  return memory_gb_per_s(cpu_target(request.device.isa), request.device.num_threads) * 1e6;
}

namespace {

// The distribution of a group of ranks over machines: the number of ranks per machine, and the number of machines.
struct GroupPlaces {
  int64_t per_machine = 1;
  int64_t machines = 1;
};

// The ranks of a tensor-parallel group have consecutive numbers, so they are in one machine if it has enough ranks. If there are several
// machines, two pipeline stages that exchange values may be in different machines.
GroupPlaces places_of(const PlanRequest& request, int64_t ranks_per_machine, MeshAxis axis) {
  if (axis == MeshAxis::kPipeline || axis == MeshAxis::kEnds) {
    if (request.num_machines == 1) return {.per_machine = 2, .machines = 1};
    return {.per_machine = 1, .machines = 2};
  }
  const int64_t tensor = request.ranks.tensor_size;
  const int64_t size = axis == MeshAxis::kTensor ? tensor : request.ranks.data_size();
  const int64_t per_machine = axis == MeshAxis::kTensor
                                  ? std::min(tensor, ranks_per_machine)
                                  : std::min(size, std::max<int64_t>(1, ranks_per_machine / tensor));
  return {.per_machine = per_machine, .machines = (size + per_machine - 1) / per_machine};
}

// Returns the link between ranks of one machine: the link that the user names, the usual link of the GPU model, or the link between
// processes on a CPU.
RankLink link_inside(const PlanRequest& request, int64_t num_gpus, Collective collective) {
  if (!request.device.is_gpu()) return {.gb_per_s = kCpuRankLinkGbPerS};
  const NamedLink* link = find_named_link(request.named_links.inside);
  const double nominal = link == nullptr ? request.device.gpu.peer_gb_per_s : link->gb_per_s;
  return {.gb_per_s = assumed_peer_gb_per_s(nominal, num_gpus),
          .latency_ms = gpu_exchange_latency_ms(collective)};
}

// No network was measured. Collective operations over a network are assumed to reach the same share of the nominal rate as collective
// operations over NVLink.
RankLink assumed_rank_link(const PlanRequest& request, MeshAxis axis, Collective collective) {
  const int64_t ranks_per_machine = std::max<int64_t>(1, request.ranks.count / request.num_machines);
  const GroupPlaces places = places_of(request, ranks_per_machine, axis);
  const RankLink inside = link_inside(request, places.per_machine, collective);
  const NamedLink* network = find_named_link(request.named_links.between);
  if (places.machines == 1 || network == nullptr) return inside;
  auto adapters = static_cast<double>(places.per_machine);
  if (network->sharing == LinkSharing::kAdapterPerMachine) adapters /= static_cast<double>(ranks_per_machine);
  const double between = kGpuShareOfPeerLink * adapters * network->gb_per_s;
  const double hops_ms = kNetworkHopMs * static_cast<double>(network_hops(collective, places.machines));
  if (places.per_machine == 1) return {.gb_per_s = between, .latency_ms = hops_ms};
  return {.gb_per_s = std::min(inside.gb_per_s, between), .latency_ms = inside.latency_ms + hops_ms};
}

}  // namespace

RankLink rank_link(const PlanRequest& request, MeshAxis axis, Collective collective) {
  const auto measured = request.links.curves.find(Collective::kAllReduce);
  if (request.named_links.empty() && measured != request.links.curves.end() && !measured->second.empty()) {
    const LinkRate rate = link_rate(measured->second, Collective::kAllReduce, request.links.num_ranks);
    return {.gb_per_s = rate.gb_per_s, .latency_ms = rate.latency_ms, .is_measured = true};
  }
  return assumed_rank_link(request, axis, collective);
}

double rank_exchange_ms(const PlanRequest& request, Collective collective, double sent_bytes, MeshAxis axis) {
  if (request.named_links.empty()) {
    if (const std::optional<double> ms = exchange_ms(request.links, collective, sent_bytes)) return *ms;
  }
  const RankLink link = rank_link(request, axis, collective);
  return (link.is_measured ? 0.0 : link.latency_ms) + sent_bytes / (1e6 * link.gb_per_s);
}

double disk_ms(const PlanRequest& request, Queue queue, double bytes, LinkUse use) {
  const double alone = queue == Queue::kToHost ? request.disk.write_gb_per_s : request.disk.read_gb_per_s;
  // If the disk reads and writes at the same time, each direction gets half of both_gb_per_s, which is the sum of both rates.
  return bytes / (1e6 * (use == LinkUse::kBothWays ? request.disk.both_gb_per_s / 2 : alone));
}

double between_copies_ms(const PlanRequest& request) {
  return request.device.kind == KernelDevice::kCuda ? kGpuBetweenCopiesMs : 0.0;
}

}  // namespace plimsoll
