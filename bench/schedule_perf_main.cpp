// The schedules of collectives among many ranks, in simulated time: what they cost where no one has so many
// hosts at hand.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "bench/schedule/simulated_time.h"
#include "collectives/schedule/choice.h"

namespace {

using namespace tombolo;
using namespace tombolo::collectives;

constexpr Collective kCollectives[] = {Collective::kAllReduce,     Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kBroadcast,
                                       Collective::kReduce,        Collective::kAllToAll};

/// Beside the names of algorithms: as rules choose, without the cost model.
constexpr std::string_view kRules = "rules";

struct Options {
  bench::Network network;
  std::vector<std::string> sizes{"1M", "64M"}, collectives{"all_reduce", "all_gather", "reduce_scatter"},
      algorithms{std::string(kAutomatic)};
  std::string nic = "100gbit", uplink = "100gbit", shape = "4x32x8", json;
};

/// Whether each rank has a part of what counts as the bytes of a call.
bool in_parts(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
         collective == Collective::kAllToAll;
}

Json measure(const Options& options, Collective collective, std::size_t bytes, const std::string& algorithm) {
  const bench::Network& network = options.network;
  const auto locations = network.locations();
  const auto size = static_cast<std::size_t>(network.size());
  Problem problem;
  problem.element_bytes = sizeof(float);
  problem.count = bytes / sizeof(float) / (in_parts(collective) ? size : 1);
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
  const auto counted = static_cast<double>(bytes);
  const double bound = bench::lower_bound(network, collective, counted),
               least = bench::lower_bound_with_memory(network, collective, counted);
  std::printf("%-15s %9s %-12s %9zu %6zu %10zu %11s %10.3f %10.3f %7.2f %10.3f %7.2f\n",
              std::string(collective_name(collective)).c_str(), format_size(bytes).c_str(),
              std::string(schedules[0].algorithm).c_str(), time.messages, time.peers, time.in_flight,
              format_size(time.scratch).c_str(), time.seconds * 1e3, bound * 1e3, time.seconds / bound,
              least * 1e3, time.seconds / least);
  std::fflush(stdout);
  return {{"collective", collective_name(collective)},
          {"bytes", bytes},
          {"algorithm", schedules[0].algorithm},
          {"by", choice.reason == Reason::kModel   ? "model"
                 : choice.reason == Reason::kNamed ? "name"
                                                   : "rule"},
          {"messages", time.messages},
          {"peers", time.peers},
          {"in_flight", time.in_flight},
          {"scratch", time.scratch},
          {"seconds", time.seconds},
          {"bound_seconds", bound},
          {"bound_with_memory_seconds", least},
          {"busy_seconds",
           {{"processor", time.busy.processor}, {"nic", time.busy.nic}, {"uplink", time.busy.uplink}}}};
}

/// Those that were asked for. Throws kInvalidUsage for one that is not there.
std::vector<Collective> collectives_of(const Options& options) {
  std::vector<Collective> all;
  for (const std::string& name : options.collectives) {
    const auto found = std::ranges::find(kCollectives, name, collective_name);
    if (found == std::end(kCollectives))
      fail(Cause::kInvalidUsage,
           "--collectives: {} is none of all_reduce, all_gather, reduce_scatter, broadcast, reduce, "
           "all_to_all",
           name);
    all.push_back(*found);
  }
  return all;
}

void run(Options& options) {
  bench::Network& network = options.network;
  network.nic_rate = parse_bit_rate(options.nic, "--nic") / 8;
  network.uplink_rate = parse_bit_rate(options.uplink, "--uplink") / 8;
  bench::set_shape(network, options.shape);
  const std::vector<Collective> collectives = collectives_of(options);
  std::printf(
      "%d ranks, %s (clusters x hosts x ranks, or hosts x ranks of each), NICs of %s, uplinks of %s\n\n",
      network.size(), options.shape.c_str(), options.nic.c_str(), options.uplink.c_str());
  std::printf("%-15s %9s %-12s %9s %6s %10s %11s %10s %10s %7s %10s %7s\n", "", "bytes", "algorithm",
              "messages", "peers", "in flight", "scratch", "time, ms", "bound, ms", "ratio", "with mem.",
              "ratio");
  Json results = Json::array();
  for (const Collective collective : collectives)
    for (const std::string& size : options.sizes)
      for (const std::string& algorithm : options.algorithms)
        results.push_back(measure(options, collective, parse_size(size, "--sizes"), algorithm));
  if (options.json.empty()) return;
  std::ofstream file(options.json);
  file << Json{{"shape", options.shape}, {"ranks", network.size()}, {"results", results}}.dump(1) << '\n';
  file.close();
  if (!file) fail(Cause::kSystem, "--json: cannot write {}", options.json);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bench::Network& network = options.network;
  CLI::App app(
      "Follows the schedules of collectives among many ranks in simulated time: clusters of hosts, each with "
      "a "
      "NIC, joined by an uplink each. Shows what a rank has to do, and the time beside two lower bounds: of "
      "the "
      "links alone, and with their latency and the ranks' memory.");
  app.add_option("--shape", options.shape,
                 "clusters, hosts of each and ranks of each host, or hosts and ranks cluster by cluster, as "
                 "2x8+1x4,6x8")
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
                 "of all_reduce, all_gather, reduce_scatter, broadcast, reduce and all_to_all")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--json", options.json, "a file for the results with all figures, as JSON");
  app.add_option("--algorithms", options.algorithms,
                 "as TOMBOLO_ALGORITHM takes them, or rules: without the cost model (default: auto)")
      ->delimiter(',')
      ->check([](const std::string& name) {
        return name == kRules || is_algorithm_choice(name) ? std::string()
                                                           : "none of rules|" + algorithm_choices();
      });
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const Error& error) {
    std::fprintf(stderr, "schedule_perf: %s\n", error.what());
    return 1;
  }
  return 0;
}
