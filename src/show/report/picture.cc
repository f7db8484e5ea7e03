#include "show/report/picture.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "show/report/svg.h"

#ifdef PLIMSOLL_HAS_CAIRO
#include <cairo.h>
#include <dlfcn.h>

#include <memory>
#include <optional>

#include "base/check.h"
#include "base/opened_library.h"
#endif

namespace plimsoll {

Picture::Picture(int width, int height, std::string title)
    : width_(width), height_(height), title_(std::move(title)) {}

void Picture::rectangle(double x, double y, double width, double height, std::string_view colour) {
  items_.push_back(
      {.kind = Kind::kRectangle, .x = x, .y = y, .a = width, .b = height, .colour = std::string(colour)});
}

void Picture::line(double x1, double y1, double x2, double y2, std::string_view colour, double width) {
  items_.push_back({.kind = Kind::kLine,
                    .x = x1,
                    .y = y1,
                    .a = x2,
                    .b = y2,
                    .size = width,
                    .colour = std::string(colour)});
}

void Picture::text(double x, double y, std::string_view words, double size, std::string_view colour,
                   TextAnchor anchor, TextWeight weight) {
  items_.push_back({.kind = Kind::kText,
                    .x = x,
                    .y = y,
                    .size = size,
                    .colour = std::string(colour),
                    .words = std::string(words),
                    .anchor = anchor,
                    .weight = weight});
}

void Picture::polyline(std::vector<PlotPoint> points, std::string_view colour, double width,
                       std::string_view dashes) {
  items_.push_back({.kind = Kind::kPolyline,
                    .size = width,
                    .colour = std::string(colour),
                    .words = std::string(dashes),
                    .points = std::move(points)});
}

void Picture::polygon(std::vector<PlotPoint> points, std::string_view colour) {
  items_.push_back({.kind = Kind::kPolygon, .colour = std::string(colour), .points = std::move(points)});
}

void Picture::dot(double x, double y, double radius, std::string_view colour) {
  items_.push_back({.kind = Kind::kDot, .x = x, .y = y, .size = radius, .colour = std::string(colour)});
}

void Picture::upward_text(double x, double y, std::string_view words, double size, std::string_view colour) {
  items_.push_back({.kind = Kind::kUpwardText,
                    .x = x,
                    .y = y,
                    .size = size,
                    .colour = std::string(colour),
                    .words = std::string(words),
                    .anchor = TextAnchor::kMiddle});
}

void Picture::append(const Picture& other) {
  items_.insert(items_.end(), other.items_.begin(), other.items_.end());
}

namespace {

bool is_drawn(const PlotPoint& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

// Returns the commands of an SVG path through the points. Points that are not finite leave a gap.
std::string path_of(const std::vector<PlotPoint>& points) {
  std::string path;
  bool pen_down = false;
  for (const PlotPoint& point : points) {
    if (is_drawn(point))
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", point.first, point.second);
    pen_down = is_drawn(point);
  }
  return path;
}

}  // namespace

std::string Picture::svg_of(const Item& item) {
  switch (item.kind) {
    case Kind::kRectangle:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
                         item.x, item.y, item.a, item.b, item.colour);
    case Kind::kLine:
      return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\" stroke-width=\"{:.1f}\"/>\n",
                         item.x, item.y, item.a, item.b, item.colour, item.size);
    case Kind::kPolyline: {
      const std::string path = path_of(item.points);
      if (path.empty()) return {};
      return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", path,
                         item.colour, item.size,
                         item.words.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", item.words));
    }
    case Kind::kPolygon:
      return fmt::format("<path d=\"{}Z\" fill=\"{}\"/>\n", path_of(item.points), item.colour);
    case Kind::kDot:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", item.x, item.y,
                         item.size, item.colour);
    case Kind::kText:
    case Kind::kUpwardText:
      break;
  }
  constexpr std::string_view kAnchors[] = {"start", "middle", "end"};
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.0f}\" fill=\"{}\" text-anchor=\"{}\"{}{}>{}</text>\n",
      item.x, item.y, item.size, item.colour, kAnchors[static_cast<size_t>(item.anchor)],
      item.weight == TextWeight::kBold ? " font-weight=\"bold\"" : "",
      item.kind == Kind::kUpwardText ? fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", item.x, item.y)
                                     : "",
      xml_escaped(item.words));
}

std::string Picture::svg() const {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\">\n<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"#ffffff\"/>\n",
      width_, height_, xml_escaped(title_));
  for (const Item& item : items_) out += svg_of(item);
  return out + "</svg>\n";
}

#ifdef PLIMSOLL_HAS_CAIRO

