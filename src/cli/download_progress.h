// Shows a download to a person: a bar on a terminal, a line every ten seconds elsewhere. A signal stops the download. Not
// thread-safe, but the signal may arrive in any thread.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "cli/interrupt.h"
#include "plimsoll/download.h"

namespace plimsoll::cli {

class DownloadScreen : public DownloadCallback {
 public:
  // Catches signals until this object is destroyed. If `announces` is true, a line about the files is printed when a
  // download begins.
  explicit DownloadScreen(bool announces);
  ~DownloadScreen() override;
  DownloadScreen(const DownloadScreen&) = delete;
  DownloadScreen& operator=(const DownloadScreen&) = delete;

  void on_plan(const DownloadPlan& plan) override;
  void on_progress(const DownloadProgress& progress) override;
  void on_wait(const std::string& text) override;
  bool should_stop() override { return stop_requested_; }
  // Prints the number of downloaded bytes and the time. Throws kInterrupted if a signal arrived after the last byte.
  void end();

 private:
  void erase_bar();

  bool announces_;
  bool bar_drawn_ = false;
  double last_line_s_ = 0;
  DownloadProgress last_;
  std::atomic<bool> stop_requested_ = false;
  std::optional<StoppedBySignals> stopped_by_signals_;
};

// Downloads the models that the arguments of a run name and that the cache does not contain. Errors: as
// download_for_run().
void download_models(const Arguments& arguments, RunCommand command);

}  // namespace plimsoll::cli
