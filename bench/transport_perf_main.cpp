// Measures one of Tombolo's transports between two processes of this machine, in turns and in one run with
// plain TCP (one stream, written and read in a loop) and with the memcpy of one thread, because on a shared
// machine only ratios are meaningful. Or it measures TCP with TLS against TCP without.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "bench/cache_line.h"
#include "bench/ways.h"
#include "transport/routing/router.h"

namespace {

using namespace tombolo;
using namespace tombolo::transport;
using namespace tombolo::bench;

constexpr Duration kDeadline = std::chrono::seconds(120);

struct Plan {
  std::string transport = "tcp";
  bool tls = false;  // whether TLS is compared with the same without TLS, instead of with plain TCP
  int streams = 0;
  int repeats = 5;
  double bytes_per_run = 512e6;
  std::vector<std::size_t> sizes{8, 8 * kKiB, 64 * kKiB, kMiB, 64 * kMiB};
  std::string json;
};

class Tombolo final : public Way {
 public:
  explicit Tombolo(Connection& connection) : connection_(connection) {}
  void send(std::span<const std::byte> data) override { finish(connection_.post_send(data)); }
  void receive(std::span<std::byte> buffer) override { finish(connection_.post_receive(buffer)); }
  void stream(bool sending, std::span<std::byte> slots, std::size_t size, std::size_t count) override {
    std::array<Request*, kOutstanding> open{};
    for (std::size_t i = 0; i < count + kOutstanding; ++i) {
      Request*& request = open[i % kOutstanding];
      if (request != nullptr) finish(request);
      auto slot = slots.subspan(i % kOutstanding * size, size);
      request = i >= count ? nullptr : sending ? connection_.post_send(slot) : connection_.post_receive(slot);
    }
  }

