#include "trainer/run/device_peak.h"

#include <algorithm>
#include <thread>

namespace tombolo::trainer {

double usable_cores(int threads, int cores, int ranks) noexcept {
  return std::min<double>(threads, static_cast<double>(std::max(cores, 1)) / std::max(ranks, 1));
}

double total_peak(double own, int threads, collectives::Communicator* world) {
  int ranks_here = 1;
  if (world != nullptr) {
    const auto& members = world->members();
    const std::string& host = members[static_cast<std::size_t>(world->rank())].host;
    ranks_here = static_cast<int>(
        std::ranges::count_if(members, [&](const auto& member) { return member.host == host; }));
  }
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  double sums[2] = {threads > 0 ? own * usable_cores(threads, cores, ranks_here) : own, own > 0 ? 0.0 : 1.0};
  if (world != nullptr)
    world->all_reduce(sums, sums, 2, collectives::DataType::kFloat64, collectives::ReduceOp::kSum);
  return sums[1] > 0 ? 0 : sums[0];
}

}  // namespace tombolo::trainer
