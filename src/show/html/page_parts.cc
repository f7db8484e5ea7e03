#include "show/html/page_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"

namespace plimsoll {
namespace {

std::string tick_text(double value, double step) {
  if (std::fabs(value) < step * 1e-6) return "0";
  if (std::fabs(value) >= 1e6 || step < 1e-4) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
}

double step_of(const std::vector<double>& ticks) {
  return ticks.size() > 1 ? ticks[1] - ticks[0] : 1.0;
}

std::string table_cell(std::string_view tag, std::string_view text, bool is_text, std::string_view scope) {
  return fmt::format("<{0}{1}{2}>{3}</{0}>", tag, is_text ? "" : " class=\"n\"", scope, html_escaped(text));
}

// Returns the first cell of a row. Long names of buffers and arguments may be broken after '.', '_' and '/'.
std::string row_head(std::string_view text) {
  std::string cell;
  for (const char c : html_escaped(text)) {
    cell += c;
    if (c == '.' || c == '_' || c == '/') cell += "<wbr/>";
  }
  return "<th scope=\"row\">" + cell + "</th>";
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string valid(text);
  for (size_t at = find_invalid_utf8(valid); at < valid.size(); at = find_invalid_utf8(valid))
    valid[at] = '?';
  std::string escaped = xml_escaped(valid);
  // xml_escaped() keeps the control character DEL, which XML permits but HTML does not.
  std::ranges::replace(escaped, '\x7f', '?');
  return escaped;
}

std::string HtmlTable::html() const {
  const auto is_text = [&](size_t i) { return i < columns.size() && columns[i] == 't'; };
  std::string out = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                    html_escaped(caption.empty() ? "table" : caption) + "\"><table>\n";
  if (shows_caption && !caption.empty())
    out += "<caption><span>" + html_escaped(caption) + "</span></caption>\n";
  if (!head.empty()) {
    out += "<thead><tr>";
    for (size_t i = 0; i < head.size(); ++i) out += table_cell("th", head[i], is_text(i), " scope=\"col\"");
    out += "</tr></thead>\n";
  }
  out += "<tbody>\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    out += has_total && r + 1 == rows.size() ? "<tr class=\"total\">" : "<tr>";
    for (size_t i = 0; i < rows[r].size(); ++i) {
      out += i == 0 ? row_head(rows[r][i]) : table_cell("td", rows[r][i], is_text(i), "");
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string html_section(std::string_view id, std::string_view title, const std::string& body) {
  return fmt::format("<section id=\"{}\">\n<h3>{}</h3>\n{}</section>\n", html_escaped(id),
                     html_escaped(title), body);
}

std::string html_note(std::string_view text) {
  return "<p class=\"note\">" + html_escaped(text) + "</p>\n";
}

std::string key_figures_html(const std::vector<KeyFigure>& figures) {
  std::string out = "<dl class=\"key\">\n";
  for (const KeyFigure& figure : figures) {
    out += fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", html_escaped(figure.name),
                       html_escaped(figure.value),
                       figure.detail.empty() ? "" : "<small>" + html_escaped(figure.detail) + "</small>");
  }
  return out + "</dl>\n";
}

std::string html_page(std::string_view title, const std::string& body) {
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
             "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
             "dark\">\n<title>{}</title>\n<style>\n",
             html_escaped(title)) +
         std::string(report_style()) + "</style>\n</head>\n<body>\n<main>\n" + body + "</main>\n<script>\n" +
         std::string(report_script()) + "</script>\n</body>\n</html>\n";
}

PageChart::PageChart(Axis x, Axis y, std::string name, std::string css_class)
    : x_(std::move(x)), y_(std::move(y)), name_(std::move(name)), css_class_(std::move(css_class)) {
  PLIMSOLL_CHECK(
      x_.low < x_.high && y_.low < y_.high && std::isfinite(x_.high - x_.low) &&
          std::isfinite(y_.high - y_.low),
      "the axes of a chart must be finite and must not be empty, but x is [{}, {}] and y is [{}, {}]", x_.low,
      x_.high, y_.low, y_.high);
}

void PageChart::line(const std::vector<PlotPoint>& points, std::string_view colour, bool is_dashed) {
  std::string path;
  bool pen_down = false;
  for (const auto& [at, value] : points) {
    const bool is_finite = std::isfinite(at) && std::isfinite(value);
    if (is_finite) path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x(at), y(value));
    pen_down = is_finite;
  }
  if (path.empty()) return;
  body_ += fmt::format("<path class=\"line{}\" d=\"{}\" stroke=\"{}\"/>\n", is_dashed ? " dash" : "", path,
                       colour);
}

void PageChart::dots(const std::vector<PlotPoint>& points, std::string_view colour) {
  std::string path;
  // A dot is drawn as a line of length zero with round ends. Unlike a circle, it is not distorted when the chart is
  // stretched.
  for (const auto& [at, value] : points) {
    if (std::isfinite(at) && std::isfinite(value)) path += fmt::format("M{:.1f} {:.1f}h0", x(at), y(value));
  }
  if (!path.empty()) body_ += fmt::format("<path class=\"dots\" d=\"{}\" stroke=\"{}\"/>\n", path, colour);
}

void PageChart::mark_x(double value, std::string_view word, std::string_view css_class) {
  const double percent = x(value) / kSide * 100;
  body_ +=
      fmt::format("<path class=\"mark {}\" d=\"M{:.1f} 0V{}\"/>\n", html_escaped(css_class), x(value), kSide);
  // The label is written on the side of the vertical line that has more space, because the page may be as narrow as a
  // phone.
  marks_ +=
      fmt::format("<span class=\"word {} {}\" style=\"left:{:.2f}%\">{}</span>\n",
                  percent > 50 ? "before" : "after", html_escaped(css_class), percent, html_escaped(word));
}

void PageChart::legend(std::string_view colour, std::string_view word, std::string_view kind) {
  legend_ += fmt::format("<li><i class=\"{}\" style=\"--c:{}\"></i>{}</li>\n", html_escaped(kind), colour,
                         html_escaped(word));
}

std::string PageChart::html() const {
  std::string ticks;
  std::string grid;
  const std::vector<double> y_ticks = round_ticks(y_.low, y_.high, 5);
  const std::vector<double> x_ticks = round_ticks(x_.low, x_.high, 6);
  for (const double value : y_ticks) {
    grid += fmt::format("M0 {:.1f}H{}", y(value), kSide);
    ticks += fmt::format("<span class=\"ty\" style=\"top:{:.2f}%\">{}</span>", y(value) / kSide * 100,
                         tick_text(value, step_of(y_ticks)));
  }
  for (const double value : x_ticks) {
    const double percent = x(value) / kSide * 100;
    ticks += fmt::format("<span class=\"tx{}\" style=\"left:{:.2f}%\">{}</span>", percent > 97 ? " end" : "",
                         percent, tick_text(value, step_of(x_ticks)));
  }
  return fmt::format(
             "<figure class=\"chart {}\">\n<div class=\"ylabel\">{}</div>\n<div class=\"frame\">\n<svg "
             "viewBox=\"0 0 "
             "{} {}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\n<path class=\"grid\" "
             "d=\"{}\"/>\n",
             html_escaped(css_class_), html_escaped(y_.label), kSide, kSide, html_escaped(name_), grid) +
         body_ + "</svg>\n" + marks_ + ticks +
         fmt::format("\n</div>\n<div class=\"xlabel\">{}</div>\n", html_escaped(x_.label)) +
         (legend_.empty() ? "" : "<figcaption><ul class=\"legend\">\n" + legend_ + "</ul></figcaption>\n") +
         "</figure>\n";
}

}  // namespace plimsoll
