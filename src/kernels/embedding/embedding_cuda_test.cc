#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "device/cuda/cuda_error.h"
#include "kernels/element_wise/testing/cuda_cases.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/first_token.h"
#include "kernels/embedding/rope.h"
#include "kernels/embedding/sequence_mean.h"
#include "kernels/embedding/sort_ids.h"
#include "kernels/embedding/testing/sort_ids_cases.h"

namespace plimsoll::test {
namespace {

struct SumCase {
  int num_tables;
  int64_t T, C, num_tokens;
  DType table, x;
};

void check_sum(const SumCase& test) {
  const std::string name = fmt::format("sum_cuda/{} {}x{} {} {}->{}", test.num_tables, test.T, test.C,
                                       test.num_tokens, dtype_name(test.table), dtype_name(test.x));
  constexpr int64_t kRows[kMaxEmbeddingTables] = {97, 40, 2, 1};
  std::vector<GuardedBuffer> tables, ids;
  for (int k = 0; k < test.num_tables; ++k) {
    tables.emplace_back(fmt::format("{}/table{}", name, k), test.table, kRows[k] * test.C)
        .fill_normal(0.1, 1.0);
    ids.emplace_back(fmt::format("{}/ids{}", name, k), DType::kI32, test.T).fill_indices(kRows[k]);
    // The ids of unused rows are far outside the table, so that a kernel fails if it reads them, which it must not do.
    for (int64_t t = test.num_tokens; t < test.T; ++t) ids.back().view().store(t, 1e9);
  }
  GuardedBuffer got(name + "/x", test.x, test.T * test.C), want(name + "/want", DType::kF64, test.T * test.C),
      num_tokens = integers(DType::kI32, {test.num_tokens});
  Twins gpu;
  EmbeddingSumFwdArgs args;
  args.num_tables = test.num_tables;
  args.T = test.T;
  args.C = test.C;
  args.num_tokens = test.num_tokens;
  EmbeddingSumFwdArgs on_gpu = args;
  for (size_t k = 0; k < tables.size(); ++k) {
    args.tables[k] = tables[k].view();
    args.ids[k] = ids[k].view();
    on_gpu.tables[k] = gpu(tables[k]);
    on_gpu.ids[k] = gpu(ids[k]);
  }
  args.x = want.view();
  on_gpu.x = gpu(got);
  on_gpu.num_tokens = 0;  // not the true number, which the kernel must read from device memory
  embedding_sum_fwd_ref(args);
  run_twice(gpu, {&got}, [&] { embedding_sum_fwd_cuda(on_gpu, gpu(num_tokens).as<int32_t>(), nullptr); });
  std::vector<double> limits(static_cast<size_t>(test.T * test.C));
  for (int64_t i = 0; i < test.num_tokens * test.C; ++i) {
    double sum = 0.0;
    for (size_t k = 0; k < tables.size(); ++k) {
      sum += std::abs(tables[k].load(static_cast<int64_t>(ids[k].load(i / test.C)) * test.C + i % test.C));
    }
    limits[static_cast<size_t>(i)] = embedding_sum_fwd_error_bound(test.num_tables, test.x, sum);
  }
  expect_within(got, want, limits);
}

TEST(EmbeddingSumCuda, MatchesTheReferenceWithinItsBound) {
  for (const DType table : cuda_types()) {
    for (const DType x : cuda_types()) {
      for (const int num_tables : {1, 2, 3, 4}) {
        for (const int64_t C : {1, 17, 64, 384, 2056}) {
          check_sum({num_tables, 70, C, 45, table, x});
        }
      }
      check_sum({3, 33, 64, 0, table, x});
      check_sum({3, 33, 64, 33, table, x});
    }
  }
}

// If each rank has some rows of the first table, the sum of the ranks' outputs must equal the lookup in the whole table. The elements are
// small integers, so that the sums are exact.
TEST(EmbeddingSumCuda, SomeRowsOfTheFirstTableAddUp) {
  constexpr int64_t T = 70, V = 37, kPart = 24, kTokens = 65;
  for (const DType dtype : cuda_types()) {
    for (const int64_t C : {17, 64}) {
      GuardedBuffer words("rows_cuda/words", dtype, 2 * kPart * C), places("rows_cuda/places", dtype, 5 * C),
          ids("rows_cuda/ids", DType::kI32, T), at("rows_cuda/at", DType::kI32, T),
          want("rows_cuda/want", DType::kF64, T * C), num_tokens = integers(DType::kI32, {kTokens});
      words.fill_small_integers();
      places.fill_small_integers();
      ids.fill_indices(V);
      at.fill_indices(5);
      EmbeddingSumFwdArgs args{.tables = {words.view(), places.view()},
                               .ids = {ids.view(), at.view()},
                               .num_tables = 2,
                               .x = want.view(),
                               .T = T,
                               .C = C,
                               .num_tokens = kTokens};
      embedding_sum_fwd_ref(args);
      std::vector<double> sum(static_cast<size_t>(T * C), 0.0);
      for (int64_t rank = 0; rank < 2; ++rank) {
        GuardedBuffer own("rows_cuda/own", dtype, kPart * C), part("rows_cuda/part", dtype, T * C);
        for (int64_t i = 0; i < kPart * C; ++i) own.view().store(i, words.load(rank * kPart * C + i));
        Twins gpu;
        args.tables = {gpu(own), gpu(places)};
        args.ids = {gpu(ids), gpu(at)};
        args.num_tables = rank == 0 ? 2 : 1;
        args.first_row = rank * kPart;
        args.num_rows = kPart;
        args.x = gpu(part);
        run_twice(gpu, {&part},
                  [&] { embedding_sum_fwd_cuda(args, gpu(num_tokens).as<int32_t>(), nullptr); });
        for (int64_t i = 0; i < T * C; ++i) sum[static_cast<size_t>(i)] += part.load(i);
      }
      for (int64_t i = 0; i < T * C; ++i) ASSERT_EQ(sum[static_cast<size_t>(i)], want.load(i)) << i;
    }
  }
}

void check_sort(int64_t T, int64_t num_tokens, std::vector<int64_t> rows) {
  const std::string name = fmt::format("sort_cuda/{} {}", T, num_tokens);
  const auto num_lists = static_cast<int64_t>(rows.size());
  std::vector<GuardedBuffer> ids, got, want;
  ids.reserve(rows.size());
  got.reserve(rows.size());
  GuardedBuffer scratch = scratch_of(sort_ids_cuda_scratch_bytes(T, num_lists)),
                count = integers(DType::kI32, {num_tokens});
  Twins gpu;
  SortIdsArgs args{
      .num_lists = static_cast<int>(num_lists),
      .T = T,
      .V = *std::ranges::max_element(rows),
      // This is not the true number of tokens, because the kernel must read that number from device memory instead.
      .num_tokens = 0,
      .scratch = gpu(scratch)};
  std::vector<GuardedBuffer*> outputs;
  for (size_t k = 0; k < rows.size(); ++k) {
    ids.emplace_back(fmt::format("{}/ids{}", name, k), DType::kI32, T).fill_indices(rows[k]);
    // The ids of unused tokens are far outside the table, so that a kernel fails if it reads them, which it must not do.
    for (int64_t t = num_tokens; t < T; ++t) ids.back().view().store(t, 1e9);
    want.push_back(sorted_ids(name + "/want", ids.back(), T, args.V, num_tokens));
    args.ids[k] = gpu(ids.back());
    args.sorted[k] = gpu(got.emplace_back(name + "/got", DType::kI32, 2 * T));
    outputs.push_back(&got.back());
  }
  run_twice(gpu, outputs, [&] { sort_ids_cuda(args, gpu(count).as<int32_t>(), nullptr); });
  for (size_t k = 0; k < rows.size(); ++k) expect_same_bits(got[k], want[k]);
}

TEST(SortIdsCuda, EqualsTheReference) {
  for (const int64_t T : {1, 90, 1025}) {
    for (const int64_t num_tokens : {int64_t{0}, T / 2, T}) {
      for (const int64_t V : {1, 2, 255, 256, 600, 30522, 70000}) check_sort(T, num_tokens, {V});
      check_sort(T, num_tokens, {512, 30522, 2, 1});
    }
  }
}

// Tests batches with more tokens than the blocks of the kernel process at the same time.
TEST(SortIdsCuda, TakesLargeBatches) {
  check_sort(70000, 69000, {30522, 512, 2});
  check_sort(140000, 140000, {2});
}

// The ids of the tokens: distributed over the whole table, a few distinct ids, or a single id.
enum class Spread : uint8_t { kAll, kFew, kOne };

struct TableGradientCase {
  int64_t T, C, V, num_tokens, padding_id;
  DType dtype;
  Spread spread;
  bool adds;
};

void check_table_gradient(const TableGradientCase& test) {
  const auto [T, C, V, num_tokens, padding_id, dtype, spread, adds] = test;
  const std::string name = fmt::format("bwd_cuda/{}x{} {} {} {} {}", T, C, V, num_tokens, dtype_name(dtype),
                                       static_cast<int>(spread));
  GuardedBuffer d_x(name + "/d_x", dtype, T * C), ids(name + "/ids", DType::kI32, T),
      got(name + "/d_table", DType::kF32, V * C), want(name + "/want", DType::kF64, V * C),
      scratch = scratch_of(embedding_bwd_cuda_scratch_bytes(T, C)),
      flag = integers(DType::kI32, {adds ? 1 : 0});
  d_x.fill_normal();
  ids.fill_indices(spread == Spread::kAll ? V : spread == Spread::kFew ? std::min<int64_t>(V, 5) : 1);
  for (int64_t t = 0; t < T && spread != Spread::kAll; ++t)
    ids.view().store(t, static_cast<double>(V) - 1.0 - ids.load(t));
  for (int64_t t = num_tokens; t < T; ++t) ids.view().store(t, 1e9);
  if (adds) got.fill(0.25);
  want.fill(adds ? 0.25 : 0.0);
  // Computes the expected sums in one pass over the tokens.
  std::vector<double> sums(static_cast<size_t>(V * C), adds ? 0.25 : 0.0);
  std::vector<int64_t> terms(static_cast<size_t>(V), adds ? 1 : 0);
  for (int64_t t = 0; t < num_tokens; ++t) {
    const auto v = static_cast<int64_t>(ids.load(t));
    if (v == padding_id) continue;
    ++terms[static_cast<size_t>(v)];
    for (int64_t c = 0; c < C; ++c) {
      const double value = d_x.load(t * C + c);
      want.view().store(v * C + c, want.load(v * C + c) + value);
      sums[static_cast<size_t>(v * C + c)] += std::abs(value);
    }
  }
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = embedding_bwd_error_bound(terms[i / static_cast<size_t>(C)], sums[i]);
  GuardedBuffer sorted = sorted_ids(name + "/sorted", ids, T, V, num_tokens);
  Twins gpu;
  const EmbeddingBwdArgs args{.d_x = gpu(d_x),
                              .sorted = gpu(sorted),
                              .d_table = gpu(got),
                              .T = T,
                              .C = C,
                              .V = V,
                              .padding_id = padding_id,
                              .scratch = gpu(scratch)};
  run_twice(gpu, {&got}, [&] { embedding_bwd_cuda(args, gpu(flag).as<int32_t>(), nullptr); });
  expect_within(got, want, sums);
}

TEST(EmbeddingBwdCuda, MatchesTheReferenceWithinItsBound) {
  for (const DType dtype : cuda_types()) {
    for (const int64_t V : {1, 2, 63, 255, 256, 600}) {
      for (const int64_t C : {1, 17, 136}) {
        for (const bool adds : {false, true}) {
          check_table_gradient({1, C, V, 1, -1, dtype, Spread::kAll, adds});
          check_table_gradient({90, C, V, 61, V / 2, dtype, Spread::kAll, adds});
          check_table_gradient({257, C, V, 257, -1, dtype, Spread::kFew, adds});
          check_table_gradient({100, C, V, 0, -1, dtype, Spread::kAll, adds});
        }
      }
    }
  }
}

TEST(EmbeddingBwdCuda, TakesManyTokensAndLongRuns) {
  for (const Spread spread : {Spread::kAll, Spread::kFew, Spread::kOne}) {
    check_table_gradient({5000, 64, 3, 4990, -1, DType::kBF16, spread, true});
    check_table_gradient({5000, 64, 512, 5000, -1, DType::kF32, spread, false});
    check_table_gradient({4096, 24, 30522, 4096, 0, DType::kF32, spread, true});
    check_table_gradient({3000, 8, 70000, 2999, 69999, DType::kF16, spread, false});
  }
  check_table_gradient({2048, 1024, 100, 2048, -1, DType::kBF16, Spread::kAll, false});
  check_table_gradient({300, 2056, 40, 290, 3, DType::kBF16, Spread::kAll, true});
  check_table_gradient({300, 2052, 40, 290, 3, DType::kF32, Spread::kFew, false});
}

// Tests batches for which the kernel divides the sorted tokens into pieces of more than kEmbeddingPiece tokens: 64 for a batch of 40000,
// and 128 for the larger ones. One id occurs in 1094 pieces, which is more than a block loads at once.
TEST(EmbeddingBwdCuda, TakesLargeBatches) {
  for (const Spread spread : {Spread::kAll, Spread::kFew, Spread::kOne}) {
    check_table_gradient({40000, 8, 600, 39000, -1, DType::kBF16, spread, false});
    check_table_gradient({70000, 12, 30522, 70000, 0, DType::kF32, spread, true});
  }
  check_table_gradient({140000, 4, 2, 140000, -1, DType::kBF16, Spread::kOne, false});
}

TEST(EmbeddingBwdCuda, AddsUpTablesOfTwoRows) {
  for (const DType dtype : cuda_types()) {
    for (const Spread spread : {Spread::kAll, Spread::kOne}) {
      for (const bool adds : {false, true}) {
        for (const int64_t padding_id : {-1, 0, 1}) {
          check_table_gradient({3000, 264, 2, 2990, padding_id, dtype, spread, adds});
        }
        check_table_gradient({40, 8, 2, 0, -1, dtype, spread, adds});
        check_table_gradient({500, 1024, 1, 400, -1, dtype, spread, adds});
      }
    }
  }
}

struct RowsCase {
  int64_t T, V, num_ids;
  // For each rank, the index of its first row of the table and its number of rows.
  std::vector<std::pair<int64_t, int64_t>> parts;
};

void check_parts(const RowsCase& test) {
  constexpr int64_t C = 136;
  const int64_t T = test.T, V = test.V;
  GuardedBuffer d_x("rows_cuda/d_x", DType::kBF16, T * C), ids("rows_cuda/ids", DType::kI32, T),
      whole("rows_cuda/whole", DType::kF32, V * C),
      scratch = scratch_of(embedding_bwd_cuda_scratch_bytes(T, C));
  d_x.fill_normal();
  ids.fill_indices(test.num_ids);
  GuardedBuffer sorted = sorted_ids("rows_cuda/sorted", ids, T, V, T);
  const auto gradient = [&](GuardedBuffer& d_table, int64_t first_row, int64_t rows) {
    Twins gpu;
    const EmbeddingBwdArgs args{.d_x = gpu(d_x),
                                .sorted = gpu(sorted),
                                .d_table = gpu(d_table),
                                .T = T,
                                .C = C,
                                .V = rows,
                                .first_row = first_row,
                                .table_rows = V,
                                .padding_id = 3,
                                .scratch = gpu(scratch)};
    run_twice(gpu, {&d_table}, [&] { embedding_bwd_cuda(args, nullptr, nullptr); });
  };
  gradient(whole, 0, V);
  for (const auto& [first, rows] : test.parts) {
    GuardedBuffer part("rows_cuda/part", DType::kF32, rows * C);
    gradient(part, first, rows);
    for (int64_t i = 0; i < rows * C; ++i)
      ASSERT_EQ(part.load(i), whole.load(first * C + i)) << first << " " << i;
  }
}

// Each rank has some rows of a table. If there are only a few distinct ids, the kernel divides the tokens of an id among several pieces.
TEST(EmbeddingBwdCuda, SomeRowsHaveTheBitsOfTheWholeTable) {
  for (const int64_t num_ids : {97, 5}) {
    check_parts({257, 97, num_ids, {{0, 2}, {2, 2}, {4, 66}, {70, 27}}});
  }
  check_parts({1000, 2, 2, {{0, 1}, {1, 1}}});
}

// Captures the kernel in a CUDA graph as the first operation, after a copy, and after two streams were joined. The results must have the
// same bits as without a graph.
TEST(EmbeddingBwdCuda, IsCapturedAfterCopies) {
  constexpr int64_t T = 300, C = 64, V = 40;
  GuardedBuffer d_x("captured/d_x", DType::kBF16, T * C), ids("captured/ids", DType::kI32, T),
      want("captured/want", DType::kF32, V * C), got("captured/got", DType::kF32, V * C),
      copied("captured/copied", DType::kF32, V * C),
      scratch = scratch_of(embedding_bwd_cuda_scratch_bytes(T, C));
  d_x.fill_normal();
  ids.fill_indices(V);
  GuardedBuffer sorted = sorted_ids("captured/sorted", ids, T, V, T);
  Twins gpu;
  EmbeddingBwdArgs args{.d_x = gpu(d_x),
                        .sorted = gpu(sorted),
                        .d_table = gpu(want),
                        .T = T,
                        .C = C,
                        .V = V,
                        .scratch = gpu(scratch)};
  run_twice(gpu, {&want}, [&] { embedding_bwd_cuda(args, nullptr, nullptr); });
  args.d_table = gpu(got);
  const View side = gpu(copied);
  const auto copy = [&](cudaStream_t stream) {
    PLIMSOLL_CUDA(cudaMemcpyAsync(side.data, args.d_table.data, V * C * 4, cudaMemcpyDeviceToDevice, stream));
  };
  run_twice(gpu, {&got}, [&] {
    cudaStream_t stream = nullptr, other = nullptr;
    cudaEvent_t event = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t program = nullptr;
    PLIMSOLL_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    PLIMSOLL_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    PLIMSOLL_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    PLIMSOLL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    embedding_bwd_cuda(args, nullptr, stream);
    copy(stream);
    embedding_bwd_cuda(args, nullptr, stream);
    PLIMSOLL_CUDA(cudaEventRecord(event, stream));
    PLIMSOLL_CUDA(cudaStreamWaitEvent(other, event, 0));
    copy(other);
    PLIMSOLL_CUDA(cudaEventRecord(event, other));
    PLIMSOLL_CUDA(cudaMemsetAsync(args.scratch.data, 0, 16, stream));
    PLIMSOLL_CUDA(cudaStreamWaitEvent(stream, event, 0));
    embedding_bwd_cuda(args, nullptr, stream);
    PLIMSOLL_CUDA(cudaStreamEndCapture(stream, &graph));
    PLIMSOLL_CUDA(cudaGraphInstantiate(&program, graph, 0));
    for (int time = 0; time < 2; ++time) PLIMSOLL_CUDA(cudaGraphLaunch(program, stream));
    PLIMSOLL_CUDA(cudaStreamSynchronize(stream));
    PLIMSOLL_CUDA(cudaGraphExecDestroy(program));
    PLIMSOLL_CUDA(cudaGraphDestroy(graph));
    PLIMSOLL_CUDA(cudaEventDestroy(event));
    PLIMSOLL_CUDA(cudaStreamDestroy(other));
    PLIMSOLL_CUDA(cudaStreamDestroy(stream));
  });
  expect_same_bits(got, want);
}

// The sequences have lengths 3, 0, 1, 4 and 0 in T = 10 rows, so two rows are unused and two sequences are empty.
const std::vector<int64_t> kCuSeqlens = {0, 3, 3, 4, 8, 8};

TEST(FirstTokenCuda, EqualsTheReference) {
  constexpr int64_t T = 10, B = 5;
  GuardedBuffer cu_seqlens = integers(DType::kI32, kCuSeqlens);
  for (const int64_t C : {1, 19, 768}) {
    for (const DType from : cuda_types()) {
      for (const DType to : cuda_types()) {
        GuardedBuffer x("first_token/x", from, T * C), out("first_token/out", to, B * C),
            want("first_token/want", to, B * C), d_out("first_token/d_out", from, B * C),
            d_x("first_token/d_x", to, T * C), want_d_x("first_token/want_d_x", to, T * C);
        x.fill_normal();
        d_out.fill_normal();
        for (const SequenceRow row : {SequenceRow::kFirst, SequenceRow::kLast}) {
          first_token_fwd_ref({x.view(), cu_seqlens.view(), want.view(), T, C, B, row});
          first_token_bwd_ref({d_out.view(), cu_seqlens.view(), want_d_x.view(), T, C, B, row});
          Twins gpu;
          run_twice(gpu, {&out, &d_x}, [&] {
            first_token_fwd_cuda({gpu(x), gpu(cu_seqlens), gpu(out), T, C, B, row}, nullptr);
            first_token_bwd_cuda({gpu(d_out), gpu(cu_seqlens), gpu(d_x), T, C, B, row}, nullptr);
          });
          expect_same_bits(out, want);
          expect_same_bits(d_x, want_d_x);
        }
      }
    }
  }
}

TEST(SequenceMeanCuda, IsWithinItsBoundOfTheReference) {
  constexpr int64_t T = 210, B = 5;
  const std::vector<int64_t> starts{0, 3, 3, 4, 204, 204};
  GuardedBuffer cu_seqlens = integers(DType::kI32, starts);
  for (const int64_t C : {1, 19, 768}) {
    for (const DType from : cuda_types()) {
      for (const DType to : cuda_types()) {
        GuardedBuffer x("sequence_mean/x", from, T * C), y("sequence_mean/y", to, B * C),
            want("sequence_mean/want", DType::kF64, B * C), d_y("sequence_mean/d_y", from, B * C),
            d_x("sequence_mean/d_x", to, T * C), want_d_x("sequence_mean/want_d_x", DType::kF64, T * C);
        x.fill_normal(0.5, 1.0);
        d_y.fill_normal();
        sequence_mean_fwd_ref({x.view(), cu_seqlens.view(), want.view(), T, C, B});
        sequence_mean_bwd_ref({d_y.view(), cu_seqlens.view(), want_d_x.view(), T, C, B});
        std::vector<double> bounds, d_x_bounds;
        for (size_t b = 0; b < static_cast<size_t>(B); ++b) {
          const int64_t rows = starts[b + 1] - starts[b];
          for (int64_t c = 0; c < C; ++c) {
            double mean_abs = 0.0;
            for (int64_t t = starts[b]; t < starts[b + 1]; ++t)
              mean_abs += std::abs(x.load(t * C + c)) / static_cast<double>(rows);
            const double mean = want.load(static_cast<int64_t>(b) * C + c);
            bounds.push_back(sequence_mean_error_bound(rows, mean_abs, mean, to));
          }
        }
        for (int64_t i = 0; i < T * C; ++i)
          d_x_bounds.push_back(sequence_mean_bwd_error_bound(want_d_x.load(i), to));
        Twins gpu;
        run_twice(gpu, {&y, &d_x}, [&] {
          sequence_mean_fwd_cuda({gpu(x), gpu(cu_seqlens), gpu(y), T, C, B}, nullptr);
          sequence_mean_bwd_cuda({gpu(d_y), gpu(cu_seqlens), gpu(d_x), T, C, B}, nullptr);
        });
        const auto forward = compare(y, want, limit_of(bounds, Zeros::kExpected));
        EXPECT_TRUE(forward.ok()) << forward;
        const auto backward = compare(d_x, want_d_x, limit_of(d_x_bounds, Zeros::kExpected));
        EXPECT_TRUE(backward.ok()) << backward;
      }
    }
  }
}

TEST(RopeCuda, IsWithinItsBoundsOfTheReference) {
  constexpr int64_t T = 300, B = 3;
  GuardedBuffer cu_seqlens = integers(DType::kI32, {0, 100, 100, 290}),
                positions("positions", DType::kI32, T);
  for (int64_t t = 0; t < T; ++t)
    positions.view().store(t, static_cast<double>(t < 100 ? t : t < 290 ? t - 100 : 0));
  for (const auto& [H, all, D] :
       std::vector<std::array<int64_t, 3>>{{2, 3, 6}, {5, 6, 34}, {3, 4, 64}, {10, 12, 128}}) {
    const int64_t N = all * D;
    for (const RopeTypeName& row : kRopeTypeNames) {
      RopeParameters parameters{.type = row.type, .theta = 100.0, .factor = 4.0, .original = 128.0};
      parameters.short_factor.assign(static_cast<size_t>(D / 2), 1.5);
      parameters.long_factor.assign(static_cast<size_t>(D / 2), 3.0);
      const RopeFrequencies frequencies = rope_frequencies(parameters, D);
      GuardedBuffer table("table", DType::kF32, T * D), want_table("want table", DType::kF64, T * D);
      Twins gpu;
      rope_table_ref({positions.view(), cu_seqlens.view(), want_table.view(), T, B, D, frequencies});
      run_twice(gpu, {&table}, [&] {
        rope_table_cuda({gpu(positions), gpu(cu_seqlens), gpu(table), T, B, D, frequencies}, nullptr);
      });
      std::vector<double> table_bounds;
      for (int64_t at = 0; at < T * D; ++at) {
        table_bounds.push_back(
            rope_table_error_bound(frequencies.scale, positions.load(at / D), DType::kF32));
      }
      expect_within(table, want_table, table_bounds);
      if (row.type != RopeType::kDefault) continue;
      for (const DType dtype : cuda_types()) {
        for (const RopeDirection direction : {RopeDirection::kForward, RopeDirection::kTransposed}) {
          GuardedBuffer x(fmt::format("rope_cuda/{} {} {}", H, D, dtype_name(dtype)), dtype, T * N);
          GuardedBuffer y("y", dtype, T * N), want("want", DType::kF64, T * N);
          x.fill_normal();
          RopeArgs args{
              .x = x.view(), .table = table.view(), .y = want.view(), .T = T, .N = N, .H = H, .D = D};
          args.direction = direction;
          rope_ref(args);
          Twins twins;
          args.x = twins(x), args.table = twins(table), args.y = twins(y);
          run_twice(twins, {&y}, [&] { rope_cuda(args, nullptr); });
          std::vector<double> bounds;
          for (int64_t at = 0; at < T * N; ++at) {
            const int64_t t = at / N, n = at % N, i = n % (D / 2);
            const bool rotated = n < H * D;
            const double other = rotated ? x.load(n % D >= D / 2 ? at - D / 2 : at + D / 2) : 0.0;
            const double bound = rope_error_bound(x.load(at), other, table.load(t * D + i),
                                                  table.load(t * D + D / 2 + i), want.load(at), dtype);
            bounds.push_back(rotated ? bound : 0.0);
          }
          expect_within(y, want, bounds);
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
