#include "bench/schedule/simulated_time.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <queue>
#include <sstream>

#include "base/error.h"
#include "base/format.h"
#include "bench/bound/lower_bound.h"

namespace tombolo::bench {
namespace {

using namespace collectives;

/// Something that carries one thing at a time.
struct Server {
  double free_at = 0, busy = 0;
  double serve(double now, double takes) noexcept {
    busy += takes;
    return free_at = std::max(now, free_at) + takes;
  }
};

/// Numbers, over all clusters.
struct Place {
  std::size_t host, cluster;
};

std::vector<Place> places_of(const Network& network) {
  std::vector<Place> places;
  std::size_t host = 0, cluster = 0;
  for (const auto& hosts : network.shape()) {
    for (const int ranks : hosts)
      places.insert(places.end(), static_cast<std::size_t>(ranks), {host++, cluster});
    ++cluster;
  }
  return places;
}

double busiest_of(const std::vector<Server>& servers) {
  return std::ranges::max_element(servers, {}, &Server::busy)->busy;
}

class Simulation {
 public:
  Simulation(const Network& network, const std::vector<Schedule>& schedules)
      : network_(network),
        schedules_(schedules),
        ranks_(schedules.size()),
        places_(places_of(network)),
        nics_out_(places_.back().host + 1),
        nics_in_(nics_out_.size()),
        uplinks_out_(places_.back().cluster + 1),
        uplinks_in_(uplinks_out_.size()) {
    for (std::size_t r = 0; r < schedules.size(); ++r) prepare(r);
  }

