#include "exec/product_library.h"

#include "kernels/matmul/onednn_facts.h"

namespace plimsoll {

ProductLibrary cpu_product_library() {
  return {.name = "oneDNN", .version = onednn_version(), .instruction_set = onednn_instruction_set()};
}

}  // namespace plimsoll
