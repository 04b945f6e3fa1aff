#include "tools/demo/page/rate_scale.h"

#include <algorithm>
#include <cmath>

namespace tombolo::tools::demo {

RateScale::RateScale(double slowest, double fastest)
    : slowest_(slowest > 0 ? slowest : 1),
      decades_(std::max(1.0, std::log10(std::max(fastest, slowest_) / slowest_))) {}

int RateScale::shade(double rate) const {
  const double part = std::log10(std::max(rate, slowest_) / slowest_) / decades_;
  return std::clamp(static_cast<int>(std::floor(part * kShades)), 0, kShades - 1);
}

double RateScale::from(int shade) const {
  return slowest_ * std::pow(10.0, decades_ * shade / kShades);
}

}  // namespace tombolo::tools::demo