  SimulatedTime run() {
    // Receives first: then each rank's sends begin in its own order, whoever it sends to.
    for (const bool receives : {true, false}) {
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const Schedule& schedule = schedules_[r];
        for (std::uint32_t step = 0; step < schedule.steps.size(); ++step)
          if (schedule.dependencies[step] == 0 &&
              (schedule.steps[step].kind == StepKind::kReceive) == receives)
            ready(r, step, 0);
      }
    }
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      time_.seconds = std::max(time_.seconds, event.at);
      if (event.message == kNoMessage)
        finish(event.rank, event.step, event.at);
      else
        go_on(event);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].left != 0)
        fail(Cause::kInternal, "rank {} never ends: {} of its {} steps wait", r, ranks_[r].left,
             schedules_[r].steps.size());
    }
    time_.crossing = *std::ranges::max_element(crossed_);
    for (const Rank& rank : ranks_)
      time_.busy.processor = std::max({time_.busy.processor, rank.sending.busy, rank.copying.busy});
    time_.busy.nic = std::max(busiest_of(nics_out_), busiest_of(nics_in_));
    time_.busy.uplink = std::max(busiest_of(uplinks_out_), busiest_of(uplinks_in_));
    return time_;
  }

 private:
  static constexpr std::uint32_t kNoMessage = ~std::uint32_t{0};
  enum class Hop : std::uint8_t { kSender, kNicOut, kUplinkOut, kUplinkIn, kNicIn, kReceiver, kArrived };

  /// The messages from one rank to another: the n-th send meets the n-th receive.
  struct Pair {
    std::vector<std::uint32_t> sends, receives;   // steps of either end
    std::vector<char> send_ready, receive_ready;  // whether the step could be posted
    std::size_t sent = 0, received = 0;           // posted, in order
    std::size_t begun = 0;
  };
  struct Rank {
    std::vector<std::uint32_t> waits;  // per step
    std::vector<std::uint32_t> place;  // per send or receive: its number among those of its pair
    std::size_t left = 0, in_flight = 0;
    Server sending, copying;  // what a rank's processor does: sends do not queue behind copies
  };
  struct Message {
    std::uint32_t from, to, send, receive;
    double bytes;
  };
  struct Event {
    double at;
    std::size_t rank;
    std::uint32_t step, message;
    Hop hop;
    std::uint64_t number = 0;  ///< of events at the same time the earlier one comes first
    bool operator>(const Event& other) const noexcept {
      return at > other.at || (at == other.at && number > other.number);
    }
  };
  void push(Event event) {
    event.number = next_event_++;
    events_.push(event);
  }

  void prepare(std::size_t r) {
    const Schedule& schedule = schedules_[r];
    Rank& rank = ranks_[r];
    rank.waits = schedule.dependencies;
    rank.left = schedule.steps.size();
    rank.place.resize(schedule.steps.size());
    std::size_t messages = 0;
    for (const Flow& flow : schedule.flows) {
      const auto peer = static_cast<std::size_t>(flow.peer);
      Pair& out = pairs_[{r, peer}];
      Pair& in = pairs_[{peer, r}];
      out.sends = flow.sends;
      out.send_ready.resize(flow.sends.size());
      in.receives = flow.receives;
      in.receive_ready.resize(flow.receives.size());
      for (std::uint32_t i = 0; i < flow.sends.size(); ++i) rank.place[flow.sends[i]] = i;
      for (std::uint32_t i = 0; i < flow.receives.size(); ++i) rank.place[flow.receives[i]] = i;
      messages += flow.sends.size();
    }
    time_.messages = std::max(time_.messages, messages);
    time_.peers = std::max(time_.peers, schedule.flows.size());
    time_.scratch = std::max(time_.scratch, schedule.scratch_bytes);
  }

  /// The step's turn has come.
  void ready(std::size_t r, std::uint32_t step, double now) {
    const Step& what = schedules_[r].steps[step];
    const auto peer = static_cast<std::size_t>(what.peer);
    switch (what.kind) {
      case StepKind::kSend: {
        Pair& pair = pairs_[{r, peer}];
        pair.send_ready[ranks_[r].place[step]] = 1;
        while (pair.sent < pair.sends.size() && pair.send_ready[pair.sent] != 0) ++pair.sent;
        begin(pair, r, peer, now);
        return;
      }
      case StepKind::kReceive: {
        Pair& pair = pairs_[{peer, r}];
        pair.receive_ready[ranks_[r].place[step]] = 1;
        while (pair.received < pair.receives.size() && pair.receive_ready[pair.received] != 0)
          ++pair.received;
        begin(pair, peer, r, now);
        return;
      }
      case StepKind::kFence:
        push({now, r, step, kNoMessage, Hop::kArrived});
        return;
      default: {
        const double takes = static_cast<double>(what.bytes) / network_.memory_rate;
        push({ranks_[r].copying.serve(now, takes), r, step, kNoMessage, Hop::kArrived});
      }
    }
  }

  void begin(Pair& pair, std::size_t from, std::size_t to, double now) {
    for (; pair.begun < std::min(pair.sent, pair.received); ++pair.begun) {
      const std::uint32_t send = pair.sends[pair.begun], receive = pair.receives[pair.begun];
      const Step& what = schedules_[from].steps[send];
      if (what.bytes != schedules_[to].steps[receive].bytes)
        fail(Cause::kInternal, "rank {} sends {} bytes, of which rank {} expects {}", from, what.bytes, to,
             schedules_[to].steps[receive].bytes);
      messages_.push_back({static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), send, receive,
                           static_cast<double>(what.bytes)});
      time_.in_flight = std::max(time_.in_flight, ++ranks_[to].in_flight);
      push({now, 0, 0, static_cast<std::uint32_t>(messages_.size() - 1), Hop::kSender});
    }
  }

  /// The message has come to a hop.
  void go_on(const Event& event) {
    const Message message = messages_[event.message];
    const auto [host_from, cluster_from] = places_[message.from];
    const auto [host_to, cluster_to] = places_[message.to];
    const auto next = [&](double at, Hop hop) { push({at, 0, 0, event.message, hop}); };
    switch (event.hop) {
      case Hop::kSender: {
        const double at = ranks_[message.from].sending.serve(event.at, network_.message_time);
        return next(at, host_from == host_to ? Hop::kReceiver : Hop::kNicOut);
      }
      case Hop::kNicOut: {
        const double at = nics_out_[host_from].serve(event.at, message.bytes / network_.nic_rate);
        if (cluster_from != cluster_to) return next(at, Hop::kUplinkOut);
        return next(at + network_.latency_inside, Hop::kNicIn);
      }
      case Hop::kUplinkOut:
        crossed_[cluster_from] += message.bytes;
        return next(uplinks_out_[cluster_from].serve(event.at, message.bytes / network_.uplink_rate) +
                        network_.latency_across,
                    Hop::kUplinkIn);
      case Hop::kUplinkIn:
        return next(uplinks_in_[cluster_to].serve(event.at, message.bytes / network_.uplink_rate),
                    Hop::kNicIn);
      case Hop::kNicIn:
        return next(nics_in_[host_to].serve(event.at, message.bytes / network_.nic_rate), Hop::kReceiver);
      case Hop::kReceiver: {
        // Inside a host the receiver copies.
        const double takes =
            network_.message_time + (host_from == host_to ? message.bytes / network_.memory_rate : 0);
        return next(ranks_[message.to].copying.serve(event.at, takes), Hop::kArrived);
      }
      case Hop::kArrived:
        --ranks_[message.to].in_flight;
        finish(message.from, message.send, event.at);
        finish(message.to, message.receive, event.at);
    }
  }

  void finish(std::size_t r, std::uint32_t step, double now) {
    const Schedule& schedule = schedules_[r];
    --ranks_[r].left;
    for (std::uint32_t i = schedule.dependents_begin[step]; i < schedule.dependents_begin[step + 1]; ++i) {
      const std::uint32_t dependent = schedule.dependents[i];
      if (--ranks_[r].waits[dependent] == 0) ready(r, dependent, now);
    }
  }

  const Network& network_;
  const std::vector<Schedule>& schedules_;
  std::vector<Rank> ranks_;
  std::map<std::pair<std::size_t, std::size_t>, Pair> pairs_;  // from, to
  std::vector<Message> messages_;
  std::uint64_t next_event_ = 0;
  std::vector<Place> places_;  // by rank
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Server> nics_out_, nics_in_, uplinks_out_, uplinks_in_;
  std::vector<double> crossed_ = std::vector<double>(uplinks_out_.size(), 0.0);
  SimulatedTime time_;
};

}  // namespace

