// Checks, once per call, that the operands have types that the fast kernels accept, and calls kernels with the corresponding C++ types.
// Thread-safe: pure functions.
#pragma once

#include <initializer_list>

#include "base/check.h"
#include "base/view.h"

namespace plimsoll {

// An operand of a call. If the caller passed no such operand, its view is null.
struct Operand {
  const char* name;
  ConstView view;
  enum class Presence : uint8_t { kRequired, kOptional } presence = Presence::kRequired;
};

// Returns the common element type, f32 or bf16, of the operands that are present. Errors: kInternal if a
// required operand is missing, types differ, or the type is not supported (the catalog declines such
// problems).
inline DType fast_type_of(const char* kernel, std::initializer_list<Operand> operands) {
  DType dtype = DType::kF32;
  bool found = false;
  for (const Operand& operand : operands) {
    if (!operand.view) {
      PLIMSOLL_CHECK(operand.presence == Operand::Presence::kOptional, "{}: operand {} is missing", kernel,
                     operand.name);
      continue;
    }
    if (!found) dtype = operand.view.dtype;
    found = true;
    PLIMSOLL_CHECK(operand.view.dtype == dtype,
                   "{}: all operands must have one type, but operand {} is {} and the first operand is {}",
                   kernel, operand.name, dtype_name(operand.view.dtype), dtype_name(dtype));
    PLIMSOLL_CHECK(dtype == DType::kF32 || dtype == DType::kBF16,
                   "{}: operand {} must be f32 or bf16, but is {}", kernel, operand.name, dtype_name(dtype));
  }
  return dtype;
}

// Checks the operands of a kernel that sums over rows: the destination must have a floating-point type, and the scratch memory for partial
// sums must be present.
inline void check_column_sum(const char* kernel, const Operand& sum, const View& scratch) {
  const bool optional = sum.presence == Operand::Presence::kOptional;
  PLIMSOLL_CHECK(sum.view ? is_floating(sum.view.dtype) : optional,
                 "{}: operand {} must be present and have a floating-point type", kernel, sum.name);
  PLIMSOLL_CHECK(!sum.view || scratch, "{} needs scratch memory for the partial sums of {}, but has none",
                 kernel, sum.name);
}

// Calls body with a value of the element's C++ type, float or BF16.
template <class Body>
void with_fast_type(DType dtype, const Body& body) {
  if (dtype == DType::kF32) return body(float{});
  PLIMSOLL_CHECK(dtype == DType::kBF16, "the CPU kernels support f32 and bf16 elements, not {}",
                 dtype_name(dtype));
  return body(BF16{});
}

// Returns the address of the elements, or null for a null view. Requires: fast_type_of has checked the type.
template <class T>
const T* elements(const ConstView& view) {
  return static_cast<const T*>(view.data);
}
template <class T>
T* elements(const View& view) {
  return static_cast<T*>(view.data);
}

}  // namespace plimsoll
