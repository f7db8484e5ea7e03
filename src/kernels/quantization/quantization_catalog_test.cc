// Lists the rows that the tests of this executable run (tests/support/kernel_rows.h).
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
