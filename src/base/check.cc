#include "base/check.h"

namespace plimsoll {

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
  throw Error(
      ErrorCode::kInternal,
      fmt::format(
          "internal error at {}:{}: {} does not hold{}{}. This is a bug in Plimsoll; please report it "
          "with the command line.",
          file, line, condition, message.empty() ? "" : ": ", message));
}

}  // namespace plimsoll
