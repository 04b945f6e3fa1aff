#include "bench/schedule/simulated_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <queue>

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

double busiest_of(const std::vector<Server>& servers) {
  return std::ranges::max_element(servers, {}, &Server::busy)->busy;
}

class Simulation {
 public:
  Simulation(const Network& network, const std::vector<Schedule>& schedules)
      : network_(network),
        schedules_(schedules),
        ranks_(schedules.size()),
        nics_out_(static_cast<std::size_t>(network.clusters * network.hosts)),
        nics_in_(nics_out_.size()),
        uplinks_out_(static_cast<std::size_t>(network.clusters)),
        uplinks_in_(uplinks_out_.size()) {
    for (std::size_t r = 0; r < schedules.size(); ++r) prepare(r);
  }

  SimulatedTime run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Schedule& schedule = schedules_[r];
      for (std::uint32_t step = 0; step < schedule.steps.size(); ++step)
        if (schedule.dependencies[step] == 0) ready(r, step, 0);
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
    bool operator>(const Event& other) const noexcept { return at > other.at; }
  };

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
        events_.push({now, r, step, kNoMessage, Hop::kArrived});
        return;
      default: {
        const double takes = static_cast<double>(what.bytes) / network_.memory_rate;
        events_.push({ranks_[r].copying.serve(now, takes), r, step, kNoMessage, Hop::kArrived});
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
      events_.push({now, 0, 0, static_cast<std::uint32_t>(messages_.size() - 1), Hop::kSender});
    }
  }

  /// The message has come to a hop.
  void go_on(const Event& event) {
    const Message message = messages_[event.message];
    const int from = static_cast<int>(message.from), to = static_cast<int>(message.to);
    const auto host_from = static_cast<std::size_t>(network_.host_of(from));
    const auto host_to = static_cast<std::size_t>(network_.host_of(to));
    const auto cluster_from = static_cast<std::size_t>(network_.cluster_of(from));
    const auto cluster_to = static_cast<std::size_t>(network_.cluster_of(to));
    const auto next = [&](double at, Hop hop) { events_.push({at, 0, 0, event.message, hop}); };
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
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Server> nics_out_, nics_in_, uplinks_out_, uplinks_in_;
  std::vector<double> crossed_ = std::vector<double>(uplinks_out_.size(), 0.0);
  SimulatedTime time_;
};

}  // namespace

std::vector<RankLocation> Network::locations() const {
  std::vector<RankLocation> all;
  for (int rank = 0; rank < size(); ++rank)
    all.push_back({fmt::format("host{}", host_of(rank)), fmt::format("cluster{}", cluster_of(rank))});
  return all;
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

double lower_bound(const Network& network, Collective collective, double bytes) {
  const auto behind = [&](int groups, double rate) {
    if (groups < 2) return 0.0;
    const Group one{"a group", static_cast<double>(network.size()) / groups, rate, rate, 0, false};
    return bound_of(collective, bytes, std::vector<Group>(static_cast<std::size_t>(groups), one)).seconds;
  };
  return std::max(behind(network.clusters, network.uplink_rate),
                  behind(network.clusters * network.hosts, network.nic_rate));
}

}  // namespace tombolo::bench