namespace {

// The cairo functions that pictures use. Their types come from cairo's headers; the functions are looked up in the
// library at run time.
#define PLIMSOLL_CAIRO_FUNCTIONS(apply)                                                                    \
  apply(image_surface_create) apply(surface_destroy) apply(surface_write_to_png) apply(status_to_string)   \
      apply(create) apply(destroy) apply(scale) apply(paint) apply(set_source_rgb) apply(rectangle)        \
          apply(fill) apply(set_line_width) apply(move_to) apply(line_to) apply(stroke)                    \
              apply(select_font_face) apply(set_font_size) apply(text_extents) apply(show_text) apply(arc) \
                  apply(set_dash) apply(save) apply(restore) apply(rotate) apply(translate)

struct Cairo {
#define PLIMSOLL_CAIRO(name) decltype(&cairo_##name) name = nullptr;
  PLIMSOLL_CAIRO_FUNCTIONS(PLIMSOLL_CAIRO)
#undef PLIMSOLL_CAIRO
};

// Opens the cairo library. Returns nothing if it is not installed. The library stays open because it may be used again.
std::optional<Cairo> open_cairo() {
  void* library = dlopen(kCairoLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Cairo cairo;
  bool all = true;
#define PLIMSOLL_CAIRO(name) all = find_library_function(library, "cairo_" #name, cairo.name) && all;
  PLIMSOLL_CAIRO_FUNCTIONS(PLIMSOLL_CAIRO)
#undef PLIMSOLL_CAIRO
  return all ? std::optional(cairo) : std::nullopt;
}

void set_colour(const Cairo& cairo, cairo_t* context, const std::string& colour) {
  const auto part = [&](size_t at) {
    return static_cast<double>(std::strtol(colour.substr(at, 2).c_str(), nullptr, 16)) / 255.0;
  };
  cairo.set_source_rgb(context, part(1), part(3), part(5));
}

// Draws the path of a polyline or a polygon; the caller strokes or fills it.
void add_path(const Cairo& cairo, cairo_t* context, const std::vector<PlotPoint>& points) {
  bool pen_down = false;
  for (const PlotPoint& point : points) {
    if (is_drawn(point)) (pen_down ? cairo.line_to : cairo.move_to)(context, point.first, point.second);
    pen_down = is_drawn(point);
  }
}

void set_dashes(const Cairo& cairo, cairo_t* context, const std::string& dashes) {
  std::istringstream words(dashes);
  std::vector<double> lengths;
  for (double length = 0; words >> length;) lengths.push_back(length);
  cairo.set_dash(context, lengths.data(), static_cast<int>(lengths.size()), 0);
}

}  // namespace

bool Picture::write_png(const std::string& path, double scale) const {
  const std::optional<Cairo> library = open_cairo();
  if (!library) return false;
  const Cairo& cairo = *library;
  const auto pixels = [&](int size) { return static_cast<int>(size * scale); };
  const std::unique_ptr<cairo_surface_t, decltype(cairo.surface_destroy)> surface(
      cairo.image_surface_create(CAIRO_FORMAT_RGB24, pixels(width_), pixels(height_)), cairo.surface_destroy);
  const std::unique_ptr<cairo_t, decltype(cairo.destroy)> context(cairo.create(surface.get()), cairo.destroy);
  cairo_t* to = context.get();
  cairo.scale(to, scale, scale);
  cairo.set_source_rgb(to, 1, 1, 1);
  cairo.paint(to);
  for (const Item& item : items_) {
    set_colour(cairo, to, item.colour);
    if (item.kind == Kind::kRectangle) {
      cairo.rectangle(to, item.x, item.y, item.a, item.b);
      cairo.fill(to);
    } else if (item.kind == Kind::kLine) {
      cairo.set_line_width(to, item.size);
      cairo.move_to(to, item.x, item.y);
      cairo.line_to(to, item.a, item.b);
      cairo.stroke(to);
    } else if (item.kind == Kind::kPolyline) {
      cairo.set_line_width(to, item.size);
      set_dashes(cairo, to, item.words);
      add_path(cairo, to, item.points);
      cairo.stroke(to);
      set_dashes(cairo, to, "");
    } else if (item.kind == Kind::kPolygon) {
      add_path(cairo, to, item.points);
      cairo.fill(to);
    } else if (item.kind == Kind::kDot) {
      cairo.arc(to, item.x, item.y, item.size, 0, 2 * M_PI);
      cairo.fill(to);
    } else {
      cairo.select_font_face(
          to, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
          item.weight == TextWeight::kBold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
      cairo.set_font_size(to, item.size);
      cairo_text_extents_t extents;
      cairo.text_extents(to, item.words.c_str(), &extents);
      const double before = item.anchor == TextAnchor::kStart    ? 0
                            : item.anchor == TextAnchor::kMiddle ? extents.x_advance / 2
                                                                 : extents.x_advance;
      cairo.save(to);
      cairo.translate(to, item.x, item.y);
      if (item.kind == Kind::kUpwardText) cairo.rotate(to, -M_PI / 2);
      cairo.move_to(to, -before, 0);
      cairo.show_text(to, item.words.c_str());
      cairo.restore(to);
    }
  }
  const cairo_status_t status = cairo.surface_write_to_png(surface.get(), path.c_str());
  if (status != CAIRO_STATUS_SUCCESS) {
    throw_error(ErrorCode::kDevice,
                "{}: the picture cannot be written: {}; check the path, its permissions and the disk", path,
                cairo.status_to_string(status));
  }
  return true;
}

#else

bool Picture::write_png(const std::string&, double) const {
  return false;
}

#endif

}  // namespace plimsoll
