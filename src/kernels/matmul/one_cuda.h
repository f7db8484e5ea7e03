// The numbers 1 and 0 in the memory of the current device. cuBLASLt reads the factors of a matrix product and of its old result from there.
// They are variables of the program's CUDA module. Only for sources that are built with CUDA.
#pragma once

namespace plimsoll {

const void* one_on_device();
const void* zero_on_device();

}  // namespace plimsoll
