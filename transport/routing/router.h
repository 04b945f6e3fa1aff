// Routing: the best way to a peer that both ends share, and one line saying why. This folder owns the choice,
// the table of transports (backends.cpp) and the transport's environment parameters; the router is what other
// rooms use.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/parameter.h"
#include "topology/files/cluster_file.h"
#include "transport/gpu_staging.h"
#include "transport/observe/meters.h"
#include "transport/rdma/options.h"
#include "transport/shm/options.h"
#include "transport/sockets/secret.h"
#include "transport/sockets/tls_options.h"
#include "transport/tcp/options.h"
#include "transport/transport.h"
#include "transport/ucx/options.h"

namespace tombolo::transport {

class Backend;
struct RouterOptions;
namespace bootstrap {
class ProcessHelpers;
}

/// Makes one router's backend of a transport; null where the options do not allow it.
using BackendMaker = std::function<std::shared_ptr<Backend>(const RouterOptions&)>;

struct Policy {
  /// A connection between hosts of one cluster that cannot go over RDMA-class NICs is an error.
  /// (TOMBOLO_REQUIRE=rdma)
  bool require_rdma = false;
  /// Use only this kind, as one NCCL communicator must ("the kind that all share").
  std::optional<topology::NicKind> only_kind;
  /// Names of carriers that may be used; empty = all. (TOMBOLO_TRANSPORTS=tcp,shm,rdma,ucx)
  std::vector<std::string> transports;
  /// Pairs of fabrics (names) that cannot reach each other.
  std::vector<std::pair<std::string, std::string>> unreachable;

  /// The policy that TOMBOLO_REQUIRE and TOMBOLO_TRANSPORTS set. Throws kInvalidUsage for wrong values.
  static Policy from_environment();
};

/// Whether the policy lets the carrier be used.
bool allowed(const Policy& policy, Carrier carrier);
/// Whether the policy names the carrier. False where it only allows the carrier because it allows all.
bool named(const Policy& policy, Carrier carrier);

/// One way to a peer: what carries the bytes, as which kind, between which NICs (indices into the two offer
/// lists), and the reason.
struct Choice {
  Carrier carrier = Carrier::kTcp;
  topology::NicKind kind = topology::NicKind::kTcp;
  std::size_t local = 0, peer = 0;
  std::string reason;
  /// The pair for the control channel: the same one, unless the kernel has no route there.
  std::size_t channel_local = 0, channel_peer = 0;
  /// rdma: further pairs that can carry it together with the first, each NIC in one.
  std::vector<std::pair<std::size_t, std::size_t>> more = {};
};

/// Tells whether the kernel would send to the peer's address by this NIC; null stands for "always".
using OnRoute = std::function<bool(const Offer& local, const Offer& peer)>;

/// The best pair of offers of equal fabric for every carrier that both ends can use, best carrier first:
/// shared memory inside a host, then by kind, by route, by the lower of the two rates. A pure function.
/// Throws kUnsupported where nothing is allowed, listing every pair and why it was rejected.
std::vector<Choice> choose(const Endpoint& local, const Endpoint& peer, const Policy& policy,
                           const OnRoute& on_route = {});

/// The best kind of NIC of which every endpoint has one on the same fabric: all that one NCCL communicator
/// can use. Nothing where there is none.
std::optional<topology::NicKind> shared_kind(std::span<const Endpoint> endpoints);

struct RouterOptions {
  topology::Host host;  ///< this process's NICs; those without an address are skipped
  /// Names of NICs that carry only what the others cannot.
  std::vector<std::string> standby = {};
  Secret secret;
  /// What error messages recommend where the two ends' secrets differ.
  std::string secret_hint = "TOMBOLO_SECRET must be the same on both";
  Policy policy;
  TcpOptions tcp;
  TlsOptions tls = {};
  shm::Fetch shm_fetch = shm::Fetch::kWhereCheaper;
  RdmaOptions rdma;
  /// A connection over RDMA is taken on over another way when its NICs fail, and one that began over TCP for
  /// a lack of them goes there later, where both ends want that. (TOMBOLO_FAILOVER=on|off)
  bool failover = true;
  /// How long a NIC that is back has to stay so at first, before a connection that left it returns to it.
  Duration return_after = std::chrono::seconds(1);
  /// Of all packets that connections of this router send (IP_TOS, IPV6_TCLASS, and instead of
  /// `rdma.traffic_class`); -1: the kernel's, and that of `rdma`.
  int traffic_class = -1;
  /// By which GPU memory goes on over ways that reach host memory alone, once its NICs have failed; null: its
  /// connections fail with them.
  GpuStagingMaker gpu_staging = {};
  UcxOptions ucx = {};
  Overlong overlong = Overlong::kError;  ///< of what this end receives
  std::vector<NicLimit> limits;          ///< from TOMBOLO_NIC_LIMITS="eth0=100M,..." (bit/s)
  /// Where connections are counted; null: Meters::of_process(), reported as the environment says.
  std::shared_ptr<Meters> meters;
  Log log;                                ///< also written to by the transport's own thread
  const Clock* clock = &Clock::steady();  ///< for deadlines and limits
  /// What accepts streams, and moves and closes connections, for all routers of this process; null:
  /// bootstrap::ProcessHelpers::of_process(). Others only for tests that pretend several processes in one.
  std::shared_ptr<bootstrap::ProcessHelpers> helpers = {};
  /// Makers of transports beside this build's own (routing/backends.cpp). Each must have a carrier of its
  /// own.
  std::vector<BackendMaker> extra_backends = {};

  /// Options from the environment (transport_parameters()) and from what the cluster file says of fabrics and
  /// of RDMA (null: no file). Host, secret and log are left to the caller.
  static RouterOptions from_environment(const topology::ClusterFile* cluster = nullptr);
};

/// Makes listeners and connections. It is used from one thread; what it makes may move to other threads one
/// by one.
class Router {
 public:
  /// Makes the backends that the options allow. Throws kInvalidUsage for options that are out of range.
  explicit Router(RouterOptions options);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  /// Listens on all NICs that have an address. Throws kSystem naming NIC and address.
  std::unique_ptr<Listener> listen();
  /// Chooses a way, logs it with the reason, and starts connecting. Throws as choose() does.
  std::unique_ptr<Connecting> connect(const Endpoint& peer, const ConnectOptions& options);
  /// The NICs over which it connects, best first, without ports; those of an RDMA kind with the reason why
  /// RDMA cannot be had.
  std::span<const Offer> offers() const noexcept;
  /// The options with which it was made.
  const RouterOptions& options() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The environment parameters of this room.
const std::vector<const Parameter*>& transport_parameters();

}  // namespace tombolo::transport
