#include "probe/player.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "probe/gather.h"

namespace tombolo::probe {
namespace {

// Two hosts that reach each other at all do so within a few round trips; only those that do not need all of
// it.
constexpr auto kConnectTime = std::chrono::seconds(10);

// Tens of hosts take seconds: of so many in all each step has its share, but at most what a measurement needs
// on a quiet machine, and at least what opens a congestion window.
constexpr double kAllSeconds = 10, kLongestMeasurement = 0.3, kShortestMeasurement = 0.05;

/// One meeting of this rank.
struct Running {
  std::size_t meeting = 0;
  std::unique_ptr<transport::Connection> connection;
  std::unique_ptr<Exchange> exchange;
  Measured measured;
  std::string trouble;

  bool failed() const { return !trouble.empty(); }
};

/// `act` on all that have had no trouble, a thread each: each NIC has a port of its own, which only one uses.
/// One that fails hangs up, so that its peer need not wait. `meanwhile` runs in this thread.
template <typename Act, typename Meanwhile>
void at_once(std::vector<Running>& all, const Act& act, const Meanwhile& meanwhile) {
  const auto guarded = [&act](Running& one) {
    if (one.failed()) return;
    try {
      act(one);
    } catch (const std::exception& error) {
      one.trouble = error.what();
      one.exchange.reset();
      one.connection.reset();
    }
  };
  std::vector<std::jthread> threads;
  for (Running& one : all) threads.emplace_back(guarded, std::ref(one));
  meanwhile();
}

}  // namespace

Player::Player(collectives::Communicator& communicator, const collectives::Options& options,
               const LinkProbeOptions& probe)
    : communicator_(communicator), options_(options), probe_(probe), seconds_(probe.seconds_per_pair) {
  for (const LedHost& led : gather_hosts(communicator, options.router.host)) {
    if (led.leader == communicator.rank()) mine_ = hosts_.size();
    hosts_.push_back(led.host);
    leaders_.push_back(led.leader);
  }
  if (mine_) ports_ = open_ports(options, communicator.secret());
  for (const std::string& text : gather_texts(communicator, encode_ports(ports_)))
    endpoints_.push_back(decode_ports(text));
}

void Player::expect(std::size_t steps) {
  total_ += static_cast<int>(steps);
  if (seconds_ > 0) return;
  seconds_ = std::clamp(kAllSeconds / std::max(1, total_), kShortestMeasurement, kLongestMeasurement);
}

void Player::finish() {
  total_ = done_;
  tell_progress();
}

void Player::tell_progress() const {
  if (communicator_.rank() == 0 && probe_.progress) probe_.progress(done_, total_);
}

Played Player::play(const std::vector<Step>& steps, Load load) {
  std::size_t meetings = 0;
  for (const Step& step : steps) meetings += step.size();
  // One rank knows each result; a sum spreads them, so that every rank has the same bits.
  Played played{std::vector<double>(meetings * 3, 0.0), std::vector<std::string>(meetings)};
  std::size_t first = 0;
  for (const Step& step : steps) {
    spread(play_mine(step, first, load, played), first, step, played);
    first += step.size();
    ++done_;
    tell_progress();
  }
  if (!played.results.empty()) {
    communicator_.all_reduce(played.results.data(), played.results.data(), played.results.size(),
                             collectives::DataType::kFloat64, collectives::ReduceOp::kSum);
  }
  return played;
}

/// This rank's meetings of a step, at the same time; returns what went wrong, by meeting.
std::map<std::size_t, std::string> Player::play_mine(const Step& step, std::size_t first, Load load,
                                                     Played& played) {
  std::vector<Running> mine;
  for (std::size_t at = 0; at < step.size(); ++at)
    if (mine_ && (step[at].left == *mine_ || step[at].right == *mine_)) mine.push_back({at, {}, {}, {}, {}});
  const std::uint64_t label = next_label_;
  next_label_ += step.size();
  at_once(
      mine,
      [&](Running& one) {
        const Meeting& meeting = step[one.meeting];
        one.connection = connect(meeting, label + one.meeting);
        ExchangeOptions options;
        options.leads = meeting.left == *mine_;
        options.bytes = probe_.bytes;
        options.seconds = seconds_;
        options.deadline = patience();
        one.exchange = std::make_unique<Exchange>(*one.connection, options);
        one.exchange->prepare();
      },
      [] {});
  // What a step loads at once counts at once.
  communicator_.barrier();
  const auto leading = std::ranges::count_if(
      mine, [&](const Running& one) { return !one.failed() && step[one.meeting].left == *mine_; });
  const bool shared = load == Load::kShared;
  TimePoint begin{};
  Company company(static_cast<std::size_t>(leading) + (shared ? 1 : 0));
  at_once(
      mine, [&](Running& one) { one.measured = one.exchange->count(company); },
      [&] {
        if (shared) begin = keep_rounds_together(company);
      });

  std::map<std::size_t, std::string> troubles;
  std::vector<Arrivals> arrivals;
  for (Running& one : mine) {
    if (!one.failed())
      arrivals.push_back(std::move(one.measured.arrivals));
    else
      troubles[one.meeting] = one.trouble;
  }
  const auto rates = shared ? rates_of_all(arrivals, begin) : rates_together(arrivals);
  auto next = rates.begin();
  for (const Running& one : mine) {
    if (one.failed()) continue;
    const bool left = step[one.meeting].left == *mine_;
    double* result = &played.results[3 * (first + one.meeting)];
    result[left ? 1 : 0] = *next++;
    if (left) result[2] = one.measured.latency_seconds;
  }
  return troubles;
}

/// A round begins everywhere at once, and is over when it is over everywhere. The messages of the ranks about
/// it go over the loaded links, which takes them longer, but delays all of them alike. Returns when the last
/// began, as far as this rank saw.
TimePoint Player::keep_rounds_together(Company& company) {
  Company::Member conductor(company);
  TimePoint begin = Clock::steady().now();
  while (conductor.meet(any_rank(conductor.others_meet()))) {
    begin = Clock::steady().now();
    conductor.others_finish();
    any_rank(false);
    conductor.finish();
  }
  return begin;
}

/// In the time in which the streams of all ranks came. Their clocks differ, so each counts from the `begin`.
std::vector<double> Player::rates_of_all(std::vector<Arrivals>& arrivals, TimePoint begin) {
  for (Arrivals& stream : arrivals)
    for (double& seconds : stream.seconds) seconds -= to_seconds(begin.time_since_epoch());
  const Overlap mine = overlap_of(arrivals);
  std::array<double, 3> most{mine.from, -mine.to, mine.longest};
  communicator_.all_reduce(most.data(), most.data(), most.size(), collectives::DataType::kFloat64,
                           collectives::ReduceOp::kMax);
  return rates_in(arrivals, {most[0], -most[1], most[2]});
}

bool Player::any_rank(bool here) {
  std::int32_t any = here ? 1 : 0;
  communicator_.all_reduce(&any, &any, 1, collectives::DataType::kInt32, collectives::ReduceOp::kMax);
  return any != 0;
}

Duration Player::patience() const {
  // Half of what the other ranks wait for these two, so that trouble here is told by its own name.
  return options_.deadline / 2;
}

std::unique_ptr<transport::Connection> Player::connect(const Meeting& meeting, std::uint64_t label) {
  const bool left = meeting.left == *mine_;
  const std::size_t other = left ? meeting.right : meeting.left;
  const std::size_t own_nic = left ? meeting.left_nic : meeting.right_nic;
  const std::size_t peer_nic = left ? meeting.right_nic : meeting.left_nic;
  const topology::Host& peer = hosts_[other];
  Port& port = ports_.at(own_nic);
  const auto& endpoint = endpoints_.at(static_cast<std::size_t>(leaders_[other])).at(peer_nic);
  if (!port.router || !endpoint) fail(Cause::kInternal, "probe: a NIC of '{}' does not listen", peer.name);
  const std::string what =
      fmt::format("{} to {} {}", hosts_[*mine_].nics[own_nic].name, peer.name, peer.nics[peer_nic].name);
  const Duration to_connect = std::min<Duration>(patience(), kConnectTime);
  if (!left) return accept_port(port, label, to_connect, what);
  transport::ConnectOptions options;
  options.deadline = to_connect;
  options.label = label;
  options.peer_name = fmt::format("rank {}", leaders_[other]);
  return connect_port(port, *endpoint, options, what);
}

// A barrier that also tells everybody which of the step's meetings did not come about, and why.
void Player::spread(const std::map<std::size_t, std::string>& troubles, std::size_t first, const Step& step,
                    Played& played) {
  Json mine = Json::array();
  for (const auto& [meeting, text] : troubles) mine.push_back(Json::array({meeting, text}));
  const auto all = gather_texts(communicator_, mine.dump(-1, ' ', false, Json::error_handler_t::replace));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const auto& told : Json::parse(all[rank])) {
      const auto meeting = told.at(0).get<std::size_t>();
      if (meeting >= step.size()) {
        fail(Cause::kRemote, "probe: rank {} told of meeting {} in a step of {}", rank, meeting, step.size());
      }
      std::string& trouble = played.troubles[first + meeting];
      if (trouble.empty()) trouble = fmt::format("rank {}: {}", rank, told.at(1).get<std::string>());
    }
  }
}

}  // namespace tombolo::probe
