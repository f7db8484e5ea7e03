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

// Bytes of another program in the incomplete file are replaced if they do not belong to the file.
TEST(SnapshotDownload, ReplacesAForeignIncompleteFile) {
  for (const char* left :
       {"wrong", "wrong bytes of all 24..", "more bytes than the file has, which cannot be right"}) {
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

}  // namespace
}  // namespace plimsoll
