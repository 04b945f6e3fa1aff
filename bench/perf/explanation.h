// What --explain prints: what the engine knows of the network, and why each size went the way it went. The
// engine itself says it (tomboloCommExplain); this puts it into lines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tombolo::bench {

/// The way of one size.
struct ExplainedSize {
  std::size_t bytes = 0;  ///< as in the table
  std::string text;  ///< the engine's JSON after a call of that size; empty: no collective of the engine's
};

/// Lines that begin with "#", for the end of a table: the network, the sizes, and the connections that the
/// last of them used. `sizes` must not be empty; `now` is the engine's JSON at the end.
std::string explained(const std::vector<ExplainedSize>& sizes, const std::string& now);

/// The members of the engine's JSON that are not about a call, and those about the call.
nlohmann::json network_json(const std::string& text);
nlohmann::json call_json(const std::string& text);

}  // namespace tombolo::bench
