#pragma once

#include "tools/demo/report.h"

namespace tombolo::tools::demo {

/// This machine and this build; the emulation and the demo's length are left to the caller.
Environment describe_environment();

}  // namespace tombolo::tools::demo
