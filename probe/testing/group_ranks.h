// For tests: ranks as threads of one process that know each other by a rendezvous group alone.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "collectives/testing/test_support.h"
#include "probe/bootstrap/rendezvous_group.h"

namespace tombolo::probe::test {

/// A NIC on loopback.
inline topology::Nic loopback_nic_of(const std::string& name,
                                     topology::NicKind kind = topology::NicKind::kTcp) {
  topology::Nic nic;
  nic.name = name;
  nic.kind = kind;
  nic.emulated = topology::is_rdma(kind);
  nic.addresses = {"127.0.0.1"};
  return nic;
}

using GroupBody = std::function<void(RendezvousGroup&, const collectives::Options&)>;
using ChangeOptions = std::function<void(collectives::Options&)>;

/// Runs `body` on every rank, each a host of its own in a thread of its own. Whatever a rank throws fails the
/// test. `clusters`: a letter per rank.
inline void run_group(std::string_view clusters, const GroupBody& body, const ChangeOptions& change = {}) {
  std::promise<int> port;  // where rank 0's store listens
  const std::shared_future<int> known = port.get_future().share();
  const auto run_rank = [&](int rank) {
    collectives::Options options = collectives::test::options_for(clusters, rank, 0);
    options.router.policy.transports = {"tcp"};  // threads of one process would else share memory
    if (change) change(options);
    try {
      if (rank > 0) options.identity.port = known.get();
      RendezvousGroup group(options);
      if (rank == 0) port.set_value(group.with_store(options).identity.port);
      body(group, options);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << ": " << error.what();
    }
  };
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < static_cast<int>(clusters.size()); ++rank) ranks.emplace_back(run_rank, rank);
}

}  // namespace tombolo::probe::test
