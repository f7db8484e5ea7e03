// Writes lines to a file descriptor, and reads lines that arrive over it if it is a socket. The program at the other end, the reader, may
// be slow or may have ended. This class knows nothing about the contents of the lines. Not thread-safe. The descriptor belongs to the
// caller.
//
// A write never waits for the reader, except as stated below. Lines that the reader has not taken are kept in memory, at
// most kMostWaiting bytes. Of the lines that the reader sends, at most one and a part of the next are kept.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::cli {

class EventStream {
 public:
  // The largest number of bytes that are kept in memory while the reader does not take them. A single longer line is
  // also kept.
  static constexpr size_t kMostWaiting = size_t{1} << 20;

  // The largest number of bytes of a line that the reader may send.
  static constexpr size_t kMostLineBytes = size_t{1} << 20;
  static constexpr int kStopPollMs = 100;

  // Creates a stream for an open descriptor. Errors: kUsage if the descriptor is not open for writing.
  explicit EventStream(int descriptor);

  // Returns false if the reader has closed its end or the stream was given up because the reader took no data.
  bool is_open() const { return is_open_; }
  bool is_socket() const { return is_socket_; }
  // Returns the reason why the stream ended, at the first call after the end; otherwise "".
  std::string take_closing_reason();

  // Writes a line. If it does not fit into kMostWaiting bytes together with the waiting lines, the function waits up to
  // `patience_ms` for the reader to take some. If the reader does not, the stream ends.
  void write(std::string_view line, int patience_ms = 5000);
  // Writes a line, or drops it if the reader has not taken all earlier lines. Returns true if the line was written.
  bool write_or_drop(std::string_view line);
  // Waits up to `patience_ms` until the reader has taken all lines.
  void finish(int patience_ms = 2000);

  // Returns a line that the reader has sent, or nothing if no complete line has arrived. Requires: is_socket(). Errors:
  // kUsage for a line of more than kMostLineBytes.
  std::optional<std::string> read_line();
  // Waits without a time limit until the reader has sent a line. Returns nothing if the reader has closed its end, or
  // if no line has arrived and should_stop() returns true, which is called at least every kStopPollMs. Requirements and
  // errors are those of read_line().
  std::optional<std::string> wait_for_line(const std::function<bool()>& should_stop);

 private:
  // Writes as many bytes of waiting_ as possible without waiting for the reader.
  void write_waiting();
  // Waits until the reader can take more bytes or, if `events` contains POLLIN, has sent some. Returns false if this
  // takes longer than `timeout_ms`.
  bool wait(short events, int timeout_ms) const;
  // Appends the bytes that the reader has sent to received_. Returns false if it has closed its end.
  bool receive();
  void end(const std::string& reason);

  int descriptor_;
  bool is_open_ = true;
  bool is_socket_ = false;
  std::string waiting_;   // lines that were written but that the reader has not taken yet
  std::string received_;  // bytes from the reader that read_line() has not returned yet
  std::string closing_reason_;
};

}  // namespace plimsoll::cli
