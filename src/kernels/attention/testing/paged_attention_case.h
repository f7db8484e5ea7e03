// Cases of paged attention for the tests of all implementations: random keys, values and queries in randomly ordered pages, with NaN in
// every slot and row that must not be read, and the error bound of the contract. For tests only. A PagedCase owns its buffers.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention/paged_attention.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

struct PagedShape {
  std::vector<int64_t> lengths;   // tokens per sequence, including the new ones (L_b)
  std::vector<int64_t> new_rows;  // new rows per sequence (n_b)
  int64_t heads = 2;
  int64_t kv_heads = 2;
  int64_t head_dim = 16;
  int64_t page_size = 4;
  int64_t window = 0;
  int64_t tail = 0;  // number of tail rows, which are unused rows after the new tokens
  // The cache has this number of pages that no sequence uses, and each row of the page table has this number of unused entries.
  int64_t extra_pages = 3;
  double spread = 1.0;  // factor of the elements of q; larger values give scores that are further apart
};

class PagedCase {
 public:
  PagedCase(const std::string& name, const PagedShape& shape, DType dtype, uint32_t order = 1)
      : shape_(shape), name_(name) {
    const auto sequences = static_cast<int64_t>(shape.lengths.size());
    dims.tokens = std::reduce(shape.new_rows.begin(), shape.new_rows.end()) + shape.tail;
    dims.sequences = sequences;
    dims.longest = *std::max_element(shape.new_rows.begin(), shape.new_rows.end());
    dims.heads = shape.heads, dims.kv_heads = shape.kv_heads, dims.head_dim = shape.head_dim;
    dims.page_size = shape.page_size, dims.window = shape.window;
    std::vector<int64_t> num_pages;
    for (const int64_t length : shape.lengths) {
      num_pages.push_back((length + shape.page_size - 1) / shape.page_size);
      dims.max_pages = std::max(dims.max_pages, num_pages.back());
      dims.num_pages += num_pages.back();
    }
    dims.num_pages += shape.extra_pages;
    dims.max_pages += shape.extra_pages;
    cu_seqlens = make("cu", DType::kI32, sequences + 1);
    lengths = make("lengths", DType::kI32, sequences);
    page_table = make("table", DType::kI32, sequences * dims.max_pages);
    copy_from = make("copy_from", DType::kI32, sequences);
    qkv = make("qkv", dtype, dims.tokens * row_width());
    cache = make("cache", dtype, dims.num_pages * 2 * token_width() * dims.page_size);
    o = make("o", dtype, dims.tokens * dims.heads * dims.head_dim);
    std::vector<int32_t> pages(static_cast<size_t>(dims.num_pages));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), std::mt19937(order));
    page_table->fill(-1);
    copy_from->fill(-1);
    auto page = pages.begin();
    int64_t row = 0;
    for (int64_t b = 0; b < sequences; ++b) {
      cu_seqlens->view().store(b, static_cast<double>(row));
      lengths->view().store(b, static_cast<double>(length(b)));
      for (int64_t i = 0; i < num_pages[static_cast<size_t>(b)]; ++i)
        page_table->view().store(b * dims.max_pages + i, *page++);
      row += new_rows(b);
    }
    cu_seqlens->view().store(sequences, static_cast<double>(row));
    fill();
  }

  int64_t length(int64_t b) const { return shape_.lengths[static_cast<size_t>(b)]; }
  int64_t new_rows(int64_t b) const { return shape_.new_rows[static_cast<size_t>(b)]; }
  int64_t token_width() const { return dims.kv_heads * dims.head_dim; }
  int64_t row_width() const { return dims.heads * dims.head_dim + 2 * token_width(); }
  int64_t slot_of(int64_t b, int64_t j, int64_t part) const {
    const auto page = static_cast<int64_t>(page_table->load(b * dims.max_pages + j / dims.page_size));
    return cache_element(dims, page, part, j % dims.page_size);
  }

  AppendKvArgs append_args() {
    return {.dims = dims,
            .qkv = qkv->view(),
            .cu_seqlens = cu_seqlens->view(),
            .page_table = page_table->view(),
            .lengths = lengths->view(),
            .copy_from = copy_from->view(),
            .cache = cache->view()};
  }
  PagedAttentionArgs attention_args(View scratch, int64_t scratch_bytes) {
    return {.dims = dims,
            .scale = scale(),
            .qkv = qkv->view(),
            .cu_seqlens = cu_seqlens->view(),
            .page_table = page_table->view(),
            .lengths = lengths->view(),
            .cache = cache->view(),
            .o = o->view(),
            .scratch = scratch,
            .scratch_bytes = scratch_bytes};
  }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(dims.head_dim)); }

  // Returns o as the reference computes it from the same elements in double precision. Requires: the keys and values of the new rows were
  // written to the cache.
  std::vector<double> expected() const {
    GuardedBuffer wide_qkv(name_ + "/qkv64", DType::kF64, qkv->count()),
        wide_cache(name_ + "/cache64", DType::kF64, cache->count());
    GuardedBuffer wide_o(name_ + "/o64", DType::kF64, o->count());
    wide_qkv.assign(qkv->to_doubles());
    wide_cache.assign(cache->to_doubles());
    const int64_t bytes = paged_attention_ref_scratch_bytes(dims);
    GuardedBuffer scratch(name_ + "/scratch64", DType::kF64, bytes / 8);
    paged_attention_ref({.dims = dims,
                         .scale = scale(),
                         .qkv = wide_qkv.view(),
                         .cu_seqlens = cu_seqlens->view(),
                         .page_table = page_table->view(),
                         .lengths = lengths->view(),
                         .cache = wide_cache.view(),
                         .o = wide_o.view(),
                         .scratch = scratch.view(),
                         .scratch_bytes = bytes});
    return wide_o.to_doubles();
  }

  // Returns the largest error that the contract allows, for each element of o.
  std::vector<double> bounds(const std::vector<double>& want, double u) const {
    const double r = o->dtype() == DType::kF32 ? 0.0 : o->dtype() == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    const auto head_dim = static_cast<double>(dims.head_dim);
    std::vector<double> bounds(want.size(), 0.0);
    for (int64_t b = 0; b < dims.sequences; ++b) {
      for (int64_t i = 0; i < new_rows(b); ++i) {
        const int64_t t = length(b) - new_rows(b) + i;
        const int64_t first = dims.window > 0 ? std::max<int64_t>(0, t - dims.window + 1) : 0;
        const auto row = static_cast<int64_t>(cu_seqlens->load(b)) + i;
        for (int64_t h = 0; h < dims.heads; ++h) {
          const int64_t column = h / (dims.heads / dims.kv_heads) * dims.head_dim;
          std::vector<double> x;
          double largest_sum = 0.0;
          for (int64_t j = first; j <= t; ++j) {
            double dot = 0.0, sum = 0.0;
            for (int64_t d = 0; d < dims.head_dim; ++d) {
              const double term = qkv->load(row * row_width() + h * dims.head_dim + d) *
                                  cache->load(slot_of(b, j, 0) + column + d);
              dot += term;
              sum += std::abs(term);
            }
            x.push_back(scale() * dot);
            largest_sum = std::max(largest_sum, scale() * sum);
          }
          const double largest = *std::max_element(x.begin(), x.end());
          double total = 0.0;
          for (double& value : x) total += value = std::exp(value - largest);
          const auto n = static_cast<double>(x.size());
          const double e = (head_dim + 12.0) * u * largest_sum;
          const double parts = n / 64.0 + 2.0;
          for (int64_t d = 0; d < dims.head_dim; ++d) {
            double sum = 0.0;
            for (int64_t j = first; j <= t; ++j) {
              sum += x[static_cast<size_t>(j - first)] / total *
                     std::abs(cache->load(slot_of(b, j, 1) + column + d));
            }
            const auto at = static_cast<size_t>((row * dims.heads + h) * dims.head_dim + d);
            bounds[at] = (2.0 * e + (2.0 * n + 32.0 + 12.0 * parts) * u) * sum + r * std::abs(want[at]);
          }
        }
      }
    }
    return bounds;
  }

  PagedAttentionDims dims;
  std::unique_ptr<GuardedBuffer> qkv, cu_seqlens, page_table, lengths, copy_from, cache, o;

 private:
  std::unique_ptr<GuardedBuffer> make(const char* tensor, DType dtype, int64_t count) const {
    return std::make_unique<GuardedBuffer>(name_ + "/" + tensor, dtype, count);
  }

  // Fills the cache with random numbers that depend on the sequence and the position of a token, not on the page in which it is stored.
  void fill() {
    GuardedBuffer old(name_ + "/old", DType::kF64, 2 * token_width());
    for (int64_t b = 0; b < dims.sequences; ++b) {
      for (int64_t j = 0; j < length(b) - new_rows(b); ++j) {
        fill_normal(old.view(), old.count(), name_ + std::to_string(b) + "/" + std::to_string(j));
        for (int64_t part = 0; part < 2; ++part) {
          for (int64_t d = 0; d < token_width(); ++d) {
            cache->view().store(slot_of(b, j, part) + d, old.load(part * token_width() + d));
          }
        }
      }
    }
    qkv->fill_normal();
    const int64_t width = dims.heads * dims.head_dim;
    for (int64_t row = 0; row < dims.tokens; ++row) {
      const bool is_tail = row >= static_cast<int64_t>(cu_seqlens->load(dims.sequences));
      for (int64_t c = 0; c < row_width(); ++c) {
        const int64_t at = row * row_width() + c;
        if (c < width) qkv->view().store(at, qkv->load(at) * shape_.spread);
        if (is_tail) qkv->view().store(at, std::numeric_limits<double>::quiet_NaN());
      }
    }
  }

  PagedShape shape_;
  std::string name_;
};

}  // namespace plimsoll::test
