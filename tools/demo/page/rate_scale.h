// One logarithmic scale of shades for the rates in all drawings of a page.
#pragma once

namespace tombolo::tools::demo {

/// Shades of equal ratios, from the slowest rate of a page to its fastest, or to ten times the slowest if
/// that is more, so that rates which are nearly alike look alike. Bytes per second.
class RateScale {
 public:
  static constexpr int kShades = 7;

  /// Takes any two rates; what is not above 0 counts as 1.
  RateScale(double slowest, double fastest);

  /// 0 to kShades - 1; rates outside get the nearest.
  int shade(double rate) const;
  /// The slowest rate of a shade.
  double from(int shade) const;

 private:
  double slowest_;
  double decades_;  ///< length of the whole scale
};

}  // namespace tombolo::tools::demo