std::vector<RankLocation> Network::locations() const {
  std::vector<RankLocation> all;
  for (const auto& [host, cluster] : places_of(*this))
    all.push_back({fmt::format("host{}", host), fmt::format("cluster{}", cluster)});
  return all;
}

std::vector<std::vector<int>> Network::shape() const {
  if (!unlike.empty()) return unlike;
  return std::vector(static_cast<std::size_t>(clusters), std::vector(static_cast<std::size_t>(hosts), ranks));
}

int Network::size() const {
  int all = 0;
  for (const auto& cluster : shape()) all += std::accumulate(cluster.begin(), cluster.end(), 0);
  return all;
}

void set_shape(Network& network, const std::string& text) {
  constexpr int kMost = 4096;
  const auto bad = [&] {
    fail(Cause::kInvalidUsage,
         "--shape '{}': expected CLUSTERSxHOSTSxRANKS, as 4x32x8, or HOSTSxRANKS for each "
         "cluster, as 2x8+1x4,6x8, with numbers from 1 to {}",
         text, kMost);
  };
  const auto numbers = [&](const std::string& words) {
    std::vector<int> found;
    std::istringstream in(words);
    for (std::string word; std::getline(in, word, 'x');) {
      int number = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      if (error != std::errc() || end != word.data() + word.size() || number < 1 || number > kMost) bad();
      found.push_back(number);
    }
    return found;
  };
  network.unlike.clear();
  if (text.find_first_of("+,") == std::string::npos && std::ranges::count(text, 'x') == 2) {
    const std::vector<int> all = numbers(text);
    if (all.size() != 3) bad();
    network.clusters = all[0], network.hosts = all[1], network.ranks = all[2];
    return;
  }
  std::istringstream clusters(text);
  for (std::string cluster; std::getline(clusters, cluster, ',');) {
    std::vector<int>& hosts = network.unlike.emplace_back();
    std::istringstream terms(cluster);
    for (std::string term; std::getline(terms, term, '+');) {
      const std::vector<int> pair = numbers(term);
      if (pair.size() != 2) bad();
      hosts.insert(hosts.end(), static_cast<std::size_t>(pair[0]), pair[1]);
    }
    if (hosts.empty()) bad();
  }
  if (network.unlike.empty()) bad();
}

