// What a simulated run was asked for, and what came of it.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/checks/defects.h"

namespace tombolo::simulation {

struct Verdict {
  std::string wrong;  ///< what must not be; empty where all is well
  bool tls = false;   ///< of the plan
  bool connected = false, failed = false;
  std::uint64_t messages = 0, breaks = 0, rejoins = 0, replayed = 0, turns = 0;
  double seconds = 0;        ///< of virtual time
  std::uint64_t course = 0;  ///< a checksum of who ran when and of what was drawn; equal runs have the same
  bool ok() const noexcept { return wrong.empty(); }
};

struct RunOptions {
  bool log = false;  ///< print what both ends log, with the virtual time
  Defect defect = Defect::kNone;
};

}  // namespace tombolo::simulation
