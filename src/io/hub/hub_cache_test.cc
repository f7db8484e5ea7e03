#include "io/hub/hub_cache.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/file_fault.h"

namespace plimsoll {
namespace {

std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::kBadData)) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(HubCache, FolderFollowsTheVariables) {
  HubEnvironment environment{.hf_hub_cache = {},
                             .huggingface_hub_cache = {},
                             .hf_home = {},
                             .xdg_cache_home = {},
                             .home = "/home/u"};
  EXPECT_EQ(hub_cache_folder(environment), "/home/u/.cache/huggingface/hub");
  environment.xdg_cache_home = "/xdg";
  EXPECT_EQ(hub_cache_folder(environment), "/xdg/huggingface/hub");
  environment.hf_home = "~/hf";
  EXPECT_EQ(hub_cache_folder(environment), "/home/u/hf/hub");
  environment.huggingface_hub_cache = "/old";
  EXPECT_EQ(hub_cache_folder(environment), "/old");
  environment.hf_hub_cache = "/new";
  EXPECT_EQ(hub_cache_folder(environment), "/new");
  environment.hf_hub_cache = "";
  EXPECT_EQ(hub_cache_folder(environment), "/old") << "empty is unset";
}

// The expected paths are the results of os.path.expanduser() in Python 3.11 for "~/.cache/huggingface/hub" and for the values of HF_HOME,
// with these values of HOME.
TEST(HubCache, FolderWithOddHomes) {
  HubEnvironment environment;
  EXPECT_EQ(hub_cache_folder(environment), "") << "nobody knows a home";
  environment.home = "";
  EXPECT_EQ(hub_cache_folder(environment), "/.cache/huggingface/hub");
  environment.home = "/";
  EXPECT_EQ(hub_cache_folder(environment), "/.cache/huggingface/hub");
  environment.home = "/home/u/";
  EXPECT_EQ(hub_cache_folder(environment), "/home/u/.cache/huggingface/hub");
  environment.hf_home = "~";
  EXPECT_EQ(hub_cache_folder(environment), "/home/u/hub");
  environment.hf_home = "~other/hf";
  EXPECT_EQ(hub_cache_folder(environment), "");
}

// If the "~" in a path cannot be expanded, the path must be neither searched nor shown as if it were a folder. Each case contains the
// environment variables and a part of the expected message.
TEST(HubCache, UnknownPlacesAreNamedInsteadOfSearched) {
  struct Case {
    HubEnvironment environment;
    const char* words;
  };
  const HubEnvironment none{
      .hf_hub_cache = {}, .huggingface_hub_cache = {}, .hf_home = {}, .xdg_cache_home = {}, .home = {}};
  const auto with = [&](std::optional<std::string> HubEnvironment::*field, const char* value) {
    HubEnvironment environment = none;
    environment.*field = value;
    return environment;
  };
  MemoryFileSystem files;
  for (const Case& c :
       {Case{none, "has neither HOME nor"}, Case{with(&HubEnvironment::hf_home, "~/hf"), "neither HOME nor"},
        Case{with(&HubEnvironment::hf_hub_cache, "~"), "neither HOME nor"},
        Case{with(&HubEnvironment::xdg_cache_home, "~/x"), "neither HOME nor"},
        Case{with(&HubEnvironment::hf_home, "~other/hf"), "HF_HOME names another user's"},
        Case{with(&HubEnvironment::huggingface_hub_cache, "~other"), "HUGGINGFACE_HUB_CACHE names"}}) {
    try {
      find_in_hub_cache(files, c.environment, "org/name");
      ADD_FAILURE() << c.words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadData);
      EXPECT_NE(std::string(error.what()).find(c.words), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("~/"), std::string::npos) << error.what();
    }
  }
}

TEST(HubCache, Names) {
  for (const char* good : {"gpt2", "bert-base-uncased", "google-bert/bert-base-uncased", "a/B_c.d-1"}) {
    EXPECT_TRUE(is_hub_name(good)) << good;
  }
  for (const char* bad :
       {"", "a/b/c", "/a", "a/", "../a", "a/..", "a b", "a--b", ".a", "a.", "-a", "ä", "./a", "a\\b"}) {
    EXPECT_FALSE(is_hub_name(bad)) << bad;
  }
  EXPECT_FALSE(is_hub_name(std::string(97, 'a')));
}

