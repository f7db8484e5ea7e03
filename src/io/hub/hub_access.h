// How the hub is reached: its address, the token, and if the network may be used, from the environment variables of Hugging
// Face's tools. Thread-safe: pure except for reading the file of the token.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/file.h"

namespace plimsoll {

inline constexpr std::string_view kDefaultEndpoint = "https://huggingface.co";

struct HubAccess {
  std::string
      endpoint;  // HF_ENDPOINT, or https://huggingface.co; without a name and password, and without '/' at its end
  std::string credentials =
      {};             // "name:password" that HF_ENDPOINT contains, sent instead of the token; "" for none
  std::string token;  // HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or the content of the token file; "" for none
  std::string
      offline_reason;  // the variable that forbids the network, as "HF_HUB_OFFLINE=1"; "" if it may be used
  int64_t metadata_timeout_s = 10;  // HF_HUB_ETAG_TIMEOUT
  int64_t download_timeout_s = 10;  // HF_HUB_DOWNLOAD_TIMEOUT
  std::string ca_file;              // REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE
  std::string ca_folder;            // one of the first two if it is a folder, or SSL_CERT_DIR

  bool is_offline() const { return !offline_reason.empty(); }
};

// Returns the variable that forbids the network and its value, as "HF_HUB_OFFLINE=1", or "".
std::string offline_reason(const std::map<std::string, std::string>& environment);

// The token file is HF_TOKEN_PATH, or `token` in HF_HOME, as `hf auth login` writes it. `given_token` counts more than all of
// them. Errors: kUsage for an address that is not http or https or has no host, for a time that is no positive whole number, and for a token with
// characters that a header cannot contain.
HubAccess hub_access(FileSystem& files, const std::map<std::string, std::string>& environment,
                     const std::string& given_token = {});

}  // namespace plimsoll
