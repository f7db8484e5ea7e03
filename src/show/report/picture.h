// A drawing of rectangles, lines and texts that can be kept as SVG and as PNG, so that both show the same.
// PNG needs cairo: its headers when this is built, its library, opened at the first PNG, when it runs;
// without either there is SVG alone. Not thread-safe while it is drawn on.
//
// What it is not: a plot. Axes and their ticks are drawn by those who know what is shown
// (experiment_plot.cc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class TextAnchor : uint8_t { kStart, kMiddle, kEnd };
enum class TextWeight : uint8_t { kNormal, kBold };

class Picture {
 public:
  // Pixels; white.
  Picture(int width, int height, std::string title);

  // Colours are "#rrggbb".
  void rectangle(double x, double y, double width, double height, std::string_view colour);
  void line(double x1, double y1, double x2, double y2, std::string_view colour, double width);
  // (x, y) is on the base line of the text, at its start, middle or end.
  void text(double x, double y, std::string_view words, double size, std::string_view colour,
            TextAnchor anchor = TextAnchor::kStart, TextWeight weight = TextWeight::kNormal);

  // The whole file. Newline at the end.
  std::string svg() const;
  // Returns false where there is no cairo. `scale`: pixels of the file for one of the drawing. Errors:
  // kDevice where the file cannot be written.
  bool write_png(const std::string& path, double scale = 2.0) const;

 private:
  enum class Kind : uint8_t { kRectangle, kLine, kText };
  struct Item {
    Kind kind = Kind::kRectangle;
    double x = 0;
    double y = 0;
    double a = 0;  // width, or x2
    double b = 0;  // height, or y2
    double size = 0;
    std::string colour = {};
    std::string words = {};
    TextAnchor anchor = TextAnchor::kStart;
    TextWeight weight = TextWeight::kNormal;
  };
  int width_;
  int height_;
  std::string title_;
  std::vector<Item> items_;
};

}  // namespace plimsoll
