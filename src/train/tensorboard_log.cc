#include "train/tensorboard_log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <utility>
#include <vector>

#include "base/file.h"
#include "models/config.h"

namespace plimsoll {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string name_of_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// Returns the default folder of event files: "runs/Nov28_11-40-00_host" in the output folder.
std::string default_folder(const Arguments& arguments, double now) {
  const auto seconds = static_cast<std::time_t>(now);
  std::tm local{};
  localtime_r(&seconds, &local);
  // English month names are used regardless of the locale.
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%b%d_%H-%M-%S", &local);
  return join_path(join_path(arguments.output_dir, "runs"), std::string(text.data()) + "_" + name_of_host());
}

// Returns the path of a new event file. TensorBoard reads files whose names contain "tfevents", in the order of their names.
std::string new_event_path(const Session& session, double now) {
  const Arguments& arguments = session.setup().arguments;
  const std::string folder =
      arguments.logging_dir.empty() ? default_folder(arguments, now) : arguments.logging_dir;
  make_folders(session.files(), folder);
  for (int number = 0;; ++number) {
    const std::string path =
        join_path(folder, fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(now),
                                      name_of_host(), getpid(), number));
    if (!session.files().status(path)) return path;
  }
}

// Formats JSON as a code block in Markdown, whose lines are indented by four spaces.
std::string as_code(const std::string& json) {
  std::string code = "    ";
  for (const char c : json) {
    code.push_back(c);
    if (c == '\n') code += "    ";
  }
  return code;
}

}  // namespace

bool reports_to_tensorboard(const Arguments& arguments) {
  return std::ranges::any_of(arguments.report_to,
                             [](const std::string& name) { return name == "tensorboard" || name == "all"; });
}

std::string tensorboard_tag(const std::string& name) {
  for (const std::string_view phase : {"eval", "test"}) {
    if (name.starts_with(phase) && name.substr(phase.size()).starts_with("_"))
      return std::string(phase) + "/" + name.substr(phase.size() + 1);
  }
  return "train/" + name;
}

TensorBoardLog::TensorBoardLog(const Session& session)
    : file_(session.files(), new_event_path(session, seconds_since_1970()), seconds_since_1970()) {
  const RunSetup& setup = session.setup();
  file_.add_text("args", as_code(arguments_json(setup.arguments)), 0, seconds_since_1970());
  file_.add_text("model_config", as_code(model_config_json(setup.model.config)), 0, seconds_since_1970());
}

void TensorBoardLog::add(const LogRecord& record) {
  std::vector<EventScalar> scalars;
  for (const auto& [name, value] : record.values) scalars.push_back({tensorboard_tag(name), value});
  if (!record.values.contains("epoch")) scalars.push_back({"train/epoch", record.epoch});
  file_.add_scalars(record.step, seconds_since_1970(), scalars);
}

}  // namespace plimsoll
