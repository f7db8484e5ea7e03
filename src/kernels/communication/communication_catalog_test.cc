// Lists the functions that the CPU rows of communication_catalog.inc name. The tests of this executable run them, and a row that no test
// runs is an error (tests/support/kernel_rows.h).
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
