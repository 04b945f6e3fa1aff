// Three ranks of two hosts, each a thread, on loopback addresses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "collectives/engine/communicator.h"
#include "probe/bootstrap/rendezvous_group.h"
#include "tools/doctor/pair.h"
#include "tools/emulation/emulation.h"

namespace tombolo::doctor {
namespace {

std::vector<std::string> ways_in(const std::vector<Check>& checks) {
  std::vector<std::string> ways;
  for (const Check& each : checks)
    if (each.name == "way") ways.push_back(each.seen.substr(0, each.seen.find(" (")));
  return ways;
}

TEST(CheckWays, TheFirstRankOfEachHostMeasuresForAll) {
  const int port = emulation::find_free_port("127.0.0.1", static_cast<std::uint32_t>(::getpid()));
  ASSERT_GT(port, 0);
  const std::vector<std::string> hosts{"x", "x", "y"};
  std::vector<std::vector<Check>> checks(hosts.size());
  std::vector<std::string> failures(hosts.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks.emplace_back([&, rank] {
      try {
        collectives::Options engine;
        engine.identity.rank = static_cast<int>(rank);
        engine.identity.size = static_cast<int>(hosts.size());
        engine.identity.port = port;
        engine.secret = transport::Secret::from_text("ways");
        engine.router.host.name = hosts[rank];
        topology::Nic nic;
        nic.name = "eth0";
        nic.mtu = 1500;
        nic.addresses = {hosts[rank] == "x" ? "127.0.0.2" : "127.0.0.3"};
        engine.router.host.nics = {nic};
        probe::RendezvousGroup group(engine);
        checks[rank] = check_ways(group, engine, {});
      } catch (const std::exception& error) {
        failures[rank] = error.what();
      }
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(failures, std::vector<std::string>(hosts.size()));
  EXPECT_EQ(ways_in(checks[0]), std::vector<std::string>{"eth0 -> y eth0"});
  EXPECT_EQ(ways_in(checks[1]), std::vector<std::string>{}) << "rank 0 is on this host";
  EXPECT_EQ(ways_in(checks[2]), std::vector<std::string>{"eth0 -> x eth0"});
  for (const auto& of_rank : checks)
    for (const Check& check : of_rank)
      EXPECT_NE(check.status, Status::kFailed) << check.name << ": " << check.seen;
}

}  // namespace
}  // namespace tombolo::doctor
