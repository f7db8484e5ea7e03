// The server of the rendezvous store: the place where the ranks of a run find each other and learn that one of them
// ended. Rank 0 runs it in one thread. Every rank, rank 0 too, is a client (store_client.h) and keeps its connection
// open until it leaves. Because the system closes the connections of a process that dies, the server notices the death of a
// rank at once and tells all others.
//
// The store is not a database: values are small (addresses), and the server ends with rank 0. It has no authentication.
// A foreign program cannot make the server crash, block or grow without bound, but a program that speaks the protocol of the
// store can take part.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace plimsoll {

// The server, which runs while this object exists. Thread-safe.
class StoreServer {
 public:
  // Listens at host:port for the ranks of a run of `size` ranks. Port 0 selects a free port. Errors: kDevice if the
  // port cannot be used.
  StoreServer(const std::string& host, uint16_t port, int size);
  // Closes all connections. Clients that were not told that rank 0 ended assume that it died.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  uint16_t port() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace plimsoll
