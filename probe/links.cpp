#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "probe/exchange.h"
#include "probe/gather.h"
#include "probe/lanes.h"
#include "probe/probe.h"

namespace tombolo::probe {
namespace {

using collectives::Communicator;

// Two hosts that reach each other at all do so within a few round trips; only those that do not need all of
// it.
constexpr auto kConnectTime = std::chrono::seconds(10);

// One NIC's own router: a host with a single NIC leaves nothing to choose.
struct Port {
  std::unique_ptr<transport::Router> router;
  std::unique_ptr<transport::Listener> listener;
};

std::vector<Port> open_ports(const topology::Host& host, const collectives::Options& options,
                             const transport::Secret& secret) {
  std::vector<Port> ports(host.nics.size());
  for (std::size_t n = 0; n < host.nics.size(); ++n) {
    if (!host.nics[n].usable || host.nics[n].addresses.empty()) continue;
    transport::RouterOptions router = options.router;
    router.host = host;
    router.host.nics = {host.nics[n]};
    router.secret = secret;
    // Every link is measured, also those that the job's policy would refuse.
    router.policy.require_rdma = false;
    router.policy.only_kind.reset();
    ports[n].router = std::make_unique<transport::Router>(std::move(router));
    ports[n].listener = ports[n].router->listen();
  }
  return ports;
}

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Endpoints of a host's ports, one after the other, each after its length; empty for NICs that do not listen.
std::string encode_ports(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports) {
    std::string one = port.listener ? as_text(port.listener->endpoint().encode()) : std::string();
    text += fmt::format("{:08x}", one.size()) + one;
  }
  return text;
}

std::vector<std::optional<transport::Endpoint>> decode_ports(std::string_view text) {
  std::vector<std::optional<transport::Endpoint>> endpoints;
  while (text.size() >= 8) {
    std::size_t length = std::stoul(std::string(text.substr(0, 8)), nullptr, 16);
    text.remove_prefix(8);
    if (length > text.size()) fail(Cause::kRemote, "probe: a rank sent a broken list of endpoints");
    auto bytes = std::as_bytes(std::span<const char>(text.data(), length));
    endpoints.push_back(length > 0 ? std::optional(transport::Endpoint::decode(bytes)) : std::nullopt);
    text.remove_prefix(length);
  }
  return endpoints;
}

template <typename Source>
std::unique_ptr<transport::Connection> wait_for(Source& source, auto ask, const Deadline& deadline,
                                                const std::string& what) {
  for (;;) {
    if (auto connection = ask(source)) return connection;
    if (deadline.passed()) {
      fail(Cause::kTimeout, "probe: {} was not ready within {:.3g} s", what, to_seconds(deadline.allowed()));
    }
    std::vector<pollfd> handles;
    source.append_wait_handles(handles);
    if (::poll(handles.data(), handles.size(), std::min(10, deadline.poll_milliseconds())) < 0 &&
        errno != EINTR) {
      fail_errno(errno, "poll");
    }
  }
}

// One measurement: host indices (left leads), and NIC indices.
struct Meeting {
  std::size_t left = 0, right = 0, left_nic = 0, right_nic = 0;
};

// Steps of meetings that run at the same time. Every rank makes the same list.
std::vector<std::vector<Meeting>> timetable(const std::vector<LedHost>& hosts) {
  std::vector<std::vector<Meeting>> steps;
  for (const auto& round : tournament(static_cast<int>(hosts.size()))) {
    std::vector<std::vector<Meeting>> of_round;
    for (auto [first, second] : round) {
      auto left = static_cast<std::size_t>(first);
      auto right = static_cast<std::size_t>(second);
      auto pairs = lanes(hosts[left].host, hosts[right].host);
      // From the back, so that the slow NICs of all pairs are measured together, and the fast ones together.
      std::reverse(pairs.begin(), pairs.end());
      if (of_round.size() < pairs.size()) of_round.resize(pairs.size());
      for (std::size_t lane = 0; lane < pairs.size(); ++lane) {
        of_round[lane].push_back({left, right, pairs[lane].first, pairs[lane].second});
      }
    }
    for (auto& step : of_round) steps.push_back(std::move(step));
  }
  return steps;
}

class LinkProbe {
 public:
  LinkProbe(Communicator& communicator, const collectives::Options& options, const LinkProbeOptions& probe)
      : options_(options), probe_(probe), communicator_(communicator) {}

