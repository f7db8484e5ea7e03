#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/optimizer/tensor_list.h"
#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {
namespace {

template <typename T>
void fill_piece(void* data, int64_t begin, int64_t count, const void* value) {
  T element;
  std::memcpy(&element, value, sizeof(T));
  T* first = static_cast<T*>(data) + begin;
  std::fill(first, first + count, element);
}

}  // namespace

void fill_cpu(const FillArgs& args) {
  // Converts the value to the bits of one element only once; all threads then copy these bits.
  alignas(8) std::array<unsigned char, 8> bits{};
  View{bits.data(), args.x.dtype}.store(0, args.value);
  const int64_t element_bytes = dtype_bytes(args.x.dtype);
  const bool one_byte_repeats = std::all_of(bits.begin(), bits.begin() + element_bytes,
                                            [&](unsigned char byte) { return byte == bits[0]; });
  const OptimizerTensor tensor{.param = args.x, .count = args.count};
  parallel_over_tensors({&tensor, 1}, [&](int64_t, size_t, int64_t begin, int64_t count) {
    if (one_byte_repeats) {  // The value is usually zero. memset uses the fastest stores of the machine.
      std::memset(static_cast<unsigned char*>(args.x.data) + begin * element_bytes, bits[0],
                  static_cast<size_t>(count * element_bytes));
      return;
    }
    switch (element_bytes) {
      case 8:
        return fill_piece<uint64_t>(args.x.data, begin, count, bits.data());
      case 4:
        return fill_piece<uint32_t>(args.x.data, begin, count, bits.data());
      case 2:
        return fill_piece<uint16_t>(args.x.data, begin, count, bits.data());
      default:
        return fill_piece<uint8_t>(args.x.data, begin, count, bits.data());
    }
  });
}

}  // namespace plimsoll
