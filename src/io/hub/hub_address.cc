#include "io/hub/hub_address.h"

#include <algorithm>
#include <cctype>

#include "base/printable.h"

namespace plimsoll {
namespace {

// The parts of an absolute URL.
struct AddressParts {
  std::string scheme;     // such as "https", in lower case
  std::string authority;  // host and port in lower case, without a user name
  std::string_view path;  // path and query
};

AddressParts split_address(std::string_view address) {
  AddressParts parts;
  const size_t colon = address.find("://");
  if (colon == std::string_view::npos) return parts;
  const auto lower = [](std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
    return result;
  };
  parts.scheme = lower(address.substr(0, colon));
  const size_t begin = colon + 3;
  const size_t end = std::min(address.find_first_of("/?#", begin), address.size());
  std::string_view authority = address.substr(begin, end - begin);
  if (const size_t at = authority.rfind('@'); at != std::string_view::npos) authority.remove_prefix(at + 1);
  parts.authority = lower(authority);
  parts.path = address.substr(end);
  return parts;
}

}  // namespace

std::string percent_encoded(std::string_view text, std::string_view safe) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("_.-~").find(c) != std::string_view::npos ||
                          safe.find(c) != std::string_view::npos;
    if (is_plain) {
      result.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result.push_back('%');
      result.push_back(kDigits[byte >> 4u]);
      result.push_back(kDigits[byte & 15u]);
    }
  }
  return result;
}

std::string origin_of(std::string_view address) {
  const AddressParts parts = split_address(address);
  if ((parts.scheme != "http" && parts.scheme != "https") || parts.authority.empty()) return {};
  // An IPv6 address is enclosed in brackets and contains colons itself, so only a colon after the closing bracket precedes a port.
  const size_t bracket = parts.authority.rfind(']');
  const size_t colon = parts.authority.rfind(':');
  const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  const char* port = parts.scheme == "https" ? ":443" : ":80";
  return parts.scheme + "://" + parts.authority + (has_port ? "" : port);
}

SplitCredentials split_credentials(std::string_view address) {
  const size_t colon = address.find("://");
  const size_t begin = colon == std::string_view::npos ? 0 : colon + 3;
  const size_t end = std::min(address.find_first_of("/?#", begin), address.size());
  const size_t at = address.substr(0, end).rfind('@');
  if (at == std::string_view::npos || at < begin) return {.address = std::string(address), .credentials = {}};
  return {.address = std::string(address.substr(0, begin)).append(address.substr(at + 1)),
          .credentials = std::string(address.substr(begin, at - begin))};
}

std::string with_credentials(std::string_view address, std::string_view credentials) {
  const size_t begin = address.find("://") + 3;
  return std::string(address.substr(0, begin)).append(credentials).append("@").append(address.substr(begin));
}

std::string without_user_names(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (c == '@') {
      const size_t delimiter = shown.find_last_of(" /'\"");
      shown.resize(delimiter == std::string::npos ? 0 : delimiter + 1);
    } else {
      shown.push_back(c);
    }
  }
  return shown;
}

std::string shown_address(std::string_view address) {
  constexpr size_t kMostBytes = 300;
  const std::string shown = split_credentials(address).address;
  return printable(std::string_view(shown).substr(0, shown.find_first_of("?#")), kMostBytes);
}

std::string host_of(std::string_view address) {
  return printable(split_address(address).authority);
}

bool is_path_below(std::string_view path) {
  const bool is_plain = printable(path, path.size()) == path && path.find('\\') == std::string_view::npos;
  if (path.empty() || path.front() == '/' || path.back() == '/' || !is_plain) return false;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return true;
}

std::string resolved_address(std::string_view asked, std::string_view location) {
  if (location.find("://") != std::string_view::npos && !split_address(location).authority.empty() &&
      location.find('/') > location.find(':')) {
    return std::string(location);
  }
  const size_t begin = asked.find("://");
  if (begin == std::string_view::npos) return std::string(location);
  if (location.starts_with("//")) return std::string(asked.substr(0, begin + 1)).append(location);
  const size_t path = std::min(asked.find_first_of("/?#", begin + 3), asked.size());
  if (location.starts_with('/')) return std::string(asked.substr(0, path)).append(location);
  const std::string_view without_query =
      asked.substr(0, std::min(asked.find_first_of("?#", path), asked.size()));
  const size_t slash = without_query.rfind('/');
  if (slash == std::string_view::npos || slash < path)
    return std::string(without_query).append("/").append(location);
  return std::string(without_query.substr(0, slash + 1)).append(location);
}

std::string next_page(std::string_view link) {
  while (!link.empty()) {
    const size_t open = link.find('<');
    const size_t close = link.find('>', open == std::string_view::npos ? 0 : open);
    if (open == std::string_view::npos || close == std::string_view::npos) return {};
    const size_t end = std::min(link.find('<', close), link.size());
    const std::string_view rest = link.substr(close, end - close);
    if (rest.find("rel=\"next\"") != std::string_view::npos ||
        rest.find("rel=next") != std::string_view::npos)
      return std::string(link.substr(open + 1, close - open - 1));
    link.remove_prefix(end);
  }
  return {};
}

}  // namespace plimsoll
