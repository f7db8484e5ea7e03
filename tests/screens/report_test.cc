// Tests the commands that write reports and traces: what they print and which files they leave. Where a browser is installed, reports
// are also opened in it without a window and measured there: a page must fit into the width of a phone and of a large screen, show
// the details of a buffer that the mouse points at or that a key selects, and load nothing from a network.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/screens/terminal_run.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll::testing {
namespace {

using Json = nlohmann::json;
using test::ScratchFolder;

// Returns the command of an installed browser, or "" if there is none. Chromium and Chrome accept the same
// arguments.
std::string find_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    const std::string ask = std::string("command -v ") + name + " > /dev/null 2>&1";
    if (std::system(ask.c_str()) == 0) return name;
  }
  return "";
}

constexpr const char* kNoBrowser =
    "no chromium, chromium-browser or google-chrome is installed, so the page is not opened (apt-get install "
    "chromium)";

std::string in_attribute(const std::string& page) {
  std::string text;
  for (const char c : page) text += c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return text;
}

// A script for a page that shows a report in frames of several widths, measures it, and writes the results as
// JSON into its own body.
constexpr const char* kProbe = R"(<script>
"use strict";
const results = {};
const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
addEventListener("load", () => {
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument;
    const root = page.documentElement;
    const svg = page.querySelector("figure.map svg");
    const readout = page.querySelector("output.readout");
    const box = page.querySelector(".buffers rect");
    const before = readout.textContent;
    box.dispatchEvent(new frame.contentWindow.PointerEvent("pointermove", { bubbles: true }));
    const pointed = readout.textContent;
    const captions = Array.from(page.querySelectorAll("caption span"), (e) => e.getBoundingClientRect());
    const wide = Array.from(page.querySelectorAll(".scroll")).filter((e) => e.scrollWidth > e.clientWidth && e.clientWidth > 0);
    for (const e of wide) e.scrollLeft = e.scrollWidth;
    const names = wide.flatMap((e) => Array.from(e.querySelectorAll("tbody th"), (t) => t.getBoundingClientRect().left));
    for (const e of wide) e.scrollLeft = 0;
    svg.focus();
    press(svg, "ArrowDown");
    press(svg, "ArrowRight");
    press(svg, "ArrowUp");
    results[frame.width] = {
      page_width: root.scrollWidth,
      frame_width: root.clientWidth,
      boxes: page.querySelectorAll(".buffers rect").length,
      map_width: svg.getBoundingClientRect().width,
      map_height: svg.getBoundingClientRect().height,
      title: box.querySelector("title").textContent,
      widest_caption: Math.max(...captions.map((c) => c.right)), leftmost_name: Math.min(0, ...names),
      pointed, changed: before !== pointed, moved: readout.textContent !== pointed,
      smallest_text: Math.min(...Array.from(page.querySelectorAll("td, th, p, span, li, small, dt"), (e) => parseFloat(getComputedStyle(e).fontSize))),
      loaded: performance.getEntriesByType("resource").length + frame.contentWindow.performance.getEntriesByType("resource").length,
      headings: Array.from(page.querySelectorAll("h3"), (h) => h.textContent).join("|"),
    };
  }
  document.body.textContent = "RESULTS" + JSON.stringify(results) + "END";
});
</script>)";

class ReportInABrowser : public ::testing::Test {
 protected:
  void SetUp() override {
    browser_ = find_browser();
    if (browser_.empty()) GTEST_SKIP() << kNoBrowser;
  }

  void run(std::vector<std::string> words) {
    const TerminalRun result = run_program(words, {.folder = folder_.path()});
    ASSERT_EQ(result.exit_code, 0) << result.bytes;
  }

