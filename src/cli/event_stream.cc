#include "cli/event_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll::cli {

EventStream::EventStream(int descriptor) : descriptor_(descriptor) {
  const std::string name = "--event_fd " + std::to_string(descriptor);
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0) {
    throw Error(
        ErrorCode::kUsage,
        name + ": no such file descriptor is open; the program that starts this one has to pass it, as " +
            std::to_string(descriptor) + ">events.jsonl does in a shell");
  }
  if ((flags & O_ACCMODE) == O_RDONLY)
    throw Error(ErrorCode::kUsage,
                name + ": the file descriptor is open only for reading; pass one that can be written");
  struct stat status {};
  is_socket_ = fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

std::string EventStream::take_closing_reason() {
  return std::exchange(closing_reason_, "");
}

void EventStream::end(const std::string& reason) {
  is_open_ = false;
  waiting_.clear();
  closing_reason_ = reason;
}

bool EventStream::wait(short events, int timeout_ms) const {
  pollfd polled{.fd = descriptor_, .events = events, .revents = 0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    const int count = poll(&polled, 1, timeout_ms);
    if (count > 0) return true;
    if (count == 0 || errno != EINTR) return false;
    const auto left = end - std::chrono::steady_clock::now();
    timeout_ms =
        std::max(0, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()));
  }
}

void EventStream::write_waiting() {
  size_t done = 0;
  while (is_open_ && done < waiting_.size()) {
    if (!wait(POLLOUT, 0)) break;
    const size_t left = waiting_.size() - done;
    // If a pipe is writable, it accepts PIPE_BUF bytes without waiting. A larger write could block until the reader has read.
    const ssize_t count =
        is_socket_ ? send(descriptor_, waiting_.data() + done, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                   : ::write(descriptor_, waiting_.data() + done, std::min<size_t>(left, PIPE_BUF));
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      end(errno == EPIPE || errno == ECONNRESET ? "its reader has closed it" : std::strerror(errno));
      return;
    }
  }
  waiting_.erase(0, done);
}

void EventStream::write(std::string_view line, int patience_ms) {
  if (!is_open_) return;
  write_waiting();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (is_open_ && !waiting_.empty() && waiting_.size() + line.size() >= kMostWaiting) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
    if (ms <= 0 || !wait(POLLOUT, static_cast<int>(ms))) {
      end("its reader did not read for " + std::to_string(patience_ms / 1000) + " s");
      return;
    }
    write_waiting();
  }
  waiting_ += line;
  waiting_ += '\n';
  write_waiting();
}

bool EventStream::write_or_drop(std::string_view line) {
  if (!is_open_) return false;
  write_waiting();
  if (!is_open_ || !waiting_.empty()) return false;
  write(line);
  return true;
}

void EventStream::finish(int patience_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  write_waiting();
  while (is_open_ && !waiting_.empty()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
    if (ms <= 0 || !wait(POLLOUT, static_cast<int>(ms))) return;
    write_waiting();
  }
}

bool EventStream::receive() {
  char bytes[4096];
  const ssize_t count = recv(descriptor_, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count > 0) {
    received_.append(bytes, static_cast<size_t>(count));
    return true;
  }
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

std::optional<std::string> EventStream::read_line() {
  size_t end_of_line = received_.find('\n');
  while (is_open_ && end_of_line == std::string::npos && wait(POLLIN, 0)) {
    const size_t searched = received_.size();
    if (!receive()) {
      end("its reader has closed it");
      return std::nullopt;
    }
    end_of_line = received_.find('\n', searched);
    if (end_of_line == std::string::npos && received_.size() > kMostLineBytes) {
      throw Error(ErrorCode::kUsage,
                  "the reader of --event_fd sent a line of more than " + std::to_string(kMostLineBytes) +
                      " bytes; a reply contains only named numbers and requests, and ends with a line break");
    }
  }
  if (end_of_line == std::string::npos) return std::nullopt;
  std::string line = received_.substr(0, end_of_line);
  received_.erase(0, end_of_line + 1);
  return line;
}

std::optional<std::string> EventStream::wait_for_line(const std::function<bool()>& should_stop) {
  while (true) {
    if (std::optional<std::string> line = read_line()) return line;
    if (!is_open_ || should_stop()) return std::nullopt;
    const short events = waiting_.empty() ? POLLIN : POLLIN | POLLOUT;
    // A signal may arrive in another thread, or just before the call of poll(), and then does not interrupt it. The
    // timeout makes this thread check for a signal from time to time.
    wait(events, kStopPollMs);
    write_waiting();
  }
}

}  // namespace plimsoll::cli
