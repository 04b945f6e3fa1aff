// Small pieces of SVG and HTML text. Colours are classes and variables of the page's style sheet (style.h),
// so that a drawing is readable both in light and in dark mode.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"

namespace tombolo::tools {

/// Escapes a text for text and attribute values: & < > " ', and control characters that neither HTML nor XML
/// can hold.
std::string escape(std::string_view text);

/// Evenly spaced "nice" values (1, 2 or 5 times a power of ten) from 0 to at least `top`; about `count` of
/// them.
std::vector<double> ticks(double top, int count);

/// A number with at most three significant digits: "1.2 k", "350", "2.1 M".
std::string short_number(double value);
/// Bytes in powers of ten: "1.6 MB".
std::string short_bytes(double bytes);

/// Collects the elements of one drawing. Units are pixels of the view box.
class Svg {
 public:
  /// `label` is the description for screen readers.
  Svg(double width, double height, std::string_view label);

  void line(double x1, double y1, double x2, double y2, std::string_view style_class);
  /// Adds a rectangle. `tip` appears when the pointer is over it; may be empty.
  void rectangle(double x, double y, double width, double height, std::string_view style_class,
                 std::string_view tip = {}, double radius = 0);
  /// Adds a text. `style_class` may hold several classes; "end" and "middle" set the anchor.
  void text(double x, double y, std::string_view content, std::string_view style_class);
  void circle(double x, double y, double radius, std::string_view style_class, std::string_view tip = {});
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view style_class);

  std::string finish() const;

 private:
  std::string text_;
};

}  // namespace tombolo::tools
