#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "base/units.h"
#include "plan/anatomy/memory.h"
#include "show/html/page_parts.h"
#include "show/html/report_page.h"
#include "show/report/picture.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

// Smallest height and width of a drawn rectangle, in units of the chart. A smaller one
// would be smaller than a pixel even on a large screen.
constexpr double kLeastHeight = PageChart::kSide / 900;
constexpr double kLeastWidth = PageChart::kSide / 1800;

struct MapBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  bool is_visible() const { return width >= kLeastWidth && height >= kLeastHeight; }
};

double end_ms(const BufferMap& map) {
  return map.start_ms.back() > 0 ? map.start_ms.back() : 1;
}

MapBox box_of(const BufferMap& map, const MapBuffer& buffer, const PageChart& chart) {
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / kMiB; };
  const double left = chart.x(map.start_ms[buffer.first]);
  const double top = chart.y(mib(buffer.offset + buffer.bytes));
  return {.x = left,
          .y = top,
          .width = chart.x(map.start_ms[buffer.last + 1]) - left,
          .height = chart.y(mib(buffer.offset)) - top};
}

std::string lifetime(const BufferMap& map, const MapBuffer& buffer) {
  if (buffer.is_persistent) return "the whole run";
  return fmt::format("op {} to {} of {}, {} to {} ms", buffer.first + 1, buffer.last + 1, map.num_ops(),
                     short_number(map.start_ms[buffer.first]), short_number(map.start_ms[buffer.last + 1]));
}

std::string title_of(const BufferMap& map, const MapBuffer& buffer) {
  return fmt::format("{}\n{}{} MiB, {}\nat {} MiB\nlive: {}", buffer.name,
                     buffer.module.empty() ? "" : describe_module(buffer.module) + "\n",
                     short_number(static_cast<double>(buffer.bytes) / kMiB), purpose_name(buffer.purpose),
                     format_mib(buffer.offset), lifetime(map, buffer));
}

std::string rect_of(const BufferMap& map, const MapBuffer& buffer, const MapBox& box) {
  // Rectangles that are large enough are drawn with an edge, so that a reader can distinguish neighbouring buffers.
  const bool has_edge = box.height > 4 * kLeastHeight && box.width > 4 * kLeastWidth;
  return fmt::format(
      "<rect class=\"p{}{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" "
      "height=\"{:.2f}\"><title>{}</title></rect>\n",
      static_cast<int>(buffer.purpose), has_edge ? " b" : "", box.x, box.y, box.width, box.height,
      html_escaped(title_of(map, buffer)));
}

// Draws the buffers that are smaller than a pixel. Their rectangles are rounded to a grid of pixels, and those of one purpose that then
// overlap or touch are drawn as one.
class SmallBoxes {
 public:
  void add(Purpose purpose, const MapBox& box) {
    const auto row = [](double y) { return static_cast<int>(y / kLeastHeight); };
    for (int r = row(box.y); r <= row(box.y + box.height); ++r)
      spans_.push_back({static_cast<int>(purpose), r, static_cast<int>(box.x / kLeastWidth),
                        static_cast<int>((box.x + box.width) / kLeastWidth) + 1});
  }
  std::string paths() {
    std::ranges::sort(spans_, {}, [](const Span& s) { return std::tuple(s.purpose, s.row, s.from); });
    std::array<std::string, kNumPurposes> paths;
    for (size_t i = 0; i < spans_.size();) {
      Span merged = spans_[i++];
      for (; i < spans_.size() && spans_[i].purpose == merged.purpose && spans_[i].row == merged.row &&
             spans_[i].from <= merged.to;
           ++i)
        merged.to = std::max(merged.to, spans_[i].to);
      paths[static_cast<size_t>(merged.purpose)] += fmt::format(
          "M{:.1f} {:.1f}h{:.1f}v{:.2f}h{:.1f}z", merged.from * kLeastWidth, merged.row * kLeastHeight,
          (merged.to - merged.from) * kLeastWidth, kLeastHeight, -(merged.to - merged.from) * kLeastWidth);
    }
    std::string out;
    for (size_t p = 0; p < paths.size(); ++p) {
      if (!paths[p].empty()) out += fmt::format("<path class=\"p{}\" d=\"{}\"/>\n", p, paths[p]);
    }
    return out;
  }

 private:
  struct Span {
    int purpose, row, from, to;
  };
  std::vector<Span> spans_;
};

