#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace plimsoll::cli {
namespace {

Verbosity current = Verbosity::kAll;

// The error number of the first failed write to standard output, or 0. It is kept here because later calls change
// errno.
int fault = 0;

void note_output(bool is_good) {
  if (!is_good && fault == 0) fault = errno == 0 ? EIO : errno;
}

// If true, standard output is reserved for JSON, and print() writes to standard error.
bool has_json_output = false;
FILE* text_stream() {
  return has_json_output ? stderr : stdout;
}

void write_to(FILE* stream, const std::string& text) {
  const bool is_complete = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  // Failed writes to standard error are ignored: a lost message does not make a result incomplete.
  if (stream == stdout) note_output(is_complete);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

bool is_smart_terminal(int descriptor) {
  return isatty(descriptor) != 0 && variable("TERM") != "dumb";
}

// The standard https://no-color.org: NO_COLOR disables colour if it is set to any value that is not empty.
bool has_colour() {
  static const bool answer = is_smart_terminal(STDERR_FILENO) && variable("NO_COLOR").empty();
  return answer;
}

constexpr std::string_view kYellow = "33";
constexpr std::string_view kRed = "1;31";

std::string coloured(std::string_view text, std::string_view colour) {
  if (!has_colour()) return std::string(text);
  return "\033[" + std::string(colour) + "m" + std::string(text) + "\033[0m";
}

void put_line(const std::string& line) {
  // Flushes standard output first, so that the lines have the right order if both streams go to the same file.
  note_output(std::fflush(stdout) == 0);
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace

void set_verbosity(const Arguments& arguments) {
  if (arguments.log_level == "error" || arguments.log_level == "critical") {
    current = Verbosity::kErrors;
  } else if (arguments.quiet || arguments.log_level == "warning") {
    current = Verbosity::kWarnings;
  } else {
    current = Verbosity::kAll;
  }
}

void leave_output_to_first_rank() {
  current = Verbosity::kErrors;
  if (std::freopen("/dev/null", "w", stdout) == nullptr)
    throw Error(ErrorCode::kDevice, "cannot open /dev/null; check that /dev is complete");
}

Verbosity verbosity() {
  return current;
}

bool is_terminal() {
  return is_smart_terminal(STDERR_FILENO);
}

int terminal_columns() {
  constexpr int kMost = 160;
  constexpr int kUnknown = 100;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknown;
  // The last column of the terminal stays empty, because some terminals start a new line after it.
  return std::min(kMost, size.ws_col - 1);
}

int output_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string character_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (std::string value = variable(name); !value.empty()) return value;
  }
  return "C";
}

bool is_ascii_only() {
  std::string name = character_locale();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return name.find("utf-8") == std::string::npos && name.find("utf8") == std::string::npos;
}

void say(const std::string& line) {
  constexpr std::string_view kWarning = "warning: ";
  if (line.starts_with(kWarning)) {
    say_warning(line.substr(kWarning.size()));
  } else if (current == Verbosity::kAll) {
    put_line(line);
  }
}

void say_warning(const std::string& text) {
  if (current >= Verbosity::kWarnings) put_line(coloured("warning:", kYellow) + " " + text);
}

void say_error(const std::string& text) {
  put_line(coloured("plimsoll:", kRed) + " " + text);
}

void say_for_other(const std::string& line) {
  put_line(line);
}

void erase_progress_bar() {
  if (is_terminal()) std::fputs("\r\033[K", stderr);
}

void say_all(const std::vector<std::string>& warnings, const std::vector<std::string>& notes) {
  for (const std::string& warning : warnings) say_warning(warning);
  for (const std::string& note : notes) say("note: " + note);
}

void keep_output_for_json() {
  has_json_output = true;
}

void print_json(const std::string& json) {
  write_to(stdout, json.ends_with('\n') ? json : json + "\n");
  note_output(std::fflush(stdout) == 0);
}

void print(const std::string& text) {
  const bool ends_line = text.empty() || text.back() == '\n';
  write_to(text_stream(), ends_line ? text : text + "\n");
}

void print_part(const std::string& text) {
  write_to(text_stream(), text);
  flush_output();
}

void print_talk(const std::string& text) {
  if (current == Verbosity::kAll) print(text);
}

void flush_output() {
  note_output(std::fflush(stdout) == 0);
}

bool output_is_lost() {
  return fault != 0;
}

int output_fault() {
  return fault;
}

}  // namespace plimsoll::cli
