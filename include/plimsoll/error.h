// Errors that a user of Plimsoll can meet. Thread-safe: values only.
//
// A fault of the user or of the world throws plimsoll::Error; a broken invariant of ours throws
// plimsoll::InternalError (through PLIMSOLL_CHECK). The command line turns the code into the process's exit
// code.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace plimsoll {

// The value of each code is the exit code of the command line.
enum class ErrorCode : int {
  kInternal = 1,     // our bug
  kUsage = 2,        // usage or configuration
  kWillNotFit = 3,   // the plan exceeds the memory that is allowed
  kBadData = 4,      // bad data file, tokenizer or checkpoint
  kNotFinite = 5,    // loss or gradient is not finite
  kInterrupted = 6,  // interrupted by a signal, state saved
  kDevice = 7,       // the device, the operating system or a peer failed
};

// The message says what is wrong, where (file:line for data), both values, and what to do next.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }
  // The same error with one line of context in front, "context: message".
  Error with_context(const std::string& context) const { return Error(code_, context + ": " + what()); }

 private:
  ErrorCode code_;
};

}  // namespace plimsoll
