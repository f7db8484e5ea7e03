#include "kernels/attention/paged_attention.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "device/cpu/parallel.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/first_token_attention.h"
#include "kernels/attention/testing/paged_attention_case.h"
#include "kernels/catalog/catalog.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;
using test::PagedCase;
using test::PagedShape;

// Lists the implementations in the kernel catalog that the tests in this executable must run: all rows of these kernels for a CPU
// (tests/support/kernel_rows.h).
#define PLIMSOLL_ROWS "kernels/attention/attention_catalog.inc"
const test::TestedRows kTestedRows(
    {
#include "kernels/catalog/cpu_functions.inc"
    },
    {"append_kv", "paged_attention"});

// Sets the number of threads. The destructor restores the previous number.
class Threads {
 public:
  explicit Threads(int n) : before_(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before_); }

 private:
  int before_;
};

template <typename Kernel>
void attend(PagedCase* c, const std::string& name, const Kernel& paged_attention) {
  const int64_t bytes = paged_attention_cpu_scratch_bytes(c->dims, num_threads());
  GuardedBuffer scratch(name + "/scratch", DType::kU8, bytes);
  paged_attention(c->attention_args(scratch.view(), bytes));
  EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
}
void attend(PagedCase* c, const std::string& name) {
  attend(c, name, paged_attention_cpu);
}

// Runs append_kv of the reference and of a fast implementation and compares every byte of the cache. Then runs paged_attention of both and
// compares the results within the contract's error bound.
template <typename Append, typename Attend>
void check_kernels(const std::string& name, const PagedShape& shape, DType dtype, const Append& append_kv,
                   const Attend& paged_attention) {
  PagedCase c(name, shape, dtype);
  PagedCase by_reference(name, shape, dtype);
  append_kv(c.append_args());
  append_kv_ref(by_reference.append_args());
  EXPECT_EQ(std::memcmp(c.cache->view().data, by_reference.cache->view().data,
                        static_cast<size_t>(c.cache->size_bytes())),
            0);
  EXPECT_EQ(c.cache->broken_guard(), GuardedBuffer::kIntact);
  const std::vector<double> want = c.expected();
  const std::vector<double> bounds = c.bounds(want, 0x1p-24);
  std::vector<double> first;
  for (const int threads : {1, 2, 5}) {
    const Threads set(threads);
    c.o->poison();
    attend(&c, name, paged_attention);
    const auto result = test::compare(*c.o, want, {.per_element = bounds, .zeros = test::Zeros::kExpected});
    EXPECT_TRUE(result.ok()) << result;
    if (first.empty()) first = c.o->to_doubles();
    EXPECT_EQ(c.o->to_doubles(), first) << "other bits with " << threads << " threads";
  }
}

void check(const std::string& name, const PagedShape& shape) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(name + " " + std::string(dtype_name(dtype)));
    const PagedAttentionDims dims = PagedCase(name, shape, dtype).dims;
    test::FastRows(append_kv_ref, paged_attention_ref)
        .for_each(dtype, dims, [&](const auto& append_kv, const auto& paged_attention) {
          check_kernels(name, shape, dtype, append_kv, paged_attention);
        });
  }
}

