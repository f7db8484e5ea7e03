#include "kernels/optimizer/adafactor.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "device/cpu/parallel.h"
#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/piece_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/adafactor_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef PLIMSOLL_KERNELS_OPTIMIZER_ADAFACTOR_CPU_ONCE_
#define PLIMSOLL_KERNELS_OPTIMIZER_ADAFACTOR_CPU_ONCE_
namespace plimsoll {
// The arrays of one row of a tile. Arrays that the update does not use are null.
struct AdafactorRow {
  const float* g;
  float* p;
  float* m;
  const float* factor;  // for each column, the factor by which its gradients are multiplied
  float row_factor, scale, decay, beta1;
};
}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Adds the squares of clip * g to the sums of the columns and returns their total.
float row_squares(const float* g, float clip, int64_t count, float* column_sums) {
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  auto sum = hn::Zero(tag);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::Mul(hn::LoadU(tag, g + i), hn::Set(tag, clip));
    const auto square = hn::Mul(x, x);
    sum = hn::Add(sum, square);
    hn::StoreU(hn::Add(hn::LoadU(tag, column_sums + i), square), tag, column_sums + i);
  }
  float total = hn::GetLane(hn::SumOfLanes(tag, sum));
  for (; i < count; ++i) {
    const float x = g[i] * clip;
    total += x * x;
    column_sums[i] += x * x;
  }
  return total;
}

template <typename Tag>
HWY_INLINE auto change_of(Tag tag, const AdafactorRow& row, int64_t i) {
  const auto g = hn::Mul(hn::LoadU(tag, row.g + i), hn::Set(tag, row.row_factor));
  return hn::Mul(g, hn::LoadU(tag, row.factor + i));
}

// Returns the sum over one row of u^2, where u is the update of adafactor.h. Requires: row.row_factor contains the clip coefficient.
float row_update_squares(const AdafactorRow& row, int64_t count) {
  const hn::ScalableTag<float> tag;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  auto sum = hn::Zero(tag);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto u = change_of(tag, row, i);
    sum = hn::MulAdd(u, u, sum);
  }
  float total = hn::GetLane(hn::SumOfLanes(tag, sum));
  for (; i < count; ++i) {
    const float u = hn::GetLane(change_of(one, row, i));
    total += u * u;
  }
  return total;
}

template <typename Tag>
HWY_INLINE void update_vector(Tag tag, const AdafactorRow& row, int64_t i) {
  auto change = hn::Mul(change_of(tag, row, i), hn::Set(tag, row.scale));
  if (row.m != nullptr) {
    const auto m = hn::LoadU(tag, row.m + i);
    change = hn::MulAdd(hn::Set(tag, row.beta1), hn::Sub(m, change), change);
    hn::StoreU(change, tag, row.m + i);
  }
  const auto p = hn::LoadU(tag, row.p + i);
  hn::StoreU(hn::Sub(p, hn::MulAdd(hn::Set(tag, row.decay), p, change)), tag, row.p + i);
}

