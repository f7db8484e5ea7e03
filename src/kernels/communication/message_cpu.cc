#include <cstddef>
#include <cstring>

#include "kernels/communication/message.h"

namespace plimsoll {

void send_cpu(const SendArgs& args) {
  args.communicator->wait_sent({args.peer, args.channel});
  const auto bytes = static_cast<size_t>(args.bytes);
  std::memcpy(args.room.data, args.x.data, bytes);
  args.communicator->send({static_cast<const std::byte*>(args.room.data), bytes}, {args.peer, args.channel});
}

void receive_cpu(const ReceiveArgs& args) {
  args.communicator->receive({static_cast<std::byte*>(args.y.data), static_cast<size_t>(args.bytes)},
                             {args.peer, args.channel});
}

}  // namespace plimsoll
