#include "cli/download_progress.h"

#include <algorithm>
#include <cstdio>

#include "cli/command.h"

namespace plimsoll::cli {
namespace {

constexpr double kLineSeconds = 10;

std::string format_size(int64_t bytes) {
  constexpr int64_t kSmall = 100 << 10;
  char text[32];
  if (bytes < kSmall) {
    std::snprintf(text, sizeof text, "%.1f KiB", static_cast<double>(bytes) / 1024.0);
  } else {
    std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 1048576.0);
  }
  return text;
}

std::string describe_progress(const DownloadProgress& progress) {
  const double done = static_cast<double>(progress.done_bytes);
  const double total = static_cast<double>(std::max<int64_t>(progress.total_bytes, 1));
  const double rate =
      progress.elapsed_s > 0 ? static_cast<double>(progress.received_bytes) / progress.elapsed_s : 0;
  char text[160];
  std::snprintf(text, sizeof text, "%3d %%  %s of %s  %.1f MiB/s", static_cast<int>(100 * done / total),
                format_size(progress.done_bytes).c_str(), format_size(progress.total_bytes).c_str(),
                rate / 1048576.0);
  std::string line = text;
  // In the first second the rate is not known well enough to estimate the remaining time.
  if (rate > 0 && progress.elapsed_s >= 1 && progress.total_bytes > progress.done_bytes) {
    const double left = (total - done) / rate;
    std::snprintf(text, sizeof text, "  %d:%02d left", static_cast<int>(left / 60),
                  static_cast<int>(left) % 60);
    line += text;
  }
  return line + "  " + progress.file;
}

}  // namespace

DownloadScreen::DownloadScreen(bool announces) : announces_(announces) {
  stopped_by_signals_.emplace(
      [](void* target) { static_cast<DownloadScreen*>(target)->stop_requested_ = true; }, this,
      "\nstopping the download; a second signal stops at once\n");
  catch_signals();
}

DownloadScreen::~DownloadScreen() {
  erase_bar();
  stopped_by_signals_.reset();
  release_signals();
}

void DownloadScreen::erase_bar() {
  if (bar_drawn_) std::fputs("\r\033[K", stderr);
  bar_drawn_ = false;
}

void DownloadScreen::on_plan(const DownloadPlan& plan) {
  if (!announces_) return;
  say("downloading " + plan.name + " from " + plan.endpoint + ": " +
      std::to_string(plan.num_missing_files()) + (plan.num_missing_files() == 1 ? " file, " : " files, ") +
      format_size(plan.missing_bytes()) + " into " + plan.folder);
  for (const std::string& note : plan.notes) say_warning(note);
}

void DownloadScreen::on_progress(const DownloadProgress& progress) {
  last_ = progress;
  if (verbosity() != Verbosity::kAll) return;
  if (is_terminal()) {
    std::string line = describe_progress(progress);
    // Two columns stay free, because the terminal prints "^C" when the user presses Ctrl-C.
    line.resize(std::min(line.size(), static_cast<size_t>(std::max(terminal_columns() - 2, 10))));
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    bar_drawn_ = true;
  } else if (progress.elapsed_s - last_line_s_ >= kLineSeconds) {
    last_line_s_ = progress.elapsed_s;
    say(describe_progress(progress));
  }
}

void DownloadScreen::on_wait(const std::string& text) {
  erase_bar();
  say_warning(text);
}

void DownloadScreen::end() {
  erase_bar();
  if (stop_requested_)
    throw Error(ErrorCode::kInterrupted, "interrupted after the download, which is complete");
  if (last_.received_bytes == 0) return;
  char text[80];
  std::snprintf(text, sizeof text, "downloaded %s in %.1f s (%.1f MiB/s)",
                format_size(last_.received_bytes).c_str(), last_.elapsed_s,
                static_cast<double>(last_.received_bytes) / 1048576.0 / std::max(last_.elapsed_s, 1e-3));
  say(text);
}

void download_models(const Arguments& arguments, RunCommand command) {
  DownloadScreen screen(true);
  download_for_run(arguments, command, program_environment(), &screen);
  screen.end();
}

}  // namespace plimsoll::cli
