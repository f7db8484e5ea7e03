// Lists the rows of the kernel catalog whose implementations the tests of this executable run (tests/support/kernel_rows.h).
#include "kernels/communication/all_reduce.h"
#include "kernels/communication/head_exchange.h"
#include "kernels/communication/message.h"
#include "kernels/communication/reduce_scatter.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

#define PLIMSOLL_ROWS "kernels/communication/communication_catalog.inc"
const TestedRows kTestedRows{{
#include "kernels/catalog/cpu_functions.inc"
}};

}  // namespace
}  // namespace plimsoll::test
