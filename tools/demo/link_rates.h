// The rates of the demo's emulated links. They follow from how fast this machine computes, so that the demo
// shows the same on slow and on fast machines.
#pragma once

#include <optional>
#include <string>

#include "planner/model/profile.h"

namespace tombolo::tools::demo {

/// The proportions of the demo are those of Holmes (arXiv 2312.03549) with 3.6 billion parameters on nodes of
/// 8 A100. There eight nodes without InfiniBand attain 83 TFLOPS per GPU over Ethernet, and four with
/// InfiniBand attain 197.
struct HolmesSetting {
  static constexpr double kStepOverComputing = 197.0 / 83.0;  ///< everything over Ethernet
  static constexpr double kFastOverEthernet = 200.0 / 25.0;   ///< Gbit/s of the NICs
};

struct LinkRates {
  double ethernet = 0, fast = 0;  ///< bits per second, of each direction of a NIC
  bool given = false;             ///< chosen by --ethernet, not by the computing speed
  bool at_bound = false;          ///< the wanted rate cannot be emulated; this is the nearest that can

  /// "holmes:fast=...,slow=...", for Spec::from_text().
  std::string emulation() const;
};

/// Chooses the Ethernet rate (two digits) with which a step of the demo's job, with ranks in launcher's order
/// and everything over Ethernet, takes kStepOverComputing times the time that it computes on `cores`; or
/// takes the one given. `profile` holds the layers' times at the job's micro-batch.
LinkRates choose_link_rates(const planner::Profile& profile, double cores, std::optional<double> given);

/// Seconds that a step of the demo's job computes when its four ranks share `cores`.
double computing_seconds(const planner::Profile& profile, double cores);

/// A text for the page and the screen that says how the rates were chosen.
std::string describe(const LinkRates& rates);

}  // namespace tombolo::tools::demo
