// Tests the content, selection, rotation and cleaning of checkpoints, and the order of the system calls. The
// tests with a failing disk and with power failures are in checkpoint_fault_test.cc.
#include "io/ckpt/checkpoint.h"

#include <gtest/gtest.h>
#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/file_fault.h"
#include "io/ckpt/testing/checkpoint_fixture.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

std::string names_in(FileSystem& files, const std::string& folder) {
  std::string names;
  for (const FolderEntry& entry : files.list(folder)) names += entry.name + " ";
  return names;
}

TEST(Checkpoint, HoldsWhatWasSaved) {
  MemoryFileSystem files;
  CheckpointFixture fixture(8);
  EXPECT_EQ(fixture.save(files), "/out/checkpoint-8");
  EXPECT_EQ(
      names_in(files, "/out/checkpoint-8"),
      "config.json model.safetensors notes.json optimizer.safetensors plimsoll_manifest.json run_state.json "
      "trainer_state.json vocab.txt ");
  EXPECT_EQ(find_damage(files, "/out/checkpoint-8", VerifyDepth::kHashes), std::nullopt);
  const OpenCheckpoint opened = open_checkpoint(files, "/out/checkpoint-8");
  EXPECT_EQ(opened.step, 8);
  EXPECT_EQ(nlohmann::json::parse(opened.run_state_json),
            nlohmann::json::parse(fixture.contents.run_state_json));
  EXPECT_EQ(opened.run, fixture.contents.run);
  EXPECT_EQ(read_text_file(files, "/out/checkpoint-8/trainer_state.json", 1000),
            fixture.contents.trainer_state_json);
  EXPECT_EQ(opened.model.tokenizer_files(), (std::vector<std::string>{"vocab.txt"}));
  EXPECT_TRUE(fixture.equals(opened));
}

// A state is restored exactly: 64-bit integers, doubles with all digits, names beyond ASCII.
TEST(Checkpoint, RunStateIsExact) {
  MemoryFileSystem files;
  CheckpointFixture fixture(1);
  fixture.contents.run_state_json =
      R"({"seed": 18446744073709551615, "min": -9223372036854775808, "loss": 0.1, "tiny": 5e-324, "third": 0.33333333333333331, "name": "ä\u0000\n"})";
  fixture.save(files);
  const auto state = nlohmann::json::parse(open_checkpoint(files, "/out/checkpoint-1").run_state_json);
  EXPECT_EQ(state, nlohmann::json::parse(fixture.contents.run_state_json));
  EXPECT_EQ(state["third"].get<double>(), 1.0 / 3.0);
}

TEST(Checkpoint, OrderOfSystemCalls) {
  MemoryFileSystem disk;
  CheckpointFixture fixture(2);
  fixture.prepare(disk);
  FaultyFileSystem files(disk);
  fixture.save(files);
  const auto written = [](const std::string& name, const std::string& sizes) {
    const std::string path = "/out/tmp-checkpoint-2/" + name;
    std::vector<std::string> calls = {"create " + path};
    std::string size;
    for (const char c : sizes + " ") {
      if (c != ' ') {
        size.push_back(c);
      } else {
        calls.push_back(fmt::format("write {} {}", path, size));
        size.clear();
      }
    }
    calls.push_back("sync " + path);
    calls.push_back("close " + path);
    return calls;
  };
  std::vector<std::string> expected = {"make folder /out", "sync folder /",
                                       "make folder /out/tmp-checkpoint-2"};
  const auto size_of = [&](const std::string& name) {
    return std::to_string(disk.status("/out/checkpoint-2/" + name)->size_bytes);
  };
  const auto expect_file = [&](const std::string& name, const std::string& sizes) {
    for (const std::string& call : written(name, sizes)) expected.push_back(call);
  };
  expect_file("config.json", size_of("config.json"));
  expect_file("vocab.txt", size_of("vocab.txt"));
  // The first write() call writes the header. One call per tensor follows, in the order of the format.
  const auto header_of = [&](const std::string& name, int64_t data_bytes) {
    return std::to_string(disk.status("/out/checkpoint-2/" + name)->size_bytes - data_bytes);
  };
  expect_file("model.safetensors", header_of("model.safetensors", 60) + " 12 48");
  expect_file("notes.json", size_of("notes.json"));
  expect_file("trainer_state.json", size_of("trainer_state.json"));
  expect_file("optimizer.safetensors", header_of("optimizer.safetensors", 96) + " 48 48");
  expect_file("run_state.json", size_of("run_state.json"));
  expect_file("plimsoll_manifest.json", size_of("plimsoll_manifest.json"));
  expected.push_back("sync folder /out/tmp-checkpoint-2");
  expected.push_back("rename /out/tmp-checkpoint-2 /out/checkpoint-2");
  expected.push_back("sync folder /out");
  EXPECT_EQ(files.trace(), expected);
}