  ProbedLinks run() {
    hosts_ = gather_hosts(communicator_, options_.router.host);
    bool leads = false;
    for (std::size_t h = 0; h < hosts_.size(); ++h) {
      if (hosts_[h].leader != communicator_.rank()) continue;
      leads = true;
      mine_ = h;
    }
    std::vector<Port> ports;
    if (leads) ports = open_ports(hosts_[mine_].host, options_, communicator_.secret());
    for (const std::string& text : gather_texts(communicator_, encode_ports(ports))) {
      endpoints_.push_back(decode_ports(text));
    }
    auto steps = timetable(hosts_);
    int total = 0;
    for (const auto& step : steps) total += static_cast<int>(step.size());

    // By meeting: left to right rate, right to left rate, latency. One rank knows each; a sum spreads them,
    // so that every rank has the same bits.
    std::vector<double> results(static_cast<std::size_t>(total) * 3, 0.0);
    std::vector<std::string> troubles(static_cast<std::size_t>(total));  // by meeting; empty = measured
    std::size_t index = 0;
    for (const auto& step : steps) {
      std::string trouble;
      const std::size_t first = index;
      for (const Meeting& meeting : step) {
        const std::uint64_t label = index;
        double* result = &results[3 * index++];
        if (!leads || (meeting.left != mine_ && meeting.right != mine_)) continue;
        try {
          Measured measured = play(ports, meeting, label);
          bool left = meeting.left == mine_;
          result[left ? 1 : 0] = measured.received_bytes_per_second;
          if (left) result[2] = measured.latency_seconds;
        } catch (const Error& error) {
          trouble = error.what();
        }
      }
      spread(trouble, step, &troubles[first]);
      if (communicator_.rank() == 0 && probe_.progress) probe_.progress(static_cast<int>(index), total);
    }
    if (!results.empty()) {
      communicator_.all_reduce(results.data(), results.data(), results.size(),
                               collectives::DataType::kFloat64, collectives::ReduceOp::kSum);
    }
    return as_links(steps, results, troubles);
  }

 private:
  Measured play(std::vector<Port>& ports, const Meeting& meeting, std::uint64_t label) {
    bool left = meeting.left == mine_;
    const LedHost& peer = hosts_[left ? meeting.right : meeting.left];
    Port& port = ports.at(left ? meeting.left_nic : meeting.right_nic);
    std::size_t peer_nic = left ? meeting.right_nic : meeting.left_nic;
    const auto& endpoint = endpoints_.at(static_cast<std::size_t>(peer.leader)).at(peer_nic);
    if (!port.router || !endpoint)
      fail(Cause::kInternal, "probe: a NIC of '{}' does not listen", peer.host.name);
    std::string what =
        fmt::format("{} to {} {}", hosts_[mine_].host.nics[left ? meeting.left_nic : meeting.right_nic].name,
                    peer.host.name, peer.host.nics[peer_nic].name);
    // Half of what the other ranks wait for these two, so that trouble here is told by its own name.
    Duration patience = options_.deadline / 2;
    Duration to_connect = std::min<Duration>(patience, kConnectTime);
    Deadline deadline = Deadline::after(to_connect);
    std::unique_ptr<transport::Connection> connection;
    if (left) {
      transport::ConnectOptions connect;
      connect.deadline = to_connect;
      connect.label = label;
      connect.peer_name = fmt::format("rank {}", peer.leader);
      auto connecting = port.router->connect(*endpoint, connect);
      connection = wait_for(
          *connecting, [](auto& source) { return source.poll(); }, deadline, what);
    } else {
      // One of an earlier meeting that was given up here may still come.
      connection = wait_for(
          *port.listener,
          [label](auto& source) {
            auto accepted = source.accept();
            return accepted && accepted->label() == label ? std::move(accepted) : nullptr;
          },
          deadline, what);
    }
    ExchangeOptions exchange;
    exchange.leads = left;
    exchange.bytes = probe_.bytes;
    exchange.seconds = probe_.seconds_per_pair;
    exchange.deadline = patience;
    return measure(*connection, exchange);
  }