TEST(PagedAttention, DecodingStepsOfSequencesOfAllLengths) {
  check("paged/decode",
        {.lengths = {1, 3, 4, 5, 8, 63, 64, 65}, .new_rows = std::vector<int64_t>(8, 1), .tail = 2});
}
TEST(PagedAttention, PrefillAndPartsOfAPrefill) {
  check("paged/prefill", {.lengths = {7, 30, 1, 19}, .new_rows = {7, 9, 1, 19}, .tail = 3});
  check("paged/long prefill",
        {.lengths = {300, 290}, .new_rows = {300, 21}, .heads = 3, .kv_heads = 1, .head_dim = 20});
}
TEST(PagedAttention, SequencesWithoutNewRows) {
  check("paged/empty", {.lengths = {5, 9, 2}, .new_rows = {0, 1, 0}, .tail = 1});
  check("paged/all empty", {.lengths = {5}, .new_rows = {0}, .tail = 2});
}
TEST(PagedAttention, SharedHeadsOfKeysAndValues) {
  for (const int64_t kv_heads : {1, 2, 3, 6, 12}) {
    check("paged/groups " + std::to_string(kv_heads),
          {.lengths = {40, 7}, .new_rows = {1, 3}, .heads = 12, .kv_heads = kv_heads, .head_dim = 24});
  }
}
TEST(PagedAttention, HeadSizes) {
  for (const int64_t head_dim : {1, 3, 8, 17, 32, 64, 80, 96, 128, 256}) {
    check("paged/head " + std::to_string(head_dim),
          {.lengths = {33, 6}, .new_rows = {1, 2}, .head_dim = head_dim});
  }
}
TEST(PagedAttention, PageSizes) {
  for (const int64_t page_size : {1, 2, 5, 16, 64, 300}) {
    check("paged/page " + std::to_string(page_size),
          {.lengths = {129, 70}, .new_rows = {1, 5}, .page_size = page_size});
  }
}
TEST(PagedAttention, SequencesOfSeveralParts) {
  check("paged/parts", {.lengths = {255, 256, 257, 511, 513, 1100, 2},
                        .new_rows = {1, 1, 1, 1, 1, 2, 1},
                        .heads = 4,
                        .kv_heads = 2,
                        .page_size = 16});
  check("paged/distant scores", {.lengths = {700, 20}, .new_rows = {1, 1}, .page_size = 16, .spread = 30.0});
}
TEST(PagedAttention, Windows) {
  for (const int64_t window : {1, 2, 7, 256, 300, 5000}) {
    check("paged/window " + std::to_string(window),
          {.lengths = {520, 300, 3, 40}, .new_rows = {1, 12, 3, 1}, .page_size = 8, .window = window});
  }
}

// The output of a row must have the same bits if the tokens arrive one by one instead of in one call, if they are in other pages, or if
// other sequences are in the batch.
TEST(PagedAttention, BitsDependOnTheSequenceOnly) {
  const std::string name = "paged/alone";
  const PagedShape whole{
      .lengths = {270}, .new_rows = {270}, .heads = 4, .kv_heads = 2, .page_size = 16, .window = 100};
  PagedCase all(name, whole, DType::kF32);
  append_kv_cpu(all.append_args());
  attend(&all, name);
  const std::vector<double> want = all.o->to_doubles();
  const int64_t width = all.dims.heads * all.dims.head_dim;
  PagedShape step = whole;
  step.page_size = 5;
  for (const int64_t length : {1, 2, 7, 100, 101, 256, 257, 270}) {
    step.lengths = {length, 12};
    step.new_rows = {1, 3};
    PagedCase c(name, step, DType::kF32, 9);
    // Copies the keys and values of the first sequence from `all`, the test case in which all tokens of the sequence are new in one call.
    for (int64_t j = 0; j < length; ++j) {
      for (int64_t part = 0; part < 2; ++part) {
        for (int64_t d = 0; d < c.token_width(); ++d) {
          c.cache->view().store(c.slot_of(0, j, part) + d, all.cache->load(all.slot_of(0, j, part) + d));
        }
      }
    }
    for (int64_t d = 0; d < c.row_width(); ++d)
      c.qkv->view().store(d, all.qkv->load((length - 1) * all.row_width() + d));
    append_kv_cpu(c.append_args());
    attend(&c, name);
    for (int64_t d = 0; d < width; ++d) {
      ASSERT_EQ(c.o->load(d), want[static_cast<size_t>((length - 1) * width + d)])
          << "row " << length - 1 << ", column " << d;
    }
  }
}

// If all tokens of a sequence are new, paged attention must equal causal attention without a cache.
TEST(PagedAttention, TheReferenceIsCausalAttention) {
  PagedCase c("paged/causal", {.lengths = {9, 1, 14}, .new_rows = {9, 1, 14}, .heads = 3, .kv_heads = 3},
              DType::kF64);
  append_kv_ref(c.append_args());
  const std::vector<double> paged = c.expected();
  const AttentionDims dims{
      .tokens = c.dims.tokens, .sequences = 3, .longest = 14, .heads = 3, .head_dim = 16};
  const int64_t bytes = attention_fwd_ref_scratch_bytes(dims);
  GuardedBuffer scratch("paged/causal/scratch", DType::kU8, bytes),
      o("paged/causal/o2", DType::kF64, c.o->count());
  const auto part = [&](int64_t i) { return ConstRows{c.qkv->view_from(i * 48), 144}; };
  attention_fwd_ref(
      {.dims = dims,
       .options = {.scale = c.scale(), .mask = AttentionMask::kCausal, .dropout = 0.0, .random = {}},
       .q = part(0),
       .k = part(1),
       .v = part(2),
       .cu_seqlens = c.cu_seqlens->view(),
       .o = o.view(),
       .lse = {},
       .scratch = scratch.view(),
       .scratch_bytes = bytes});
  const auto result = test::compare(o, paged, {.absolute = 1e-14});
  EXPECT_TRUE(result.ok()) << result;
}

