// Addresses on the web and paths of files, as far as the hub needs them. Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Escapes all bytes except letters, digits, "_.-~" and those in `safe`, as Python's urllib.parse.quote does.
std::string percent_encoded(std::string_view text, std::string_view safe = "");

// Returns "scheme://host:port" in lower case with the port of the scheme if none is stated, or "" if the address is neither
// http nor https.
std::string origin_of(std::string_view address);

// Return an address, or its host, for messages: without the name and password of a user, without the query, which may contain a
// signature that gives access, and without control characters.
std::string shown_address(std::string_view address);
std::string host_of(std::string_view address);

// Returns a text in which each word that contains '@' begins after it: the part before may be the name and password in an address.
std::string without_user_names(std::string_view text);

// An address and the "name:password" that it contains, as it states them (percent-encoded).
struct SplitCredentials {
  std::string address;
  std::string credentials;  // "" for none
};
SplitCredentials split_credentials(std::string_view address);
// Returns the address with these credentials. Requires: an absolute address without any.
std::string with_credentials(std::string_view address, std::string_view credentials);

// Returns true for a relative path that stays below its folder, and that a message can state as it is.
bool is_path_below(std::string_view path);

// Returns the absolute address of a redirect, which may be relative to the address that was asked.
std::string resolved_address(std::string_view asked, std::string_view location);

// Returns the address of the next page in the header Link ("<address>; rel="next""), or "".
std::string next_page(std::string_view link);

}  // namespace plimsoll