TEST(Checkpoint, NewestThatVerifiesIsChosenAndOthersAreExplained) {
  MemoryFileSystem files;
  for (const int64_t step : {2, 4, 6, 8, 10, 12, 14}) CheckpointFixture(step).save(files);
  files.damage("/out/checkpoint-14/model.safetensors", 220);
  files.remove_file("/out/checkpoint-12/optimizer.safetensors");
  files.remove_file("/out/checkpoint-10/plimsoll_manifest.json");
  write_synced_file(files, "/out/checkpoint-8/vocab.txt", "longer than before");
  write_synced_file(files, "/out/checkpoint-6/plimsoll_manifest.json", R"({"schema_version": 3})");
  make_folders(files, "/out/checkpoint-abc");
  make_folders(files, "/out/checkpoint-007");
  write_synced_file(files, "/out/checkpoint-99", "a file");
  const NewestCheckpoint newest = find_newest_verified(files, "/out");
  EXPECT_EQ(newest.path, "/out/checkpoint-4");
  EXPECT_EQ(newest.step, 4);
  const std::pair<const char*, const char*> skipped[] = {
      {"/out/checkpoint-14", "model.safetensors has the hash"},
      {"/out/checkpoint-12", "optimizer.safetensors is missing"},
      {"/out/checkpoint-10",
       "it has no plimsoll_manifest.json, so it is not a complete checkpoint of Plimsoll"},
      {"/out/checkpoint-8", "vocab.txt has 18 bytes, but the manifest says 6"},
      {"/out/checkpoint-6",
       "the checkpoint has schema version 3, but this version of Plimsoll reads 1 and 2"},
  };
  ASSERT_EQ(newest.skipped.size(), std::size(skipped));
  for (size_t i = 0; i < std::size(skipped); ++i) {
    EXPECT_EQ(newest.skipped[i].path, skipped[i].first);
    EXPECT_NE(newest.skipped[i].reason.find(skipped[i].second), std::string::npos)
        << newest.skipped[i].reason;
  }
  // A flipped bit cannot be detected by sizes alone.
  EXPECT_EQ(find_newest_verified(files, "/out", VerifyDepth::kSizes).step, 14);
}

TEST(Checkpoint, EveryFlippedByteIsFound) {
  MemoryFileSystem good;
  CheckpointFixture(3).save(good);
  int64_t num_flips = 0;
  for (const FolderEntry& entry : good.list("/out/checkpoint-3")) {
    const std::string path = join_path("/out/checkpoint-3", entry.name);
    if (entry.name == kManifestFile) continue;
    for (int64_t byte = 0; byte < good.status(path)->size_bytes; byte += 5) {
      const auto bad = good.clone();
      bad->damage(path, byte);
      EXPECT_NE(find_damage(*bad, "/out/checkpoint-3", VerifyDepth::kHashes), std::nullopt)
          << path << " " << byte;
      ++num_flips;
    }
  }
  EXPECT_GT(num_flips, 100);
}

