// Tests that ranks end with a clear error if the network between their hosts breaks without any message, as
// when a cable is pulled. Each rank runs in a network namespace of its own, which takes the role of its host,
// and a pair of virtual Ethernet interfaces takes the role of the cable.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "plimsoll/free_port.h"
#include "tests/ranks/rank_processes.h"
#include "tests/support/places.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

// Owns a file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

// A message to the kernel about a network interface (rtnetlink(7)).
class LinkMessage {
 public:
  LinkMessage(uint16_t type, uint16_t flags, int interface) {
    const nlmsghdr header{.nlmsg_len = 0,
                          .nlmsg_type = type,
                          .nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags),
                          .nlmsg_seq = 1,
                          .nlmsg_pid = 0};
    append(&header, sizeof header);
    append_interface(interface);
  }
  void append_interface(int interface) {
    ifinfomsg info{};
    info.ifi_index = interface;
    append(&info, sizeof info);
  }
  void attribute(uint16_t type, const void* data, size_t size) {
    const size_t at = begin(type);
    append(data, size);
    end(at);
  }
  // Begins an attribute that contains the attributes appended until end() is called.
  size_t begin(uint16_t type) {
    const size_t at = bytes_.size();
    const rtattr header{.rta_len = 0, .rta_type = type};
    append(&header, sizeof header);
    return at;
  }
  void end(size_t at) {
    const auto size = static_cast<uint16_t>(bytes_.size() - at);
    std::memcpy(bytes_.data() + at, &size, sizeof size);
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
  }
  // Sends the message. Returns 0, or the error number with which the kernel answers.
  int send() {
    const auto size = static_cast<uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &size, sizeof size);
    const FileDescriptor netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!netlink || ::send(netlink.get(), bytes_.data(), bytes_.size(), 0) < 0) return errno;
    struct {
      nlmsghdr header;
      nlmsgerr error;
      std::byte rest[512];
    } answer{};
    if (recv(netlink.get(), &answer, sizeof answer, 0) < 0) return errno;
    return -answer.error.error;
  }

 private:
  void append(const void* data, size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  std::vector<std::byte> bytes_;
};

// Creates two interfaces that are connected with each other. Returns 0 or an error number.
int create_cable(const std::string& one, const std::string& other) {
  LinkMessage message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0);
  message.attribute(IFLA_IFNAME, one.c_str(), one.size() + 1);
  const size_t info = message.begin(IFLA_LINKINFO);
  message.attribute(IFLA_INFO_KIND, "veth", 4);
  const size_t data = message.begin(IFLA_INFO_DATA), peer = message.begin(VETH_INFO_PEER);
  message.append_interface(0);
  message.attribute(IFLA_IFNAME, other.c_str(), other.size() + 1);
  message.end(peer);
  message.end(data);
  message.end(info);
  return message.send();
}

// Moves an interface of this namespace into another one. Returns 0 or an error number.
int move_interface(const std::string& name, int network) {
  LinkMessage message(RTM_SETLINK, 0, static_cast<int>(if_nametoindex(name.c_str())));
  message.attribute(IFLA_NET_NS_FD, &network, sizeof network);
  return message.send();
}

ifreq request_of(const std::string& interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), sizeof request.ifr_name - 1);
  return request;
}

// Switches an interface of this namespace on or off. Returns 0 or an error number.
int set_up(const std::string& interface, bool is_up) {
  const FileDescriptor descriptor(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = request_of(interface);
  if (!descriptor || ioctl(descriptor.get(), SIOCGIFFLAGS, &request) != 0) return errno;
  const int flags = is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
  request.ifr_flags = static_cast<short>(flags);
  return ioctl(descriptor.get(), SIOCSIFFLAGS, &request) == 0 ? 0 : errno;
}

// Gives an interface of this namespace an address and switches it on. Returns 0 or an error number.
int set_address(const std::string& interface, const char* address) {
  const FileDescriptor descriptor(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = request_of(interface);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  inet_pton(AF_INET, address, &four.sin_addr);
  std::memcpy(&request.ifr_addr, &four, sizeof four);
  if (!descriptor || ioctl(descriptor.get(), SIOCSIFADDR, &request) != 0) return errno;
  return set_up(interface, true);
}

FileDescriptor own_network() {
  return FileDescriptor(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
}

std::vector<std::string> variables_of_host(int rank, int port) {
  return {"RANK=" + std::to_string(rank), "WORLD_SIZE=2",          "LOCAL_RANK=0",
          "LOCAL_WORLD_SIZE=1",           "MASTER_ADDR=10.98.7.1", "MASTER_PORT=" + std::to_string(port)};
}

// The kernel must report the lost connection after 4 s. Without such a report, the run would end only at the
// time limit of a step (at least 10 s), with another message.
TEST(DroppedLink, EachRankNamesTheOtherAndEnds) {
  if (unshare(CLONE_NEWNET) != 0)
    GTEST_SKIP() << "this user may not make a network namespace (" << std::strerror(errno) << ")";
  const FileDescriptor host_0 = own_network();
  ASSERT_EQ(set_up("lo", true), 0);
  if (const int error = create_cable("rank0", "rank1"); error != 0)
    GTEST_SKIP() << "this system has no virtual Ethernet interfaces (" << std::strerror(error) << ")";
  ASSERT_EQ(unshare(CLONE_NEWNET), 0) << std::strerror(errno);
  const FileDescriptor host_1 = own_network();
  ASSERT_EQ(setns(host_0.get(), CLONE_NEWNET), 0) << std::strerror(errno);
  ASSERT_EQ(move_interface("rank1", host_1.get()), 0);
  ASSERT_EQ(set_address("rank0", "10.98.7.1"), 0);
  const TestFolder folder("dropped_link");
  const std::string model = write_tiny_model(folder), run = folder.path("run");
  const int port = free_port();
  const auto words = words_of(model, run, {}, 100'000, {"--save_steps", "1", "--save_total_limit", "2"});
  Process first(words, folder.path("log0"), variables_of_host(0, port));
  ASSERT_EQ(setns(host_1.get(), CLONE_NEWNET), 0) << std::strerror(errno);
  ASSERT_EQ(set_up("lo", true), 0);
  ASSERT_EQ(set_address("rank1", "10.98.7.2"), 0);
  Process second(words, folder.path("log1"), variables_of_host(1, port));
  wait_for(first, run + "/checkpoint-3");
  ASSERT_TRUE(first.is_running()) << first.output();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(set_up("rank1", false), 0);
  const ProcessResult results[] = {first.wait(60'000), second.wait(60'000)};
  std::cout << "figure: both ranks had ended "
            << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()
            << " s after the link broke\n";
  for (const int rank : {0, 1}) {
    EXPECT_EQ(results[rank].exit_code, 7) << results[rank].output;
    const std::string other =
        "the process of rank " + std::to_string(1 - rank) + " of 2 ended, or its host cannot be reached";
    EXPECT_NE(results[rank].output.find(other), std::string::npos) << results[rank].output;
    EXPECT_NE(results[rank].output.find("--resume_from_checkpoint True"), std::string::npos)
        << results[rank].output;
  }
}

}  // namespace
}  // namespace plimsoll::testing
