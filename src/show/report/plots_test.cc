#include "show/report/picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "plan/compile/testing/plan_case.h"
#include "show/report/svg.h"
#include "show/report/testing/xml_fault.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(XmlFault, FindsWhatIsBroken) {
  EXPECT_EQ(xml_fault("<a b=\"1\"><c/>x &amp; y</a>\n"), "");
  for (const char* broken :
       {"", "<a>", "<a></b>", "<a b=1/>", "<a>&nbsp;</a>", "<a/><b/>", "<a>x</a>y", "<a b=\"<\"/>", "<a"}) {
    EXPECT_NE(xml_fault(broken), "") << broken;
  }
}

TEST(RoundTicks, AreRoundAndWithin) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(0, 1195, 8).size(), 6u);
  for (const auto& [low, high] : {std::pair{0.0, 1e-7}, {-3.0, 2.5}, {1e9, 3e9}, {0.301, 0.302}}) {
    const std::vector<double> ticks = round_ticks(low, high, 6);
    EXPECT_GE(ticks.size(), 3u) << low << " to " << high;
    EXPECT_LE(ticks.size(), 8u) << low << " to " << high;
    for (double tick : ticks) {
      EXPECT_GE(tick, low - 1e-9 * std::fabs(low));
      EXPECT_LE(tick, high + 1e-9 * std::fabs(high));
    }
  }
}

TEST(LossPlot, DrawsBothCurvesAndEscapesText) {
  LogHistory history;
  for (int i = 1; i <= 20; ++i)
    history.push_back({.step = 10 * i, .epoch = 0.1 * i, .values = {{"loss", 1.0 / i}}});
  history.push_back({.step = 100, .epoch = 1, .values = {{"eval_loss", 0.4}, {"eval_accuracy", 0.7}}});
  const std::string svg = loss_plot(history, "loss of <a> & \"b\"", "MiniLM on cpu");
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_TRUE(contains(svg, "loss of &lt;a&gt; &amp; &quot;b&quot;"));
  EXPECT_TRUE(contains(svg, "training loss"));
  EXPECT_TRUE(contains(svg, "evaluation loss"));
  EXPECT_TRUE(contains(svg, "optimizer step"));
  EXPECT_TRUE(contains(svg, "MiniLM on cpu"));
  EXPECT_TRUE(contains(svg, "stroke-dasharray=\"6 3\"")) << "colour is not the only difference";
}

LogHistory history_of(std::initializer_list<LogRecord> records) {
  LogHistory history;
  for (const LogRecord& record : records) history.push_back(record);
  return history;
}

TEST(LossPlot, SurvivesWhatRunsLog) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(loss_plot({}, "loss", ""), "");
  EXPECT_EQ(loss_plot(history_of({{.step = 3, .values = {{"train_loss", 0.5}}}}), "loss", ""), "")
      << "no curve, no plot";
  EXPECT_EQ(xml_fault(loss_plot(history_of({{.step = 1, .values = {{"loss", 0.0}}}}), "loss", "")), "");
  EXPECT_EQ(xml_fault(loss_plot(history_of({{.step = 1, .values = {{"loss", -1e300}}},
                                            {.step = 2, .values = {{"loss", 1.0}}}}),
                                "loss", "")),
            "");
  const std::string svg = loss_plot(history_of({{.step = 1, .values = {{"loss", 2.0}}},
                                                {.step = 2, .values = {{"loss", nan}}},
                                                {.step = 3, .values = {{"loss", inf}}},
                                                {.step = 4, .values = {{"loss", 1.0}}}}),
                                    "loss", "");
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_FALSE(contains(svg, "nan"));
  EXPECT_FALSE(contains(svg, "inf"));
}

TEST(LossPlot, IsSavedAsPngWhereThereIsCairo) {
  SvgPlot plot({.title = "loss", .x_label = "step", .y_label = "loss", .caption = "cpu"}, 0, 10, 0, 1);
  plot.line({{0, 1}, {5, NAN}, {6, 0.5}, {10, 0.1}}, "#0072B2", "6 3");
  plot.dots({{0, 1}, {10, 0.1}}, "#D55E00");
  plot.area({{0, 0}, {10, 0}}, {{0, 0.2}, {10, 0.1}}, "#009E73");
  plot.vertical_mark(4, "mark");
  const test::ScratchFolder folder;
  const std::string file = folder.path() + "/plot.png";
  if (!plot.picture().write_png(file)) GTEST_SKIP() << "this build has no cairo, or it is not installed";
  const std::string png = test::ScratchFolder::read(file);
  EXPECT_TRUE(png.starts_with("\x89PNG"));
  EXPECT_GT(png.size(), 5000u) << "lines and words are drawn";
}

TEST(MetricsPlot, DrawsEveryMetricOfTheEvaluations) {
  LogHistory history;
  for (int i = 1; i <= 4; ++i) {
    history.push_back({.step = 10 * i,
                       .epoch = 1.0 * i,
                       .values = {{"eval_accuracy", 0.2 * i},
                                  {"eval_f1", 0.1 * i},
                                  {"eval_loss", 1.0 / i},
                                  {"eval_loss_mm", 1.0},
                                  {"eval_accuracy_mm", 0.5},
                                  {"eval_runtime", 2.0},
                                  {"eval_samples_per_second", 9.0}}});
  }
  const std::string svg = metrics_plot(history, "metrics", "on cpu");
  EXPECT_EQ(xml_fault(svg), "");
  for (const char* words : {">accuracy<", ">f1<", ">accuracy_mm<", "metric of the evaluation"})
    EXPECT_TRUE(contains(svg, words)) << words;
  for (const char* words : {"runtime", "per_second", "loss"}) EXPECT_FALSE(contains(svg, words)) << words;
  EXPECT_EQ(metrics_plot({}, "metrics", ""), "");
  EXPECT_EQ(
      metrics_plot(history_of({{.step = 1, .values = {{"loss", 1.0}, {"eval_loss", 2.0}}}}), "metrics", ""),
      "");
}

TEST(MemoryPlot, IsWellFormedForEveryPlan) {
  int drawn = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    const std::string svg = memory_plot(build_plan(request));
    EXPECT_EQ(xml_fault(svg), "");
    EXPECT_FALSE(contains(svg, "nan"));
    EXPECT_LT(svg.size(), 200'000u);
    ++drawn;
  }
  EXPECT_GE(drawn, 49);
}

TEST(MemoryPlot, SaysWhatItShows) {
  const Plan plan = build_plan(preset_request("all-MiniLM-L6-v2", 32, 128));
  const std::string svg = memory_plot(plan, {.model = "all-MiniLM-L6-v2", .device = "cpu, 2 threads"});
  for (const char* words :
       {"memory over a training step", "MiB", "estimated time, ms", "all-MiniLM-L6-v2, fp32, batch 32 x 128",
        "on cpu, 2 threads", "forward", "backward", "optimizer", "saved for the backward pass", "#009E73"}) {
    EXPECT_TRUE(contains(svg, words)) << words;
  }
}

}  // namespace
}  // namespace plimsoll
