#include "io/hub/hub_access.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "io/hub/hub_address.h"
#include "io/hub/hub_cache.h"

namespace plimsoll {
namespace {

using HubVariables = std::map<std::string, std::string>;

std::string variable(const HubVariables& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

std::string first_variable(const HubVariables& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = variable(environment, name); !value.empty()) return value;
  }
  return {};
}

bool is_true(std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::toupper(c); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

int64_t seconds(const HubVariables& environment, const char* name, int64_t otherwise) {
  const std::string text = variable(environment, name);
  if (text.empty()) return otherwise;
  constexpr int64_t kMost = 86400;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMost)
    throw_error(ErrorCode::kUsage, "{} is '{}': set it to a whole number of seconds from 1 to {}", name, text,
                kMost);
  return value;
}

std::string without_spaces_around(std::string text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.back())) text.pop_back();
  while (!text.empty() && is_space(text.front())) text.erase(0, 1);
  return text;
}

std::string token_of_file(FileSystem& files, const HubVariables& environment) {
  constexpr int64_t kMaxTokenBytes = 16384;
  std::string path = variable(environment, "HF_TOKEN_PATH");
  if (path.empty()) {
    HubEnvironment home = hub_environment(environment);
    home.hf_hub_cache.reset();
    home.huggingface_hub_cache.reset();
    const std::string cache = hub_cache_folder(home);
    if (cache.empty()) return {};
    path = join_path(parent_folder(cache), "token");
  }
  const auto status = files.status(path);
  if (!status || status->kind != FileKind::kFile) return {};
  return read_text_file(files, path, kMaxTokenBytes);
}

std::string find_token(FileSystem& files, const HubVariables& environment, const std::string& given) {
  std::string token = without_spaces_around(given);
  if (token.empty() && !is_true(variable(environment, "HF_HUB_DISABLE_IMPLICIT_TOKEN"))) {
    token = without_spaces_around(variable(environment, "HF_TOKEN"));
    if (token.empty()) token = without_spaces_around(variable(environment, "HUGGING_FACE_HUB_TOKEN"));
    if (token.empty()) token = without_spaces_around(token_of_file(files, environment));
  }
  if (!std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; })) {
    throw_error(
        ErrorCode::kUsage,
        "the token for the hub contains a space or a character outside ASCII; check --token, HF_TOKEN and "
        "the file that `hf auth login` writes");
  }
  return token;
}

}  // namespace

std::string offline_reason(const HubVariables& environment) {
  // TRANSFORMERS_OFFLINE is used only if HF_HUB_OFFLINE is not set.
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    const std::string value = variable(environment, name);
    if (!value.empty()) return is_true(value) ? std::string(name) + "=" + value : std::string();
  }
  return {};
}

HubAccess hub_access(FileSystem& files, const HubVariables& environment, const std::string& given_token) {
  const std::string given_endpoint = without_spaces_around(variable(environment, "HF_ENDPOINT"));
  SplitCredentials split = split_credentials(given_endpoint);
  HubAccess access{
      .endpoint = std::move(split.address),
      .credentials = std::move(split.credentials),
      .token = find_token(files, environment, given_token),
      .offline_reason = offline_reason(environment),
      .metadata_timeout_s = seconds(environment, "HF_HUB_ETAG_TIMEOUT", 10),
      .download_timeout_s = seconds(environment, "HF_HUB_DOWNLOAD_TIMEOUT", 10),
      .ca_file = first_variable(environment, {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}),
      .ca_folder = variable(environment, "SSL_CERT_DIR")};
  // A variable for the file with CA certificates may name a folder instead, as the Python package requests permits.
  if (!access.ca_file.empty()) {
    const auto status = files.status(access.ca_file);
    if (status && status->kind == FileKind::kFolder) access.ca_folder = std::exchange(access.ca_file, "");
  }
  while (access.endpoint.ends_with('/')) access.endpoint.pop_back();
  if (access.endpoint.empty()) access.endpoint = kDefaultEndpoint;
  const bool is_plain = std::ranges::all_of(given_endpoint, [](char c) { return c > ' ' && c != '\x7f'; });
  if (origin_of(access.endpoint).empty() || !is_plain) {
    throw_error(ErrorCode::kUsage, "HF_ENDPOINT is '{}': set it to an address such as https://huggingface.co",
                shown_address(given_endpoint));
  }
  return access;
}

}  // namespace plimsoll
