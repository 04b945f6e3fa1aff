#include "compute/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace tombolo::compute {
namespace {

namespace fs = std::filesystem;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Parses cpu.max, such as "max 100000" or "50000 100000".
std::optional<double> read_v2(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || !(period > 0)) return std::nullopt;
  const double microseconds = std::strtod(quota.c_str(), nullptr);
  if (!(microseconds > 0)) return std::nullopt;
  return microseconds / period;
}

/// Reads the quota divided by the period; a quota of -1 means that there is none.
std::optional<double> read_v1(const fs::path& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
  std::ifstream(folder / "cpu.cfs_period_us") >> period;
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
}

/// The smallest quota of a group and of all groups above it.
template <typename Read>
double least_quota(const fs::path& mount, fs::path group, const Read& read) {
  double least = kUnlimited;
  for (;; group = group.parent_path()) {
    if (const auto quota = read(mount / group.relative_path())) least = std::min(least, *quota);
    if (!group.has_relative_path()) return least;
  }
}

/// True where a list of controllers of version 1, such as "cpu,cpuacct", contains "cpu".
bool has_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

int usable_processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  // The call fails on machines with more than 1024 processors; then all of them are counted.
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

double processor_quota(const fs::path& root) {
  // The lines to parse: "0::/user.slice" for v2, "4:cpu,cpuacct:/user.slice" for v1.
  std::ifstream groups(root / "proc/self/cgroup");
  double least = kUnlimited;
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty())
      least = std::min(least, least_quota(root / "sys/fs/cgroup", group, read_v2));
    else if (has_cpu(controllers))
      least = std::min(least, least_quota(root / "sys/fs/cgroup/cpu", group, read_v1));
  }
  return least;
}

double usable_cores() {
  return std::min<double>(usable_processors(), processor_quota());
}

}  // namespace tombolo::compute
