// The rules for data types. A part of request_of.h.
#pragma once

#include "plan/request/request_of.h"

namespace plimsoll {

// Returns the data types that the arguments ask for on this device. Errors: kUsage for types that the device does
// not have, and for arguments that contradict each other.
PrecisionOptions precision_of(const Arguments& arguments, const DeviceOptions& device, bool trains,
                              RequestRemarks& remarks);

}  // namespace plimsoll
