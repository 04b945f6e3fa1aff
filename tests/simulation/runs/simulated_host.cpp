#include "tests/simulation/runs/simulated_host.h"

#include "base/format.h"

namespace tombolo::simulation {

transport::RouterOptions router_options(const Plan& plan, unsigned host, World& world,
                                        std::shared_ptr<transport::bootstrap::ProcessHelpers> helpers,
                                        Log log) {
  transport::RouterOptions made;
  const bool share = plan.over == Over::kShm;
  made.host.name = share ? "h" : fmt::format("h{}", host);
  for (unsigned nic = 0; nic < plan.nics; ++nic) {
    topology::Nic one;
    one.name = fmt::format("eth{}", nic);
    one.addresses = {fmt::format("10.0.{}.{}", nic, host + 1)};
    one.rate_bits_per_second = 10'000'000'000;
    made.host.nics.push_back(one);
  }
  made.policy.transports = {"tcp"};
  if (share)
    made.policy.transports =
        plan.or_tcp ? std::vector<std::string>{"shm", "tcp"} : std::vector<std::string>{"shm"};
  made.shm_fetch = plan.fetch;
  made.tcp.streams = plan.streams;
  made.tcp.chunk_bytes = plan.chunk;
  made.tcp.replay_bytes = plan.replay;
  made.tcp.checksums = plan.checksums;
  made.tcp.idle_timeout = kIdleTimeout;
  if (plan.tls) made.tls.use = transport::TlsUse::kOn;
  made.meters = std::make_shared<transport::Meters>();
  made.clock = &world.clock();
  made.helpers = std::move(helpers);
  made.log = std::move(log);
  return made;
}

void count_streams(const transport::Meters& of_process, Verdict& verdict) {
  const transport::MetersReading reading = of_process.read();
  for (const auto& total : reading.totals) {
    verdict.breaks += total.second.breaks;
    verdict.rejoins += total.second.rejoins;
    verdict.replayed += total.second.replayed;
  }
}

Log log_of(const RunOptions& options, World& world, unsigned host) {
  if (!options.log) return {};
  return Log(LogLevel::kTrace, [&world, host](LogLevel, std::string_view text) {
    fmt::print("{:10.6f} h{}: {}\n", world.elapsed(), host, text);
  });
}

}  // namespace tombolo::simulation
