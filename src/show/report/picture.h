// A drawing of rectangles, lines, areas, dots and texts that can be saved as SVG and as PNG with the same appearance. PNG
// needs cairo: its headers at build time and its library at run time, which is opened for the first PNG.
// Without either, only SVG is available. Not thread-safe while drawing.
//
// A Picture has no axes and ticks. The classes that use it draw them: SvgPlot (svg.h) and the plot of experiments
// (experiment_plot.cc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plimsoll/training.h"

namespace plimsoll {

enum class TextAnchor : uint8_t { kStart, kMiddle, kEnd };
enum class TextWeight : uint8_t { kNormal, kBold };

// The library that writes PNG.
inline constexpr const char* kCairoLibrary = "libcairo.so.2";

using PlotPoint = std::pair<double, double>;

class Picture {
 public:
  // Creates a white picture; sizes are in pixels.
  Picture(int width, int height, std::string title);

  // Draw a shape. Colours have the form "#rrggbb".
  void rectangle(double x, double y, double width, double height, std::string_view colour);
  void line(double x1, double y1, double x2, double y2, std::string_view colour, double width);
  // Draws a line through the points, with a gap at points that are not finite. `dashes` is SVG's stroke-dasharray, empty for a
  // solid line.
  void polyline(std::vector<PlotPoint> points, std::string_view colour, double width,
                std::string_view dashes = "");
  // Fills the area that the points surround. Requires: all points are finite.
  void polygon(std::vector<PlotPoint> points, std::string_view colour);
  void dot(double x, double y, double radius, std::string_view colour);
  // Draws a text whose base line contains (x, y) at the start, middle or end of the text.
  void text(double x, double y, std::string_view words, double size, std::string_view colour,
            TextAnchor anchor = TextAnchor::kStart, TextWeight weight = TextWeight::kNormal);
  // Draws a text that reads from bottom to top and whose middle is at (x, y).
  void upward_text(double x, double y, std::string_view words, double size, std::string_view colour);
  // Draws the shapes and texts of another picture on top of this one.
  void append(const Picture& other);

  // Returns the complete SVG file with a newline at the end.
  std::string svg() const;
  // Writes a PNG file. `scale` is the number of pixels in the file per unit of the drawing. Returns false if cairo is
  // not available. Errors: kDevice if the file cannot be written.
  bool write_png(const std::string& path, double scale = 2.0) const;

 private:
  enum class Kind : uint8_t { kRectangle, kLine, kPolyline, kPolygon, kDot, kText, kUpwardText };
  struct Item {
    Kind kind = Kind::kRectangle;
    double x = 0;
    double y = 0;
    double a = 0;     // width of a rectangle, or x of the second point of a line
    double b = 0;     // height of a rectangle, or y of the second point of a line
    double size = 0;  // font size of a text, width of a line, or radius of a dot
    std::string colour = {};
    std::string words = {};  // content of a text item; for a line, its dashes
    std::vector<PlotPoint> points = {};
    TextAnchor anchor = TextAnchor::kStart;
    TextWeight weight = TextWeight::kNormal;
  };
  static std::string svg_of(const Item& item);
  int width_;
  int height_;
  std::string title_;
  std::vector<Item> items_;
};

// Returns the colour "#rrggbb" that plots and reports use for a purpose of memory, such as weights.
std::string_view purpose_colour(Purpose purpose);
// Returns the colour of the line with index `i` in a plot with several lines.
std::string_view line_colour(size_t i);

// The functions below return the plots of a run as SVG: loss and metrics over the steps, and memory over the time of
// one step. Pure; thread-safe.

// Plots the training and evaluation loss (keys "loss" and "eval_loss" of the records) over optimizer steps.
// `caption` describes the device and the run. Empty if the records contain no loss.
std::string loss_plot(const LogHistory& history, const std::string& title, const std::string& caption);

// Returns true for the name of a metric of the quality of a model, such as eval_accuracy; false for losses, speeds and memory.
bool is_quality_metric(std::string_view key);

// Plots the metrics of the evaluations, such as eval_accuracy, over optimizer steps. Empty if the records contain none.
std::string metrics_plot(const LogHistory& history, const std::string& title, const std::string& caption);

// Plots the live bytes over the estimated time of a step (one micro-batch and the optimizer), stacked by
// purpose, with the size of the arena as a line. If the plan does not train, it plots the evaluation. The
// caption names the model, the batch and the device.
std::string memory_plot(const Plan& plan, const PlanLabels& labels = {});

}  // namespace plimsoll