  // A barrier that also tells everybody which of the step's meetings did not come about, and why. Each rank
  // takes part in at most one of them.
  void spread(const std::string& trouble, const std::vector<Meeting>& step, std::string* troubles) {
    auto all = gather_texts(communicator_, trouble);
    for (const Meeting& meeting : step) {
      for (std::size_t host : {meeting.left, meeting.right}) {
        const std::string& told = all[static_cast<std::size_t>(hosts_[host].leader)];
        if (troubles->empty() && !told.empty())
          *troubles = fmt::format("rank {}: {}", hosts_[host].leader, told);
      }
      ++troubles;
    }
  }

  ProbedLinks as_links(const std::vector<std::vector<Meeting>>& steps, const std::vector<double>& results,
                       const std::vector<std::string>& troubles) const {
    ProbedLinks probed;
    std::size_t index = 0;
    for (const auto& step : steps) {
      for (const Meeting& meeting : step) {
        const std::string& trouble = troubles[index];
        const double* result = &results[3 * index++];
        const topology::Host& left = hosts_[meeting.left].host;
        const topology::Host& right = hosts_[meeting.right].host;
        const topology::Nic& left_nic = left.nics[meeting.left_nic];
        const topology::Nic& right_nic = right.nics[meeting.right_nic];
        if (!trouble.empty()) {
          probed.failures.push_back(
              {left.name, left_nic.name, right.name, right_nic.name, left_nic.fabric, trouble});
          continue;
        }
        probed.links.push_back(
            {left.name, left_nic.name, right.name, right_nic.name, result[0], result[2], true});
        probed.links.push_back(
            {right.name, right_nic.name, left.name, left_nic.name, result[1], result[2], true});
      }
    }
    return probed;
  }

  const collectives::Options& options_;
  const LinkProbeOptions& probe_;
  Communicator& communicator_;
  std::vector<LedHost> hosts_;
  std::size_t mine_ = 0;
  std::vector<std::vector<std::optional<transport::Endpoint>>> endpoints_;  // by rank, by NIC
};

}  // namespace

ProbedLinks probe_links(const collectives::Options& options, const LinkProbeOptions& probe) {
  auto communicator = Communicator::create(options);
  return probe_links(*communicator, options, probe);
}

ProbedLinks probe_links(Communicator& communicator, const collectives::Options& options,
                        const LinkProbeOptions& probe) {
  return LinkProbe(communicator, options, probe).run();
}

collectives::Options common_ground(Assembly& assembly, const collectives::Options& options) {
  collectives::Options common = assembly.with_store(options);
  auto& nics = common.router.host.nics;
  std::erase_if(nics, [](const topology::Nic& nic) {
    return nic.kind != topology::NicKind::kTcp || !nic.fabric.empty() || !nic.usable || nic.addresses.empty();
  });
  bool everywhere = true;
  for (const std::string& has : assembly.gather("ethernet", nics.empty() ? "no" : "yes", options.deadline))
    everywhere = everywhere && has == "yes";
  if (everywhere) {
    common.routing = collectives::Routing::kPerPeer;
    common.router.policy.require_rdma = false;
  } else {
    common.router.host.nics = options.router.host.nics;
  }
  return common;
}

}  // namespace tombolo::probe
