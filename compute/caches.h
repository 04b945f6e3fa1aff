// How much of what a machine copies stays near its processors.
#pragma once

#include <cstddef>
#include <filesystem>

namespace tombolo::compute {

/// Processors of this machine that are in use, of this process or not; at least 1.
int processors_of_machine() noexcept;

/// Those of a machine; none where the kernel does not say, and where there is no third level.
struct LastLevelCaches {
  std::size_t bytes = 0;  ///< of all together
  int count = 0;
};

/// Of a machine of so many processors. Each is taken to be as large, and to be shared by as many
/// processors, as that of the first processor. `root` is the folder in which /sys lies.
LastLevelCaches last_level_caches(int processors = processors_of_machine(),
                                  const std::filesystem::path& root = "/") noexcept;

}  // namespace tombolo::compute