TEST(Checkpoint, BadManifestsAreReasonsNotFailures) {
  const std::string bad[] = {
      "",
      "[]",
      "{}",
      "{\"schema_version\": 1}",
      "{\"schema_version\": \"1\"}",
      "{\"schema_version\": 1, \"step\": -1}",
      R"({"schema_version": 1, "step": 3, "files": []})",
      R"({"schema_version": 1, "step": 3, "files": [1]})",
      R"({"schema_version": 1, "step": 3, "files": [{"name": "../x", "bytes": 1, "xxh3_128": "0"}]})",
      R"({"schema_version": 1, "step": 3, "files": [{"name": "x", "bytes": -1, "xxh3_128": "0"}]})",
      R"({"schema_version": 1, "step": 3, "files": [{"name": "x", "bytes": 1, "xxh3_128": "0"}]})",
      R"({"schema_version": 1, "step": 3, "files": [{"name": "x", "bytes": 1}]})",
      R"({"schema_version": 2, "step": 3, "files": [{"name": "x", "bytes": 1, "parts": []}]})",
      R"({"schema_version": 2, "step": 3, "files": [{"name": "x", "bytes": 1, "parts": [1]}]})",
      R"({"schema_version": 2, "step": 3, "files": [{"name": "x", "bytes": 1, "parts": [{"bytes": 1}]}]})",
      R"({"schema_version": 2, "step": 3, "files": [{"name": "x", "bytes": 2, "parts":
          [{"bytes": 1, "xxh3_128": "00112233445566778899aabbccddeeff"}]}]})",
      R"({"schema_version": 2, "step": 3, "files": [{"name": "x", "bytes": 1, "parts":
          [{"bytes": 9223372036854775807, "xxh3_128": "00112233445566778899aabbccddeeff"}]}]})",
      std::string(100000, '['),
  };
  for (const std::string& text : bad) {
    MemoryFileSystem files;
    CheckpointFixture(3).save(files);
    write_synced_file(files, "/out/checkpoint-3/plimsoll_manifest.json", text);
    EXPECT_NE(find_damage(files, "/out/checkpoint-3", VerifyDepth::kSizes), std::nullopt)
        << text.substr(0, 100);
    const NewestCheckpoint newest = find_newest_verified(files, "/out");
    EXPECT_EQ(newest.path, "");
    EXPECT_EQ(newest.skipped.size(), 1u);
  }
}

TEST(Checkpoint, EmptyAndMissingFoldersHaveNone) {
  MemoryFileSystem files;
  EXPECT_EQ(find_newest_verified(files, "/nowhere").path, "");
  files.make_folder("/out");
  EXPECT_EQ(find_newest_verified(files, "/out").path, "");
  EXPECT_TRUE(remove_leftovers(files, "/nowhere").empty());
}

