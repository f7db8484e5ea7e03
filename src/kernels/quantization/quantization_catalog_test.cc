// Lists the implementations in the kernel catalog that the tests in this executable cover (tests/support/kernel_rows.h).
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
