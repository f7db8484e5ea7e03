#include "io/hub/hub_requests.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/printable.h"
#include "io/hub/hub_address.h"

namespace plimsoll {
namespace {

constexpr int kMostRedirects = 10;
constexpr int64_t kMostWaitSeconds = 300;
constexpr size_t kMostAnswerBytes = size_t{64} << 20;
// Messages contain at most this number of bytes of a text from a server.
constexpr size_t kMostShownBytes = 400;
constexpr const char* kUserAgent = "User-Agent: plimsoll/0.1.0";

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_success(int status) {
  return status >= 200 && status < 300;
}

// Returns true for a status that may change if the request is repeated a moment later.
bool passes_later(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

int64_t number_or(std::string_view text, int64_t otherwise) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : otherwise;
}

// Returns the number of seconds that a response asks the client to wait: the value of Retry-After, which may also be a date, or, if a RateLimit header such as
// "api";r=0;t=55 states r=0 (no requests remain), the value t. Returns -1 if the response contains neither.
int64_t asked_wait_seconds(const HttpHead& head) {
  const std::string& retry_after = head.value("retry-after");
  if (const int64_t seconds = number_or(retry_after, -1); seconds >= 0) return seconds;
  std::tm date{};
  if (strptime(retry_after.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date) != nullptr)
    return std::max<int64_t>(0,
                             static_cast<int64_t>(timegm(&date)) - static_cast<int64_t>(std::time(nullptr)));
  const std::string& limit = head.value("ratelimit");
  const size_t at = limit.find(";t=");
  if (limit.find(";r=0") == std::string::npos || at == std::string::npos) return -1;
  const std::string_view rest = std::string_view(limit).substr(at + 3);
  return number_or(rest.substr(0, rest.find_first_not_of("0123456789")), -1);
}

bool is_hexadecimal(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

const char* api_kind(RepositoryKind kind) {
  return kind == RepositoryKind::kModel ? "models" : "datasets";
}

std::string text_member(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A list of files whose total size exceeds this number of bytes is refused. No real repository is as large, and adding a file's size to a
// sum below this limit cannot overflow.
constexpr int64_t kMostBytes = int64_t{1} << 50;

// Reads an entry of the list of files. Errors: kBadData if the JSON value does not describe a file.
HubFile read_entry(const nlohmann::json& entry, const std::string& url) {
  HubFile file{.path = text_member(entry, "path"), .git_hash = text_member(entry, "oid")};
  const auto size = entry.find("size");
  const bool has_size = size != entry.end() && size->is_number_unsigned() &&
                        size->get<uint64_t>() <= static_cast<uint64_t>(kMostBytes);
  if (has_size) file.size_bytes = size->get<int64_t>();
  file.xet_hash = text_member(entry, "xetHash");
  const auto large = entry.find("lfs");
  if (large != entry.end() && large->is_object()) {
    file.sha256 = text_member(*large, "oid");
    if (file.sha256.empty()) file.sha256 = text_member(*large, "sha256");
    if (!is_hexadecimal(file.sha256, 64))
      throw_error(
          ErrorCode::kBadData,
          "{} lists '{}' with '{}', which is not a SHA-256 hash; report this to those who run the server",
          shown_address(url), printable(file.path), printable(file.sha256));
  }
  if (!is_path_below(file.path) || !has_size || !is_hexadecimal(file.git_hash, 40)) {
    throw_error(
        ErrorCode::kBadData,
        "{} lists the file '{}' without a valid path, size and hash, so it cannot be downloaded; check "
        "HF_ENDPOINT",
        shown_address(url), printable(file.path));
  }
  return file;
}

}  // namespace

void DownloadPace::wait_ms(int64_t milliseconds) {
  constexpr int64_t kPieceMs = 100;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (std::chrono::steady_clock::now() < end && !callback_.should_stop()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(milliseconds, kPieceMs)));
  }
}

bool Attempts::wait_after(const std::string& failure, const HttpHead& head) {
  constexpr int64_t kMostFailures = 5;
  if (++num_failures_ >= kMostFailures) return false;
  const int64_t asked = asked_wait_seconds(head);
  if (asked > kMostWaitSeconds) return false;
  const int64_t seconds = asked >= 0 ? asked : int64_t{1} << (num_failures_ - 1);
  pace_.callback().on_wait(fmt::format("{}; trying again in {} s", failure, seconds));
  pace_.wait_ms(1000 * seconds);
  return true;
}

std::string describe_status(const HttpHead& head) {
  const int64_t seconds = asked_wait_seconds(head);
  return fmt::format("status {}", head.status) +
         (seconds > kMostWaitSeconds ? fmt::format(" (it asks to wait {} s)", seconds) : "");
}

std::string etag_of(const HttpHead& head) {
  std::string_view etag = head.value("x-linked-etag");
  if (etag.empty()) etag = head.value("etag");
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  while (etag.starts_with('"')) etag.remove_prefix(1);
  while (etag.ends_with('"')) etag.remove_suffix(1);
  return std::string(etag);
}

void HubRequests::require_running() const {
  if (pace_.callback().should_stop())
    throw_error(ErrorCode::kInterrupted,
                "the download was interrupted. Complete files and the bytes of an incomplete one are kept: "
                "run the command "
                "again to continue");
}

std::string HubRequests::api_address(const HubRepository& repository) const {
  return fmt::format("{}/api/{}/{}", access_.endpoint, api_kind(repository.kind), repository.name);
}

std::string HubRequests::file_address(const HubRepository& repository, const std::string& commit,
                                      const std::string& path) const {
  return fmt::format("{}/{}{}/resolve/{}/{}", access_.endpoint,
                     repository.kind == RepositoryKind::kModel ? "" : "datasets/", repository.name, commit,
                     percent_encoded(path, "/"));
}

// Sends a request and follows redirects. The headers with the entity tag of a file are in the response of the hub itself, before a redirect
// to a storage host. `own_answer`, if not null, receives the headers of the last response of the hub that contains an entity tag or, if the
// hub sent none, of the first such response of another host. A HEAD request with `own_answer` stops at a redirect to another host if it has
// already received a response with an entity tag.
HttpResult HubRequests::follow(HttpRequest request, const BodySink& sink, HttpHead* own_answer) const {
  const std::string own_origin = origin_of(access_.endpoint);
  const std::vector<std::string> headers = request.headers;
  for (int i = 0; i <= kMostRedirects; ++i) {
    const std::string origin = origin_of(request.url);
    request.headers = headers;
    request.headers.emplace_back(kUserAgent);
    // Requests uncompressed bytes, because the hub's sizes and hashes are those of the uncompressed file.
    request.headers.emplace_back("Accept-Encoding: identity");
    // The name and password in HF_ENDPOINT are sent instead of a token, as in Hugging Face's tools.
    const bool is_own = origin == own_origin;
    if (is_own && access_.credentials.empty() && !access_.token.empty())
      request.headers.push_back("Authorization: Bearer " + access_.token);
    const std::string url = request.url;
    if (is_own && !access_.credentials.empty())
      request.url = with_credentials(split_credentials(url).address, access_.credentials);
    const BodySink bodies = [&](const HttpHead& head, std::span<const std::byte> bytes) {
      return is_redirect(head.status) ? true : sink(head, bytes);
    };
    HttpResult result = client_.send(request, bodies, [&] { return pace_.callback().should_stop(); });
    request.url = url;
    result.address = url;
    // The error text of libcurl contains the address of a proxy that it cannot use, with its user name and password, which must not be
    // shown.
    result.failure = printable(without_user_names(result.failure), kMostShownBytes);
    const bool counts = own_answer != nullptr && (own_answer->status == 0 || origin == own_origin);
    if (counts && !etag_of(result.head).empty()) *own_answer = result.head;
    const std::string& location = result.head.value("location");
    if (!result.failure.empty() || result.was_stopped || !is_redirect(result.head.status) || location.empty())
      return result;
    const std::string next = resolved_address(request.url, location);
    const std::string next_origin = origin_of(next);
    if (request.only_head && own_answer != nullptr && own_answer->status != 0 && next_origin != origin)
      return result;
    if (next_origin.empty() || (origin.starts_with("https://") && !next_origin.starts_with("https://"))) {
      throw_error(ErrorCode::kBadData,
                  "{} redirects to '{}', which is not an https address; check HF_ENDPOINT and the proxy",
                  host_of(request.url), shown_address(next));
    }
    request.url = next;
  }
  throw_error(ErrorCode::kBadData, "{} redirects more than {} times; check HF_ENDPOINT",
              host_of(access_.endpoint), kMostRedirects);
}

void HubRequests::refuse(const HubRepository& repository, const HttpHead& head,
                         const std::string& what) const {
  const std::string code = head.value("x-error-code");
  const std::string message = printable(head.value("x-error-message"), kMostShownBytes);
  const std::string host = host_of(access_.endpoint);
  const std::string& name = repository.name;
  const bool has_token = !access_.token.empty();
  if (code == "RevisionNotFound" || code == "EntryNotFound")
    throw_error(ErrorCode::kBadData, "'{}' on {} has no {}; check its spelling", name, host, what);
  if (code == "GatedRepo" || (head.status == 403 && code != "RepoNotFound")) {
    throw_error(
        ErrorCode::kBadData,
        "{} does not let {} read '{}' (status {}{}{}). Open {}/{}{} in a browser, accept its conditions, and "
        "give a token of that account in HF_TOKEN",
        host, has_token ? "the account of this token" : "a program without a token", name, head.status,
        message.empty() ? "" : ": ", message, access_.endpoint,
        repository.kind == RepositoryKind::kModel ? "" : "datasets/", name);
  }
  if (head.status == 401 || head.status == 404) {
    throw_error(ErrorCode::kBadData,
                "{} has no {} '{}', or it is private{} (status {}{}{}). Check the name{}", host,
                repository.kind == RepositoryKind::kModel ? "model" : "data set", name,
                has_token ? " and the token may not read it" : "", head.status, message.empty() ? "" : ": ",
                message, has_token ? ", and the token" : "; for a private one, give a token in HF_TOKEN");
  }
  throw_error(passes_later(head.status) ? ErrorCode::kDevice : ErrorCode::kBadData,
              "{} answered with {}{}{} when asked for {} of '{}'; {}", host, describe_status(head),
              message.empty() ? "" : ": ", message, what, name,
              passes_later(head.status) ? "try again later" : "check HF_ENDPOINT and the proxy");
}

// Sends a request, and repeats it after temporary failures until it succeeds or the limit of attempts is reached. Errors: those of refuse()
// for a status that will not change.
HubRequests::Answer HubRequests::ask(const HubRepository& repository, const std::string& url, bool only_head,
                                     const std::string& what) {
  Attempts attempts(pace_);
  while (true) {
    require_running();
    Answer answer;
    HttpHead own_answer;
    const BodySink keep = [&](const HttpHead&, std::span<const std::byte> bytes) {
      if (answer.body.size() + bytes.size() > kMostAnswerBytes)
        throw_error(ErrorCode::kBadData, "{} answers with more than {} MiB; check HF_ENDPOINT",
                    shown_address(url), kMostAnswerBytes >> 20u);
      answer.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return true;
    };
    answer.result = follow({.url = url, .only_head = only_head, .idle_timeout_s = access_.metadata_timeout_s},
                           keep, only_head ? &own_answer : nullptr);
    require_running();
    const HttpHead& head = answer.result.head;
    std::string failure;
    if (!answer.result.failure.empty()) {
      failure = fmt::format("{} cannot be reached: {}", host_of(url), answer.result.failure);
    } else if (is_success(head.status) || (only_head && own_answer.status != 0 && is_redirect(head.status))) {
      // The headers are taken from the hub's own response, which contains the entity tag of the file. The host to which it redirects may
      // send another tag.
      if (only_head && own_answer.status != 0) answer.result.head = own_answer;
      return answer;
    } else if (passes_later(head.status)) {
      failure = fmt::format("{} answered with {}", host_of(url), describe_status(head));
    } else {
      refuse(repository, head, what);
    }
    if (!answer.result.is_unreachable && attempts.wait_after(failure, head)) continue;
    require_running();
    if (answer.result.failure.empty()) refuse(repository, head, what);
    throw_error(ErrorCode::kDevice, "{}. Check the network, the proxy (https_proxy) and HF_ENDPOINT",
                failure);
  }
}

std::string HubRequests::commit_of(const HubRepository& repository, const std::string& revision) {
  const std::string url = fmt::format("{}/revision/{}", api_address(repository), percent_encoded(revision));
  const Answer answer = ask(repository, url, false, fmt::format("revision '{}'", revision));
  const nlohmann::json state = parse_json(answer.body, shown_address(url));
  std::string commit = state.is_object() ? text_member(state, "sha") : std::string();
  if (!is_hexadecimal(commit, 40)) {
    throw_error(ErrorCode::kBadData,
                "{} does not state the commit of '{}', so it is not a hub; check HF_ENDPOINT",
                shown_address(url), repository.name);
  }
  return commit;
}

std::vector<HubFile> HubRequests::files_of(const HubRepository& repository, const std::string& commit) {
  constexpr int kMostPages = 1000;
  std::vector<HubFile> files;
  std::string url = fmt::format("{}/tree/{}?recursive=true&expand=false", api_address(repository), commit);
  for (int page = 0; !url.empty(); ++page) {
    if (page == kMostPages) {
      throw_error(
          ErrorCode::kBadData,
          "{} lists the files of '{}' on more than {} pages, and {} files so far; check HF_ENDPOINT and the "
          "proxy",
          host_of(url), repository.name, kMostPages, files.size());
    }
    const Answer answer = ask(repository, url, false, fmt::format("revision '{}'", commit));
    const nlohmann::json entries = parse_json(answer.body, shown_address(url));
    if (!entries.is_array())
      throw_error(ErrorCode::kBadData, "{} does not list files, so it is not a hub; check HF_ENDPOINT",
                  shown_address(url));
    for (const nlohmann::json& entry : entries) {
      if (entry.is_object() && text_member(entry, "type") == "file") files.push_back(read_entry(entry, url));
    }
    std::string next = next_page(answer.result.head.value("link"));
    // A mirror may return a URL that begins with the address of the hub that it copies. This address is replaced by that of the mirror.
    if (next.starts_with(kDefaultEndpoint)) next = access_.endpoint + next.substr(kDefaultEndpoint.size());
    const std::string here = url;
    url = next.empty() ? next : resolved_address(here, next);
    if (!url.empty() && (url == here || origin_of(url) != origin_of(here))) {
      throw_error(ErrorCode::kBadData,
                  "{} names '{}' as the next page of the list of files; check HF_ENDPOINT and the proxy",
                  shown_address(here), shown_address(url));
    }
  }
  std::ranges::sort(files, {}, &HubFile::path);
  int64_t total_bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    total_bytes += std::max(files[i].size_bytes, int64_t{0});
    const bool is_repeated = i > 0 && files[i].path == files[i - 1].path;
    if (is_repeated || total_bytes > kMostBytes) {
      throw_error(ErrorCode::kBadData,
                  "the server's list of the files of '{}' {}; check that HF_ENDPOINT names a hub",
                  repository.name,
                  is_repeated ? fmt::format("has '{}' twice", files[i].path)
                              : std::string("has sizes that add up to more than 2^50 bytes"));
    }
  }
  return files;
}

