// Lists the rows that the tests of this executable run (tests/support/kernel_rows.h).
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

#define PLIMSOLL_KERNEL PLIMSOLL_CPU_FUNCTION
#define PLIMSOLL_PREPARED_KERNEL PLIMSOLL_NO_FUNCTION
const TestedRows kTestedRows{{
#include "kernels/element_wise/element_wise_catalog.inc"
}};
#undef PLIMSOLL_PREPARED_KERNEL
#undef PLIMSOLL_KERNEL

}  // namespace
}  // namespace plimsoll::test
