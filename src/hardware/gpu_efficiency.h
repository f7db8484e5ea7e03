// Constants that convert the operations and bytes of an op into a time estimate for a GPU: the fraction of the nominal rates that
// ops of a training step reach, and the minimum time of an op. Pure data; thread-safe: constants.
//
// The constants were derived from training steps on an H200 (bench/results/h200-2026-11-22.md; nominal rates in
// hardware/gpu_target.cc). A x B means a batch of A sequences of B tokens.
//
//  1. Memory bandwidth: an AdamW update moves 9.4 GB in 2.35 ms, which is 4.0 of the nominal 4.8 TB/s.
//  2. Attention forward and backward, for 32 x 512 with 16 heads of size 64 and with dropout: 0.170 and 0.410 ms in bf16 (between the
//     results of the benchmark and of the profile), and 0.275 and 0.859 ms in tf32. In fp32 for 4 x 512: 30 and 19 TFLOP/s, measured
//     by `train --profile`.
//  3. Matrix products in fp32 and tf32, and the times of their tiles: a least-squares fit of the logarithms of the times of 23 steps.
//     Their batches are 1 x 512 (with and without accumulation, with checkpointing, and with weights that are copied when they are
//     used), 4, 8 and 32 x 512, and short texts, in fp32, tf32, tf32x3, bf16 and fp16, also with LoRA and QLoRA. A product that does
//     not fill the GPU uses only some multiprocessors, so that it takes longer than at these rates. The time of an op is estimated as
//     sqrt(a^2 + b^2), where a is its time at these rates and b its minimum time.
//  4. The fraction for 16-bit products, and both minimum times: the same steps and the table of experiments in
//     bench/results/h200-2026-11-23.md. Casts and dequantizations of weights determine the minimum time of an op that is not a product:
//     they are most frequent with QLoRA and if weights are copied at use. Batches of 4 and 1 determine the minimum time of a product.
//     Batches of 32, whose speed is limited by the power limit of the GPU (434 to 451 samples/s on four hosts), determine the fraction
//     for products. PyTorch's products reached a fraction of 0.687 for 32 x 512.
//
// operations_test requires that the estimates of 20 steps have errors of at most 10 %. With these constants all of them do, and 18
// have errors of at most 5 %. bench/results/h200-2026-11-23.md states the errors for its table of experiments. Other GPUs are assumed to
// reach the same fractions; they were not measured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace plimsoll {

enum class GpuWork { kProduct, kAttention, kAttentionBackward, kOther };

// The data type to which the operands of a product are rounded.
enum class GpuPrecision { kF32, kTf32, kHalf };

// Returns the fraction of the data sheet's FLOP/s that ops of this kind reach. Requires: work is not kOther.
constexpr double gpu_share_of_flops(GpuWork work, GpuPrecision precision) {
  const bool is_product = work == GpuWork::kProduct;
  const bool is_forward = work == GpuWork::kAttention;
  switch (precision) {
    case GpuPrecision::kF32:
      return is_product ? 0.735 : is_forward ? 0.45 : 0.29;
    case GpuPrecision::kTf32:
      return is_product ? 0.553 : is_forward ? 0.25 : 0.20;
    case GpuPrecision::kHalf:
      return is_product ? 0.667 : is_forward ? 0.205 : 0.212;
  }
  return 1;
}

// The number of keys that attention processes at a time. With a causal mask, a query also computes the masked keys in its last
// tile, on average half of the tile. The operation count of an op does not include this: sequences of 1024 tokens of GPT-2 took
// 13 % (forward) and 19 % (backward) longer than the fractions measured for BERT predict.
inline constexpr double kGpuAttentionTile = 128;

// Returns the factor by which attention is faster than gpu_share_of_flops() states. That fraction was measured with dropout and 512 keys
// per query.
//
// Without dropout, attention of 32 x 512 in bf16 with 16 heads of size 64 took 0.099 instead of 0.159 ms in the forward pass and 0.299
// instead of 0.387 ms in the backward pass (bench/results/h200-2026-11-22.md). The time for the random numbers was not measured in other
// precisions, where it is ignored. A query also costs the time of about 1.4 tiles of keys, whatever the number of its keys, which follows
// from one causal sequence of 16384 tokens of Llama 3.2 1B (bench/results/h200-2026-11-28.md): 2.63 ms in the forward pass of a layer and
// 7.62 ms in its backward pass. For less than 512 keys per query, the rate for 512 keys is assumed, because the estimate then contains this
// constant time as a part of the minimum time of an op.
constexpr double gpu_attention_gain(GpuWork work, GpuPrecision precision, bool has_dropout,
                                    double keys_per_query) {
  constexpr double kTilesMeasured = 4, kTilesPerQuery = 1.4;
  const double tiles = std::max(keys_per_query / kGpuAttentionTile, kTilesMeasured);
  const double of_length =
      tiles / (tiles + kTilesPerQuery) * (kTilesMeasured + kTilesPerQuery) / kTilesMeasured;
  if (has_dropout || precision != GpuPrecision::kHalf) return of_length;
  return of_length * (work == GpuWork::kAttention ? 0.159 / 0.099 : 0.387 / 0.299);
}

// The fractions of the data sheet's bytes per second that norms and all other ops reach. The norms of BERT-large 32 x 512 moved
// 3.0 TB/s and those of GPT-2 16 x 1024 2.4 (forward, with dropout) and 3.1 (backward) of 4.8, by `train --profile` on an H200.
inline constexpr double kGpuShareOfBandwidth = 0.83;
inline constexpr double kGpuShareOfBandwidthOfNorms = 0.62;