TEST(Checkpoint, ModelOnlyIsAModelButNotResumable) {
  MemoryFileSystem files;
  CheckpointFixture fixture(5);
  fixture.contents.run_state_json.clear();
  fixture.save(files);
  EXPECT_EQ(find_damage(files, "/out/checkpoint-5", VerifyDepth::kHashes), std::nullopt);
  EXPECT_FALSE(files.status("/out/checkpoint-5/optimizer.safetensors"));
  EXPECT_TRUE(ModelFolder::open(files, "/out/checkpoint-5").has_weights());
  const NewestCheckpoint newest = find_newest_verified(files, "/out");
  EXPECT_EQ(newest.path, "");
  EXPECT_NE(newest.skipped.at(0).reason.find("--save_only_model"), std::string::npos);
  try {
    open_checkpoint(files, "/out/checkpoint-5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadData);
  }
}

// A complete run may save its state without the optimizer states.
TEST(Checkpoint, WithoutOptimizerStatesItIsResumable) {
  MemoryFileSystem files;
  CheckpointFixture fixture(5);
  fixture.contents.has_optimizer_states = false;
  fixture.save(files);
  EXPECT_EQ(find_damage(files, "/out/checkpoint-5", VerifyDepth::kHashes), std::nullopt);
  EXPECT_FALSE(files.status("/out/checkpoint-5/optimizer.safetensors"));
  EXPECT_EQ(find_newest_verified(files, "/out").path, "/out/checkpoint-5");
  const OpenCheckpoint opened = open_checkpoint(files, "/out/checkpoint-5");
  EXPECT_FALSE(opened.optimizer);
  EXPECT_EQ(opened.step, 5);
}

TEST(Checkpoint, ARenamedFolderIsNotMistakenForAnotherStep) {
  MemoryFileSystem files;
  CheckpointFixture(5).save(files);
  files.rename("/out/checkpoint-5", "/out/checkpoint-50");
  const NewestCheckpoint newest = find_newest_verified(files, "/out");
  EXPECT_EQ(newest.path, "");
  EXPECT_NE(newest.skipped.at(0).reason.find("its manifest says step 5"), std::string::npos);
  EXPECT_EQ(open_checkpoint(files, "/out/checkpoint-50").step, 5) << "asked for by name it opens";
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  MemoryFileSystem files;
  CheckpointFixture first(5);
  first.save(files);
  CheckpointFixture second(5, "second");
  second.save(files);
  EXPECT_EQ(names_in(files, "/out"), "checkpoint-5 ");
  EXPECT_TRUE(second.equals(open_checkpoint(files, "/out/checkpoint-5")));
  EXPECT_FALSE(first.equals(open_checkpoint(files, "/out/checkpoint-5")));
}

TEST(Checkpoint, RotationKeepsTheNewestAndTheBest) {
  MemoryFileSystem files;
  for (const int64_t step : {2, 4, 6, 8, 10}) CheckpointFixture(step).save(files);
  make_folders(files, "/out/checkpoint-3");  // a folder without a manifest is not a checkpoint of Plimsoll
  EXPECT_EQ(rotate_checkpoints(files, "/out", 5, "/out/checkpoint-10", ""), std::vector<std::string>{});
  EXPECT_EQ(rotate_checkpoints(files, "/out", 3, "/out/checkpoint-10", "/out/checkpoint-2"),
            (std::vector<std::string>{"/out/checkpoint-4", "/out/checkpoint-6"}));
  EXPECT_EQ(names_in(files, "/out"), "checkpoint-10 checkpoint-2 checkpoint-3 checkpoint-8 ");
  EXPECT_EQ(rotate_checkpoints(files, "/out", 1, "/out/checkpoint-10", "/out/checkpoint-2"),
            (std::vector<std::string>{"/out/checkpoint-8"}));
  EXPECT_EQ(names_in(files, "/out"), "checkpoint-10 checkpoint-2 checkpoint-3 ")
      << "limit 1 and best: two remain";
}

TEST(Checkpoint, RotationRemovesDamagedOnesFirstAndNothingWithoutACommit) {
  MemoryFileSystem files;
  for (const int64_t step : {2, 4, 6}) CheckpointFixture(step).save(files);
  files.remove_file("/out/checkpoint-4/vocab.txt");
  EXPECT_EQ(rotate_checkpoints(files, "/out", 1, "/out/checkpoint-8", ""), std::vector<std::string>{});
  EXPECT_EQ(rotate_checkpoints(files, "/out", 1, "/out/checkpoint-4", ""), std::vector<std::string>{});
  EXPECT_EQ(rotate_checkpoints(files, "/out", 2, "/out/checkpoint-6", ""),
            (std::vector<std::string>{"/out/checkpoint-4"}));
  EXPECT_EQ(names_in(files, "/out"), "checkpoint-2 checkpoint-6 ");
}

constexpr const char* kEarlier = "2025-12-31T23:59:59.999999Z";

CheckpointFixture of_another_run(int64_t step) {
  CheckpointFixture fixture(step, "other");
  fixture.contents.run = {"00000000000000bb", kEarlier};
  return fixture;
}

TEST(Checkpoint, RotationLeavesOtherRunsAlone) {
  MemoryFileSystem files;
  for (const int64_t step : {1, 3, 100}) of_another_run(step).save(files);
  CheckpointFixture unknown(5);
  unknown.contents.run = {};
  unknown.save(files);
  for (const int64_t step : {2, 4, 6}) CheckpointFixture(step).save(files);
  write_synced_file(files, "/out/checkpoint-3/plimsoll_manifest.json", "{}");
  EXPECT_EQ(rotate_checkpoints(files, "/out", 1, "/out/checkpoint-6", ""),
            (std::vector<std::string>{"/out/checkpoint-2", "/out/checkpoint-4"}));
  EXPECT_EQ(names_in(files, "/out"), "checkpoint-1 checkpoint-100 checkpoint-3 checkpoint-5 checkpoint-6 ");
  // Checkpoints of earlier versions have no identity and count as one run.
  EXPECT_EQ(rotate_checkpoints(files, "/out", 1, "/out/checkpoint-5", ""), std::vector<std::string>{});
}

TEST(Checkpoint, TheNewestIsOfTheRunThatBeganLast) {
  MemoryFileSystem files;
  for (const int64_t step : {50, 100}) of_another_run(step).save(files);
  for (const int64_t step : {2, 4}) CheckpointFixture(step).save(files);
  NewestCheckpoint newest = find_newest_verified(files, "/out");
  EXPECT_EQ(newest.path, "/out/checkpoint-4");
  EXPECT_EQ(newest.run.id, "00000000000000aa");
  EXPECT_TRUE(newest.skipped.empty());
  files.remove_file("/out/checkpoint-4/vocab.txt");
  files.remove_file("/out/checkpoint-2/vocab.txt");
  newest = find_newest_verified(files, "/out");
  EXPECT_EQ(newest.path, "/out/checkpoint-100");
  EXPECT_EQ(newest.skipped.size(), 2u);

  const std::vector<ListedCheckpoint> list = list_checkpoints(files, "/out");
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].path, "/out/checkpoint-2");
  EXPECT_EQ(list[3].run, (RunIdentity{"00000000000000bb", kEarlier}));
}

