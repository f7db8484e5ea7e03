// Writes lines to a file descriptor whose reader may be slow or gone, and reads lines that a reader sends back over a
// socket. It knows nothing about the contents of the lines. Not thread-safe. The descriptor belongs to the caller.
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
  // Lines that may wait for the reader in memory, in bytes. A line that is longer may wait alone.
  static constexpr size_t kMostWaiting = size_t{1} << 20;

  // Bytes of a line of the reader.
  static constexpr size_t kMostLineBytes = size_t{1} << 20;
  static constexpr int kStopPollMs = 100;

  // Errors: kUsage if the descriptor is not open for writing.
  explicit EventStream(int descriptor);

  // Returns true until the reader has closed its end or the stream was given up.
  bool is_open() const { return is_open_; }
  bool is_socket() const { return is_socket_; }
  // Returns the reason why the stream ended, once; otherwise "".
  std::string take_closing_reason();

  // Writes a line. If kMostWaiting bytes wait for the reader, it waits up to `patience_ms` for room; if there is none, the
  // stream ends.
  void write(std::string_view line, int patience_ms = 5000);
  // Writes a line if no other line waits for the reader, and otherwise drops it. Returns true if the line was written.
  bool write_or_drop(std::string_view line);
  // Waits up to `patience_ms` until the reader has taken all lines.
  void finish(int patience_ms = 2000);

  // Returns a line that the reader has sent, if there is one. Requires: is_socket(). Errors: kUsage for a line of more than
  // kMostLineBytes.
  std::optional<std::string> read_line();
  // Waits for a line of the reader without a limit of time. Returns nothing if the reader has closed its end, or if there is no line
  // and should_stop() is true, which is called at least every kStopPollMs. Requires and errors: as read_line().
  std::optional<std::string> wait_for_line(const std::function<bool()>& should_stop);

 private:
  // Writes as much as the reader takes at once.
  void write_waiting();
  // Waits until the reader can take more, or sends something if `events` asks for it. Returns false after the time.
  bool wait(short events, int timeout_ms) const;
  // Adds what the reader has sent to received_. Returns false if it has closed its end.
  bool receive();
  void end(const std::string& reason);

  int descriptor_;
  bool is_open_ = true;
  bool is_socket_ = false;
  std::string waiting_;   // written lines that the reader has not taken
  std::string received_;  // bytes of the reader that were not returned
  std::string closing_reason_;
};

}  // namespace plimsoll::cli
