#include "compute/caches.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <fstream>
#include <string>

namespace tombolo::compute {

int processors_of_machine() noexcept {
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

LastLevelCaches last_level_caches(int processors, const std::filesystem::path& root) noexcept {
  try {
    const std::filesystem::path cache = root / "sys/devices/system/cpu/cpu0/cache/index3";
    // "32768K", and one bit for each processor, in hexadecimal digits: "00000000,000000ff".
    std::size_t kibibytes = 0;
    std::string unit, sharing;
    if (!(std::ifstream(cache / "size") >> kibibytes >> unit) || unit != "K") return {};
    std::ifstream(cache / "shared_cpu_map") >> sharing;
    int sharers = 0;
    for (const char digit : sharing) {
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) continue;
      sharers += std::popcount(static_cast<unsigned>(std::stoi(std::string(1, digit), nullptr, 16)));
    }
    if (sharers == 0) return {};
    const int caches = std::max(1, (processors + sharers - 1) / sharers);
    return {(kibibytes << 10) * static_cast<std::size_t>(caches), caches};
  } catch (...) {
    return {};
  }
}

}  // namespace tombolo::compute
