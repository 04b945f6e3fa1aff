#include "tools/reports/svg.h"

#include <cmath>

namespace tombolo::tools {
namespace {

std::string title_of(std::string_view tip) {
  return tip.empty() ? std::string() : fmt::format("<title>{}</title>", escape(tip));
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        bool forbidden = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
        out += forbidden ? '?' : c;
    }
  }
  return out;
}

std::vector<double> ticks(double top, int count) {
  if (!(top > 0) || count < 1) return {0, 1};
  double rough = top / count;
  double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power * 10;
  for (double nice : {1.0, 2.0, 5.0}) {
    if (nice * power >= rough * (1 - 1e-9)) {
      step = nice * power;
      break;
    }
  }
  std::vector<double> values;
  for (int i = 0;; ++i) {
    values.push_back(i * step);
    if (i > 0 && values.back() >= top * (1 - 1e-9)) return values;
  }
}

std::string short_number(double value) {
  double magnitude = std::fabs(value);
  if (magnitude >= 1e9) return fmt::format("{:.3g} G", value / 1e9);
  if (magnitude >= 1e6) return fmt::format("{:.3g} M", value / 1e6);
  if (magnitude >= 1e4) return fmt::format("{:.3g} k", value / 1e3);
  if (magnitude >= 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

std::string short_bytes(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.3g} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.3g} MB", bytes / 1e6);
  if (bytes >= 1e3) return fmt::format("{:.3g} kB", bytes / 1e3);
  return fmt::format("{:.0f} B", bytes);
}

Svg::Svg(double width, double height, std::string_view label) {
  text_ = fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", width, height,
                      escape(label));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style_class) {
  text_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1,
                       y1, x2, y2, style_class);
}

void Svg::rectangle(double x, double y, double width, double height, std::string_view style_class,
                    std::string_view tip, double radius) {
  text_ += fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" rx=\"{:.1f}\" "
      "class=\"{}\">{}</rect>\n",
      x, y, width, height, radius, style_class, title_of(tip));
}

void Svg::text(double x, double y, std::string_view content, std::string_view style_class) {
  text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, style_class,
                       escape(content));
}

void Svg::circle(double x, double y, double radius, std::string_view style_class, std::string_view tip) {
  text_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"{}\">{}</circle>\n", x, y,
                       radius, style_class, title_of(tip));
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, std::string_view style_class) {
  text_ += fmt::format("<polyline class=\"{}\" points=\"", style_class);
  for (const auto& [x, y] : points) text_ += fmt::format("{:.1f},{:.1f} ", x, y);
  text_ += "\"/>\n";
}

std::string Svg::finish() const {
  return text_ + "</svg>\n";
}

}  // namespace tombolo::tools
