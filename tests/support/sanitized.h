// Detects AddressSanitizer, under which a test may take ten times as long. A test that runs every case of
// something is skipped there, with a reason, if other tests run the same code on fewer cases.
#pragma once

namespace plimsoll::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace plimsoll::test
