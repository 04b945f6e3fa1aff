// The facts about this machine and build that a report states.
#pragma once

#include "tools/demo/report.h"

namespace tombolo::tools::demo {

/// Describes this machine and this build. The caller fills in the emulation and the duration of the demo.
Environment describe_environment();

}  // namespace tombolo::tools::demo
