#include <cstddef>

#include "kernels/communication/message.h"

namespace plimsoll {

void send_ref(const SendArgs& args) {
  args.communicator->wait_sent({args.peer, args.channel});
  const auto* x = static_cast<const std::byte*>(args.x.data);
  auto* room = static_cast<std::byte*>(args.room.data);
  for (int64_t i = 0; i < args.bytes; ++i) room[i] = x[i];
  args.communicator->send({room, static_cast<size_t>(args.bytes)}, {args.peer, args.channel});
}

void receive_ref(const ReceiveArgs& args) {
  args.communicator->receive({static_cast<std::byte*>(args.y.data), static_cast<size_t>(args.bytes)},
                             {args.peer, args.channel});
}

}  // namespace plimsoll