void update_row(const AdafactorRow& row, int64_t count) {
  const AdafactorRow k = row;
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) update_vector(tag, k, i);
  // Updates the elements after the last whole SIMD vector one by one, with the operations of the vectors in the same order.
  for (; i < count; ++i) update_vector(hn::CappedTag<float, 1>(), k, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(row_squares);
HWY_EXPORT(row_update_squares);
HWY_EXPORT(update_row);

namespace {

// A tensor and the part of the scratch memory that belongs to it.
struct Work {
  const AdafactorTensor& tensor;
  size_t index;  // index of the tensor in the list that the kernel updates
  AdafactorScratch layout;
  std::byte* scratch;

  float* row_sums() const { return reinterpret_cast<float*>(scratch + layout.row_sums); }
  float* column_sums() const { return reinterpret_cast<float*>(scratch + layout.column_sums); }
  double* tile_sums() const { return reinterpret_cast<double*>(scratch + layout.tile_sums); }
  double& mean() const { return *reinterpret_cast<double*>(scratch + layout.mean); }
};

struct Tile {
  int64_t index = 0, row_tile = 0, column_tile = 0;
  int64_t first_row = 0, num_rows = 0, first_column = 0, num_columns = 0;
};

Tile tile_of(const Work& work, int64_t index) {
  Tile tile{.index = index,
            .row_tile = index / work.layout.column_tiles,
            .column_tile = index % work.layout.column_tiles};
  tile.first_row = tile.row_tile * kAdafactorTileRows;
  tile.num_rows = std::min(kAdafactorTileRows, work.tensor.rows - tile.first_row);
  tile.first_column = tile.column_tile * kAdafactorTileColumns;
  tile.num_columns = std::min(kAdafactorTileColumns, work.tensor.columns - tile.first_column);
  return tile;
}

// Calls body(work) for every tensor of the list in order.
template <typename Body>
void for_each_work(const AdafactorArgs& args, Body&& body) {
  auto* scratch = static_cast<std::byte*>(args.scratch.data);
  for (size_t i = 0; i < args.tensors.size(); ++i) {
    const AdafactorTensor& tensor = args.tensors[i];
    const AdafactorScratch layout = adafactor_scratch(tensor.rows, tensor.columns, tensor.is_matrix());
    if (tensor.count() > 0) body(Work{tensor, i, layout, scratch});
    scratch += layout.bytes;
  }
}

// Calls body(work, tile) for every tile of every tensor, on all threads. No synchronization is needed, because each call of `body` writes
// only to the part of the scratch memory that belongs to its tile.
template <typename Body>
void parallel_over_tiles(const AdafactorArgs& args, Body&& body) {
  constexpr int64_t kMaxTasks = 256;
  int64_t total = 0;
  for_each_work(args, [&](const Work& work) { total += work.layout.tiles(); });
  const int64_t tasks = std::min(total, kMaxTasks);
  parallel_for(tasks, [&](int64_t task, int /*thread*/) {
    const int64_t first = total * task / tasks;
    const int64_t last = total * (task + 1) / tasks;
    int64_t base = 0;
    for_each_work(args, [&](const Work& work) {
      const int64_t end = base + work.layout.tiles();
      for (int64_t i = std::max(first, base); i < std::min(last, end); ++i)
        body(work, tile_of(work, i - base));
      base = end;
    });
  });
}

struct StepScalars {
  float clip;
  double new_share, epsilon1;

  void blend(float& state, double mean) const {
    state =
        static_cast<float>((1.0 - new_share) * static_cast<double>(state) + new_share * (mean + epsilon1));
  }
};

void add_squares(const Work& work, const Tile& tile, const StepScalars& step) {
  const AdafactorTensor& tensor = work.tensor;
  const auto square_row = &HWY_DYNAMIC_DISPATCH(row_squares);
  float column_sums[kAdafactorTileColumns] = {};
  float gradients[kAdafactorTileColumns];
  for (int64_t r = tile.first_row; r < tile.first_row + tile.num_rows; ++r) {
    const float* g =
        floats_of(tensor.grad, r * tensor.columns + tile.first_column, tile.num_columns, gradients);
    const float sum = square_row(g, step.clip, tile.num_columns, column_sums);
    if (tensor.is_matrix()) work.row_sums()[r * work.layout.column_tiles + tile.column_tile] = sum;
  }
  if (tensor.is_matrix()) {
    std::copy_n(column_sums, tile.num_columns,
                work.column_sums() + tile.row_tile * tensor.columns + tile.first_column);
    return;
  }
  float* v = tensor.v.as<float>() + tile.first_column;
  for (int64_t i = 0; i < tile.num_columns; ++i) step.blend(v[i], static_cast<double>(column_sums[i]));
}

// Computes the row and column states of a matrix from the sums of squares of its tiles.
void update_states(const Work& work, const StepScalars& step) {
  const AdafactorTensor& tensor = work.tensor;
  if (!tensor.is_matrix()) return;
  double sum_of_rows = 0.0;
  for (int64_t r = 0; r < tensor.rows; ++r) {
    double sum = 0.0;
    for (int64_t tile = 0; tile < work.layout.column_tiles; ++tile) {
      sum += static_cast<double>(work.row_sums()[r * work.layout.column_tiles + tile]);
    }
    float& state = tensor.row.as<float>()[r];
    step.blend(state, sum / static_cast<double>(tensor.columns));
    sum_of_rows += static_cast<double>(state);
  }
  work.mean() = sum_of_rows / static_cast<double>(tensor.rows);
  for (int64_t c = 0; c < tensor.columns; ++c) {
    double sum = 0.0;
    for (int64_t tile = 0; tile < work.layout.row_tiles; ++tile) {
      sum += static_cast<double>(work.column_sums()[tile * tensor.columns + c]);
    }
    step.blend(tensor.column.as<float>()[c], sum / static_cast<double>(tensor.rows));
  }
}

// Computes the factor of the gradients of each column of a tile: 1 / sqrt of the column's state or, for a vector, of the state v of each
// element.
void column_factors(const Work& work, const Tile& tile, float* factors) {
  const View& state = work.tensor.is_matrix() ? work.tensor.column : work.tensor.v;
  const float* x = state.as<float>() + tile.first_column;
  for (int64_t i = 0; i < tile.num_columns; ++i) factors[i] = 1.0f / std::sqrt(x[i]);
}

// Calls `body` with the arrays of each row of a tile, converted to fp32.
template <typename Body>
void for_each_row(const Work& work, const Tile& tile, const StepScalars& step, const float* factors,
                  Body&& body) {
  const AdafactorTensor& tensor = work.tensor;
  const auto mean = static_cast<float>(tensor.is_matrix() ? work.mean() : 1.0);
  // Buffers in which rows of 16-bit operands are converted to fp32.
  float gradients[kAdafactorTileColumns], parameters[kAdafactorTileColumns];
  const OptimizerTensor parameter = tensor.parameter();
  for (int64_t r = tile.first_row; r < tile.first_row + tile.num_rows; ++r) {
    const int64_t first = r * tensor.columns + tile.first_column;
    const float row = tensor.is_matrix() ? 1.0f / std::sqrt(tensor.row.as<float>()[r] / mean) : 1.0f;
    body(AdafactorRow{.g = floats_of(tensor.grad, first, tile.num_columns, gradients),
                      .p = parameter_to_change(parameter, first, tile.num_columns, parameters),
                      .m = tensor.m ? tensor.m.as<float>() + first : nullptr,
                      .factor = factors,
                      .row_factor = step.clip * row,
                      .scale = 0.0f,
                      .decay = 0.0f,
                      .beta1 = 0.0f},
         first);
  }
}

void sum_updates(const Work& work, const Tile& tile, const StepScalars& step, bool with_params) {
  float factors[kAdafactorTileColumns];
  column_factors(work, tile, factors);
  const auto update_squares = &HWY_DYNAMIC_DISPATCH(row_update_squares);
  double u = 0.0, p = 0.0;
  for_each_row(work, tile, step, factors, [&](const AdafactorRow& row, int64_t) {
    u += static_cast<double>(update_squares(row, tile.num_columns));
    if (with_params) p += piece_square_sum(row.p, tile.num_columns);
  });
  work.tile_sums()[2 * tile.index] = u;
  work.tile_sums()[2 * tile.index + 1] = p;
}

void update_tile(const Work& work, const Tile& tile, const StepScalars& step, const AdafactorArgs& args) {
  double u = 0.0, p = 0.0;
  for (int64_t i = 0; i < work.layout.tiles(); ++i) {
    u += work.tile_sums()[2 * i];
    p += work.tile_sums()[2 * i + 1];
  }
  const auto n = static_cast<double>(work.tensor.count());
  const double rate = adafactor_rate(args, std::sqrt(p / n));
  const double rms = std::sqrt(u / n) / args.clip_threshold;
  const double divisor = rms > 1.0 || std::isnan(rms) ? rms : 1.0;
  float factors[kAdafactorTileColumns];
  column_factors(work, tile, factors);
  const auto update = &HWY_DYNAMIC_DISPATCH(update_row);
  const OptimizerTensor parameter = work.tensor.parameter();
  const RandomSite noise = noise_of(args, work.index);
  for_each_row(work, tile, step, factors, [&](AdafactorRow row, int64_t first) {
    row.scale = static_cast<float>(rate / divisor);
    row.decay = static_cast<float>(rate * args.weight_decay);
    row.beta1 = static_cast<float>(args.beta1.value_or(0.0));
    if (!args.beta1) row.m = nullptr;
    update(row, tile.num_columns);
    store_parameter(row.p, parameter, noise, first, tile.num_columns);
  });
}

void check_types(const AdafactorArgs& args) {
  PLIMSOLL_CHECK(args.scratch || args.tensors.empty(), "adafactor_cpu needs scratch memory, but has none");
  for (const AdafactorTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu({.param = tensor.param, .grad = tensor.grad}),
                   "adafactor_cpu does not support {} weights with {} gradients",
                   dtype_name(tensor.param.dtype), dtype_name(tensor.grad.dtype));
  }
}

}  // namespace

void adafactor_cpu(const AdafactorArgs& args) {
  if (!update_allowed(args.finite)) return;
  check_types(args);
  const StepScalars step{
      .clip = static_cast<float>(args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0),
      .new_share = adafactor_new_share(args),
      .epsilon1 = args.epsilon1};
  parallel_over_tiles(args, [&](const Work& work, const Tile& tile) { add_squares(work, tile, step); });
  parallel_for(std::ssize(args.tensors), [&](int64_t index, int /*thread*/) {
    const AdafactorTensor* wanted = &args.tensors[static_cast<size_t>(index)];
    for_each_work(args, [&](const Work& work) {
      if (&work.tensor == wanted) update_states(work, step);
    });
  });
  const bool with_params = args.scale_by_parameter == ScaleByParameter::kYes;
  parallel_over_tiles(
      args, [&](const Work& work, const Tile& tile) { sum_updates(work, tile, step, with_params); });
  parallel_over_tiles(args, [&](const Work& work, const Tile& tile) { update_tile(work, tile, step, args); });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
