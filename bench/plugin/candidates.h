// The transports that plugin_perf compares.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/channels.h"
#include "bench/plugin/plan.h"

namespace tombolo::bench::plugin {

/// One transport that is measured, and how its channels are made; they live in processes of their own.
struct Candidate {
  std::string key;    ///< short, in the tables and in JSON
  std::string label;  ///< filled in by the process that loaded it
  std::vector<std::pair<std::string, std::string>> environment;
  std::function<std::unique_ptr<Channels>(bool leading, int control)> make;
};

/// Those of the plan, for up to so many channels at a time. Throws kInvalidUsage where it names one that is
/// none.
std::vector<Candidate> candidates_of(const Plan& plan, std::size_t most_channels);

}  // namespace tombolo::bench::plugin
