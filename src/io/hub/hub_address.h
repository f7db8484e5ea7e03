// Addresses on the web, as far as the hub needs them. Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Escapes all bytes except letters, digits, "_.-~" and those in `safe`, as Python's urllib.parse.quote does.
std::string percent_encoded(std::string_view text, std::string_view safe = "");

// Returns "scheme://host:port" in lower case with the port of the scheme if none is stated, or "" if the address is neither
// http nor https.
std::string origin_of(std::string_view address);

// Returns the host of an address, for messages.
std::string host_of(std::string_view address);

// Returns the absolute address of a redirect, which may be relative to the address that was asked.
std::string resolved_address(std::string_view asked, std::string_view location);

// Returns the address of the next page in the header Link ("<address>; rel="next""), or "".
std::string next_page(std::string_view link);

}  // namespace plimsoll
