// The router's choice of a way to a peer, which a process makes once per connection.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "bench/micro/subjects.h"
#include "transport/routing/router.h"

namespace tombolo::bench::micro {
namespace {

using topology::NicKind;

/// A host with the given number of RDMA NICs of one fabric, and an Ethernet NIC.
transport::Endpoint host_with_rails(const std::string& name, int number, int rails, NicKind kind,
                                    const std::string& fabric) {
  transport::Endpoint endpoint;
  endpoint.host = name;
  endpoint.cluster = fabric;
  for (int rail = 0; rail <= rails; ++rail) {
    const bool ethernet = rail == rails;
    transport::Offer offer;
    offer.nic = ethernet ? "eth0" : fmt::format("rdma{}", rail);
    offer.kind = ethernet ? NicKind::kTcp : kind;
    offer.fabric = ethernet ? 0 : transport::fabric_hash(fabric);
    offer.address = fmt::format("10.{}.0.{}", rail, number);
    offer.port = 1000;
    offer.rate_bits_per_second = (ethernet ? std::uint64_t{25} : std::uint64_t{400}) * 1'000'000'000;
    offer.rdma = !ethernet;
    endpoint.offers.push_back(offer);
  }
  endpoint.set_ids();
  return endpoint;
}

void measure_choice(benchmark::State& state, bool across) {
  const auto rails = static_cast<int>(state.range(0));
  const auto local = host_with_rails("a1", 1, rails, NicKind::kInfiniBand, "ib-a");
  const auto peer = across ? host_with_rails("b1", 2, rails, NicKind::kRoce, "roce-b")
                           : host_with_rails("a2", 2, rails, NicKind::kInfiniBand, "ib-a");
  for (auto _ : state) benchmark::DoNotOptimize(transport::choose(local, peer, {}));
}

}  // namespace

void register_router_choice() {
  for (const bool across : {false, true})
    benchmark::RegisterBenchmark(across ? "router_choice/across_clusters" : "router_choice/inside_a_cluster",
                                 [across](benchmark::State& state) { measure_choice(state, across); })
        ->ArgName("rails")
        ->Arg(1)
        ->Arg(8);
}

}  // namespace tombolo::bench::micro
