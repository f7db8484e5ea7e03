// Tests the stream of --event_fd with readers that are fast, slow, gone or silent.
#include "cli/event_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "cli/signal_reader.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

// The two connected ends of a pipe or a socket. The test acts as the reader; the stream under test writes to the other end.
struct Ends {
  Descriptor reader;
  Descriptor writer;
};

Ends make_pipe() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Ends make_socket() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Returns the bytes that can be read without waiting.
std::string read_now(int descriptor) {
  fcntl(descriptor, F_SETFL, O_NONBLOCK);
  std::string text;
  char bytes[4096];
  for (ssize_t count = 0; (count = read(descriptor, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(count));
  return text;
}

bool never() {
  return false;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(EventStream, WritesLines) {
  for (const bool is_socket : {false, true}) {
    const Ends ends = is_socket ? make_socket() : make_pipe();
    EventStream stream(ends.writer.get());
    EXPECT_EQ(stream.is_socket(), is_socket);
    stream.write("one");
    EXPECT_TRUE(stream.write_or_drop("two"));
    stream.finish();
    EXPECT_EQ(read_now(ends.reader.get()), "one\ntwo\n");
  }
}

TEST(EventStream, KeepsLinesForASlowReaderAndDropsOthers) {
  const Ends ends = make_pipe();
  fcntl(ends.writer.get(), F_SETPIPE_SZ, 4096);
  EventStream stream(ends.writer.get());
  const std::string line(999, 'x');
  for (int i = 0; i < 20; ++i) stream.write(line);
  EXPECT_FALSE(stream.write_or_drop("dropped"));
  std::string text;
  for (int i = 0; i < 100 && text.size() < 20000; ++i) {
    text += read_now(ends.reader.get());
    stream.finish(0);
  }
  EXPECT_EQ(text.size(), 20000U);
  EXPECT_EQ(text.find("dropped"), std::string::npos);
  EXPECT_TRUE(stream.write_or_drop("last"));
  EXPECT_EQ(read_now(ends.reader.get()), "last\n");
}

TEST(EventStream, EndsIfTheReaderNeverReads) {
  const Ends ends = make_pipe();
  EventStream stream(ends.writer.get());
  const std::string line(1 << 16, 'x');
  const double seconds = seconds_of([&] {
    for (int i = 0; i < 100; ++i) stream.write(line, 200);
  });
  // The first line for which the full pipe has no room waits 200 ms and then closes the stream; later lines must not wait.
  EXPECT_LT(seconds, 5.0);
  EXPECT_FALSE(stream.is_open());
  EXPECT_NE(stream.take_closing_reason().find("did not read"), std::string::npos);
  EXPECT_EQ(stream.take_closing_reason(), "");
}

TEST(EventStream, EndsIfTheReaderIsGone) {
  std::signal(SIGPIPE, SIG_IGN);
  for (const bool is_socket : {false, true}) {
    Ends ends = is_socket ? make_socket() : make_pipe();
    EventStream stream(ends.writer.get());
    stream.write("one");
    ends.reader.reset();
    for (int i = 0; i < 3; ++i) stream.write("two");
    EXPECT_FALSE(stream.is_open());
    EXPECT_NE(stream.take_closing_reason().find("closed"), std::string::npos);
    if (!is_socket) continue;
    EXPECT_FALSE(stream.wait_for_line(never).has_value());
  }
}

TEST(EventStream, ReadsReplies) {
  const Ends ends = make_socket();
  EventStream stream(ends.writer.get());
  EXPECT_FALSE(stream.read_line().has_value());
  ASSERT_EQ(write(ends.reader.get(), "a\nb", 3), 3);
  EXPECT_EQ(stream.read_line(), "a");
  EXPECT_FALSE(stream.read_line().has_value());
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(write(ends.reader.get(), "c\n", 2), 2);
  });
  EXPECT_EQ(stream.wait_for_line(never), "bc");
  later.join();
}

// The line is larger than the buffer of the socket, and the reader replies only after it has read everything.
// wait_for_line() must therefore also write the rest of the line.
TEST(EventStream, SendsTheRestWhileItWaits) {
  Ends ends = make_socket();
  EventStream stream(ends.writer.get());
  const std::string line(size_t{3} << 20, 'x');
  stream.write(line);
  std::thread reader([&] {
    size_t size = 0;
    char bytes[65536];
    while (size < line.size() + 1) {
      const ssize_t count = read(ends.reader.get(), bytes, sizeof bytes);
      if (count <= 0) break;
      size += static_cast<size_t>(count);
    }
    EXPECT_EQ(size, line.size() + 1);
    EXPECT_EQ(write(ends.reader.get(), "taken\n", 6), 6);
  });
  EXPECT_EQ(stream.wait_for_line(never), "taken");
  reader.join();
}

TEST(EventStream, StopsWaitingWhenItIsAsked) {
  const Ends ends = make_socket();
  EventStream stream(ends.writer.get());
  int num_calls = 0;
  EXPECT_FALSE(stream.wait_for_line([&] { return ++num_calls == 3; }).has_value());
  EXPECT_EQ(num_calls, 3);
  EXPECT_TRUE(stream.is_open());
  // A line that has arrived must be returned even if should_stop() returns true.
  ASSERT_EQ(write(ends.reader.get(), "a\n", 2), 2);
  EXPECT_EQ(stream.wait_for_line([] { return true; }), "a");
}

TEST(EventStream, RefusesALineWithoutAnEnd) {
  for (const size_t excess : {size_t{0}, size_t{1}}) {
    const Ends ends = make_socket();
    EventStream stream(ends.writer.get());
    std::thread reader([&] {
      // The line break is sent later, so that the limit for the length of a line is reached before the line ends.
      const std::string line(EventStream::kMostLineBytes + excess, 'x');
      for (size_t done = 0; done < line.size();) {
        const ssize_t count = send(ends.reader.get(), line.data() + done, line.size() - done, MSG_NOSIGNAL);
        if (count <= 0) return;
        done += static_cast<size_t>(count);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_EQ(send(ends.reader.get(), "\n", 1, MSG_NOSIGNAL), 1);
    });
    try {
      const std::optional<std::string> line = stream.wait_for_line(never);
      EXPECT_EQ(excess, 0U);
      EXPECT_EQ(line.value_or("").size(), EventStream::kMostLineBytes);
    } catch (const Error& error) {
      EXPECT_EQ(excess, 1U);
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_EQ(std::string(error.what()),
                "the reader of --event_fd sent a line of more than 1048576 bytes; a reply contains only "
                "named numbers and requests, and ends with a line break");
    }
    reader.join();
  }
}

TEST(EventStream, RefusesADescriptorThatCannotBeWritten) {
  const auto message = [](int descriptor) -> std::string {
    try {
      const EventStream stream(descriptor);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(987654),
            "--event_fd 987654: no such file descriptor is open; the program that starts this one has to "
            "pass it, as "
            "987654>events.jsonl does in a shell");
  const Ends ends = make_pipe();
  EXPECT_NE(message(ends.reader.get()).find("open only for reading"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::cli
