#include "compute/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "compute/caches.h"

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

/// Which thread has each processor, while more and more threads get one.
class Assignment {
 public:
  explicit Assignment(std::span<const ProcessorSet> threads)
      : threads_(threads), holder_(ProcessorSet().size(), kNobody) {}

  /// Finds that thread a processor, for which others may change to another of theirs; false where there is
  /// none (Kuhn's algorithm).
  bool give(std::size_t thread) {
    tried_.reset();
    return take(thread);
  }

 private:
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

  bool take(std::size_t thread) {
    const ProcessorSet& allowed = threads_[thread];
    for (const bool only_free : {true, false}) {
      for (std::size_t one = 0; one < allowed.size(); ++one) {
        if (!allowed[one] || tried_[one] || (only_free && holder_[one] != kNobody)) continue;
        tried_.set(one);
        if (holder_[one] != kNobody && !take(holder_[one])) continue;
        holder_[one] = thread;
        return true;
      }
    }
    return false;
  }

  std::span<const ProcessorSet> threads_;
  std::vector<std::size_t> holder_;
  ProcessorSet tried_;
};

}  // namespace

ProcessorSet own_processors() noexcept {
  ProcessorSet found;
  cpu_set_t set;
  CPU_ZERO(&set);
  // The call fails on machines with more than 1024 processors; then all of them count.
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (std::size_t one = 0; one < found.size(); ++one) found[one] = CPU_ISSET(one, &set);
  } else {
    const auto all = static_cast<std::size_t>(processors_of_machine());
    for (std::size_t one = 0; one < std::min(all, found.size()); ++one) found.set(one);
  }
  if (found.none()) found.set(0);
  return found;
}

int usable_processors() noexcept {
  return static_cast<int>(own_processors().count());
}

bool has_processor_for_each(std::span<const ProcessorSet> threads) {
  ProcessorSet all;
  for (const ProcessorSet& one : threads) all |= one;
  if (threads.size() > all.count()) return false;
  Assignment assignment(threads);
  for (std::size_t thread = 0; thread < threads.size(); ++thread)
    if (!assignment.give(thread)) return false;
  return true;
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
