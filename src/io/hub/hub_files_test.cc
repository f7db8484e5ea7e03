#include "io/hub/hub_files.h"

#include <gtest/gtest.h>

#include "base/file_fault.h"
#include "io/hub/hub_address.h"

namespace plimsoll {
namespace {

TEST(HubFiles, PatternsAndNames) {
  const std::vector<HubFile> listed{{.path = "config.json"},
                                    {.path = "model-00001-of-00002.safetensors"},
                                    {.path = "model-00002-of-00002.safetensors"},
                                    {.path = "model.safetensors.index.json"},
                                    {.path = "consolidated.safetensors"},
                                    {.path = "onnx/model.onnx"},
                                    {.path = "pytorch_model.bin"},
                                    {.path = "vocab.txt"}};
  const auto names = [&](const DownloadRequest& request, ModelParts parts) {
    std::string text;
    for (const HubFile& file : select_files(request, listed, parts).files) text += file.path + " ";
    return text;
  };
  DownloadRequest request{.name = "m"};
  EXPECT_EQ(names(request, ModelParts::kConfiguration), "config.json vocab.txt ");
  EXPECT_EQ(names(request, ModelParts::kAll),
            "config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors "
            "model.safetensors.index.json "
            "vocab.txt ");
  request.include = {"*.onnx", "pytorch*"};
  EXPECT_EQ(names(request, ModelParts::kAll), "onnx/model.onnx pytorch_model.bin ");
  request.exclude = {"onnx/"};
  EXPECT_EQ(names(request, ModelParts::kAll), "pytorch_model.bin ");
  request = {.name = "m", .kind = RepositoryKind::kDataset, .exclude = {"model*"}};
  EXPECT_EQ(names(request, ModelParts::kAll),
            "config.json consolidated.safetensors onnx/model.onnx pytorch_model.bin vocab.txt ");
  const std::vector<HubFile> pickled{{.path = "config.json"}, {.path = "pytorch_model.bin"}};
  EXPECT_NE(
      select_files({.name = "m"}, pickled, ModelParts::kAll).notes.at(0).find("only in pytorch_model.bin"),
      std::string::npos);
}

TEST(HubAddress, Parts) {
  EXPECT_EQ(percent_encoded("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(percent_encoded("a b/ä", "/"), "a%20b/%C3%A4");
  EXPECT_EQ(origin_of("HTTPS://Host/x"), "https://host:443");
  EXPECT_EQ(origin_of("http://u:p@host:8080?x"), "http://host:8080");
  EXPECT_EQ(origin_of("http://[::1]/x"), "http://[::1]:80");
  EXPECT_EQ(origin_of("file:///etc/passwd"), "");
  EXPECT_EQ(resolved_address("https://a/b/c?d", "/e"), "https://a/e");
  EXPECT_EQ(resolved_address("https://a/b/c?d", "e"), "https://a/b/e");
  EXPECT_EQ(resolved_address("https://a/b", "//c/d"), "https://c/d");
  EXPECT_EQ(resolved_address("https://a/b", "/x?u=http://c"), "https://a/x?u=http://c");
  EXPECT_EQ(next_page("<https://a?x=1>; rel=\"next\", <https://b>; rel=\"last\""), "https://a?x=1");
  EXPECT_EQ(next_page("<https://b>; rel=\"last\""), "");
}

TEST(HubAddress, ShownAddressesHaveNoSecrets) {
  EXPECT_EQ(shown_address("https://me:pw@host:1/a?X-Signature=s#f"), "https://host:1/a");
  EXPECT_EQ(shown_address("https://a@b:pw@host/x@y"), "https://host/x@y");
  EXPECT_EQ(shown_address("me:pw@host"), "host");
  EXPECT_EQ(shown_address("https://host/\x1b[2J"), "https://host/\\x1b[2J");
  EXPECT_EQ(without_user_names("Unsupported proxy scheme for 'socks9://me:p@w@host:1' at 1 o'clock"),
            "Unsupported proxy scheme for 'socks9://host:1' at 1 o'clock");
  EXPECT_EQ(without_user_names("me:pw@host"), "host");
  EXPECT_EQ(split_credentials("http://u:p%40@h/x").credentials, "u:p%40");
  EXPECT_EQ(split_credentials("http://h/u:p@x").credentials, "");
  EXPECT_EQ(with_credentials("http://h/x", "u:p"), "http://u:p@h/x");
}

TEST(HubAddress, PathsBelowAFolder) {
  for (const char* path : {"a", "a/b", "a..b", "..a", "a..", "...", ".hidden", "na\xc3\xafve"})
    EXPECT_TRUE(is_path_below(path)) << path;
  for (const char* path :
       {"", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/./b", "a\\b", "a\nb", "\xff"})
    EXPECT_FALSE(is_path_below(path)) << path;
}

TEST(HubAccess, CredentialsAndCertificates) {
  MemoryFileSystem files;
  make_folders(files, "/etc/certs");
  write_synced_file(files, "/etc/one.pem", "");
  std::map<std::string, std::string> environment{{"HF_ENDPOINT", "https://me:pw@mirror/"}};
  EXPECT_EQ(hub_access(files, environment).endpoint, "https://mirror");
  EXPECT_EQ(hub_access(files, environment).credentials, "me:pw");
  for (const char* name : {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}) {
    EXPECT_EQ(hub_access(files, {{name, "/etc/certs"}}).ca_folder, "/etc/certs") << name;
    EXPECT_EQ(hub_access(files, {{name, "/etc/certs"}}).ca_file, "") << name;
    EXPECT_EQ(hub_access(files, {{name, "/etc/one.pem"}}).ca_file, "/etc/one.pem") << name;
    EXPECT_EQ(hub_access(files, {{name, "/etc/one.pem"}, {"SSL_CERT_DIR", "/etc/certs"}}).ca_folder,
              "/etc/certs");
  }
  for (const char* wrong : {"me:pw@mirror", "ftp://me:pw@mirror", "https://me:pw@", "https://me:pw@a b"}) {
    try {
      hub_access(files, {{"HF_ENDPOINT", wrong}});
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_EQ(std::string(error.what()).find("pw"), std::string::npos) << error.what();
    }
  }
}

TEST(HubAccess, Variables) {
  MemoryFileSystem files;
  make_folders(files, "/home/.cache/huggingface");
  write_synced_file(files, "/home/.cache/huggingface/token", "hf_file\n");
  std::map<std::string, std::string> environment{{"HOME", "/home"}};
  EXPECT_EQ(hub_access(files, environment).token, "hf_file");
  EXPECT_EQ(hub_access(files, environment).endpoint, "https://huggingface.co");
  EXPECT_FALSE(hub_access(files, environment).is_offline());
  environment["HF_HUB_CACHE"] = "/elsewhere";
  EXPECT_EQ(hub_access(files, environment).token, "hf_file") << "the token is not in the cache";
  environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1";
  EXPECT_EQ(hub_access(files, environment).token, "");
  EXPECT_EQ(hub_access(files, environment, "hf_given").token, "hf_given");
  environment.erase("HF_HUB_DISABLE_IMPLICIT_TOKEN");
  environment["HF_TOKEN"] = " hf_variable ";
  environment["HF_ENDPOINT"] = "http://mirror/";
  environment["HF_HUB_DOWNLOAD_TIMEOUT"] = "30";
  environment["TRANSFORMERS_OFFLINE"] = "true";
  const HubAccess access = hub_access(files, environment);
  EXPECT_EQ(access.token, "hf_variable");
  EXPECT_EQ(access.endpoint, "http://mirror");
  EXPECT_EQ(access.download_timeout_s, 30);
  EXPECT_EQ(access.offline_reason, "TRANSFORMERS_OFFLINE=true");
  environment["HF_HUB_OFFLINE"] = "0";
  EXPECT_FALSE(hub_access(files, environment).is_offline()) << "the first variable that is set decides";
  for (const auto& [name, value] : {std::pair("HF_ENDPOINT", "ftp://x"),
                                    {"HF_HUB_ETAG_TIMEOUT", "soon"},
                                    {"HF_HUB_DOWNLOAD_TIMEOUT", "0"},
                                    {"HF_TOKEN", "a b"}}) {
    auto wrong = environment;
    wrong[name] = value;
    EXPECT_THROW(hub_access(files, wrong), Error) << name;
  }
}

}  // namespace
}  // namespace plimsoll
