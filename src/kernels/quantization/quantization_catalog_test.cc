// Lists the functions that the CPU rows of quantization_catalog.inc name. The tests of this executable run them, and a row that no test
// runs is an error (tests/support/kernel_rows.h).
#include "kernels/quantization/quantization.h"
#include "kernels/quantization/quantize_fp8.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

#define PLIMSOLL_ROWS "kernels/quantization/quantization_catalog.inc"
const TestedRows kTestedRows{{
#include "kernels/catalog/cpu_functions.inc"
}};

}  // namespace
}  // namespace plimsoll::test
