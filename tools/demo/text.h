// The text that the demo trains on.
#pragma once

#include <string>

#include "base/clock.h"
#include "tools/demo/options.h"

namespace tombolo::tools::demo {

struct Text {
  std::string path;    ///< a file
  std::string source;  ///< where it came from, for the report
  double bytes = 0;
};

/// Returns the file of --data, or else the King James Bible, written to `folder`. Throws kInvalidUsage for a
/// file that cannot be read or is too small, kUnsupported where `bible` is not installed, kSystem where it
/// failed.
Text make_text(const Options& options, const std::string& folder, Duration limit);

}  // namespace tombolo::tools::demo
