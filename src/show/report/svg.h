// The components of the plots: a frame with axes, lines, areas and a legend, drawn on a Picture (picture.h), with the fonts of
// the viewer. One object draws one plot. Not thread-safe while drawing.
//
// The colours are those of Okabe and Ito (2008), which people with any common form of colour blindness can
// distinguish; lines also differ in their dashes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "show/report/picture.h"

namespace plimsoll {

// Escapes special characters of XML, such as "<" as "&lt;"; characters that XML does not permit become "?".
std::string xml_escaped(std::string_view text);

// Returns round numbers within [low, high], about `count` of them. Requires: low < high, both finite.
std::vector<double> round_ticks(double low, double high, int count);

struct PlotText {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::string caption = {};  // text below the plot that describes the device and the run
};

class SvgPlot {
 public:
  // Creates a plot. Requires: low < high on both axes, all finite.
  SvgPlot(PlotText text, double x_low, double x_high, double y_low, double y_high);

  // Draws a line through the points, with a gap at points that are not finite. `dashes` is SVG's
  // stroke-dasharray, empty for a solid line.
  void line(const std::vector<PlotPoint>& points, std::string_view colour, std::string_view dashes);
  // Draws dots, for a small number of points.
  void dots(const std::vector<PlotPoint>& points, std::string_view colour);
  // Fills the area between two lines that run from left to right.
  void area(const std::vector<PlotPoint>& lower, const std::vector<PlotPoint>& upper,
            std::string_view colour);
  // Draws a vertical or horizontal line with a label next to it.
  void vertical_mark(double x, std::string_view word);
  void horizontal_mark(double y, std::string_view word);
  void legend_entry(std::string_view colour, std::string_view dashes, std::string_view word);

  // Width of the plot's drawing area in pixels. A line needs no more points than this, because finer detail would not be visible.
  static constexpr int kColumns = 700;

  // Return the complete drawing: as a Picture, and as the text of an SVG file with a newline at the end.
  Picture picture() const;
  std::string finish() const { return picture().svg(); }

 private:
  double pixel_x(double x) const;
  double pixel_y(double y) const;
  void draw_axes(Picture& picture) const;
  // Converts points from the units of the axes to pixels.
  std::vector<PlotPoint> pixels(const std::vector<PlotPoint>& points) const;

  PlotText text_;
  double x_low_, x_high_, y_low_, y_high_;
  Picture body_;
  Picture marks_;  // lines for marked values and the legend, which are drawn on top of body_
  int num_legend_ = 0;
};

}  // namespace plimsoll