  std::string browser_output(const std::string& arguments, const std::string& page) {
    const std::string output = folder_.path() + "/dom";
    const std::string command =
        "cd '" + folder_.path() + "' && HOME='" + folder_.path() + "' timeout 120 " + browser_ +
        " --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir='" + folder_.path() +
        "/profile' " + arguments + " 'file://" + folder_.path() + "/" + page + "' > '" + output + "' 2> '" +
        folder_.path() + "/browser_log'";
    EXPECT_EQ(std::system(command.c_str()), 0) << file_text(folder_.path() + "/browser_log");
    return file_text(output);
  }

  // Shows the report in a browser in windows of 390 and 1400 pixels. Returns the measurements that the script
  // kProbe makes, with the width of the window as key.
  Json measured(const std::string& report) {
    const std::string page = in_attribute(file_text(folder_.path() + "/" + report));
    std::string probe = "<!DOCTYPE html><meta charset=\"utf-8\"><body>";
    for (const char* width : {"390", "1400"})
      probe +=
          std::string("<iframe width=\"") + width + "\" height=\"900\" srcdoc=\"" + page + "\"></iframe>";
    folder_.write("probe.html", probe + kProbe);
    std::string text = browser_output("--dump-dom", "probe.html");
    const size_t begin = text.find("RESULTS{");
    const size_t end = text.find("}END");
    if (begin == std::string::npos || end == std::string::npos) {
      ADD_FAILURE() << "the script of the page failed: " << text.substr(0, 400);
      return {};
    }
    text = text.substr(begin + 7, end + 1 - begin - 7);
    for (const auto& [entity, character] :
         {std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&amp;", "&")}) {
      for (size_t at = text.find(entity); at != std::string::npos; at = text.find(entity, at + 1))
        text.replace(at, std::string(entity).size(), character);
    }
    return Json::parse(text);
  }

  void expect_readable(const Json& results) {
    for (const char* width : {"390", "1400"}) {
      SCOPED_TRACE(width);
      ASSERT_TRUE(results.contains(width));
      const Json& page = results[width];
      EXPECT_LE(page["page_width"], page["frame_width"]) << "the page is wider than its window";
      EXPECT_LE(page["widest_caption"], page["frame_width"]) << "a caption is cut off";
      EXPECT_GE(page["leftmost_name"], 0) << "a name is out of sight if a table is scrolled";
      EXPECT_GT(page["boxes"], 20);
      EXPECT_GT(page["map_width"].get<double>(), 0.75 * std::min(1240.0, page["frame_width"].get<double>()));
      EXPECT_GE(page["map_height"], 350);
      EXPECT_GE(page["smallest_text"], 12) << "pixels";
      EXPECT_EQ(page["pointed"], page["title"]);
      EXPECT_TRUE(page["changed"].get<bool>());
      EXPECT_TRUE(page["moved"].get<bool>()) << "the arrow keys";
      EXPECT_EQ(page["loaded"], 0) << "files that the page loads";
    }
  }

  void expect_screenshot(const std::string& report) {
    browser_output("--window-size=1400,1000 --screenshot=shot.png", report);
    const std::string png = file_text(folder_.path() + "/shot.png");
    ASSERT_GT(png.size(), 20'000u);
    EXPECT_EQ(png.substr(0, 4), "\x89PNG");
    const auto byte = [&](size_t at) { return static_cast<unsigned>(static_cast<unsigned char>(png[at])); };
    EXPECT_EQ(byte(18) * 256 + byte(19), 1400u);
  }

  ScratchFolder folder_;
  std::string browser_;
};

// Fixture for tests that run the commands and read their output without a browser.
class ReportCommand : public ::testing::Test {
 protected:
  TerminalRun run(const std::vector<std::string>& words) {
    return run_program(words, {.folder = folder_.path(), .environment = {"LC_ALL=C.UTF-8"}});
  }
  std::vector<std::string> training(std::vector<std::string> more) {
    std::vector<std::string> words{"train",
                                   "--model_name_or_path",
                                   source_file("tests/parity/models/bert"),
                                   "--train_file",
                                   source_file("tests/parity/data/single.tsv"),
                                   "--use_cpu",
                                   "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string file(const std::string& name) { return file_text(folder_.path() + "/" + name); }

  ScratchFolder folder_;
};

TEST_F(ReportCommand, NamesTheFileThatItWrites) {
  ASSERT_EQ(run(training({"--output_dir", "a"})).exit_code, 0);
  ASSERT_EQ(run(training({"--output_dir", "b", "--max_steps", "2", "--html", "b.html"})).exit_code, 0);
  const std::string screen =
      "$ plimsoll report a\n" + run({"report", "a"}).bytes + "$ plimsoll report a b\n" +
      run({"report", "a", "b"}).bytes + "$ plimsoll report a/ --output other.html\n" +
      run({"report", "a/", "--output", "other.html"}).bytes + "$ plimsoll report b c\n" +
      run({"report", "b", "c"}).bytes + "$ plimsoll report a --output /nonexistent/x\n" +
      run({"report", "a", "--output", "/nonexistent/x"}).bytes;
  EXPECT_EQ(
      screen,
      "$ plimsoll report a\nwrote a/report.html\n$ plimsoll report a b\nwrote report.html\n"
      "$ plimsoll report a/ --output other.html\nwrote other.html\n$ plimsoll report b c\n"
      "plimsoll: report: 'c' is not a folder; give the --output_dir of a run\n"
      "$ plimsoll report a --output /nonexistent/x\n"
      "plimsoll: report --output /nonexistent/x: cannot write the file: No such file or directory; check the "
      "path, its permissions and the disk\n");
  EXPECT_EQ(file("a/report.html"), file("other.html"));
  EXPECT_EQ(run({"report", "a", "--output", "-"}).bytes, file("other.html"));
  // A file that is no page keeps its bytes: weights, a log, and for --json a page.
  for (const auto& [name, words] : std::map<std::string, std::vector<std::string>>{
           {"a/model.safetensors", {"report", "a", "--output", "a/model.safetensors"}},
           {"a/log.jsonl", {"report", "a", "--output", "a/log.jsonl"}},
           {"other.html", {"plan", "--model_name_or_path", "a", "--use_cpu", "--json", "other.html"}}}) {
    const std::string before = file(name);
    const auto refused = run(words);
    EXPECT_EQ(refused.exit_code, 2) << refused.bytes;
    EXPECT_NE(refused.bytes.find("so it is not replaced"), std::string::npos) << refused.bytes;
    EXPECT_EQ(file(name), before);
  }
  EXPECT_NE(file("b.html").find("<h1>Run b</h1>"), std::string::npos) << "train --html";
  EXPECT_NE(file("report.html").find("<h1>Comparison of 2 runs</h1>"), std::string::npos);
}

TEST_F(ReportCommand, RanksOfAPipelineShowTheStageThatNeedsTheMost) {
  const TerminalRun result = run(training({"--output_dir", "run", "--nproc_per_node", "2", "--pp_size", "2",
                                           "--max_steps", "2", "--html", "run.html"}));
  ASSERT_EQ(result.exit_code, 0) << result.bytes;
  const Json report = Json::parse(file("run/report.json"));
  const Json stages = Json::parse(file("run/plan.json"))["pipeline"]["stages"];
  const size_t shown = report["stage"];
  for (const Json& stage : stages) EXPECT_GE(stages[shown]["total_bytes"], stage["total_bytes"]);
  EXPECT_EQ(report["map"]["arena_bytes"], stages[shown]["arena_bytes"]);
  EXPECT_NE(file("run.html").find("Memory of each stage"), std::string::npos);
}

// Returns the names of the ops in a trace, in their order.
std::vector<std::string> op_names(const Json& trace) {
  std::vector<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] != "segment")
      names.push_back(event["name"].get<std::string>() + " " + event["args"]["output"].get<std::string>());
  }
  return names;
}

TEST_F(ReportCommand, TracesOfThePlanAndOfTheRunHaveTheSameNames) {
  const TerminalRun planned = run(training({"--output_dir", "run", "--dry_run", "--trace", "plan.json"}));
  ASSERT_EQ(planned.exit_code, 0) << planned.bytes;
  const TerminalRun measured = run(training({"--output_dir", "run", "--profile", "--trace", "run.json"}));
  ASSERT_EQ(measured.exit_code, 0) << measured.bytes;
  const Json plan = Json::parse(file("plan.json"));
  const Json trace = Json::parse(file("run.json"));
  EXPECT_EQ(plan["otherData"]["times"], "estimated");
  EXPECT_EQ(trace["otherData"]["times"], "measured");
  EXPECT_GT(op_names(plan).size(), 50u);
  EXPECT_EQ(op_names(plan), op_names(trace));
}

TEST_F(ReportCommand, PlansOfGenerationHaveAReport) {
  const TerminalRun result = run({"plan", "--phase", "generate", "--config_name", "gpt2", "--device", "h100",
                                  "--html", "plan.html", "--trace", "plan.json"});
  ASSERT_EQ(result.exit_code, 0) << result.bytes;
  EXPECT_NE(file("plan.html").find("one run of the model"), std::string::npos);
  EXPECT_GT(op_names(Json::parse(file("plan.json"))).size(), 50u);
}

const std::vector<std::string> kBertLarge{"plan",
                                          "--config_name",
                                          "bert-large-uncased",
                                          "--max_seq_length",
                                          "512",
                                          "--per_device_train_batch_size",
                                          "4",
                                          "--device",
                                          "h100",
                                          "--bf16"};

TEST_F(ReportInABrowser, OfAPlanForOneGpu) {
  std::vector<std::string> words = kBertLarge;
  words.insert(words.end(), {"--html", "report.html"});
  run(words);
  const Json results = measured("report.html");
  expect_readable(results);
  EXPECT_EQ(results["1400"]["headings"],
            "Map of the arena|Memory|Operations by group|Modules|Arguments|Environment");
  expect_screenshot("report.html");
}

TEST_F(ReportInABrowser, OfAPlanForTwoRanksWithTheSamePlan) {
  std::vector<std::string> words = kBertLarge;
  words.insert(words.end(), {"--nproc_per_node", "2", "--html", "report.html"});
  run(words);
  const Json results = measured("report.html");
  expect_readable(results);
  EXPECT_NE(results["390"]["headings"].get<std::string>().find("|Ranks|"), std::string::npos);
}

TEST_F(ReportInABrowser, OfAPlanForTwoRanks) {
  std::vector<std::string> words = kBertLarge;
  words.insert(words.end(), {"--nproc_per_node", "2", "--pp_size", "2", "--html", "report.html"});
  run(words);
  const Json results = measured("report.html");
  expect_readable(results);
  EXPECT_NE(results["1400"]["headings"].get<std::string>().find("|Ranks|"), std::string::npos);
  expect_screenshot("report.html");
}

TEST_F(ReportInABrowser, OfTwoRuns) {
  for (const char* rate : {"5e-05", "1e-03"}) {
    run({"train", "--model_name_or_path", source_file("tests/parity/models/bert"), "--train_file",
         source_file("tests/parity/data/single.tsv"), "--output_dir", std::string("runs/") + rate,
         "--use_cpu", "--learning_rate", rate, "--logging_steps", "1", "--quiet"});
  }
  run({"report", "runs/5e-05", "runs/1e-03", "--output", "report.html"});
  const Json results = measured("report.html");
  expect_readable(results);
  EXPECT_TRUE(results["1400"]["headings"].get<std::string>().starts_with(
      "Side by side|Arguments that differ|Curves|"));
  expect_screenshot("report.html");
}

}  // namespace
}  // namespace plimsoll::testing