TEST(AppendKv, ContinuesACopyOfASharedPage) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    // Three beams share the first page, which is only partly filled. Two beams must write their new token into a copy of the page, and the
    // last one into the shared page itself.
    PagedCase c("append/copy", {.lengths = {7, 7, 7}, .new_rows = {1, 1, 1}}, dtype);
    PagedCase by_reference("append/copy", {.lengths = {7, 7, 7}, .new_rows = {1, 1, 1}}, dtype);
    for (PagedCase* each : {&c, &by_reference}) {
      const double shared = each->page_table->load(2 * each->dims.max_pages + 1);
      each->copy_from->view().store(0, shared);
      each->copy_from->view().store(1, shared);
    }
    append_kv_cpu(c.append_args());
    append_kv_ref(by_reference.append_args());
    EXPECT_EQ(std::memcmp(c.cache->view().data, by_reference.cache->view().data,
                          static_cast<size_t>(c.cache->size_bytes())),
              0);
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t d = 0; d < c.token_width(); ++d) {
        for (int64_t j = 4; j < 6; ++j) {
          EXPECT_EQ(c.cache->load(c.slot_of(b, j, 1) + d), c.cache->load(c.slot_of(2, j, 1) + d));
        }
        EXPECT_EQ(c.cache->load(c.slot_of(b, 6, 0) + d), c.qkv->load(b * c.row_width() + 2 * 16 + d));
        EXPECT_EQ(c.cache->load(c.slot_of(b, 6, 1) + d), c.qkv->load(b * c.row_width() + 4 * 16 + d));
      }
    }
  }
}

TEST(PagedAttention, WrongArgumentsAreInternalErrors) {
  const PagedShape shape{.lengths = {9}, .new_rows = {2}};
  const auto fails = [&](const std::function<void(PagedCase&)>& change) {
    PagedCase c("paged/wrong", shape, DType::kF32);
    change(c);
    EXPECT_THROW(append_kv_cpu(c.append_args()), Error);
    EXPECT_THROW(append_kv_ref(c.append_args()), Error);
    GuardedBuffer scratch("paged/wrong/scratch", DType::kU8, 1 << 20);
    EXPECT_THROW(paged_attention_cpu(c.attention_args(scratch.view(), 1 << 20)), Error);
    EXPECT_THROW(paged_attention_ref(c.attention_args(scratch.view(), 1 << 20)), Error);
  };
  fails([](PagedCase& c) { c.page_table->view().store(1, static_cast<double>(c.dims.num_pages)); });
  fails([](PagedCase& c) { c.page_table->view().store(2, -1); });
  fails([](PagedCase& c) { c.lengths->view().store(0, 1); });
  fails([](PagedCase& c) { c.lengths->view().store(0, 1000); });
  fails([](PagedCase& c) { c.cu_seqlens->view().store(1, 3); });
  fails([](PagedCase& c) { c.dims.kv_heads = 3; });
  fails([](PagedCase& c) { c.dims.longest = 1; });
  PagedCase c("paged/scratch", shape, DType::kF32);
  append_kv_cpu(c.append_args());
  EXPECT_THROW(paged_attention_cpu(c.attention_args({}, 0)), Error);
}

TEST(PagedAttention, TheCatalogSelectsAndMeasures) {
  const PagedAttentionDims dims{.tokens = 4,
                                .sequences = 4,
                                .longest = 1,
                                .heads = 8,
                                .kv_heads = 2,
                                .head_dim = 64,
                                .num_pages = 64,
                                .page_size = 16,
                                .max_pages = 32,
                                .window = 0};
  Problem problem{.kernel = "paged_attention", .dtype = DType::kBF16, .target = {}, .family = dims};
  problem.target.num_threads = 8;
  const Selection selection = select_kernel(problem);
  ASSERT_NE(selection.row, nullptr);
  EXPECT_EQ(selection.row->implementation, "paged_attention_cpu");
  EXPECT_EQ(selection.scratch_bytes, paged_attention_cpu_scratch_bytes(dims, 8));
  EXPECT_GT(selection.scratch_bytes, paged_attention_cpu_scratch_bytes(dims, 1));
}

}  // namespace
}  // namespace plimsoll