std::vector<const MapBuffer*> live_at_peak(const BufferMap& map) {
  std::vector<const MapBuffer*> live;
  for (const MapBuffer& buffer : map.buffers) {
    if (buffer.first <= map.peak && map.peak <= buffer.last) live.push_back(&buffer);
  }
  std::ranges::stable_sort(live, std::greater<>(), &MapBuffer::bytes);
  return live;
}

std::string program_words(const BufferMap& map) {
  return map.program == kTrainProgram      ? "a training step of one micro-batch"
         : map.program == kGenerateProgram ? "one run of the model"
                                           : "a batch of evaluation";
}

}  // namespace

std::string map_figure(const BufferMap& map) {
  const double arena = static_cast<double>(map.arena_bytes) / kMiB;
  PageChart chart({.low = 0, .high = end_ms(map), .label = "estimated time, ms"},
                  {.low = 0, .high = arena, .label = "address in the arena, MiB"},
                  "Map of the arena: address by time", "map");
  SmallBoxes small;
  size_t num_small = 0;
  std::string boxes;
  std::array<int64_t, kNumPurposes> at_peak{};
  std::array<bool, kNumPurposes> is_shown{};
  for (const MapBuffer& buffer : map.buffers) {
    const auto p = static_cast<size_t>(buffer.purpose);
    is_shown[p] = is_shown[p] || buffer.bytes > 0;
    if (buffer.first <= map.peak && map.peak <= buffer.last) at_peak[p] += buffer.bytes;
    const MapBox box = box_of(map, buffer, chart);
    if (box.is_visible()) {
      boxes += rect_of(map, buffer, box);
    } else {
      small.add(buffer.purpose, box);
      ++num_small;
    }
  }
  chart.add("<g class=\"buffers\">\n" + small.paths() + boxes + "</g>\n");
  for (size_t i = 1; i < map.segments.size(); ++i)
    chart.mark_x(map.start_ms[map.segments[i].first], map.segments[i].name, "segment");
  chart.mark_x(map.start_ms[map.peak], fmt::format("peak {} MiB", format_mib(map.live_bytes(map.peak))),
               "peak");
  for (size_t p = kNumPurposes; p-- > 0;) {
    if (!is_shown[p]) continue;
    const auto purpose = static_cast<Purpose>(p);
    chart.legend(purpose_colour(purpose),
                 fmt::format("{}: {} MiB at the peak", purpose_name(purpose),
                             at_peak[p] == 0 ? "0.0" : format_mib(at_peak[p])),
                 "box");
  }
  const std::string readout =
      "<output class=\"readout\" aria-live=\"polite\">Point at a buffer, tap it, or move between buffers "
      "with the arrow "
      "keys.</output>\n";
  std::string text = fmt::format(
      "{} in an arena of {} MiB ({} bytes), during {}. A rectangle is as high as its buffer is large and as "
      "wide as the buffer lives.",
      counted(map.buffers.size(), "buffer"), format_mib(map.arena_bytes), format_grouped(map.arena_bytes),
      program_words(map));
  if (num_small > 0)
    text += fmt::format(" {} of them are smaller than a pixel and are drawn together.",
                        format_grouped(static_cast<int64_t>(num_small)));
  return html_note(text) + chart.html() + readout;
}

std::string peak_table(const BufferMap& map) {
  constexpr size_t kMostRows = 12;
  const std::vector<const MapBuffer*> live = live_at_peak(map);
  const int64_t live_bytes = map.live_bytes(map.peak);
  HtmlTable table{.head = {"buffer", "MiB", "purpose", "module", "live"},
                  .rows = {},
                  .columns = "tnttt",
                  .has_total = true};
  table.caption = fmt::format("Largest buffers at the peak, op {} of {} ({})", map.peak + 1, map.num_ops(),
                              map.ops[map.peak]);
  int64_t shown = 0;
  for (size_t i = 0; i < std::min(kMostRows, live.size()); ++i) {
    const MapBuffer& buffer = *live[i];
    table.rows.push_back({buffer.name, format_mib(buffer.bytes), std::string(purpose_name(buffer.purpose)),
                          buffer.module.empty() ? "" : describe_module(buffer.module),
                          lifetime(map, buffer)});
    shown += buffer.bytes;
  }
  if (live.size() > kMostRows) {
    table.rows.push_back(
        {fmt::format("{} more", format_grouped(static_cast<int64_t>(live.size() - kMostRows))),
         format_mib(live_bytes - shown), "", "", ""});
  }
  if (map.arena_bytes > live_bytes)
    table.rows.push_back({"not used at the peak", format_mib(map.arena_bytes - live_bytes), "", "", ""});
  table.rows.push_back({"arena", format_mib(map.arena_bytes), "", "", ""});
  return table.html();
}

}  // namespace plimsoll
