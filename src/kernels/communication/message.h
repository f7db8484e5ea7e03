// send: waits until the rank `peer` has received what was sent to it before, copies x into `room`, and starts to send `room`.
// receive: y = the next message from the rank `peer`.
//
// Shapes and types: any; both ranks state the same number of bytes. Nothing is computed: the bits are those of x.
// Aliasing: x and `room` do not overlap. `room` must not change until the next send to the peer begins.
// Scratch: none. Repeatable. Cost: the bytes pass the link once.
// Errors: kDevice, as Communicator::send().
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/comm/communicator.h"

namespace plimsoll {

struct SendArgs {
  Communicator* communicator = nullptr;
  ConstView x = {};
  View room = {};
  int64_t bytes = 0;
  int peer = 0;
};
struct ReceiveArgs {
  Communicator* communicator = nullptr;
  View y = {};
  int64_t bytes = 0;
  int peer = 0;
};

// Copies at once.
void send_cpu(const SendArgs& args);
void receive_cpu(const ReceiveArgs& args);
// Copies byte by byte.
void send_ref(const SendArgs& args);
void receive_ref(const ReceiveArgs& args);

}  // namespace plimsoll
