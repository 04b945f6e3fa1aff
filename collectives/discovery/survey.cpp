#include "collectives/discovery/survey.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "base/error.h"
#include "transport/measure/exchange.h"

namespace tombolo::collectives {
namespace {

using transport::Connection;
using transport::Outcome;
using transport::Request;

constexpr int kRoundTrips = 4;  // of which the shortest counts
constexpr int kSpins = 200;     // turns before sleeping: a few microseconds
// What all rounds together may take where the links are quick. A burst that tells a rate lasts its part of
// that, but long enough for the clock, and no longer than needed: each is sent five times, after smaller ones
// that last twice as long together.
constexpr double kAllSeconds = 0.3, kBurstsPerRound = 7, kShortestBurst = 0.0005, kLongestBurst = 0.004;

}  // namespace

/// Of each two hosts the one with the lower number connects, and leads.
struct Survey::Peer {
  enum class Turn { kSend, kReceive, kOver };

  std::unique_ptr<transport::Connecting> connecting;
  std::unique_ptr<transport::measure::Exchange> exchange;  // outlives the connection, as do the two bytes
  std::array<std::byte, 1> out{}, in{};
  std::unique_ptr<Connection> connection;
  bool leads = false;

  // Round trips: the leading end sends first.
  Turn turn = Turn::kOver;
  int trips = 0;
  Request* request = nullptr;
  TimePoint sent{};
  double best = 0;

  void begin_round_trips() noexcept {
    turn = leads ? Turn::kSend : Turn::kReceive;
    trips = 0;
    best = 0;
  }

  bool usable() const noexcept { return connection != nullptr && connection->error() == nullptr; }