HubFileState HubRequests::state_of(const HubRepository& repository, const std::string& commit,
                                   const std::string& path) {
  const std::string url = file_address(repository, commit, path);
  const Answer answer = ask(repository, url, true, fmt::format("file '{}'", path));
  const HttpHead& head = answer.result.head;
  const std::string& stated_commit = head.value("x-repo-commit");
  HubFileState state{.etag = etag_of(head)};
  const bool is_name =
      !state.etag.empty() && state.etag.size() < 200 && state.etag.front() != '.' &&
      std::ranges::all_of(state.etag, [](char c) { return c > ' ' && c < '\x7f' && c != '/'; });
  if (!is_name || (!stated_commit.empty() && stated_commit != commit)) {
    throw_error(
        ErrorCode::kBadData,
        "{} states the entity tag '{}' and the commit '{}' for '{}' of commit {}, so it is not a hub; check "
        "HF_ENDPOINT",
        host_of(url), printable(state.etag), printable(stated_commit), path, commit);
  }
  state.size_bytes = number_or(head.value("x-linked-size"), -1);
  if (state.size_bytes < 0 && !is_redirect(head.status))
    state.size_bytes = number_or(head.value("content-length"), -1);
  return state;
}

HubRequests::BodyOutcome HubRequests::read(const HubRepository& repository, const std::string& commit,
                                           const std::string& path, int64_t offset, const BodySink& sink) {
  HttpRequest request{.url = file_address(repository, commit, path),
                      .idle_timeout_s = access_.download_timeout_s};
  if (offset > 0) request.headers.push_back(fmt::format("Range: bytes={}-", offset));
  const BodySink successes = [&](const HttpHead& head, std::span<const std::byte> bytes) {
    return head.status == 200 || head.status == 206 ? sink(head, bytes) : true;
  };
  HttpHead own_answer;
  BodyOutcome outcome{.result = follow(request, successes, &own_answer), .etag = etag_of(own_answer)};
  const int status = outcome.result.head.status;
  const bool may_change = is_success(status) || passes_later(status) || status == 416 || status == 0;
  if (!outcome.result.failure.empty() || outcome.result.was_stopped || may_change) return outcome;
  // The hub redirects to a server that stores large files. A refusal of that server, for example because the address has expired, says
  // nothing about permissions on the hub, and the hub may state a better address if it is asked again. Only hubs send X-Error-Code.
  const std::string& address = outcome.result.address;
  if (origin_of(address) == origin_of(request.url) || !outcome.result.head.value("x-error-code").empty())
    refuse(repository, outcome.result.head, fmt::format("file '{}'", path));
  outcome.result.failure = fmt::format("{} redirects to {}, which answered with status {}",
                                       host_of(request.url), host_of(address), status);
  return outcome;
}

}  // namespace plimsoll
