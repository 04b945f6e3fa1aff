// Two hosts as each other sees them: what every rank tells of its machine, what it measures on the way to
// another, and what follows from both.
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

namespace tombolo::doctor {

/// What one rank tells all others.
struct HostFacts {
  int rank = 0;
  std::string host;     ///< as Tombolo calls it
  std::string machine;  ///< equal for processes that share a kernel and a network namespace
  std::string version;
  struct NicFacts {
    std::string name, kind, fabric, address;
    bool emulated = false;
    int mtu = 0;                             ///< as the kernel has it now; 0 = unknown
    std::uint64_t rate_bits_per_second = 0;  ///< 0 = unknown
    std::vector<std::string> gid_types;      ///< of its GIDs, each type once
    int tcp_port = 0, udp_port = 0;          ///< where it answers
  };
  std::vector<NicFacts> nics;
  std::map<std::string, std::string> settings;  ///< of kernel, by name; those that could be read
};

/// The settings that HostFacts carries.
inline constexpr const char* kPairSettings[] = {
    "net.core.somaxconn",       "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",        "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_sack",        "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_available_congestion_control"};

/// What one end measured from one of its NICs to one of another host's.
struct Way {
  std::string nic, peer_nic, peer_address;
  int peer_port = 0;
  enum class Reach { kConnected, kRefused, kUnreachable, kNoAnswer, kOther };
  Reach reach = Reach::kOther;
  std::string error;         ///< the kernel's words, where it did not connect
  double round_trip = 0;     ///< seconds, the least seen
  double clock_ahead = 0;    ///< seconds that the peer's clock is ahead
  double clock_error = 0;    ///< at most so many seconds wrong
  bool bulk_arrived = true;  ///< more bytes than one packet takes
  std::uint64_t bulk_acknowledged = 0;
  std::uint64_t segments = 0, retransmitted = 0;  ///< of that
  int path_mtu = 0;                               ///< bytes, as TCP has it; 0 = unknown
  /// Packets of so many bytes that must not be fragmented: the longest that was answered, and the shortest
  /// that was not. 0 = none such.
  int packet_arrived = 0, packet_lost = 0;
};

nlohmann::json to_json(const HostFacts& facts);
HostFacts host_facts_from_json(const nlohmann::json& json);

/// Findings between one host and another, by one way. Pure. All is well where it is empty.
std::vector<Check> judge_way(const HostFacts& mine, const HostFacts& theirs, const Way& way);
/// What does not depend on a way: versions, names, settings of my own kernel. Pure.
std::vector<Check> judge_hosts(const HostFacts& mine, const std::vector<HostFacts>& all);
/// One line of what was measured, for people.
Check describe_way(const HostFacts& theirs, const Way& way);

/// Answers others' measurements while it lives, on one thread.
class Beacon {
 public:
  /// Opens a TCP and a UDP port at the address of every NIC, and writes them there. NICs whose address cannot
  /// be bound keep port 0.
  explicit Beacon(HostFacts& facts);
  ~Beacon();
  Beacon(const Beacon&) = delete;
  Beacon& operator=(const Beacon&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of this process; without ports.
HostFacts own_host_facts(int rank, const topology::Host& host, const topology::Machine& machine,
                         const std::filesystem::path& root = "/");

/// From every NIC of mine to every one of theirs of the same fabric, at the same time. Takes some seconds
/// where packets vanish.
std::vector<Way> measure_ways(const HostFacts& mine, const HostFacts& theirs);

}  // namespace tombolo::doctor
