// Reads from the environment variables of Hugging Face's tools how the hub is reached: its address, the token, and if the network may be
// used. Thread-safe: pure functions, except for reading the token file.
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
      endpoint;  // the address in HF_ENDPOINT, or https://huggingface.co, without a name and password and without a '/' at its end
  std::string credentials =
      {};  // the "name:password" in HF_ENDPOINT, which is sent instead of the token; empty if there is none
  // HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or the content of the token file; empty if there is none.
  std::string token;
  std::string
      offline_reason;  // the variable that forbids network access, such as "HF_HUB_OFFLINE=1"; empty if none does
  int64_t metadata_timeout_s = 10;  // value of HF_HUB_ETAG_TIMEOUT
  int64_t download_timeout_s = 10;  // value of HF_HUB_DOWNLOAD_TIMEOUT
  std::string ca_file;  // file with CA certificates: REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE
  std::string
      ca_folder;  // folder with CA certificates: the value for ca_file if it is a folder, otherwise SSL_CERT_DIR

  bool is_offline() const { return !offline_reason.empty(); }
};

// Returns the variable that forbids network access together with its value, such as "HF_HUB_OFFLINE=1", or an empty string if none does.
std::string offline_reason(const std::map<std::string, std::string>& environment);

// Reads the settings from the environment. The token is `given_token` or, if that is empty, the first of HF_TOKEN, HUGGING_FACE_HUB_TOKEN
// and the content of the token file that is set. The path of the token file is HF_TOKEN_PATH or otherwise the file `token` in HF_HOME,
// which `hf auth login` writes. Errors: kUsage for an address that is not http or https or has no host, for a timeout that is not a
// positive integer, and for a token with characters that an HTTP header cannot contain.
HubAccess hub_access(FileSystem& files, const std::map<std::string, std::string>& environment,
                     const std::string& given_token = {});

}  // namespace plimsoll