TEST(Checkpoint, TextsThatComeInPiecesAreWhole) {
  MemoryFileSystem files;
  CheckpointFixture fixture(3);
  std::string expected;
  fixture.contents.streamed = {{"log.jsonl", [&](const PutText& put) {
                                  for (int i = 0; i < 100000; ++i) {
                                    const std::string piece = std::to_string(i) + "\n";
                                    expected += piece;
                                    put(piece);
                                  }
                                }}};
  fixture.save(files);
  EXPECT_GT(std::ssize(expected), 2 * kFileChunkBytes);
  EXPECT_EQ(read_text_file(files, "/out/checkpoint-3/log.jsonl", std::ssize(expected)), expected);
  EXPECT_EQ(find_damage(files, "/out/checkpoint-3", VerifyDepth::kHashes), std::nullopt);
}

TEST(Checkpoint, LeftoversOfAKilledRunGo) {
  MemoryFileSystem files;
  CheckpointFixture(4).save(files);
  for (const char* folder :
       {"tmp-checkpoint-6", "tmp-removed-checkpoint-2", "tmp-removed-checkpoint-2.replaced", "tmp-mine",
        "checkpoint-4.replaced", "tmp-checkpoint-x"}) {
    make_folders(files, join_path("/out", folder));
    write_synced_file(files, join_path(join_path("/out", folder), "file"), "x");
  }
  files.make_link("checkpoint-4", "/out/.plimsoll-tmp-best");
  write_synced_file(files, "/out/.plimsoll-tmp-config.json", "{");
  EXPECT_EQ(
      remove_leftovers(files, "/out"),
      (std::vector<std::string>{"/out/.plimsoll-tmp-best", "/out/.plimsoll-tmp-config.json",
                                "/out/checkpoint-4.replaced", "/out/tmp-checkpoint-6",
                                "/out/tmp-removed-checkpoint-2", "/out/tmp-removed-checkpoint-2.replaced"}));
  EXPECT_EQ(names_in(files, "/out"), "checkpoint-4 tmp-checkpoint-x tmp-mine ");
}