  /// One step of the round trips; true if anything moved.
  bool step(const Clock& clock) noexcept {
    if (turn == Turn::kOver) return false;
    if (!usable()) {
      turn = Turn::kOver;
      best = 0;
      return true;
    }
    if (request == nullptr) {
      if (turn == Turn::kSend && leads) sent = clock.now();
      request = turn == Turn::kSend ? connection->post_send(out) : connection->post_receive(in);
      if (request == nullptr) return connection->progress();
    }
    std::size_t bytes = 0;
    const Outcome outcome = connection->test(request, bytes);
    if (outcome == Outcome::kPending) return false;
    request = nullptr;
    if (outcome == Outcome::kFailed) return true;
    const bool back = turn == Turn::kReceive ? leads : !leads;  // this trip is over
    turn = turn == Turn::kSend ? Turn::kReceive : Turn::kSend;
    if (!back) return true;
    if (leads) {
      const double seconds = to_seconds(clock.now() - sent) / 2;
      best = trips == 0 ? seconds : std::min(best, seconds);
    }
    if (++trips == kRoundTrips) turn = Turn::kOver;
    return true;
  }
};

Survey::Survey(transport::Router& router, Store& store, Await await, SurveyOptions options)
    : router_(router),
      store_(store),
      await_(std::move(await)),
      options_(std::move(options)),
      listener_(router.listen()),
      peers_(options_.hosts),
      links_(options_.hosts) {
  for (std::size_t host = 0; host < options_.hosts; ++host) {
    if (host == options_.host) continue;
    peers_[host] = std::make_unique<Peer>();
    peers_[host]->leads = options_.host < host;
  }
}

Survey::~Survey() = default;

void Survey::measure() {
  if (passes_ == 0) connect();
  measure_latencies();
  measure_rates();
  ++passes_;
}

std::string Survey::key(const std::string& what, std::size_t host) const {
  return fmt::format("{}/{}/{}", options_.prefix, what, host);
}

void Survey::publish(const std::string& what, const std::vector<double>& values) {
  store_.set(key(what, options_.host), std::as_bytes(std::span(values)));
}

std::vector<double> Survey::row_of(const std::string& what, std::size_t host) {
  const auto bytes = await_(key(what, host), host);
  std::vector<double> values(options_.hosts);
  if (bytes.size() != values.size() * sizeof(double)) {
    fail(Cause::kRemote, "host {} of the job has published {} bytes of {}, expected {}", host, bytes.size(),
         what, values.size() * sizeof(double));
  }
  std::memcpy(values.data(), bytes.data(), bytes.size());
  for (double& value : values) {
    if (!std::isfinite(value) || (value < 0 && value != LinkMatrix::kNotAttained)) value = 0;
  }
  return values;
}

void Survey::connect() {
  store_.set(key("endpoint", options_.host), listener_->endpoint().encode());
  dial();
  const Deadline deadline = Deadline::after(options_.patience, *router_.options().clock);
  std::vector<pollfd> handles;
  const auto missing = [](const auto& peer) { return peer && !peer->connection; };
  while (std::ranges::any_of(peers_, missing) && !deadline.passed()) {
    bool moved = false;
    handles.clear();
    for (auto& peer : peers_) {
      if (!peer || !peer->connecting) continue;
      try {
        if ((peer->connection = peer->connecting->poll()) == nullptr) {
          peer->connecting->append_wait_handles(handles);
          continue;
        }
      } catch (const Error& error) {
        router_.options().log.trace("not measured: {}", error.what());
      }
      peer->connecting.reset();
      moved = true;
    }
    while (auto connection = listener_->accept()) {
      const std::uint64_t from = connection->label();
      if (from >= options_.host || peers_[from]->connection) continue;
      peers_[from]->connection = std::move(connection);
      moved = true;
    }
    if (moved) continue;
    listener_->append_wait_handles(handles);
    ::poll(handles.data(), handles.size(), 1);
  }
  for (auto& peer : peers_) {
    if (peer) peer->connecting.reset();
  }
  // Only now do all begin to measure: a host that waited for one that cannot be reached would be late.
  store_.set(key("connected", options_.host), {});
  for (std::size_t host = 0; host < options_.hosts; ++host) {
    if (host != options_.host) await_(key("connected", host), host);
  }
}

/// Begins to connect to the hosts of higher numbers, once all are there: the time for each runs from here.
void Survey::dial() {
  std::vector<transport::Endpoint> endpoints;
  for (std::size_t host = 0; host < options_.hosts; ++host)
    endpoints.push_back(host == options_.host
                            ? listener_->endpoint()
                            : transport::Endpoint::decode(await_(key("endpoint", host), host)));
  for (std::size_t host = options_.host + 1; host < options_.hosts; ++host) {
    transport::ConnectOptions connect;
    connect.label = options_.host;
    connect.deadline = options_.patience;
    connect.peer_name = fmt::format("host {}", host);
    try {
      peers_[host]->connecting = router_.connect(endpoints[host], connect);
    } catch (const Error& error) {
      router_.options().log.trace("not measured: {}", error.what());
    }
  }
}

void Survey::measure_latencies() {
  for (auto& peer : peers_) {
    if (peer) peer->begin_round_trips();
  }
  const std::string what = fmt::format("latency{}", passes_);
  publish(what, time_round_trips());
  for (std::size_t host = 0; host < options_.hosts; ++host) {
    const auto theirs = row_of(what, host);
    for (std::size_t other = host + 1; other < options_.hosts; ++other)
      links_.learn_latency(host, other, theirs[other]);
  }
}

std::vector<double> Survey::time_round_trips() {
  const Clock& clock = *router_.options().clock;
  const Deadline deadline = Deadline::after(options_.patience, clock);
  std::vector<pollfd> handles;
  for (int idle = 0; !deadline.passed();) {
    bool moved = false, over = true;
    for (auto& peer : peers_) {
      if (!peer) continue;
      moved |= peer->step(clock);
      over &= peer->turn == Peer::Turn::kOver;
    }
    if (over) break;
    if (moved) idle = 0;
    if (++idle < kSpins) continue;
    handles.clear();
    for (auto& peer : peers_) {
      if (peer && peer->turn != Peer::Turn::kOver) peer->connection->append_wait_handles(handles);
    }
    ::poll(handles.data(), handles.size(), 1);
  }
  std::vector<double> row(options_.hosts);
  for (std::size_t host = 0; host < options_.hosts; ++host) {
    if (!peers_[host]) continue;
    if (peers_[host]->turn != Peer::Turn::kOver) peers_[host]->connection.reset();  // too slow to be measured
    row[host] = peers_[host]->best;
  }
  return row;
}

void Survey::measure_rates() {
  const std::string what = fmt::format("rate{}", passes_);
  publish(what, rates_in(survey_rounds(links_.latency_seconds)));
  if (options_.host != 0) return;
  for (std::size_t host = 0; host < options_.hosts; ++host) {
    const auto theirs = row_of(what, host);
    for (std::size_t from = 0; from < options_.hosts; ++from) links_.learn_rate(from, host, theirs[from]);
  }
}

std::vector<std::vector<double>> Survey::measure_between(const Islands& islands) {
  const auto rounds = rounds_between(islands, looks_);
  for (const auto& round : rounds) {
    for (const auto& [left, right] : round) {
      const auto one = static_cast<std::size_t>(left), other = static_cast<std::size_t>(right);
      if (one == options_.host) peers_[other]->begin_round_trips();
      if (other == options_.host) peers_[one]->begin_round_trips();
    }
  }
  const std::string latency = fmt::format("between-latency{}", looks_),
                    rate = fmt::format("between-rate{}", looks_);
  ++looks_;
  publish(latency, time_round_trips());
  publish(rate, rates_in(rounds));
  if (options_.host != 0) return {};
  std::vector<std::vector<double>> latencies, rates;
  for (std::size_t host = 0; host < options_.hosts; ++host) {
    latencies.push_back(row_of(latency, host));
    rates.push_back(row_of(rate, host));
  }
  const auto count = static_cast<std::size_t>(islands.count);
  std::vector<std::vector<double>> between(count, std::vector<double>(count));
  for (const auto& round : rounds) {
    for (const auto& [left, right] : round) {
      const auto one = static_cast<std::size_t>(left), other = static_cast<std::size_t>(right);
      const auto from = static_cast<std::size_t>(islands.of_host[one]),
                 to = static_cast<std::size_t>(islands.of_host[other]);
      between[from][to] = std::max(rates[other][one], 0.0);
      between[to][from] = std::max(rates[one][other], 0.0);
      links_.learn_rate(one, other, rates[other][one]);
      links_.learn_rate(other, one, rates[one][other]);
      links_.learn_latency(one, other, latencies[one][other]);
    }
  }
  return between;
}

std::vector<double> Survey::rates_in(const std::vector<std::vector<std::pair<int, int>>>& rounds) {
  transport::measure::ExchangeOptions exchange;
  exchange.deadline = options_.patience;
  exchange.seconds = std::clamp(kAllSeconds / (kBurstsPerRound * static_cast<double>(rounds.size())),
                                kShortestBurst, kLongestBurst);
  const Deadline until = Deadline::after(options_.budget, *router_.options().clock);
  std::vector<double> row(options_.hosts);
  for (const auto& round : rounds) {
    for (const auto& [left, right] : round) {
      const auto first = static_cast<std::size_t>(left), second = static_cast<std::size_t>(right);
      if (first != options_.host && second != options_.host) continue;
      const std::size_t other = first == options_.host ? second : first;
      Peer& peer = *peers_[other];
      row[other] = LinkMatrix::kNotAttained;
      if (!peer.usable()) continue;
      exchange.leads = peer.leads;
      peer.exchange = std::make_unique<transport::measure::Exchange>(*peer.connection, exchange);
      try {
        row[other] = peer.exchange->glance(until, options_.arrival);
        peer.exchange.reset();  // its buffers are large
      } catch (const Error& error) {
        router_.options().log.trace("not measured: {}", error.what());
        peer.connection.reset();
      }
    }
  }
  return row;
}

Survey::Missing Survey::missing() const {
  Missing missing;
  for (const auto& round : survey_rounds(links_.latency_seconds)) {
    for (const auto& [left, right] : round) {
      const auto one = static_cast<std::size_t>(left), other = static_cast<std::size_t>(right);
      const double least = std::min(links_.bytes_per_second[one][other], links_.bytes_per_second[other][one]);
      missing.in_vain += least < 0 ? 1 : 0;
      missing.untried += least == 0 ? 1 : 0;
    }
  }
  return missing;
}

}  // namespace tombolo::collectives
