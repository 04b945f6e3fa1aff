#include "bench/perf/devices.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "topology/files/cluster_file.h"

namespace tombolo::bench {
namespace {

/// The free memory of this host; unlimited where the kernel does not state it.
std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kibibytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (std::istringstream(line) >> name >> kibibytes && name == "MemAvailable:") return kibibytes * kKiB;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

std::vector<Device> gather_devices(const api::Communicator& communicator, int ranks_here) {
  Device own;
  own.rank = communicator.rank();
  own.pid = ::getpid();
  own.number = own.rank % ranks_here;
  ::gethostname(own.host, sizeof(own.host) - 1);
  std::string declared = topology::kHostParameter.text();
  if (declared.empty()) declared = own.host;
  declared.copy(own.declared, sizeof(own.declared) - 1);
  std::vector<Device> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(&own, all.data(), sizeof(own), tomboloInt8);
  return all;
}

void check_memory(const Flags& flags, const api::Communicator& communicator,
                  const std::vector<Device>& devices) {
  const std::uint64_t available = available_memory();
  communicator.barrier();  // so that no rank measures free memory after another has allocated its buffers
  const char* const host = devices[static_cast<std::size_t>(communicator.rank())].host;
  const auto ranks =
      static_cast<std::uint64_t>(std::count_if(devices.begin(), devices.end(), [host](const Device& one) {
        return std::strcmp(one.host, host) == 0;
      }));
  const std::uint64_t buffers = ranks * (flags.checks > 0 ? 3 : 2);
  if (flags.maximum_bytes <= available / buffers) return;
  fail(Cause::kInvalidUsage,
       "-e {}: the {} ranks on {} need {} buffers of it, and {} are left there: lower -e{}",
       format_size(flags.maximum_bytes), ranks, host, buffers, format_size(available),
       flags.checks > 0 ? ", or leave out the third that checking takes with -c 0" : "");
}

}  // namespace tombolo::bench
