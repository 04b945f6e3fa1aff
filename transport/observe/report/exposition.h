// What the meters say, as text for machines: Prometheus' exposition format 0.0.4, and JSON. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "transport/observe/meters.h"

namespace tombolo::transport::report {

/// Names the process whose meters are reported.
struct Reporter {
  std::string host;
  std::int64_t process = 0;
};

inline constexpr std::string_view kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

/// Every series with HELP and TYPE. Labels: transport, nic, peer_nic, peer; so the number of series grows
/// with the peers' NICs and not with connections. Those of the meters' sources follow, with their own labels.
std::string to_prometheus(const MetersReading& reading, const Reporter& reporter);

/// The sums of to_prometheus(), those of the sources under "more", and every live connection with its
/// streams.
nlohmann::json to_json(const MetersReading& reading, const Reporter& reporter);

}  // namespace tombolo::transport::report