// The fraction of the nominal rate of the link to host memory that copies reach in one direction, and in both directions at once; packet
// headers and acknowledgements use the rest. Measured on an H200 with cudaMemcpyAsync of pinned memory in pieces of 8 MiB: 54 GB/s one way
// and 49.5 GB/s each way, of 64 (bench/results/h200-2026-11-23.md).
inline constexpr double kGpuShareOfLinkOneWay = 0.845;
inline constexpr double kGpuShareOfLinkBothWays = 0.775;
// The fraction of the nominal rate of the links between GPUs that all_reduce reaches: with 1 GiB through PyTorch and NCCL it ran at 329
// GB/s of 450 on two H100.
inline constexpr double kGpuShareOfPeerLink = 0.73;
// The highest rate, in GB/s, at which a GPU sends data in an all_reduce through mapped memory, between two GPUs (kGpuPairGbPerS)
// and between more (kGpuGroupGbPerS). The copy engines of two H200 reached 242 with 256 MiB, and those of four H200 reached 161
// (bench/results/h200-2026-11-28.md).
inline constexpr double kGpuPairGbPerS = 242;
inline constexpr double kGpuGroupGbPerS = 161;

// The factor by which ops take longer while GPUs exchange data at the same time: the links and the copies take power, so that a GPU at its
// power limit lowers its clock. On two H200 the clock was 2.5 % lower, and kernels took 1.3 to 2.5 % longer
// (bench/results/h200-2026-11-27.md).
inline constexpr double kGpuSlowdownOfExchanges = 1.02;

// Returns the assumed rate, in GB/s, at which each of `num_gpus` GPUs of one machine sends data to the others over links of this nominal
// rate.
constexpr double assumed_peer_gb_per_s(double link_gb_per_s, int64_t num_gpus) {
  return std::min(kGpuShareOfPeerLink * link_gb_per_s, num_gpus > 2 ? kGpuGroupGbPerS : kGpuPairGbPerS);
}
// The idle time in milliseconds between two consecutive copies on one queue. It was fitted to measurements of `bench --experiments` with
// offloading. Two runs of BERT-large were measured: one that offloads as much as possible makes 522 copies per step, and one with fp32
// master weights makes 1472. Without this time, the estimates of these runs on an H100 were 12 and 22 % too short, and that of the first
// run on an H200 was 7 % too short. With it, these errors are 9, 13 and 3 %.
inline constexpr double kGpuBetweenCopiesMs = 0.008;

// The minimum time in milliseconds of an op that is launched as a part of a CUDA graph, including its launch. The first constant
// applies to matrix products, and the second one to all other ops.
inline constexpr double kGpuLeastMs = 0.0064;
inline constexpr double kGpuLeastElementsMs = 0.0034;
// The minimum time in milliseconds of an Adafactor update of one module. It is fitted to a single measurement: the 102 updates of
// BERT-large during the backward pass took 9.2 ms longer on an H100 than the time for their bytes (bench/results/h100-2026-11-25.md). The
// reason is not known.
inline constexpr double kGpuLeastAdafactorMs = 0.09;

// Constants for the runs of a language model that generates text, with one token per sequence and at most 32 sequences, on compute
// capability 9.0, where these runs have kernels of their own. They were fitted to the traces and times of eight models and batches in
// bench/results/h200-2026-12-01.md; library_random_prompts_test compares the estimates with these times. A layer's time is mostly that of
// reading its weights, at kGpuShareOfBandwidthOfFewRows of the nominal rate; a norm in the same op is a separate step before it.
inline constexpr double kGpuShareOfBandwidthOfFewRows = 0.81;
inline constexpr double kGpuLeastFewRowsMs = 0.0032;    // a layer of 9 to 32 rows
inline constexpr double kGpuLeastEightRowsMs = 0.0022;  // a layer of up to 8 rows
inline constexpr double kGpuNormOfFewRowsMs =
    0.0035;  // the norm before a layer of 3 to 32 rows, in a launch of its own
inline constexpr double kGpuNormInLayerMs =
    0.0025;  // the norm before a layer of 2 rows, in the launch of the layer
inline constexpr double kGpuNormOfOneRowMs = 0.0013;  // the same for one row
inline constexpr double kGpuNormOfHeadsMs = 0.0065;   // a norm of each head of q and k
inline constexpr double kGpuLeastPagedAttentionMs = 0.0064;
inline constexpr double kGpuLeastPagedAttentionOfOneRowMs = 0.0036;
inline constexpr double kGpuLeastTopLogitsMs = 0.0115;
inline constexpr double kGpuLeastDecodeElementsMs = 0.0016;
// The time between two runs, in which the host reads the results of one run and selects tokens.
inline constexpr double kGpuBetweenDecodeRunsMs = 0.02;

constexpr double gpu_least_attention_ms() {
  return 0.0245;
}

// Returns the minimum time of a matrix product [m, k] x [k, n], which is the time that one multiprocessor needs for one tile of
// the result. Tiles are 32 to 128 wide, and a depth k above 1024 is split among multiprocessors. The narrow products of LoRA
// adapters therefore have a short minimum time.
constexpr double gpu_least_product_ms(GpuPrecision precision, double m, double n, double k) {
  const double tile_ms = precision == GpuPrecision::kF32    ? 0.0647
                         : precision == GpuPrecision::kTf32 ? 0.0256
                                                            : kGpuLeastMs;
  const double of_tile = std::clamp(m, 32.0, 128.0) * std::clamp(n, 32.0, 128.0) * std::min(k, 1024.0) /
                         (128.0 * 128.0 * 1024.0);
  return std::max(kGpuLeastMs, tile_ms * of_tile);
}

inline constexpr std::string_view kGpuEfficiencyProvenance =
    "fractions of these rates that an H200 reached on 2026-11-22 (bench/results)";

}  // namespace plimsoll
