// For tests: a library of NVML's name and functions, which answers what a test has written here. A program
// that is linked with it finds it in place of the driver's.
#pragma once

#include <string>
#include <vector>

namespace tombolo::topology::test {

struct PretendedNvLink {
  bool active = true;
  std::string peer;   ///< as NVML writes it; empty: the library does not tell
  unsigned type = 0;  ///< 0: a GPU, 2: a switch, 255: the library does not tell
};

struct PretendedNvmlGpu {
  bool answers = true;            ///< false: it has no handle (it fell off the bus)
  std::string name, bus_id;       ///< empty: the library does not tell
  unsigned long long memory = 0;  ///< 0: the library does not tell
  int major = 0, minor = 0;       ///< 0: the library does not tell
  std::vector<PretendedNvLink> links = {};
};

struct PretendedNvml {
  bool starts = true, counts = true;
  std::vector<PretendedNvmlGpu> gpus;
  int running = 0;  ///< init() less shutdown()
};

/// What the library answers from.
PretendedNvml& pretended_nvml();

}  // namespace tombolo::topology::test
