#include "bench/kernels/bench_row_words.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/check.h"
#include "kernels/catalog/catalog.h"

namespace plimsoll {
namespace {

constexpr std::string_view kUsageLine = "usage: kernel_rows_bench [--repetitions N] [ROW...]";

int repetitions_of(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1)
    throw_error(ErrorCode::kUsage, "--repetitions {}: give a whole number of at least 1; {}", text,
                kUsageLine);
  return value;
}

}  // namespace

BenchRowWords read_bench_row_words(const std::vector<std::string>& words) {
  BenchRowWords read;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--repetitions") {
      if (i + 1 == words.size())
        throw_error(ErrorCode::kUsage, "--repetitions needs a number; {}", kUsageLine);
      read.repetitions = repetitions_of(words[++i]);
      continue;
    }
    if (word.starts_with('-')) throw_error(ErrorCode::kUsage, "unknown option '{}'; {}", word, kUsageLine);
    const bool is_known = !word.empty() && std::ranges::any_of(kernel_rows(), [&](const KernelRow& row) {
      return row.implementation.find(word) != std::string_view::npos;
    });
    if (!is_known) {
      throw_error(
          ErrorCode::kUsage,
          "'{}' is part of no name of a row; docs/KERNELS.md lists the rows of the kernel catalog; {}", word,
          kUsageLine);
    }
    read.rows.push_back(word);
  }
  return read;
}

}  // namespace plimsoll
