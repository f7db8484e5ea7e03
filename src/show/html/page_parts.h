// The components of a report: an HTML page that needs no other file, its sections, tables and charts. Texts are escaped here, so
// that callers pass plain text. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "show/report/svg.h"

namespace plimsoll {

// Escapes a text for HTML, in elements and in attributes with double quotes. Bytes that are not valid UTF-8 become "?".
std::string html_escaped(std::string_view text);

// A table whose first column is text. The other columns are numbers, which are aligned at the right, unless the member
// `columns` states that further columns are text.
struct HtmlTable {
  std::vector<std::string> head = {};
  std::vector<std::vector<std::string>> rows = {};
  // one letter per column: 't' for text, 'n' for numbers; columns without a letter contain numbers
  std::string columns = "t";
  bool has_total = false;  // true if the last row contains sums
  std::string caption = {};
  bool shows_caption = true;  // if false, the caption is hidden and only screen readers present it
  std::string html() const;
};

// Returns a section with a heading and a link target. `body` is HTML.
std::string html_section(std::string_view id, std::string_view title, const std::string& body);
// Returns a paragraph. `text` is plain text.
std::string html_note(std::string_view text);

// One of the most important figures of a report, with its name, value and detail: "planned", "6378.8 MiB", "fits".
struct KeyFigure {
  std::string name = {};
  std::string value = {};
  std::string detail = {};
};
std::string key_figures_html(const std::vector<KeyFigure>& figures);

// Return the style sheet and the script of every page, from report.css and report.js.
std::string_view report_style();
std::string_view report_script();

// Returns the complete page. `body` is HTML.
std::string html_page(std::string_view title, const std::string& body);

// A chart with axes. Shapes are SVG that is stretched to the width of the page; labels are HTML, so that they stay readable at any
// width. Coordinates of shapes run from 0 to kSide in both directions.
class PageChart {
 public:
  static constexpr double kSide = 1000;
  struct Axis {
    double low = 0;
    double high = 1;
    std::string label = {};
  };
  // Creates a chart with two axes. Requires: low < high on both axes, all finite.
  PageChart(Axis x, Axis y, std::string name, std::string css_class = "");

  double x(double value) const { return kSide * (value - x_.low) / (x_.high - x_.low); }
  double y(double value) const { return kSide * (y_.high - value) / (y_.high - y_.low); }
  // Adds a shape as SVG.
  void add(const std::string& shape) { body_ += shape; }
  // Draw a line through the points, with a gap at points that are not finite, or a dot at each point.
  void line(const std::vector<PlotPoint>& points, std::string_view colour, bool is_dashed);
  void dots(const std::vector<PlotPoint>& points, std::string_view colour);
  // Adds a vertical line at `value` of the x axis, with the label `word` at its top.
  void mark_x(double value, std::string_view word, std::string_view css_class = "");
  // Adds an entry to the legend. `kind` is the kind of its symbol: "box", "line" or "dash".
  void legend(std::string_view colour, std::string_view word, std::string_view kind);
  std::string html() const;

 private:
  Axis x_;
  Axis y_;
  std::string name_;
  std::string css_class_;
  std::string body_;
  std::string marks_;
  std::string legend_;
};

}  // namespace plimsoll
