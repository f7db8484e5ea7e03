#include "plimsoll/download.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "base/guarded_json.h"
#include "io/ckpt/model_folder.h"
#include "io/hub/hub_cache.h"
#include "io/hub/snapshot_download.h"
#include "models/config.h"
#include "run/model_source.h"

namespace plimsoll {
namespace {

HubEnvironment cache_environment(const Environment& environment, const std::string& cache_dir) {
  HubEnvironment hub = hub_environment(environment);
  if (!cache_dir.empty()) hub.hf_hub_cache = cache_dir;
  return hub;
}

DownloadCallback& silent_callback() {
  static DownloadCallback callback;
  return callback;
}

}  // namespace

// The objects that a download needs, in the order of their construction: each one uses those before it.
struct HubSession {
  HubSession(const DownloadRequest& request, const Environment& environment, DownloadCallback* callback)
      : pace(callback != nullptr ? *callback : silent_callback()),
        access(hub_access(posix_file_system(), environment, request.token)),
        client(open_client(access, request.name)),
        requests(*client, access, pace) {}

  static std::unique_ptr<HttpClient> open_client(const HubAccess& access, const std::string& name) {
    if (access.is_offline()) {
      throw_error(ErrorCode::kDevice, "'{}' is not downloaded, because {} forbids it; unset the variable",
                  name, access.offline_reason);
    }
    return open_curl({.ca_file = access.ca_file, .ca_folder = access.ca_folder});
  }

  DownloadPace pace;
  HubAccess access;
  std::unique_ptr<HttpClient> client;
  HubRequests requests;
};

namespace {

// Returns the base model that an adapter names, or "" for a folder that does not contain an adapter.
std::string base_of_adapter(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kAdapterConfigFile);
  if (!files.status(path)) return {};
  const nlohmann::json config = read_json_object(path);
  const auto base = config.find("base_model_name_or_path");
  return base != config.end() && base->is_string() ? base->get<std::string>() : std::string();
}

// Downloads the models that the arguments of one run name.
class RunDownloads {
 public:
  RunDownloads(const Arguments& arguments, RunCommand command, const Environment& environment,
               DownloadCallback* callback)
      : arguments_(arguments),
        plans_(command == RunCommand::kPlan),
        environment_(environment),
        hub_(cache_environment(environment, arguments.cache_dir)),
        callback_(callback) {}

  void run() {
    const ModelParts parts = plans_ ? ModelParts::kConfiguration : ModelParts::kAll;
    const std::string base = find(arguments_.model_name_or_path, parts, plans_);
    const std::string base_of_named = find(arguments_.adapter_name_or_path, parts, false);
    if (!base.empty()) {
      find(base, parts, plans_);
    } else if (arguments_.model_name_or_path.empty()) {
      find(base_of_named, parts, plans_);
    }
    find(arguments_.config_name, ModelParts::kConfiguration, true);
    find(arguments_.tokenizer_name, ModelParts::kTokenizer, false);
  }

 private:
  // Downloads a model if the cache does not contain it. If the model is an adapter, returns the name of its base model,
  // otherwise "". With `may_be_preset`, nothing is downloaded if a preset (built-in configuration) has this name.
  std::string find(const std::string& name, ModelParts parts, bool may_be_preset) {
    if (name.empty()) return {};
    if (files_.status(name)) return base_of_adapter(files_, name);
    const bool is_on_hub = is_hub_name(name) && !name.ends_with(".json") &&
                           !(may_be_preset && find_preset(name)) && foreign_architecture(name).empty() &&
                           is_revision(arguments_.model_revision);
    const std::string cache = hub_cache_folder(hub_);
    if (!is_on_hub || cache.empty()) return {};
    const std::string folder = join_path(cache, repository_folder(RepositoryKind::kModel, name));
    const auto snapshot = [&] {
      return join_path(join_path(folder, "snapshots"),
                       cached_commit(files_, folder, arguments_.model_revision));
    };
    if (!is_snapshot_complete(files_, folder, file_name(snapshot()), parts))
      download(name, parts, snapshot());
    return base_of_adapter(files_, snapshot());
  }

  void download(const std::string& name, ModelParts parts, const std::string& snapshot) {
    const DownloadRequest request{
        .name = name, .revision = arguments_.model_revision, .token = arguments_.token};
    std::unique_ptr<HubSession> session;
    std::optional<SnapshotDownload> download;
    try {
      session = std::make_unique<HubSession>(request, environment_, callback_);
      download.emplace(files_, session->requests, hub_, request, parts);
    } catch (const FileError&) {
      throw;
    } catch (const Error& error) {
      continue_without(name, snapshot, error);
      return;
    }
    if (callback_ != nullptr && download->plan().num_missing_files() > 0)
      callback_->on_plan(download->plan());
    download->run();
  }

  // Called if the download of a model failed. Throws the error, except in three cases in which the run continues
  // without the download: this machine or its network failed, the cache has the model, or the name resembles that of a
  // preset and is probably a typing error. In these cases the run itself either works or has a better message. If the
  // download was interrupted or the arguments are wrong, the error is always thrown.
  void continue_without(const std::string& name, const std::string& snapshot, const Error& error) {
    if (error.code() == ErrorCode::kInterrupted || error.code() == ErrorCode::kUsage) throw error;
    const bool is_short = name.find('/') == std::string::npos;
    const bool is_typing_error = is_short && !find_preset(name) && !similar_presets(name).empty();
    const bool is_cached = files_.status(snapshot).has_value();
    if (error.code() == ErrorCode::kDevice || is_cached) {
      if (callback_ != nullptr)
        callback_->on_wait(fmt::format("'{}' is not downloaded: {}", name, error.what()));
      return;
    }
    if (is_typing_error) return;
    throw Error(error.code(), fmt::format("'{}' is neither a folder nor in Hugging Face's cache (searched "
                                          "'{}'), and its download failed: {}",
                                          name, hub_cache_folder(hub_), error.what()));
  }

  const Arguments& arguments_;
  bool plans_;
  const Environment& environment_;
  HubEnvironment hub_;
  DownloadCallback* callback_;
  FileSystem& files_ = posix_file_system();
};

}  // namespace

struct Download::Impl {
  Impl(const DownloadRequest& request, const Environment& environment, DownloadCallback* callback)
      : session(request, environment, callback),
        snapshot(posix_file_system(), session.requests, cache_environment(environment, request.cache_dir),
                 request, ModelParts::kAll) {}
  HubSession session;
  SnapshotDownload snapshot;
};

Download::Download(const DownloadRequest& request, const Environment& environment, DownloadCallback* callback)
    : impl_(std::make_unique<Impl>(request, environment, callback)) {}

Download::~Download() = default;

const DownloadPlan& Download::plan() const {
  return impl_->snapshot.plan();
}

void Download::run() {
  if (plan().num_missing_files() > 0) impl_->session.pace.callback().on_plan(plan());
  impl_->snapshot.run();
}

void download_for_run(const Arguments& arguments, RunCommand command, const Environment& environment,
                      DownloadCallback* callback) {
  if (arguments.local_files_only || !offline_reason(environment).empty()) return;
  RunDownloads(arguments, command, environment, callback).run();
}

}  // namespace plimsoll
