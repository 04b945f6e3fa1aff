#include "probe/rounds/step_runner.h"

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

// Two hosts that can reach each other connect within a few round trips. Only a pair that cannot takes all of
// this time.
constexpr auto kConnectTime = std::chrono::seconds(10);

// All steps together should take about kAllSeconds, of which each gets its share. A measurement needs no
// longer than kLongestMeasurement on a quiet machine, and at least kShortestMeasurement to open a congestion
// window.
constexpr double kAllSeconds = 10, kLongestMeasurement = 0.3, kShortestMeasurement = 0.05;

/// One measurement of this rank.
struct Running {
  std::size_t at = 0;                                      ///< its index in the step
  std::unique_ptr<transport::measure::Exchange> exchange;  // outlives the connection
  std::unique_ptr<transport::Connection> connection;
  transport::measure::Measured measured;
  std::string error;

  bool failed() const { return !error.empty(); }
};

/// Runs `act` on all measurements that have not failed, in a thread each: each uses another NicRouter. One
/// that fails closes its connection, so that its peer need not wait. `meanwhile` runs in the calling thread.
template <typename Act, typename Meanwhile>
void at_once(std::vector<Running>& all, const Act& act, const Meanwhile& meanwhile) {
  const auto guarded = [&act](Running& one) {
    if (one.failed()) return;
    try {
      act(one);
    } catch (const std::exception& error) {
      one.error = error.what();
      one.connection.reset();
      one.exchange.reset();
    }
  };
  std::vector<std::jthread> threads;
  for (Running& one : all) threads.emplace_back(guarded, std::ref(one));
  meanwhile();
}

}  // namespace

StepRunner::StepRunner(collectives::Communicator& communicator, const collectives::Options& options,
                       const LinkProbeOptions& probe)
    : communicator_(communicator), options_(options), probe_(probe), seconds_(probe.seconds_per_pair) {
  for (const HostRanks& led : gather_hosts(communicator, options.router.host)) {
    if (led.leader == communicator.rank()) mine_ = hosts_.size();
    hosts_.push_back(led.host);
    leaders_.push_back(led.leader);
  }
  if (mine_) routers_ = open_nic_routers(options, communicator.secret());
  for (const std::string& text : gather_texts(communicator, encode_endpoints(endpoints_of(routers_))))
    endpoints_.push_back(decode_endpoints(text));
}

void StepRunner::expect(std::size_t steps) {
  total_ += static_cast<int>(steps);
  if (seconds_ > 0) return;
  seconds_ = std::clamp(kAllSeconds / std::max(1, total_), kShortestMeasurement, kLongestMeasurement);
}

void StepRunner::finish() {
  total_ = done_;
  tell_progress();
}

void StepRunner::tell_progress() const {
  if (communicator_.rank() == 0 && probe_.progress) probe_.progress(done_, total_);
}

StepResults StepRunner::run(const std::vector<Step>& steps, Load load) {
  std::size_t count = 0;
  for (const Step& step : steps) count += step.size();
  // Each value is known to one rank, and the others have 0, so that a sum gives every rank the same bits.
  StepResults results{std::vector<double>(count * 3, 0.0), std::vector<std::string>(count)};
  std::size_t first = 0;
  for (const Step& step : steps) {
    exchange_errors(run_own(step, first, load, results), first, step, results);
    first += step.size();
    ++done_;
    tell_progress();
  }
  if (!results.values.empty()) {
    communicator_.all_reduce(results.values.data(), results.values.data(), results.values.size(),
                             collectives::DataType::kFloat64, collectives::ReduceOp::kSum);
  }
  return results;
}

/// Runs this rank's measurements of a step at the same time; returns the errors by index in the step.
std::map<std::size_t, std::string> StepRunner::run_own(const Step& step, std::size_t first, Load load,
                                                       StepResults& results) {
  std::vector<Running> mine;
  for (std::size_t at = 0; at < step.size(); ++at)
    if (mine_ && (step[at].left == *mine_ || step[at].right == *mine_)) mine.push_back({at, {}, {}, {}, {}});
  const std::uint64_t label = next_label_;
  next_label_ += step.size();
  at_once(
      mine,
      [&](Running& one) {
        const NicPair& pair = step[one.at];
        one.connection = connect(pair, label + one.at);
        transport::measure::ExchangeOptions options;
        options.leads = pair.left == *mine_;
        options.bytes = probe_.bytes;
        options.seconds = seconds_;
        options.deadline = patience();
        one.exchange = std::make_unique<transport::measure::Exchange>(*one.connection, options);
        one.exchange->prepare();
      },
      [] {});
  // Measurements of one step begin to count at once, when all are prepared.
  communicator_.barrier();
  const auto leading = std::ranges::count_if(
      mine, [&](const Running& one) { return !one.failed() && step[one.at].left == *mine_; });
  const bool shared = load == Load::kShared;
  TimePoint begin{};
  transport::measure::RoundBarrier barrier(static_cast<std::size_t>(leading) + (shared ? 1 : 0));
  at_once(
      mine, [&](Running& one) { one.measured = one.exchange->count(barrier); },
      [&] {
        if (shared) begin = keep_rounds_together(barrier);
      });

  std::map<std::size_t, std::string> errors;
  std::vector<transport::measure::Arrivals> arrivals;
  for (Running& one : mine) {
    if (!one.failed())
      arrivals.push_back(std::move(one.measured.arrivals));
    else
      errors[one.at] = one.error;
  }
  const auto rates = shared ? rates_of_all(arrivals, begin) : transport::measure::rates_together(arrivals);
  auto next = rates.begin();
  for (const Running& one : mine) {
    if (one.failed()) continue;
    const bool left = step[one.at].left == *mine_;
    double* result = &results.values[3 * (first + one.at)];
    result[left ? 1 : 0] = *next++;
    if (left) result[2] = one.measured.latency_seconds;
  }
  return errors;
}

