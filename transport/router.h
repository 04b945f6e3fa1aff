// Which way to a peer: the best that both ends share, and one line saying why.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/parameter.h"
#include "topology/cluster_file.h"
#include "transport/secret.h"
#include "transport/tcp/options.h"
#include "transport/transport.h"

namespace tombolo::transport {

struct Policy {
  /// A connection between hosts of one cluster that cannot go over RDMA-class NICs is an error.
  /// (TOMBOLO_REQUIRE=rdma)
  bool require_rdma = false;
  /// Use only this kind, as one NCCL communicator must ("the kind that all share").
  std::optional<topology::NicKind> only_kind;
  /// Names of transports that may be used; empty = all. (TOMBOLO_TRANSPORTS=tcp)
  std::vector<std::string> transports;
  /// Pairs of fabrics (names) that cannot reach each other.
  std::vector<std::pair<std::string, std::string>> unreachable;

  /// From TOMBOLO_REQUIRE and TOMBOLO_TRANSPORTS.
  static Policy from_environment();
};

/// The outcome of choose(): indices into the two offer lists, and the reason.
struct Choice {
  std::size_t local = 0, peer = 0;
  std::string reason;
};

/// Pure: the best pair of offers of equal fabric, by kind, then by the lower of the two rates; or, where none
/// is allowed, throws kUnsupported listing every pair and why it was rejected.
Choice choose(const Endpoint& local, const Endpoint& peer, const Policy& policy);

/// Limits applied in the transport where the network cannot apply them (emulation without namespaces): bytes
/// per second through one NIC of this process, each direction on its own.
struct NicLimit {
  std::string nic;
  double bytes_per_second = 0;
};

struct RouterOptions {
  topology::Host host;  ///< this process's NICs; those without an address are skipped
  Secret secret;
  Policy policy;
  TcpOptions tcp;
  std::vector<NicLimit> limits;  ///< from TOMBOLO_NIC_LIMITS="eth0=100M,..." (bit/s)
  Log log;
  const Clock* clock = &Clock::steady();  ///< for deadlines and limits
};

/// Makes listeners and connections. Use from one thread; what it makes may move to other threads one by one.
class Router {
 public:
  explicit Router(RouterOptions options);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  std::unique_ptr<Listener> listen();
  /// Chooses, logs the one line, starts connecting. Throws as choose() does.
  std::unique_ptr<Connecting> connect(const Endpoint& peer, const ConnectOptions& options);
  const RouterOptions& options() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads TOMBOLO_NIC_LIMITS.
std::vector<NicLimit> nic_limits_from_environment();

const std::vector<const Parameter*>& transport_parameters();

}  // namespace tombolo::transport
