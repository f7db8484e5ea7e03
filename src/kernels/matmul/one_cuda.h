// The numbers 1 and 0 in the memory of the current device, from which matrix products read the factors of their operands. They are
// variables of the program's CUDA module. Only for sources that are built with CUDA.
#pragma once

namespace plimsoll {

const void* one_on_device();
const void* zero_on_device();

}  // namespace plimsoll
