// The pieces that our plots are made of: a frame with axes, lines, areas, a legend. Scalable Vector Graphics
// as text; no library, no fonts but the viewer's own. One object draws one plot. Not thread-safe while it is
// drawn on.
//
// Colours are those of Okabe and Ito (2008), told apart by people with any common form of colour blindness;
// lines differ in their dashes too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

// "&lt;" for "<" and so on; characters that XML does not allow become "?".
std::string xml_escaped(std::string_view text);

// Round numbers within [low, high], about `count` of them. Requires: low < high, both finite.
std::vector<double> round_ticks(double low, double high, int count);

struct PlotText {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::string caption = {};  // under the plot: device and what was run
};

using PlotPoint = std::pair<double, double>;

class SvgPlot {
 public:
  // Requires: low < high on both axes, all finite.
  SvgPlot(PlotText text, double x_low, double x_high, double y_low, double y_high);

  // A line through the points; a gap where a point is not finite. `dashes` as SVG's stroke-dasharray, "" for
  // none.
  void line(const std::vector<PlotPoint>& points, std::string_view colour, std::string_view dashes);
  // Dots, for points that are few.
  void dots(const std::vector<PlotPoint>& points, std::string_view colour);
  // The area between two lines that run from left to right.
  void area(const std::vector<PlotPoint>& lower, const std::vector<PlotPoint>& upper,
            std::string_view colour);
  // A vertical or horizontal mark with a word beside it.
  void vertical_mark(double x, std::string_view word);
  void horizontal_mark(double y, std::string_view word);
  void legend_entry(std::string_view colour, std::string_view dashes, std::string_view word);

  // Columns of the drawing area: finer detail is not visible.
  static constexpr int kColumns = 700;

  // The whole file. Newline at the end.
  std::string finish() const;

 private:
  std::string format_x(double x) const;
  std::string format_y(double y) const;
  void append_axes(std::string& out) const;

  PlotText text_;
  double x_low_, x_high_, y_low_, y_high_;
  std::string body_;
  std::string marks_;
  std::string legend_;
  int num_legend_ = 0;
};

}  // namespace plimsoll
