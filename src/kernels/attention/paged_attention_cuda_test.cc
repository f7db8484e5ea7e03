#include <gtest/gtest.h>

#include <cstring>

#include "kernels/attention/paged_attention.h"
#include "kernels/attention/testing/paged_attention_case.h"
#include "tests/support/device_buffer.h"

namespace plimsoll {
namespace {

using test::DeviceBuffer;
using test::GuardedBuffer;
using test::PagedCase;
using test::PagedShape;

void check(const std::string& name, const PagedShape& shape, bool shares_pages = false) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(name + " " + std::string(dtype_name(dtype)));
    PagedCase c(name, shape, dtype);
    PagedCase on_host(name, shape, dtype);
    if (shares_pages) {
      for (PagedCase* each : {&c, &on_host}) {
        const auto last = static_cast<int64_t>(shape.lengths.size()) - 1;
        const double shared =
            each->page_table->load(last * each->dims.max_pages + (shape.lengths[0] - 1) / shape.page_size);
        for (int64_t b = 0; b < last; ++b) each->copy_from->view().store(b, shared);
      }
    }
    append_kv_ref(on_host.append_args());
    const int64_t bytes = paged_attention_cuda_scratch_bytes(c.dims);
    GuardedBuffer scratch(name + "/scratch", DType::kU8, bytes);
    DeviceBuffer qkv(*c.qkv), cu(*c.cu_seqlens), table(*c.page_table), lengths(*c.lengths),
        copy_from(*c.copy_from), cache(*c.cache), o(*c.o), device_scratch(scratch);
    append_kv_cuda({.dims = c.dims,
                    .qkv = qkv.view(),
                    .cu_seqlens = cu.view(),
                    .page_table = table.view(),
                    .lengths = lengths.view(),
                    .copy_from = copy_from.view(),
                    .cache = cache.view()},
                   nullptr);
    const PagedAttentionArgs args{.dims = c.dims,
                                  .scale = c.scale(),
                                  .qkv = qkv.view(),
                                  .cu_seqlens = cu.view(),
                                  .page_table = table.view(),
                                  .lengths = lengths.view(),
                                  .cache = cache.view(),
                                  .o = o.view(),
                                  .scratch = bytes > 0 ? device_scratch.view() : View{},
                                  .scratch_bytes = bytes};
    paged_attention_cuda(args, nullptr);
    cache.download();
    o.download();
    device_scratch.download();
    EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
    EXPECT_EQ(c.cache->broken_guard(), GuardedBuffer::kIntact);
    EXPECT_EQ(std::memcmp(c.cache->view().data, on_host.cache->view().data,
                          static_cast<size_t>(c.cache->size_bytes())),
              0);
    const std::vector<double> want = c.expected();
    const std::vector<double> bounds = c.bounds(want, 0x1p-22);
    const auto result = test::compare(*c.o, want, {.per_element = bounds, .zeros = test::Zeros::kExpected});
    EXPECT_TRUE(result.ok()) << result;
  }
}

TEST(PagedAttentionCuda, DecodingStepsAndPrefills) {
  check("paged gpu/decode",
        {.lengths = {1, 3, 4, 5, 8, 63, 64, 65}, .new_rows = std::vector<int64_t>(8, 1), .tail = 2});
  check("paged gpu/prefill", {.lengths = {7, 30, 1, 19, 5}, .new_rows = {7, 9, 1, 19, 0}, .tail = 3});
}
TEST(PagedAttentionCuda, SharedHeadsOfKeysAndValues) {
  for (const int64_t kv_heads : {1, 2, 3, 6, 12}) {
    check("paged gpu/groups " + std::to_string(kv_heads),
          {.lengths = {40, 7}, .new_rows = {1, 3}, .heads = 12, .kv_heads = kv_heads, .head_dim = 24});
  }
}
TEST(PagedAttentionCuda, HeadSizes) {
  for (const int64_t head_dim : {1, 3, 8, 17, 32, 64, 80, 96, 128, 256}) {
    check("paged gpu/head " + std::to_string(head_dim),
          {.lengths = {33, 6}, .new_rows = {1, 2}, .head_dim = head_dim});
  }
}
TEST(PagedAttentionCuda, SequencesOfSeveralPartsAndWindows) {
  for (const int64_t window : {0, 1, 7, 256, 300}) {
    check("paged gpu/window " + std::to_string(window), {.lengths = {255, 256, 257, 513, 1100, 2},
                                                         .new_rows = {1, 1, 1, 1, 2, 1},
                                                         .heads = 4,
                                                         .kv_heads = 2,
                                                         .page_size = 16,
                                                         .window = window});
  }
}
TEST(PagedAttentionCuda, BeamsContinueCopiesOfASharedPage) {
  check("paged gpu/beams", {.lengths = {7, 7, 7}, .new_rows = {1, 1, 1}}, true);
}

}  // namespace
}  // namespace plimsoll
