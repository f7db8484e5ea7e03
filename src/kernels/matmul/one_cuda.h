// The numbers 1 and 0 in the memory of the current device, from which products read their factors. They
// belong to the program's module. Only for sources that are built with CUDA.
#pragma once

namespace plimsoll {

const void* one_on_device();
const void* zero_on_device();

}  // namespace plimsoll
