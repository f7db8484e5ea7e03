// Whether a test runs under AddressSanitizer, where it may take ten times as long. A test that looks at every
// case of something is skipped there, with its reason, if what it runs is run by others on fewer cases.
#pragma once

namespace plimsoll::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace plimsoll::test