NetworkCosts costs_of(const Network& network) {
  const auto whole = [](double value) {
    return static_cast<std::uint64_t>(std::max(std::round(value), 0.0));
  };
  const auto link = [&](double latency, double rate) {
    return LinkCost{whole(latency * 1e9), whole(1e12 / rate)};
  };
  return {.levels = {link(0, network.memory_rate), link(network.latency_inside, network.nic_rate),
                     link(network.latency_across, network.uplink_rate)},
          .message = whole(network.message_time * 1e9),
          .memory_byte_ps = whole(1e12 / network.memory_rate)};
}

SimulatedTime simulate(const Network& network, const std::vector<Schedule>& schedules) {
  return Simulation(network, schedules).run();
}

namespace {

/// What has to leave or reach groups of so many ranks, each behind a link of this rate.
double bound_behind(const std::vector<double>& groups, double rate, Collective collective, double bytes) {
  if (groups.size() < 2) return 0;
  std::vector<Group> all;
  for (const double ranks : groups) all.push_back({"a group", ranks, rate, rate, 0, all.empty()});
  return bound_of(collective, bytes, all).seconds;
}

struct Bounds {
  double uplinks = 0, nics = 0;
};

Bounds bounds_of(const Network& network, Collective collective, double bytes) {
  std::vector<double> clusters, hosts;
  for (const auto& cluster : network.shape()) {
    clusters.push_back(std::accumulate(cluster.begin(), cluster.end(), 0.0));
    hosts.insert(hosts.end(), cluster.begin(), cluster.end());
  }
  return {bound_behind(clusters, network.uplink_rate, collective, bytes),
          bound_behind(hosts, network.nic_rate, collective, bytes)};
}

}  // namespace

double lower_bound(const Network& network, Collective collective, double bytes) {
  const Bounds bounds = bounds_of(network, collective, bytes);
  return std::max(bounds.uplinks, bounds.nics);
}

double lower_bound_with_memory(const Network& network, Collective collective, double bytes) {
  Bounds bounds = bounds_of(network, collective, bytes);
  if (bounds.uplinks > 0) bounds.uplinks += network.latency_across;
  if (bounds.nics > 0) bounds.nics += network.latency_inside;
  double ranks = 0, hosts = 0;
  for (const auto& cluster : network.shape()) {
    ranks += std::accumulate(cluster.begin(), cluster.end(), 0.0);
    hosts += static_cast<double>(cluster.size());
  }
  // Of all ranks together: see docs/collectives.md, with each rank as a group of its own.
  const double once = (ranks - 1) * bytes;
  const double received = collective == Collective::kAllReduce ? 2 * once : once;
  const double combined = is_reduction(collective) ? once : 0;
  const double over_nics = hosts > 1 ? hosts * network.nic_rate : 0;
  const double memory = std::max((received + combined) / (ranks * network.memory_rate + over_nics),
                                 combined / (ranks * network.memory_rate));
  return std::max({bounds.uplinks, bounds.nics, memory});
}

}  // namespace tombolo::bench
