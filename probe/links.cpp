#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/error.h"
#include "probe/exchange.h"
#include "probe/gather.h"
#include "probe/lanes.h"
#include "probe/probe.h"
#include "probe/shared_links.h"

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

// Disjoint pairs of hosts of two clusters, over one fabric: the first is measured alone, then all at once.
struct LoadPlan {
  LoadSample there, back;
  std::vector<Meeting> pairs;
};

// Time is per two clusters, whatever the number of hosts; more pairs than this tell nothing new.
constexpr std::size_t kPairsAtOnce = 8;

std::vector<topology::NicName> members(const std::vector<LedHost>& hosts,
                                       const std::vector<std::size_t>& cluster, const topology::Nic& like) {
  std::vector<topology::NicName> all;
  for (const std::size_t host : cluster) {
    for (const topology::Nic& nic : hosts[host].host.nics) {
      const bool carries = nic.usable && !nic.addresses.empty();
      if (carries && nic.kind == like.kind && nic.fabric == like.fabric)
        all.push_back({hosts[host].host.name, nic.name});
    }
  }
  return all;
}

void add_pair(LoadPlan& plan, const std::vector<LedHost>& hosts, const Meeting& meeting) {
  double nominal = 0;
  for (const topology::Nic& nic :
       {hosts[meeting.left].host.nics[meeting.left_nic], hosts[meeting.right].host.nics[meeting.right_nic]}) {
    const double rate = static_cast<double>(nic.rate_bits_per_second) / 8;
    nominal = nominal == 0 || rate == 0 ? std::max(nominal, rate) : std::min(nominal, rate);
  }
  plan.pairs.push_back(meeting);
  plan.there.nominal.push_back(nominal);
  plan.back.nominal.push_back(nominal);
}

// Every rank makes the same list.
std::vector<LoadPlan> load_plans(const std::vector<LedHost>& hosts) {
  std::map<std::string, std::vector<std::size_t>> clusters;
  for (std::size_t h = 0; h < hosts.size(); ++h) clusters[hosts[h].host.cluster].push_back(h);
  std::vector<LoadPlan> plans;
  for (auto first = clusters.begin(); first != clusters.end(); ++first) {
    for (auto second = std::next(first); second != clusters.end(); ++second) {
      std::map<std::pair<topology::NicKind, std::string>, LoadPlan> by_fabric;
      const std::size_t count = std::min({first->second.size(), second->second.size(), kPairsAtOnce});
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t left = first->second[i], right = second->second[i];
        for (auto [left_nic, right_nic] : lanes(hosts[left].host, hosts[right].host)) {
          const topology::Nic& nic = hosts[left].host.nics[left_nic];
          LoadPlan& plan = by_fabric[{nic.kind, nic.fabric}];
          if (!plan.pairs.empty() && plan.pairs.back().left == left) continue;  // one NIC of a host
          if (plan.pairs.empty()) {
            plan.there.from_cluster = plan.back.to_cluster = first->first;
            plan.there.to_cluster = plan.back.from_cluster = second->first;
            plan.there.fabric = plan.back.fabric = nic.fabric;
            plan.there.from = plan.back.to = members(hosts, first->second, nic);
            plan.there.to = plan.back.from = members(hosts, second->second, nic);
          }
          add_pair(plan, hosts, {left, right, left_nic, right_nic});
        }
      }
      for (auto& [fabric, plan] : by_fabric) {
        if (plan.pairs.size() > 1) plans.push_back(std::move(plan));
      }
    }
  }
  return plans;
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
    auto plans = load_plans(hosts_);
    for (const auto& step : steps) total_ += static_cast<int>(step.size());
    for (const LoadPlan& plan : plans) total_ += 1 + static_cast<int>(plan.pairs.size());

    ProbedLinks probed = as_links(steps, play_all(ports, leads, steps));
    std::erase_if(plans, [&](const LoadPlan& plan) {
      return std::ranges::any_of(plan.pairs, [&](const Meeting& pair) { return has_failed(probed, pair); });
    });
    probed.shared = find_shared(ports, leads, std::move(plans));
    if (communicator_.rank() == 0 && probe_.progress) probe_.progress(total_, total_);
    return probed;
  }

 private:
  // Of meetings in the order of their steps.
  struct Played {
    std::vector<double> results;        // left to right rate, right to left rate, latency
    std::vector<std::string> troubles;  // empty = measured
  };

  Played play_all(std::vector<Port>& ports, bool leads, const std::vector<std::vector<Meeting>>& steps) {
    std::size_t meetings = 0;
    for (const auto& step : steps) meetings += step.size();
    // One rank knows each result; a sum spreads them, so that every rank has the same bits.
    Played played{std::vector<double>(meetings * 3, 0.0), std::vector<std::string>(meetings)};
    auto& [results, troubles] = played;
    std::size_t index = 0;
    for (const auto& step : steps) {
      std::string trouble;
      const std::size_t first = index;
      for (const Meeting& meeting : step) {
        const auto label = static_cast<std::uint64_t>(done_++);
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
      if (communicator_.rank() == 0 && probe_.progress) probe_.progress(done_, total_);
    }
    if (!results.empty()) {
      communicator_.all_reduce(results.data(), results.data(), results.size(),
                               collectives::DataType::kFloat64, collectives::ReduceOp::kSum);
    }
    return played;
  }

  std::vector<topology::SharedLink> find_shared(std::vector<Port>& ports, bool leads,
                                                std::vector<LoadPlan> plans) {
    std::vector<std::vector<Meeting>> steps;
    for (const LoadPlan& plan : plans) {
      steps.push_back({plan.pairs.front()});
      steps.push_back(plan.pairs);
    }
    const Played played = play_all(ports, leads, steps);
    std::vector<topology::SharedLink> shared;
    std::size_t index = 0;
    for (LoadPlan& plan : plans) {
      const std::size_t alone = index, end = alone + 1 + plan.pairs.size();
      bool complete = true;
      for (; index < end; ++index) complete = complete && played.troubles[index].empty();
      if (!complete) continue;
      for (LoadSample* sample : {&plan.there, &plan.back}) {
        const std::size_t way = sample == &plan.there ? 0 : 1;
        sample->alone = played.results[3 * alone + way];
        for (std::size_t at = alone + 1; at < end; ++at)
          sample->together.push_back(played.results[3 * at + way]);
        if (auto link = find_shared_link(*sample)) shared.push_back(*std::move(link));
      }
    }
    return shared;
  }

  bool has_failed(const ProbedLinks& probed, const Meeting& pair) const {
    const topology::Host &left = hosts_[pair.left].host, &right = hosts_[pair.right].host;
    return std::ranges::any_of(probed.failures, [&](const LinkFailure& failure) {
      const bool there = failure.from_host == left.name && failure.to_host == right.name;
      const bool back = failure.from_host == right.name && failure.to_host == left.name;
      return there || back;
    });
  }

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

  ProbedLinks as_links(const std::vector<std::vector<Meeting>>& steps, const Played& played) const {
    const auto& [results, troubles] = played;
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
  int done_ = 0, total_ = 0;                                                // meetings
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