/// Begins each round on all ranks at once, and ends it when all ranks have finished it. The ranks agree on
/// this over the loaded links; that takes longer than over idle ones, but delays all of them alike. Returns
/// the time at which this rank's last round began.
TimePoint StepRunner::keep_rounds_together(transport::measure::RoundBarrier& barrier) {
  transport::measure::RoundBarrier::Member coordinator(barrier);
  TimePoint begin = Clock::steady().now();
  while (coordinator.arrive_and_wait(any_rank(coordinator.wait_until_others_arrive()))) {
    begin = Clock::steady().now();
    coordinator.wait_until_others_finish();
    any_rank(false);
    coordinator.finish();
  }
  return begin;
}

/// The rates over the time in which the streams of all ranks arrived. The ranks' clocks differ, so each
/// counts time from its `begin`.
std::vector<double> StepRunner::rates_of_all(std::vector<transport::measure::Arrivals>& arrivals,
                                             TimePoint begin) {
  for (transport::measure::Arrivals& stream : arrivals)
    for (double& seconds : stream.seconds) seconds -= to_seconds(begin.time_since_epoch());
  const transport::measure::Overlap mine = transport::measure::overlap_of(arrivals);
  std::array<double, 3> most{mine.from, -mine.to, mine.longest};
  communicator_.all_reduce(most.data(), most.data(), most.size(), collectives::DataType::kFloat64,
                           collectives::ReduceOp::kMax);
  return transport::measure::rates_in(arrivals, {most[0], -most[1], most[2]});
}

bool StepRunner::any_rank(bool here) {
  std::int32_t any = here ? 1 : 0;
  communicator_.all_reduce(&any, &any, 1, collectives::DataType::kInt32, collectives::ReduceOp::kMax);
  return any != 0;
}

Duration StepRunner::patience() const {
  // The limit is half of the time for which the other ranks wait for these two, so that an error here is
  // reported as what it is.
  return options_.deadline / 2;
}

std::unique_ptr<transport::Connection> StepRunner::connect(const NicPair& pair, std::uint64_t label) {
  const bool left = pair.left == *mine_;
  const std::size_t other = left ? pair.right : pair.left;
  const std::size_t own_nic = left ? pair.left_nic : pair.right_nic;
  const std::size_t peer_nic = left ? pair.right_nic : pair.left_nic;
  const topology::Host& peer = hosts_[other];
  NicRouter& router = routers_.at(own_nic);
  const auto& endpoint = endpoints_.at(static_cast<std::size_t>(leaders_[other])).at(peer_nic);
  if (!router.router || !endpoint) fail(Cause::kInternal, "probe: a NIC of '{}' does not listen", peer.name);
  const std::string what =
      fmt::format("{} to {} {}", hosts_[*mine_].nics[own_nic].name, peer.name, peer.nics[peer_nic].name);
  const Duration to_connect = std::min<Duration>(patience(), kConnectTime);
  if (!left) return accept_at(router, label, to_connect, what);
  transport::ConnectOptions options;
  options.deadline = to_connect;
  options.label = label;
  options.peer_name = fmt::format("rank {}", leaders_[other]);
  return connect_from(router, *endpoint, options, what);
}

// This is a barrier that also tells every rank which of the step's measurements failed, and why.
void StepRunner::exchange_errors(const std::map<std::size_t, std::string>& errors, std::size_t first,
                                 const Step& step, StepResults& results) {
  Json mine = Json::array();
  for (const auto& [at, text] : errors) mine.push_back(Json::array({at, text}));
  const auto all = gather_texts(communicator_, mine.dump(-1, ' ', false, Json::error_handler_t::replace));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const auto& entry : parse_peer_json(all[rank], fmt::format("rank {}'s errors", rank))) {
      const auto at = entry.at(0).get<std::size_t>();
      if (at >= step.size()) {
        fail(Cause::kRemote, "probe: rank {} reported measurement {} in a step of {}", rank, at, step.size());
      }
      std::string& error = results.errors[first + at];
      if (error.empty()) error = fmt::format("rank {}: {}", rank, entry.at(1).get<std::string>());
    }
  }
}

}  // namespace tombolo::probe
