// How much of this machine's processors this process may use.
#pragma once

#include <bitset>
#include <filesystem>
#include <span>

namespace tombolo::compute {

/// Processors by their numbers in the system. Of machines that have more, those that come first.
using ProcessorSet = std::bitset<1024>;

/// Those on which this thread may run (its affinity); at least one.
ProcessorSet own_processors() noexcept;

/// Whether all of these threads, of one machine, can run at the same time, each on one processor of its set.
/// Throws std::bad_alloc.
bool has_processor_for_each(std::span<const ProcessorSet> threads);

/// The number of processors on which this thread may run (its affinity); at least 1.
int usable_processors() noexcept;

/// The processor time that the control groups of this process grant, in processors (cpu.max of cgroup v2,
/// cpu.cfs_quota_us of v1; the least of all groups above it); infinite where none limits it. `root` is the
/// folder in which /proc and /sys lie.
double processor_quota(const std::filesystem::path& root = "/");

/// The smaller of the two: 0.5 is half of one processor's time.
double usable_cores();

}  // namespace tombolo::compute
