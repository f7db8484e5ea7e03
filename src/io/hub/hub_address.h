// Functions on URLs and on file paths that downloads from Hugging Face's hub need. Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Percent-encodes all bytes except letters, digits, "_.-~" and those in `safe`, as Python's urllib.parse.quote does.
std::string percent_encoded(std::string_view text, std::string_view safe = "");

// Returns the origin "scheme://host:port" of a URL in lower case. If the URL contains no port, the default port of the scheme is used.
// Returns an empty string if the scheme is neither http nor https.
std::string origin_of(std::string_view address);

// These functions return a whole URL, or only its host, in a form that may be shown in messages: without user name and password, without
// the query, which may contain a signature that gives access, and without control characters.
std::string shown_address(std::string_view address);
std::string host_of(std::string_view address);

// Removes from each word of a text everything up to and including '@', because this may be the user name and password of a URL.
std::string without_user_names(std::string_view text);

// A URL without its "name:password", and these credentials as the URL contains them (percent-encoded).
struct SplitCredentials {
  std::string address;
  std::string credentials;  // "name:password"; empty if the URL contains none
};
SplitCredentials split_credentials(std::string_view address);
// Returns the URL with these credentials inserted. Requires: an absolute URL without credentials.
std::string with_credentials(std::string_view address, std::string_view credentials);

// Returns true for a relative path that does not lead out of its folder and that can be shown in messages unchanged.
bool is_path_below(std::string_view path);

// Returns the absolute URL to which a server redirects. `location` is the header Location, which may be relative to the requested URL
// `asked`.
std::string resolved_address(std::string_view asked, std::string_view location);

// Returns the URL of the next page from a Link header such as <URL>; rel="next", or an empty string if there is none.
std::string next_page(std::string_view link);

}  // namespace plimsoll
