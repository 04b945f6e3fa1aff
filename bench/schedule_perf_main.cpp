// The schedules of collectives among many ranks, in simulated time: what they cost where no one has so many
// hosts at hand.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "bench/schedule/simulated_time.h"
#include "collectives/schedule/choice.h"

namespace {

using namespace tombolo;
using namespace tombolo::collectives;

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kAllGather,
                                       Collective::kReduceScatter};

/// Beside the names of algorithms: as rules choose, without the cost model.
constexpr std::string_view kRules = "rules";

struct Options {
  bench::Network network;
  std::vector<std::string> sizes{"1M", "64M"}, collectives, algorithms{std::string(kAutomatic)};
  std::string nic = "100gbit", uplink = "100gbit";
};

void measure(const Options& options, Collective collective, std::size_t bytes, const std::string& algorithm) {
  const bench::Network& network = options.network;
  const auto locations = network.locations();
  const auto size = static_cast<std::size_t>(network.size());
  Problem problem;
  problem.element_bytes = sizeof(float);
  problem.count = bytes / sizeof(float) / (collective == Collective::kAllReduce ? 1 : size);
  RankMap map = RankMap::make(0, locations);
  const JobCosts costs(map, bench::costs_of(network));
  Tuning tuning;
  tuning.crossing_bytes = tuning.latency_bytes = costs.filling(Level::kBetween);
  const bool by_rules = algorithm == kRules;
  const Choice choice = choose(collective, problem,
                               {.ranks = map,
                                .tuning = tuning,
                                .named = by_rules ? kAutomatic : std::string_view(algorithm),
                                .costs = by_rules ? nullptr : &costs});
  std::vector<Schedule> schedules;
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (rank > 0) map = RankMap::make(static_cast<int>(rank), locations);
    schedules.push_back(choice.algorithm->build(map, problem, choice.tuning, false));
  }
  const bench::SimulatedTime time = bench::simulate(network, schedules);
  const double bound = bench::lower_bound(network, collective, static_cast<double>(bytes));
  std::printf("%-15s %8s %-12s %9zu %6zu %10zu %9s %10.3f %10.3f %7.2f\n",
              std::string(collective_name(collective)).c_str(), format_size(bytes).c_str(),
              std::string(schedules[0].algorithm).c_str(), time.messages, time.peers, time.in_flight,
              format_size(time.scratch).c_str(), time.seconds * 1e3, bound * 1e3, time.seconds / bound);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bench::Network& network = options.network;
  CLI::App app(
      "Follows the schedules of collectives among many ranks in simulated time: clusters of equal hosts, "
      "each with a "
      "NIC, joined by an uplink each. Shows what a rank has to do, and the time beside a lower bound.");
  app.add_option("--clusters", network.clusters, "clusters")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--hosts", network.hosts, "hosts of each cluster")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--ranks", network.ranks, "ranks of each host")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--nic", options.nic, "rate of a host's NIC, each way")->capture_default_str();
  app.add_option("--uplink", options.uplink, "rate of a cluster's uplink, each way")->capture_default_str();
  app.add_option("--memory", network.memory_rate, "bytes per second at which a rank combines and copies")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--message", network.message_time, "seconds of a rank's processor for each message")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--latency-inside", network.latency_inside, "seconds between hosts of one cluster")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--latency-across", network.latency_across, "seconds between clusters")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--sizes", options.sizes, "bytes of the whole vector, such as 1M,64M")->delimiter(',');
  app.add_option("--collectives", options.collectives,
                 "all_reduce, all_gather, reduce_scatter (default: all)")
      ->delimiter(',');
  app.add_option("--algorithms", options.algorithms,
                 "as TOMBOLO_ALGORITHM takes them, or rules: without the cost model (default: auto)")
      ->delimiter(',')
      ->check([](const std::string& name) {
        return name == kRules || is_algorithm_choice(name) ? std::string()
                                                           : "none of rules|" + algorithm_choices();
      });
  CLI11_PARSE(app, argc, argv);
  try {
    network.nic_rate = parse_bit_rate(options.nic, "--nic") / 8;
    network.uplink_rate = parse_bit_rate(options.uplink, "--uplink") / 8;
    std::printf("%d ranks: %d clusters of %d hosts of %d, NICs of %s, uplinks of %s\n\n", network.size(),
                network.clusters, network.hosts, network.ranks, options.nic.c_str(), options.uplink.c_str());
    std::printf("%-15s %8s %-12s %9s %6s %10s %9s %10s %10s %7s\n", "", "bytes", "algorithm", "messages",
                "peers", "in flight", "scratch", "time, ms", "bound, ms", "ratio");
    std::vector<std::string> unknown = options.collectives;
    for (const Collective collective : kCollectives) {
      const std::string name(collective_name(collective));
      std::erase(unknown, name);
      if (!options.collectives.empty() &&
          std::ranges::find(options.collectives, name) == options.collectives.end())
        continue;
      for (const std::string& size : options.sizes)
        for (const std::string& algorithm : options.algorithms)
          measure(options, collective, parse_size(size, "--sizes"), algorithm);
    }
    if (!unknown.empty())
      fail(Cause::kInvalidUsage, "--collectives: {} is none of all_reduce, all_gather, reduce_scatter",
           unknown.front());
  } catch (const Error& error) {
    std::fprintf(stderr, "schedule_perf: %s\n", error.what());
    return 1;
  }
  return 0;
}
