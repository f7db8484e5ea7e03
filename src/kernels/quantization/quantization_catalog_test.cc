// Lists the rows that the tests of this executable run (tests/support/kernel_rows.h).
#include "kernels/quantization/quantization.h"
#include "kernels/quantization/quantize_fp8.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

#define PLIMSOLL_KERNEL PLIMSOLL_CPU_FUNCTION
#define PLIMSOLL_PREPARED_KERNEL PLIMSOLL_NO_FUNCTION
const TestedRows kTestedRows{{
#include "kernels/quantization/quantization_catalog.inc"
}};
#undef PLIMSOLL_PREPARED_KERNEL
#undef PLIMSOLL_KERNEL

}  // namespace
}  // namespace plimsoll::test
