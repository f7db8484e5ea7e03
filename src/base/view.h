// Typed pointers, the only form in which kernels access memory. A view consists of an address and an element type. It has no
// shape (shapes are in the argument struct of each kernel) and does not own the memory. Thread-safe: values only.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/dtype.h"

namespace plimsoll {

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

// The element types of tensors in bf16 and fp16. They contain only the bits of a number, without arithmetic.
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::kF16;
};

// An input of a kernel. It is null (`!view`) if an optional operand is absent.
struct ConstView {
  const void* data = nullptr;
  DType dtype = DType::kF32;

  explicit operator bool() const { return data != nullptr; }
  // Returns the address as a pointer to elements of type T. Requires: T is the element type of the view.
  template <typename T>
  const T* as() const {
    PLIMSOLL_CHECK(dtype == DTypeOf<T>::value, "a view of {} elements cannot be read as {}",
                   dtype_name(dtype), dtype_name(DTypeOf<T>::value));
    return static_cast<const T*>(data);
  }
  // Returns element i converted to double. Only for reference kernels and tests, because every call branches on the element type.
  double load(int64_t i) const {
    switch (dtype) {
      case DType::kF64:
        return static_cast<const double*>(data)[i];
      case DType::kF32:
        return static_cast<double>(static_cast<const float*>(data)[i]);
      case DType::kBF16:
        return static_cast<double>(bf16_to_f32(static_cast<const uint16_t*>(data)[i]));
      case DType::kF16:
        return static_cast<double>(f16_to_f32(static_cast<const uint16_t*>(data)[i]));
      case DType::kI64:
        return static_cast<double>(static_cast<const int64_t*>(data)[i]);
      case DType::kI32:
        return static_cast<double>(static_cast<const int32_t*>(data)[i]);
      case DType::kU8:
        return static_cast<double>(static_cast<const uint8_t*>(data)[i]);
      case DType::kE4M3:
        return static_cast<double>(e4m3_to_f32(static_cast<const uint8_t*>(data)[i]));
      case DType::kE5M2:
        return static_cast<double>(e5m2_to_f32(static_cast<const uint8_t*>(data)[i]));
    }
    return 0.0;
  }
};

// An output of a kernel, which may also be read if the contract of the kernel says so.
struct View {
  void* data = nullptr;
  DType dtype = DType::kF32;

  explicit operator bool() const { return data != nullptr; }
  operator ConstView() const { return {data, dtype}; }  // NOLINT: a View can be read like a ConstView
  template <typename T>
  T* as() const {
    PLIMSOLL_CHECK(dtype == DTypeOf<T>::value, "a view of {} elements cannot be written as {}",
                   dtype_name(dtype), dtype_name(DTypeOf<T>::value));
    return static_cast<T*>(data);
  }
  double load(int64_t i) const { return ConstView(*this).load(i); }
  // Stores element i, rounded to nearest with ties to even. For 16-bit and 8-bit floating-point types the value is first rounded to fp32.
  void store(int64_t i, double value) const {
    switch (dtype) {
      case DType::kF64:
        static_cast<double*>(data)[i] = value;
        return;
      case DType::kF32:
        static_cast<float*>(data)[i] = static_cast<float>(value);
        return;
      case DType::kBF16:
        static_cast<uint16_t*>(data)[i] = f32_to_bf16(static_cast<float>(value));
        return;
      case DType::kF16:
        static_cast<uint16_t*>(data)[i] = f32_to_f16(static_cast<float>(value));
        return;
      case DType::kI64:
        static_cast<int64_t*>(data)[i] = static_cast<int64_t>(value);
        return;
      case DType::kI32:
        static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
        return;
      case DType::kU8:
        static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
        return;
      case DType::kE4M3:
        static_cast<uint8_t*>(data)[i] = f32_to_e4m3(static_cast<float>(value));
        return;
      case DType::kE5M2:
        static_cast<uint8_t*>(data)[i] = f32_to_e5m2(static_cast<float>(value));
        return;
    }
  }
};

// Selects whether a kernel that computes a gradient overwrites its destination or adds to it.
enum class Accumulate : uint8_t { kOverwrite, kAdd };

}  // namespace plimsoll
