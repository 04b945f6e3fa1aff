#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "collectives/parameters.h"
#include "collectives/rendezvous/bootstrap.h"

namespace tombolo::collectives {
namespace {

constexpr int kDefaultPort = 29400;
constexpr int kMostRanks = 1 << 20;

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

int parse(const char* name, const std::string& text, int low, int high) {
  int value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size() || value < low || value > high) {
    fail(Cause::kInvalidUsage, "{}='{}': expected an integer from {} to {}", name, text, low, high);
  }
  return value;
}

/// One launcher's variables.
struct Launcher {
  const char* source;
  const char* rank;
  const char* size;
  const char* local_rank;
};

constexpr Launcher kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Launcher kOpenMpi{"open mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Launcher kSlurm{"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

/// True where the launcher is this one. Half-set variables are an error: guessing would start wrong jobs.
bool read_ranks(const Launcher& launcher, Identity& identity) {
  const auto rank = environment(launcher.rank), size = environment(launcher.size);
  if (!rank && !size) return false;
  if (!rank || !size) {
    fail(Cause::kInvalidUsage, "{} is set but {} is not: {} sets both; set it, or unset the other",
         rank ? launcher.rank : launcher.size, rank ? launcher.size : launcher.rank, launcher.source);
  }
  identity.source = launcher.source;
  identity.size = parse(launcher.size, *size, 1, kMostRanks);
  identity.rank = parse(launcher.rank, *rank, 0, kMostRanks);
  if (identity.rank >= identity.size) {
    fail(Cause::kInvalidUsage, "{}={} is not below {}={}", launcher.rank, identity.rank, launcher.size,
         identity.size);
  }
  if (const auto local = environment(launcher.local_rank)) {
    identity.local_rank = parse(launcher.local_rank, *local, 0, kMostRanks);
  }
  return true;
}

/// The first host of a list as Slurm abbreviates it: "node[03-08,11],gpu1" starts with node03. Empty where
/// it is no such list.
std::string first_host(std::string_view list) {
  std::string host;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      host += list.front();
      list.remove_prefix(1);
      continue;
    }
    const std::size_t end = list.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view number = list.substr(1, std::min(end, list.find_first_of(",-")) - 1);
    if (number.empty()) return {};
    host += number;
    list.remove_prefix(end + 1);
  }
  return host;
}

/// Of rank 0's host: the first of this step's or allocation's. SLURM_LAUNCH_NODE_IPADDR is where srun was
/// typed, which may be a login node: only where nothing else is said.
std::string slurm_address() {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    const auto list = environment(name);
    if (!list || list->empty()) continue;
    if (std::string host = first_host(*list); !host.empty()) return host;
    fail(Cause::kInvalidUsage,
         "{}='{}': expected a list of hosts such as node[03-08,11]; set MASTER_ADDR to the address of rank "
         "0's host",
         name, *list);
  }
  if (const auto launch = environment("SLURM_LAUNCH_NODE_IPADDR")) return *launch;
  fail(Cause::kInvalidUsage,
       "none of SLURM_STEP_NODELIST, SLURM_JOB_NODELIST, SLURM_LAUNCH_NODE_IPADDR and MASTER_ADDR is set: "
       "set MASTER_ADDR to the address of rank 0's host");
}

void read_port(Identity& identity) {
  identity.port = kDefaultPort;
  if (const auto port = environment("MASTER_PORT")) {
    identity.port = parse("MASTER_PORT", *port, 1, 65535);
    // torchrun's agent keeps its own store on MASTER_PORT and says so.
    if (environment("TORCHELASTIC_USE_AGENT_STORE") == "True") {
      identity.port = identity.port == 65535 ? 65534 : identity.port + 1;
    }
  }
  const std::int64_t own = kPortParameter.integer();
  if (own < 0 || own > 65535) {
    fail(Cause::kInvalidUsage, "{}={}: expected a port from 1 to 65535, or 0", kPortParameter.name, own);
  }
  if (own != 0) identity.port = static_cast<int>(own);
}

}  // namespace

Identity Identity::from_environment() {
  Identity identity;
  identity.source = "single";
  const auto master = environment("MASTER_ADDR");
  // mpirun and srun may run inside each other's allocations, and torchrun inside either: the innermost, which
  // started this very process, is the first of these that is set.
  const bool slurm_step = environment("SLURM_PROCID").has_value();
  if (read_ranks(kTorchrun, identity)) {
    if (!master && identity.size > 1) {
      fail(Cause::kInvalidUsage,
           "RANK and WORLD_SIZE are set but MASTER_ADDR is not: set it to the address of rank 0's host");
    }
  } else if (read_ranks(kOpenMpi, identity)) {
    const auto local_size = environment("OMPI_COMM_WORLD_LOCAL_SIZE");
    const bool one_host =
        local_size && parse("OMPI_COMM_WORLD_LOCAL_SIZE", *local_size, 1, kMostRanks) == identity.size;
    if (!master && !one_host) {
      fail(Cause::kInvalidUsage,
           "the ranks span hosts and Open MPI does not say where rank 0 is: pass its address "
           "(mpirun -x MASTER_ADDR=...)");
    }
  } else if (slurm_step && read_ranks(kSlurm, identity)) {
    // SLURM_NTASKS alone is only an allocation: nothing was started by srun.
    if (!master && identity.size > 1) identity.address = slurm_address();
  }
  if (master) {
    if (master->empty())
      fail(Cause::kInvalidUsage, "MASTER_ADDR is empty: set it to the address of rank 0's host");
    identity.address = *master;
  }
  read_port(identity);
  return identity;
}

}  // namespace tombolo::collectives