class HubCacheTest : public testing::Test {
 protected:
  HubCacheTest() {
    make_folders(files_, "/hf/hub/models--org--name/snapshots/abc123");
    make_folders(files_, "/hf/hub/models--org--name/refs/pr");
    write_synced_file(files_, "/hf/hub/models--org--name/refs/main", "abc123\n");
    write_synced_file(files_, "/hf/hub/models--org--name/refs/pr/1", "abc123");
    write_synced_file(files_, "/hf/hub/models--org--name/refs/gone", "def456");
    write_synced_file(files_, "/hf/hub/models--org--name/refs/evil", "../../../..");
    make_folders(files_, "/here/model");
    write_synced_file(files_, "/here/file", "x");
    environment_.hf_home = "/hf";
  }
  MemoryFileSystem files_;
  HubEnvironment environment_;
};

TEST_F(HubCacheTest, FindsBranchesTagsAndCommits) {
  const std::string snapshot = "/hf/hub/models--org--name/snapshots/abc123";
  EXPECT_EQ(find_in_hub_cache(files_, environment_, "org/name"), snapshot);
  EXPECT_EQ(find_in_hub_cache(files_, environment_, "org/name", "pr/1"), snapshot);
  EXPECT_EQ(find_in_hub_cache(files_, environment_, "org/name", "abc123"), snapshot);
  EXPECT_EQ(resolve_model_folder(files_, environment_, "org/name"), snapshot);
  EXPECT_EQ(resolve_model_folder(files_, environment_, "/here/model"), "/here/model");
}

TEST_F(HubCacheTest, SaysHowToGetWhatIsNotThere) {
  EXPECT_EQ(
      failure_of([&] { resolve_model_folder(files_, environment_, "org/other"); }),
      "'org/other' is neither a folder nor in Hugging Face's cache (searched '/hf/hub/models--org--other'). "
      "Get it into the cache with\n"
      "  plimsoll download org/other\n"
      "or into a folder with\n"
      "  git lfs install && git clone https://huggingface.co/org/other other\n"
      "and then use --model_name_or_path ./other");
  const std::string tokenizer =
      failure_of([&] { resolve_model_folder(files_, environment_, "nodir", "main", kTokenizerArgument); });
  EXPECT_TRUE(tokenizer.ends_with("and then use --tokenizer_name ./nodir")) << tokenizer;
  const std::string revision = failure_of([&] { find_in_hub_cache(files_, environment_, "org/name", "v2"); });
  EXPECT_NE(revision.find("but not its revision 'v2'"), std::string::npos) << revision;
  EXPECT_NE(revision.find("plimsoll download org/name --revision v2"), std::string::npos) << revision;
  EXPECT_NE(failure_of([&] {
              find_in_hub_cache(files_, environment_, "org/name", "gone");
            }).find("snapshots/def456"),
            std::string::npos);
}

TEST_F(HubCacheTest, RefusesWhatIsNoModel) {
  EXPECT_EQ(failure_of([&] { resolve_model_folder(files_, environment_, "/here/file"); }),
            "--model_name_or_path '/here/file' is a file; a model is a folder with config.json and "
            "model.safetensors. Use '/here'?");
  EXPECT_EQ(
      failure_of(
          [&] { resolve_model_folder(files_, environment_, "/here/file", "main", kTokenizerArgument); }),
      "--tokenizer_name '/here/file' is a file; a tokenizer is a folder with tokenizer.json or vocab.txt. "
      "Use '/here'?");
  EXPECT_NE(failure_of([&] {
              resolve_model_folder(files_, environment_, "./nowhere");
            }).find("neither a folder on this machine nor a name"),
            std::string::npos);
  EXPECT_NE(failure_of([&] { resolve_model_folder(files_, environment_, ""); }).find("neither"),
            std::string::npos);
  EXPECT_NE(failure_of([&] {
              find_in_hub_cache(files_, environment_, "org/name", "evil");
            }).find("expected a commit hash"),
            std::string::npos);
  EXPECT_THROW(find_in_hub_cache(files_, environment_, "org/name", "../.."), Error);
}

}  // namespace
}  // namespace plimsoll
