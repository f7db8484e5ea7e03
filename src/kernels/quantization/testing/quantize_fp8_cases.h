// Matrices for tests of quantize_fp8. For tests only; not thread-safe.
#pragma once

#include <string>

#include "kernels/quantization/quantize_fp8.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

struct Fp8Case {
  Fp8Case(DType dtype, DType format_of_codes, int64_t num_rows_of_x, int64_t num_columns, int64_t num_counted)
      : format(format_of_codes),
        rows(num_rows_of_x),
        columns(num_columns),
        num_rows(num_counted),
        x(name("x", dtype), dtype, rows * columns),
        q(name("q", dtype), format, rows * columns),
        q_t(name("q_t", dtype), format, rows * columns),
        scale(name("scale", dtype), DType::kF32, 2) {
    x.fill_normal();
    // Every third number is made small, so that the magnitudes cover many powers of two, as in a real activation, and some become subnormal
    // codes.
    for (int64_t i = 0; i < rows * columns; i += 3) x.view().store(i, x.load(i) * 0x1p-9);
  }

  QuantizeFp8Args args() {
    return {.x = x.view(),
            .known = {},
            .q = q.view(),
            .q_t = q_t.view(),
            .scale = scale.view(),
            .rows = rows,
            .columns = columns,
            .format = format,
            .num_rows = num_rows};
  }
  int64_t counted_rows() const { return num_rows < 0 ? rows : num_rows; }

  std::string name(const char* operand, DType dtype) const {
    return std::string("quantize_fp8/") + operand + "/" + std::string(dtype_name(dtype)) + "/" +
           std::string(dtype_name(format)) + "/" + std::to_string(rows) + "x" + std::to_string(columns);
  }

  DType format;
  int64_t rows, columns, num_rows;
  GuardedBuffer x, q, q_t, scale;
};

// Calls check for matrices that do not fill a tile of the kernel, that fill one and that fill several. All, some or none of the rows count
// for amax.
template <typename Check>
void for_each_fp8_case(DType dtype, const Check& check) {
  struct Size {
    int64_t rows, columns, num_rows;
  };
  constexpr Size kSizes[] = {{16, 16, -1}, {16, 64, 16},   {128, 64, -1},   {144, 80, 130},  {32, 208, 1},
                             {48, 32, 0},  {400, 48, 399}, {1024, 112, -1}, {256, 1024, 256}};
  for (const DType format : {DType::kE4M3, DType::kE5M2}) {
    for (const Size& size : kSizes) {
      Fp8Case c(dtype, format, size.rows, size.columns, size.num_rows);
      check(c);
    }
  }
}

}  // namespace plimsoll::test
