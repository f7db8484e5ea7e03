// Lists the functions that the CPU rows of element_wise_catalog.inc name. The tests of this executable run them, and a row that no test
// runs is an error (tests/support/kernel_rows.h).
#include "kernels/element_wise/activation.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/column_range.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/glu.h"
#include "kernels/element_wise/scale_shift.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

#define PLIMSOLL_ROWS "kernels/element_wise/element_wise_catalog.inc"
const TestedRows kTestedRows{{
#include "kernels/catalog/cpu_functions.inc"
}};

}  // namespace
}  // namespace plimsoll::test
