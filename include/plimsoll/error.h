// Errors that a user of Plimsoll can meet. Thread-safe: values only.
//
// A fault of the user or of the environment throws plimsoll::Error. A violated invariant of Plimsoll throws
// an Error with code kInternal (through PLIMSOLL_CHECK). The command line uses the code as the exit code of
// the process.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace plimsoll {

// The kinds of errors. The value of each kind is the exit code of the program for this error.
enum class ErrorCode : int {
  kInternal = 1,     // a bug in Plimsoll
  kUsage = 2,        // wrong usage or configuration
  kWillNotFit = 3,   // the run needs more memory than the limit
  kBadData = 4,      // invalid data file, tokenizer or checkpoint
  kNotFinite = 5,    // loss or gradient is not finite
  kInterrupted = 6,  // interrupted by a signal; the state was saved
  kDevice = 7,       // the device, the operating system or another process of the run failed
};

// An error with a message that states the problem, the place (file:line for data), the two values that
// disagree, and the remedy.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }
  // Returns the same error with the message "context: message".
  Error with_context(const std::string& context) const { return Error(code_, context + ": " + what()); }

 private:
  ErrorCode code_;
};

}  // namespace plimsoll