 private:
  void finish(Request* request) {
    std::size_t bytes = 0;
    for (;;) {
      Outcome outcome = connection_.test(request, bytes);
      if (outcome == Outcome::kDone) return;
      if (outcome == Outcome::kFailed) throw *connection_.error();
    }
  }
  Connection& connection_;
};

RouterOptions router_options(std::string host, const Plan& plan, const Secret& secret, bool tls) {
  // Shared memory joins processes of one host only, so both ends claim the same one.
  if (plan.transport == "shm") host = "both";
  RouterOptions options = RouterOptions::from_environment();
  options.policy = {};
  options.policy.transports = {plan.transport};
  topology::Nic nic;
  nic.name = "lo";
  nic.addresses = {"127.0.0.1"};
  options.host.name = host;
  options.host.nics = {nic};
  options.secret = secret;
  if (plan.streams != 0) options.tcp.streams = plan.streams;
  if (plan.tls) options.tls.use = tls ? TlsUse::kOn : TlsUse::kOff;
  return options;
}

template <typename Poll>
std::unique_ptr<Connection> wait_for(Poll poll, std::string_view what) {
  for (auto deadline = Deadline::after(kDeadline); !deadline.passed();) {
    if (auto connection = poll()) return connection;
    usleep(1000);
  }
  fail(Cause::kTimeout, "{}: not connected", what);
}

struct Measured {
  std::vector<Figure> figures;  // by size: of the transport to compare with, and of the connection
  // for shared memory: half round trips of a cache line, measured beside those of the smallest size
  std::vector<double> cache_line;
};

/// `beside` is the transport with which the connection is compared; `line` is null except for shared memory.
Measured run(Connection& connection, Way& beside, CacheLine* line, bool leading, const Plan& plan) {
  Tombolo ours(connection);
  std::vector<std::byte> slots(kOutstanding * std::ranges::max(plan.sizes));
  Measured measured{std::vector<Figure>(2 * plan.sizes.size()), {}};
  auto& figures = measured.figures;
  for (std::size_t i = 0; i < plan.sizes.size(); ++i) {
    for (int repeat = 0; repeat < plan.repeats; ++repeat) {
      measure(beside, leading, plan.bytes_per_run, plan.sizes[i], slots, figures[2 * i]);
      if (line != nullptr && i == 0) measured.cache_line.push_back(line->measure(leading));
      measure(ours, leading, plan.bytes_per_run, plan.sizes[i], slots, figures[2 * i + 1]);
    }
  }
  return measured;
}

void print(const Plan& plan, const std::vector<Figure>& figures, const char* first, const char* second) {
  std::printf("%10s | %21s | %6s | %19s | %6s | %15s\n", "", "half round trip, us", "", "throughput, GB/s",
              "", "CPU-s/GB, sender");
  std::printf("%10s | %10s %10s | %6s | %9s %9s | %6s | %7s %7s\n", "size", first, second, "ratio", first,
              second, "ratio", first, second);
  for (std::size_t i = 0; i < plan.sizes.size(); ++i) {
    const Figure& plain = figures[2 * i];
    const Figure& ours = figures[2 * i + 1];
    double trip[2] = {median(plain.half_round_trips) * 1e6, median(ours.half_round_trips) * 1e6};
    double rate[2] = {median(plain.rates) / 1e9, median(ours.rates) / 1e9};
    std::printf("%10s | %10.2f %10.2f | %6.2f | %9.3f %9.3f | %6.2f | %7.2f %7.2f\n",
                format_size(plan.sizes[i]).c_str(), trip[0], trip[1], trip[1] / trip[0], rate[0], rate[1],
                rate[1] / rate[0], median(plain.processor), median(ours.processor));
  }
}

/// The medians as JSON, under the names of the two transports.
Json as_json(const Plan& plan, const std::vector<Figure>& figures, const char* first, const char* second) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < plan.sizes.size(); ++i) {
    Json row{{"bytes", plan.sizes[i]}};
    for (const auto& [name, figure] :
         {std::pair(first, &figures[2 * i]), std::pair(second, &figures[2 * i + 1])}) {
      row["half_round_trip_seconds"][name] = median(figure->half_round_trips);
      row["bytes_per_second"][name] = median(figure->rates);
      row["sender_processor_seconds_per_gb"][name] = median(figure->processor);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Bytes per second at which one thread copies 64 MiB, the upper bound for a transport with one copy.
double memcpy_rate(int repeats) {
  std::vector<std::byte> from(64 * kMiB, std::byte{1}), to(from.size());
  std::vector<double> rates;
  for (int i = 0; i < 3 * repeats; ++i) {
    const TimePoint begin = Clock::steady().now();
    std::memcpy(to.data(), from.data(), from.size());
    rates.push_back(static_cast<double>(from.size()) / to_seconds(Clock::steady().now() - begin));
  }
  return median(std::move(rates));
}

/// The process that accepts, whose router is its own: nobody else's child could use it.
class AcceptingEnd {
 public:
  AcceptingEnd(const Plan& plan, const Secret& secret, bool tls)
      : router_(router_options("right", plan, secret, tls)), listener_(router_.listen()) {}

  std::unique_ptr<Connection> accept(PlainTcp& to_peer) {
    const auto endpoint = listener_->endpoint().encode();
    const std::uint64_t size = endpoint.size();
    to_peer.send(std::as_bytes(std::span(&size, 1)));
    to_peer.send(endpoint);
    return wait_for([&] { return listener_->accept(); }, "accept");
  }

 private:
  Router router_;
  std::unique_ptr<Listener> listener_;
};

class ConnectingEnd {
 public:
  ConnectingEnd(const Plan& plan, const Secret& secret, bool tls)
      : router_(router_options("left", plan, secret, tls)) {}

  std::unique_ptr<Connection> connect(PlainTcp& to_peer) {
    std::uint64_t size = 0;
    to_peer.receive(std::as_writable_bytes(std::span(&size, 1)));
    std::vector<std::byte> endpoint(size);
    to_peer.receive(endpoint);
    auto connecting = router_.connect(Endpoint::decode(endpoint), {});
    auto connection = wait_for([&] { return connecting->poll(); }, "connect");
    std::printf("%s, %s\n", connection->route().transport.c_str(), connection->route().reason.c_str());
    return connection;
  }

 private:
  Router router_;
};

std::unique_ptr<Way> plain_way(int socket, Connection* without_tls) {
  if (without_tls != nullptr) return std::make_unique<Tombolo>(*without_tls);
  return std::make_unique<PlainTcp>(socket);
}

int lead(const Plan& plan) {
  auto [near, far] = plain_pair();
  const Secret secret = Secret::random();
  std::optional<CacheLine> line;
  if (plan.transport == "shm") line.emplace();
  CacheLine* const line_or_none = line ? &*line : nullptr;
  pid_t child = fork();
  if (child < 0) fail_errno(errno, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 1;
    try {
      close(near);
      PlainTcp to_peer(far);
      AcceptingEnd ours(plan, secret, plan.tls);
      auto connection = ours.accept(to_peer);
      std::optional<AcceptingEnd> without;
      if (plan.tls) without.emplace(plan, secret, false);
      auto beside = without ? without->accept(to_peer) : nullptr;
      run(*connection, *plain_way(far, beside.get()), line_or_none, false, plan);
      status = 0;
    } catch (const Error& error) {
      std::fprintf(stderr, "receiving process: %s\n", error.what());
    }
    _exit(status);
  }
  close(far);
  PlainTcp to_peer(near);
  ConnectingEnd ours(plan, secret, plan.tls);
  auto connection = ours.connect(to_peer);
  std::optional<ConnectingEnd> without;
  if (plan.tls) without.emplace(plan, secret, false);
  auto beside = without ? without->connect(to_peer) : nullptr;
  const char* first = plan.tls ? "tcp" : "plain";
  const char* second = plan.tls ? "tcp+tls" : "tombolo";
  const auto [figures, cache_line] =
      run(*connection, *plain_way(near, beside.get()), line_or_none, true, plan);
  print(plan, figures, first, second);
  if (line) {
    std::printf("one cache line between the two processes, half round trip: %.3f us\n",
                median(cache_line) * 1e6);
  }
  const double memcpy_speed = memcpy_rate(plan.repeats);
  std::printf("memcpy by one thread, 64 MiB: %.3f GB/s\n", memcpy_speed / 1e9);
  if (!plan.json.empty()) {
    Json all{{"repeats", plan.repeats},
             {"sizes", as_json(plan, figures, first, second)},
             {"memcpy_bytes_per_second", memcpy_speed}};
    if (line) all["cache_line_half_round_trip_seconds"] = median(cache_line);
    if (!(std::ofstream(plan.json) << all.dump(1) << '\n' << std::flush))
      fail(Cause::kSystem, "writing {}", plan.json);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CLI::App app(
      "One of Tombolo's transports beside plain TCP between two processes of this machine: half round trip, "
      "and "
      "throughput with 8 messages outstanding. Medians.");
  app.add_option("--transport", plan.transport, "tcp (default), shm or ucx")
      ->check(CLI::IsMember({"tcp", "shm", "ucx"}));
  app.add_flag("--tls", plan.tls,
               "compares TCP with TLS (by the shared secret, or TOMBOLO_TLS_CERTIFICATE) with TCP without");
  app.add_option("--streams", plan.streams, "TCP streams (default: TOMBOLO_TCP_STREAMS)")
      ->check(CLI::Range(1, 64));
  app.add_option("--repeats", plan.repeats, "measurements of each, in turns")->check(CLI::Range(1, 1000));
  app.add_option("--bytes", plan.bytes_per_run, "bytes per throughput measurement (16 to 50000 messages)")
      ->check(CLI::Range(1.0, 1e12));
  std::vector<std::string> sizes;
  app.add_option("--sizes", sizes, "sizes of messages, such as 8,64K,1M (default: 8,8K,64K,1M,64M)")
      ->delimiter(',');
  app.add_option("--json", plan.json, "write all medians to this file");
  CLI11_PARSE(app, argc, argv);
  if (plan.tls && plan.transport != "tcp") {
    std::fprintf(stderr, "transport_perf: --tls is for tcp, not for %s\n", plan.transport.c_str());
    return 1;
  }
  try {
    if (!sizes.empty()) plan.sizes.clear();
    for (const std::string& size : sizes) {
      plan.sizes.push_back(parse_size(size, "--sizes"));
      if (plan.sizes.back() == 0) fail(Cause::kInvalidUsage, "--sizes {}: 1 byte at least", size);
    }
    return lead(plan);
  } catch (const Error& error) {
    std::fprintf(stderr, "transport_perf: %s\n", error.what());
    return 1;
  }
}
