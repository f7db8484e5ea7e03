#include "io/hub/testing/simulated_hub.h"

namespace plimsoll {
namespace {

using testing::expect_complete;
using testing::kFolder;
using testing::SimulatedHub;
using testing::World;

TEST(SnapshotDownload, TooLittleSpaceIsRefusedBeforeAByte) {
  World world;
  MemoryFileSystem files;
  files.set_space({.free_bytes = 46, .is_writable = true});
  EXPECT_EQ(world.failure(files, ErrorCode::kDevice),
            "'org/name' needs 47 more bytes in /cache, and its disk has 46 free bytes. Free space, or choose "
            "a folder on "
            "another disk with --cache_dir or HF_HUB_CACHE");
  EXPECT_EQ(files.list("/").size(), 0u);
  files.set_space({.free_bytes = 47, .is_writable = true});
  world.download(files);
}

TEST(SnapshotDownload, WrongBytesNeverGetAFinalName) {
  World world;
  MemoryFileSystem files;
  SimulatedHub lying;
  lying.contents["model.safetensors"] = "the WEIGHTS of the model";
  world.hub.fault = [&](const HttpRequest& request, HttpResult&) {
    if (request.url == "http://store/model.safetensors")
      world.hub.contents["model.safetensors"] = "the WEIGHTS of the model";
    return false;
  };
  const std::string right = world.hub.etag("model.safetensors");
  const std::string message = world.failure(files, ErrorCode::kBadData);
  EXPECT_NE(
      message.find("have the SHA-256 " + lying.etag("model.safetensors") + ", but the hub lists " + right),
      std::string::npos)
      << message;
  for (const FolderEntry& entry : files.list(std::string(kFolder) + "/blobs"))
    EXPECT_FALSE(entry.name.starts_with(right)) << entry.name;
  EXPECT_FALSE(files.status(std::string(kFolder) + "/refs/main")) << "the snapshot is not complete";
}

// Another program may have left an incomplete file with wrong bytes. These bytes must be discarded, and the whole file must be
// downloaded.
TEST(SnapshotDownload, ReplacesAForeignIncompleteFile) {
  for (const char* left :
       {"wrong", "24 bytes that are wrong.", "more bytes than the file has, which cannot be right"}) {
    World world;
    MemoryFileSystem files;
    make_folders(files, std::string(kFolder) + "/blobs");
    write_synced_file(
        files, std::string(kFolder) + "/blobs/" + world.hub.etag("model.safetensors") + ".incomplete", left);
    world.download(files);
    expect_complete(files, world.hub, left);
  }
}

TEST(SnapshotDownload, AnotherTagDuringTheDownloadIsAnError) {
  World world;
  MemoryFileSystem files;
  world.hub.cut = 10;
  world.hub.num_cuts = 1;
  int num_reads = 0;
  world.hub.fault = [&](const HttpRequest& request, HttpResult& result) {
    const bool is_file = request.url.ends_with("/config.json") && !request.only_head;
    if (!is_file || ++num_reads < 2) return false;
    result.head = {.status = 206, .headers = {{"etag", "\"other\""}}};
    return true;
  };
  const std::string message = world.failure(files, ErrorCode::kBadData);
  EXPECT_NE(message.find("changed on hub during the download: its entity tag was '" +
                         world.hub.etag("config.json") + "' and is 'other'"),
            std::string::npos)
      << message;
}

TEST(SnapshotDownload, WaitsAsTheServerAsks) {
  World world;
  MemoryFileSystem files;
  int num_refusals = 3;
  world.hub.fault = [&](const HttpRequest&, HttpResult& result) {
    if (num_refusals-- <= 0) return false;
    result.head = {.status = 429, .headers = {{"retry-after", "7"}}};
    return true;
  };
  world.download(files);
  EXPECT_EQ(world.pace.waited_ms, 3 * 7000);
  EXPECT_EQ(world.callback.waits.at(0), "hub answered with status 429; trying again in 7 s");
  num_refusals = 100;
  world.request.revision = "main";
  EXPECT_NE(world.failure(files, ErrorCode::kDevice).find("hub answered with status 429"), std::string::npos);
}

// Retry-After may be a date. A server that asks for a long wait ends the download, and the message states the wait.
TEST(SnapshotDownload, WaitsUntilADateAndNotForHours) {
  std::string retry_after = "Fri, 31 Dec 1999 23:59:59 GMT";
  World world;
  MemoryFileSystem files;
  int num_refusals = 1;
  world.hub.fault = [&](const HttpRequest&, HttpResult& result) {
    if (num_refusals-- <= 0) return false;
    result.head = {.status = 503, .headers = {{"retry-after", retry_after}}};
    return true;
  };
  world.download(files);
  EXPECT_EQ(world.callback.waits.at(0), "hub answered with status 503; trying again in 0 s");
  num_refusals = 1;
  retry_after = "3600";
  world.request.revision = "main";
  const std::string message = world.failure(files, ErrorCode::kDevice);
  EXPECT_NE(message.find("status 503 (it asks to wait 3600 s) when asked for"), std::string::npos) << message;
  EXPECT_EQ(world.callback.waits.size(), 1u);
}

// The hub redirects to a storage host. If that host refuses, the hub is asked again for an address, and the message names the host instead
// of advising a token for the hub.
TEST(SnapshotDownload, ARefusalOfTheStorageIsNotOneOfTheHub) {
  for (const int status : {400, 403, 404}) {
    World world;
    MemoryFileSystem files;
    int num_refusals = 2, num_asked = 0;
    world.hub.fault = [&](const HttpRequest& request, HttpResult& result) {
      num_asked +=
          request.url.starts_with("http://hub/") && request.url.ends_with("/model.safetensors") ? 1 : 0;
      if (!request.url.starts_with("http://store/") || num_refusals-- <= 0) return false;
      result.head = {.status = status};
      return true;
    };
    world.download(files);
    EXPECT_GE(num_asked, 3);
    ASSERT_EQ(world.callback.waits.size(), 2u);
    EXPECT_NE(world.callback.waits[0].find(
                  fmt::format("hub redirects to store, which answered with status {}", status)),
              std::string::npos)
        << world.callback.waits[0];
    num_refusals = 100;
    MemoryFileSystem others;
    const std::string message = world.failure(others, ErrorCode::kDevice);
    EXPECT_NE(message.find(fmt::format("hub redirects to store, which answered with status {}", status)),
              std::string::npos)
        << message;
    EXPECT_EQ(message.find("HF_TOKEN"), std::string::npos) << message;
  }
}

TEST(SnapshotDownload, ReasonsOfRefusals) {
  struct Case {
    HttpHead head;
    const char* words;
  };
  for (const Case& c :
       {Case{{.status = 401}, "has no model 'org/name', or it is private and the token may not read it"},
        Case{{.status = 403, .headers = {{"x-error-code", "GatedRepo"}}},
             "Open http://hub/org/name in a browser"},
        Case{{.status = 404, .headers = {{"x-error-code", "RevisionNotFound"}}}, "has no revision 'main'"},
        Case{{.status = 400}, "answered with status 400"}}) {
    World world;
    MemoryFileSystem files;
    world.hub.fault = [&](const HttpRequest&, HttpResult& result) {
      result.head = c.head;
      return true;
    };
    EXPECT_NE(world.failure(files, ErrorCode::kBadData).find(c.words), std::string::npos)
        << world.failure(files, ErrorCode::kBadData);
    EXPECT_EQ(files.list("/").size(), 0u);
  }
}

TEST(SnapshotDownload, AMissingFileIsRemembered) {
  World world;
  MemoryFileSystem files;
  world.request.files = {"absent.json"};
  EXPECT_NE(world.failure(files, ErrorCode::kBadData).find("has no file 'absent.json'"), std::string::npos);
  EXPECT_TRUE(files.status(std::string(kFolder) + "/.no_exist/" + SimulatedHub::kCommit + "/absent.json"));
}

TEST(SnapshotDownload, WaitsForTheLockOfAnotherProcess) {
  World world;
  MemoryFileSystem files;
  make_folders(files, "/cache/.locks/models--org--name");
  const std::string path = "/cache/.locks/models--org--name/" + world.hub.etag("config.json") + ".lock";
  auto lock = files.try_lock(path);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(files.try_lock(path));
  world.callback.calls_left = 60;
  EXPECT_NE(world.failure(files, ErrorCode::kInterrupted).find("interrupted"), std::string::npos);
  ASSERT_FALSE(world.callback.waits.empty());
  EXPECT_NE(world.callback.waits[0].find("another process downloads config.json"), std::string::npos);
  lock.reset();
  world.callback.calls_left = -1;
  world.download(files);
  expect_complete(files, world.hub, "after the lock");
}

TEST(SnapshotDownload, HostileListsAreRefused) {
  for (const char* path : {"../x", "/etc/x", "a/../../x", "a//b", "a/", "a\nb", "\x1b]0;x\x07", ""}) {
    World world;
    MemoryFileSystem files;
    world.hub.fault = [&](const HttpRequest&, HttpResult&) { return false; };
    world.hub.contents.clear();
    world.hub.contents[path] = "x";
    EXPECT_NE(world.failure(files, ErrorCode::kBadData).find("without a valid path"), std::string::npos)
        << path;
  }
}

TEST(SnapshotDownload, DotsInNamesAreNoFolders) {
  World world;
  MemoryFileSystem files;
  for (const char* path : {"a..b.json", "..c/d.json", "...json"}) world.hub.contents[path] = "{}";
  world.request.include = {"*.json"};
  world.download(files);
  // The second download must read the list of files from the cache instead of requesting it.
  world.hub.log.clear();
  files.remove_file(snapshot_file("a..b.json"));
  world.download(files);
  for (const char* path : {"a..b.json", "..c/d.json", "...json"})
    EXPECT_TRUE(files.status(snapshot_file(path))) << path;
  for (const std::string& request : world.hub.log)
    EXPECT_EQ(request.find("/tree/"), std::string::npos) << request;
}

TEST(SnapshotDownload, AListWithoutAnEndIsRefused) {
  World world;
  MemoryFileSystem files;
  int page = 0;
  world.hub.fault = [&](const HttpRequest& request, HttpResult& result) {
    if (request.url.find("/tree/") == std::string::npos) return false;
    result.head.headers["link"] =
        fmt::format("<{}&cursor={}>; rel=\"next\"", request.url.substr(0, 60), ++page);
    return false;
  };
  EXPECT_EQ(world.failure(files, ErrorCode::kBadData),
            "hub lists the files of 'org/name' on more than 1000 pages, and 4000 files so far; check "
            "HF_ENDPOINT and "
            "the proxy");
}

// Text from a server must be escaped in messages, so that it can neither send control sequences to the terminal nor add lines.
TEST(SnapshotDownload, MessagesHaveNoControlCharactersOfTheServer) {
  const std::string bad = "x\x1b[2J\r\ny";
  const std::string shown = "x\\x1b[2J\\x0d\\x0ay";
  const auto expect_shown = [&](const HttpResult& answer, ErrorCode code) {
    World world;
    MemoryFileSystem files;
    world.hub.fault = [&](const HttpRequest&, HttpResult& result) {
      result = answer;
      return true;
    };
    const std::string message = world.failure(files, code);
    EXPECT_NE(message.find(shown), std::string::npos) << message;
    EXPECT_EQ(message.find('\x1b'), std::string::npos) << message;
  };
  for (const int status : {400, 403, 404}) {
    HttpResult answer;
    answer.head = {.status = status, .headers = {{"x-error-message", bad}}};
    expect_shown(answer, ErrorCode::kBadData);
  }
  HttpResult redirect;
  redirect.head = {.status = 302, .headers = {{"location", "ftp://" + bad}}};
  expect_shown(redirect, ErrorCode::kBadData);
  HttpResult failure;
  failure.failure = bad;
  failure.is_unreachable = true;
  expect_shown(failure, ErrorCode::kDevice);
  World world;
  MemoryFileSystem files;
  world.hub.fault = [&](const HttpRequest& request, HttpResult& result) {
    if (!request.only_head) return false;
    result.head = {.status = 200, .headers = {{"etag", bad}}};
    return true;
  };
  const std::string message = world.failure(files, ErrorCode::kBadData);
  EXPECT_NE(message.find("the entity tag '" + shown + "'"), std::string::npos) << message;
}

// An HTTP client for a hub whose URL contains a name and password. Passes all requests on to a simulated hub. Counts those with the name
// and password, records the URLs of all others, and expects that no request has the header Authorization.
class HubWithPassword final : public HttpClient {
 public:
  static constexpr std::string_view kStart = "http://me:pass%40word@";
  HttpResult send(const HttpRequest& request, const BodySink& sink,
                  const std::function<bool()>& should_stop) override {
    HttpRequest other = request;
    if (request.url.starts_with(kStart)) {
      ++num_with_password;
      other.url = "http://" + request.url.substr(kStart.size());
    } else {
      urls_without.push_back(request.url);
    }
    for (const std::string& header : request.headers)
      EXPECT_FALSE(header.starts_with("Authorization")) << request.url;
    return hub.send(other, sink, should_stop);
  }
  SimulatedHub hub;
  int num_with_password = 0;
  std::vector<std::string> urls_without;
};

// The name and password in HF_ENDPOINT must be sent to the hub only. Neither other hosts nor error messages may receive them.
TEST(SnapshotDownload, CredentialsOfTheEndpointAreSentButNotShown) {
  HubWithPassword client;
  MemoryFileSystem files;
  const HubAccess access = hub_access(
      files, {{"HF_ENDPOINT", "http://me:pass%40word@hub/"}, {"HF_TOKEN", "secret"}, {"HOME", "/home"}});
  World world;
  HubRequests requests(client, access, world.pace);
  SnapshotDownload download(files, requests, testing::kEnvironment, world.request, world.parts);
  EXPECT_EQ(download.plan().endpoint, "http://hub");
  download.run();
  expect_complete(files, client.hub, "with a password");
  EXPECT_GE(client.num_with_password, 5);
  EXPECT_EQ(client.urls_without, std::vector<std::string>{"http://store/model.safetensors"});
}

}  // namespace
}  // namespace plimsoll