TEST(Checkpoint, AReplacedCheckpointComesBackIfItsReplacementDidNotArrive) {
  MemoryFileSystem files;
  CheckpointFixture fixture(4);
  fixture.save(files);
  files.rename("/out/checkpoint-4", "/out/checkpoint-4.replaced");
  EXPECT_EQ(find_newest_verified(files, "/out").path, "/out/checkpoint-4.replaced");
  EXPECT_TRUE(remove_leftovers(files, "/out").empty());
  EXPECT_EQ(find_newest_verified(files, "/out").path, "/out/checkpoint-4");
}

TEST(Checkpoint, LinksMoveAtomically) {
  MemoryFileSystem disk;
  for (const int64_t step : {2, 4}) CheckpointFixture(step).save(disk);
  FaultyFileSystem files(disk);
  EXPECT_TRUE(point_link(files, "/out", "best", "/out/checkpoint-2"));
  EXPECT_TRUE(point_link(files, "/out", "best", "/out/checkpoint-2")) << "no call if it is right already";
  EXPECT_TRUE(point_link(files, "/out", "best", "/out/checkpoint-4"));
  const std::vector<std::string> expected = {"make link /out/.plimsoll-tmp-best checkpoint-2",
                                             "rename /out/.plimsoll-tmp-best /out/best",
                                             "sync folder /out",
                                             "make link /out/.plimsoll-tmp-best checkpoint-4",
                                             "rename /out/.plimsoll-tmp-best /out/best",
                                             "sync folder /out"};
  EXPECT_EQ(files.trace(), expected);
  EXPECT_EQ(open_checkpoint(disk, "/out/best").step, 4);
  FaultyFileSystem without(disk);
  without.fail_at(0, EPERM);
  EXPECT_FALSE(point_link(without, "/out", "last", "/out/checkpoint-4"));
}

TEST(Checkpoint, Names) {
  EXPECT_EQ(checkpoint_step("/a/b/checkpoint-12"), 12);
  EXPECT_EQ(checkpoint_step("checkpoint-0"), 0);
  for (const char* bad :
       {"checkpoint-", "checkpoint--1", "checkpoint-+1", "checkpoint-01", "checkpoint-1x", "xcheckpoint-1",
        "checkpoint-99999999999999999999", "tmp-checkpoint-1", "checkpoint-1.replaced"}) {
    EXPECT_EQ(checkpoint_step(bad), std::nullopt) << bad;
  }
}

// Repeats the test on the real disk.
TEST(Checkpoint, RealDisk) {
  const test::ScratchFolder scratch;
  const std::string& root = scratch.path();
  FileSystem& files = posix_file_system();
  CheckpointFixture fixture(7, "", root);
  const std::string path = fixture.save(files);
  EXPECT_EQ(find_damage(files, path, VerifyDepth::kHashes), std::nullopt);
  EXPECT_TRUE(point_link(files, fixture.output, "last", path));
  EXPECT_TRUE(fixture.equals(open_checkpoint(files, join_path(fixture.output, "last"))));
  // A folder of the user with the name of the link is kept, and no other files remain.
  files.make_folder(join_path(fixture.output, "best"));
  EXPECT_FALSE(point_link(files, fixture.output, "best", path));
  EXPECT_EQ(files.status(join_path(fixture.output, "best"))->kind, FileKind::kFolder);
  EXPECT_TRUE(remove_leftovers(files, fixture.output).empty());
  CheckpointFixture(9, "", root).save(files);
  EXPECT_EQ(rotate_checkpoints(files, fixture.output, 1, join_path(fixture.output, "checkpoint-9"), ""),
            std::vector<std::string>{path});
  EXPECT_EQ(find_newest_verified(files, fixture.output).step, 9);
  remove_tree(files, root);
  EXPECT_FALSE(files.status(root));
}

}  // namespace
}  // namespace plimsoll
