// Checks between two hosts: the facts that every rank sends about its machine, what it measures on the path
// to another host, and the findings from both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/doctor/checks.h"
#include "topology/nic.h"

namespace tombolo::probe {
class RendezvousGroup;
}
namespace tombolo::collectives {
struct Options;
}

namespace tombolo::doctor {

/// The facts that each rank sends to all others.
struct HostFacts {
  int rank = 0;
  std::string host;     ///< its name in Tombolo
  std::string machine;  ///< equal for processes that share a kernel and a network namespace
  std::string version;
  struct NicFacts {
    std::string name, kind, fabric, address;
    bool emulated = false;
    int mtu = 0;                             ///< the kernel's current value; 0 = unknown
    std::uint64_t rate_bits_per_second = 0;  ///< 0 = unknown
    std::vector<std::string> gid_types;      ///< types of its GIDs, each once
    int tcp_port = 0, udp_port = 0;          ///< ports of the responder
  };
  std::vector<NicFacts> nics;
  std::map<std::string, std::string> settings;  ///< kernel settings that could be read, by name
};

/// The settings that HostFacts carries.
inline constexpr const char* kPairSettings[] = {
    "net.core.somaxconn",       "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",        "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_sack",        "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_available_congestion_control"};

/// The measurements that one end made from one of its NICs to one of another host's.
struct Way {
  std::string nic, peer_nic, peer_address;
  int peer_port = 0;
  enum class Reach { kConnected, kRefused, kUnreachable, kNoAnswer, kOther };
  Reach reach = Reach::kOther;
  std::string error;         ///< the kernel's error text, where it did not connect
  double round_trip = 0;     ///< seconds, the least seen
  double clock_ahead = 0;    ///< seconds that the peer's clock is ahead
  double clock_error = 0;    ///< largest error of clock_ahead, seconds
  bool bulk_arrived = true;  ///< a transfer of more bytes than one packet holds got through
  std::uint64_t bulk_acknowledged = 0;
  std::uint64_t segments = 0, retransmitted = 0;  ///< TCP segments of that transfer
  int path_mtu = 0;                               ///< bytes, as TCP found it; 0 = unknown
  /// Sizes, in bytes, of packets that must not be fragmented: the longest that was answered, and the shortest
  /// that was not. 0 = none.
  int packet_arrived = 0, packet_lost = 0;
};

nlohmann::json to_json(const HostFacts& facts);
HostFacts host_facts_from_json(const nlohmann::json& json);

/// The findings about the path between two NICs; empty where nothing is wrong. Pure.
std::vector<Check> judge_way(const HostFacts& mine, const HostFacts& theirs, const Way& way);
/// The findings that do not depend on a path: versions, host names, settings of this host's kernel. Pure.
std::vector<Check> judge_hosts(const HostFacts& mine, const std::vector<HostFacts>& all);
/// What was measured, in one line for users.
Check describe_way(const HostFacts& theirs, const Way& way);

/// Answers the measurements of other hosts as long as it lives, on a thread of its own.
class Responder {
 public:
  /// Opens a TCP and a UDP port at the address of every NIC, and writes the ports into `facts`. NICs whose
  /// address cannot be bound keep port 0.
  explicit Responder(HostFacts& facts);
  ~Responder();
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The facts of this process, without ports.
HostFacts own_host_facts(int rank, const topology::Host& host, const topology::Machine& machine,
                         const std::filesystem::path& root = "/");

/// Measures from every NIC of `mine` to every NIC of `theirs` on the same fabric, all at the same time. Takes
/// some seconds where packets are dropped silently.
std::vector<Way> measure_ways(const HostFacts& mine, const HostFacts& theirs);

/// Collective over the ranks of `group`. The first rank of each host measures the ways to the other hosts;
/// returns this rank's measurements and findings.
std::vector<Check> check_ways(probe::RendezvousGroup& group, const collectives::Options& engine,
                              const topology::Machine& machine);

}  // namespace tombolo::doctor
