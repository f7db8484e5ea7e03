#include "show/html/report_page.h"

#include <gtest/gtest.h>

#include <regex>

#include "base/units.h"
#include "plan/compile/testing/plan_case.h"
#include "plimsoll/error.h"
#include "show/html/page_parts.h"
#include "show/report/result_files.h"
#include "show/report/testing/xml_fault.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using test::ScratchFolder;

ReportSource source_of(const PlanRequest& request, const PlanLabels& labels = {},
                       const Arguments& arguments = {}) {
  const Plan plan = build_plan(request);
  return source_of_plan(labels.model_of(request), plan_json(plan, labels),
                        report_json(plan, labels, arguments, {{"Plimsoll", "0"}}));
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Returns "" if the body of the page is well-formed XML, which is HTML too, and otherwise the first error. The head and
// the script are the same in every page.
std::string html_fault(const std::string& page) {
  const size_t body = page.find("<main>");
  const size_t end = page.find("</main>");
  if (!page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n") || body == std::string::npos ||
      end == std::string::npos)
    return "no page";
  return xml_fault(page.substr(body, end - body) + "</main>");
}

TEST(ReportPage, OfEveryPlanIsWellFormedAndNeedsNoOtherFile) {
  for (const PlanRequest& request : all_plan_cases()) {
    const ReportSource source = source_of(request);
    const std::string page = report_page({&source, 1});
    EXPECT_EQ(html_fault(page), "");
    EXPECT_EQ(page.find("://"), std::string::npos) << "a URL";
    EXPECT_EQ(page.find("src="), std::string::npos);
    EXPECT_EQ(page.find("@import"), std::string::npos);
    EXPECT_EQ(page.find("url("), std::string::npos);
  }
}

// Every buffer that is large enough to be visible must be drawn as one rectangle, whose area is proportional to the
// bytes of the buffer times the time during which it is in use.
TEST(ReportPage, MapHasAreasInProportion) {
  const ReportSource source = source_of(preset_request("all-MiniLM-L6-v2", 8, 64));
  const BufferMap& map = *source.map;
  const std::string figure = map_figure(map);
  const std::regex rect(
      R"re(<rect class="p(\d)(?: b)?" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"><title>)re");
  double drawn = 0;
  size_t num_drawn = 0;
  for (std::sregex_iterator it(figure.begin(), figure.end(), rect); it != std::sregex_iterator(); ++it) {
    drawn += std::stod((*it)[4]) * std::stod((*it)[5]);
    ++num_drawn;
  }
  double all = 0;
  double small = 0;
  size_t num_small = 0;
  for (const MapBuffer& buffer : map.buffers) {
    const double width =
        1000 * (map.start_ms[buffer.last + 1] - map.start_ms[buffer.first]) / map.start_ms.back();
    const double height = 1000 * static_cast<double>(buffer.bytes) / static_cast<double>(map.arena_bytes);
    all += width * height;
    const bool is_small = width < 1000.0 / 1800 || height < 1000.0 / 900;
    small += is_small ? width * height : 0;
    num_small += is_small ? 1 : 0;
  }
  EXPECT_EQ(num_drawn + num_small, map.buffers.size());
  // The position and the size of a rectangle are rounded to 0.01, so its area is off by at most 0.005 times the sum of its width and
  // height.
  EXPECT_NEAR(drawn + small, all, 0.005 * 2000 * static_cast<double>(num_drawn));
}

TEST(ReportPage, PeakTableAddsUpToTheArena) {
  const ReportSource source = source_of(preset_request("all-MiniLM-L6-v2", 8, 64));
  const std::string table = peak_table(*source.map);
  const std::regex cell(R"(<td class="n">([\d.-]+)</td>)");
  std::vector<double> column;
  for (std::sregex_iterator it(table.begin(), table.end(), cell); it != std::sregex_iterator(); ++it)
    column.push_back((*it)[1] == "-" ? 0 : std::stod((*it)[1]));
  ASSERT_GT(column.size(), 3u);
  double sum = 0;
  for (size_t i = 0; i + 1 < column.size(); ++i) sum += column[i];
  // Each figure of the table is rounded to 0.1 MiB, so their sum may differ from the total by half of that per figure.
  EXPECT_NEAR(sum, column.back(), 0.05 * static_cast<double>(column.size()));
  EXPECT_NEAR(column.back(), static_cast<double>(source.map->arena_bytes) / kMiB, 0.05);
}

TEST(ReportPage, EscapesTextsOfUsers) {
  Arguments arguments;
  arguments.run_name = "<script>alert('1')</script>\xff\x01";
  arguments.output_dir = "\"><img src=x onerror=alert(1)>";
  ReportSource source = source_of(small_request(), {.model = "<b>model</b> & more"}, arguments);
  source.map->buffers[0].name = "</title><script>";
  const std::string page = report_page({&source, 1});
  EXPECT_EQ(html_fault(page), "");
  EXPECT_EQ(count_of(page, "<script"), 1u) << "only the page's own";
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_NE(page.find("&lt;b&gt;model&lt;/b&gt; &amp; more"), std::string::npos);
  EXPECT_EQ(html_escaped("a\xff&'\"\x01\x7f<é>"), "a?&amp;'&quot;??&lt;é&gt;");
}

TEST(ReportPage, ComparesRuns) {
  Arguments a;
  a.learning_rate = 1e-3;
  a.run_name = "first";
  Arguments b;
  b.run_name = "second";
  std::vector<ReportSource> sources{source_of(preset_request("all-MiniLM-L6-v2", 8, 64), {}, a),
                                    source_of(preset_request("all-MiniLM-L6-v2", 16, 64), {}, b)};
  for (ReportSource& source : sources) {
    source.memory = {{"measured_peak_bytes", 5 * kMiB}, {"predicted_total_bytes", 6 * kMiB}};
    source.results = {{"train_loss", 0.5}, {"eval_accuracy", 0.75}, {"train_samples_per_second", 12.5}};
    for (int64_t step = 1; step <= 5; ++step)
      source.history.push_back(
          {.step = step, .epoch = 0, .values = {{"loss", 1.0 / static_cast<double>(step)}}});
  }
  const std::string page = report_page(sources);
  EXPECT_EQ(html_fault(page), "");
  EXPECT_NE(page.find("<h1>Comparison of 2 runs</h1>"), std::string::npos);
  EXPECT_NE(page.find("<th scope=\"row\">learning_<wbr/>rate</th><td>0.001</td><td>(default)</td>"),
            std::string::npos)
      << page.substr(page.find("Arguments that differ"), 800);
  EXPECT_NE(page.find("the peak of the process is 83.3 % of the prediction</p>"), std::string::npos);
  EXPECT_NE(page.find("first, training loss"), std::string::npos);
  EXPECT_NE(page.find("second, training loss"), std::string::npos);
  EXPECT_NE(page.find("<th scope=\"row\">eval_<wbr/>accuracy</th><td class=\"n\">0.75</td>"),
            std::string::npos);
}

TEST(ReportPage, StaysSmallForAPlanWithThousandsOfBuffers) {
  const ReportSource source = source_of(preset_request("bert-large-uncased", 4, 512));
  EXPECT_GT(source.map->buffers.size(), 1500u);
  const std::string page = report_page({&source, 1});
  EXPECT_LT(page.size(), 2'000'000u);
}

TEST(ReadRun, ReadsAFolderAndNamesWhatIsWrong) {
  const ScratchFolder folder;
  const auto refusal = [&] {
    try {
      read_run(folder.path());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal().find("has no plan.json"), std::string::npos);
  folder.write("plan.json", "{}");
  EXPECT_NE(refusal().find("plan.json: the file is not a plan"), std::string::npos);
  const PlanRequest request = small_request();
  const Plan plan = build_plan(request);
  folder.write("plan.json", plan_json(plan));
  // If report.json is missing, the page must say so instead of failing.
  EXPECT_EQ(refusal(), "");
  ReportSource old = read_run(folder.path());
  EXPECT_NE(report_page({&old, 1}).find("The folder has no report.json"), std::string::npos);
  folder.write("report.json", report_json(plan, {}, {}, {}));
  folder.write("log.jsonl", "{\"epoch\": 1.0, \"loss\": 0.5, \"step\": 1}\n{\"epoch\": 1.0, \"lo");
  const ReportSource source = read_run(folder.path());
  EXPECT_EQ(source.history.size(), 1u) << "the last line is cut off";
  EXPECT_TRUE(source.map);
  EXPECT_TRUE(source.is_run);
  EXPECT_FALSE(source.has_ended());
  EXPECT_NE(report_page({&source, 1}).find("the run has not ended"), std::string::npos);
  folder.write("log.jsonl",
               "{\"epoch\": 1.0, \"loss\": 0.5, \"step\": 1}\nno record\n{\"epoch\": 1.0, \"loss\": 0.5, "
               "\"step\": 2}\n");
  EXPECT_NE(refusal().find("log.jsonl:2: this line is not a record of a log"), std::string::npos);
}

// Runs are named by the last parts of their paths, as many as are needed for names that differ.
TEST(ReportSourceNames, DifferBetweenRuns) {
  const auto names = [](const std::vector<std::pair<std::string, std::string>>& paths_and_run_names) {
    std::vector<ReportSource> sources;
    for (const auto& [path, run_name] : paths_and_run_names) {
      ReportSource source{.name = path};
      if (!run_name.empty()) source.report = {{"arguments", {{"run_name", run_name}}}};
      sources.push_back(std::move(source));
    }
    name_sources(sources);
    std::vector<std::string> short_names;
    short_names.reserve(sources.size());
    for (const ReportSource& source : sources) short_names.push_back(source.short_name);
    return short_names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({{"runs/a", ""}, {"runs/b/", ""}}), (Names{"a", "b"}));
  EXPECT_EQ(names({{"a/run", ""}, {"b/run", ""}, {"c", ""}}), (Names{"a/run", "b/run", "c"}));
  EXPECT_EQ(names({{"/x/a/run", ""}, {"/y/a/run/", ""}}), (Names{"x/a/run", "y/a/run"}));
  EXPECT_EQ(names({{"a", "mine"}, {"b", "mine"}}), (Names{"mine (a)", "mine (b)"}));
  EXPECT_EQ(names({{"a", "mine"}, {"a", "mine"}}), (Names{"mine (a)", "mine (a)"}));
  EXPECT_EQ(names({{".", ""}}), (Names{"."}));
}

}  // namespace
}  // namespace plimsoll
