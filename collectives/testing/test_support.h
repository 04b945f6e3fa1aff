// Ranks as threads of one process, over TCP on loopback addresses.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "collectives/engine/communicator.h"

namespace tombolo::collectives::test {

inline constexpr DataType kAllTypes[] = {
    DataType::kInt8,    DataType::kUint8,   DataType::kInt16,      DataType::kUint16,    DataType::kInt32,
    DataType::kUint32,  DataType::kInt64,   DataType::kUint64,     DataType::kFloat16,   DataType::kBfloat16,
    DataType::kFloat32, DataType::kFloat64, DataType::kFloat8E4m3, DataType::kFloat8E5m2};
inline constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax,
                                       ReduceOp::kAverage};

inline const transport::Secret kTestSecret = transport::Secret::from_text("the tests' secret");

/// `clusters`: a letter per rank; every rank is its own host on loopback.
inline Options options_for(std::string_view clusters, int rank, int port) {
  Options options;
  options.identity.rank = rank;
  options.identity.size = static_cast<int>(clusters.size());
  options.identity.port = port;
  options.store_elsewhere = true;
  options.secret = kTestSecret;
  options.deadline = std::chrono::seconds(60);
  topology::Nic nic;
  nic.name = "eth0";
  nic.addresses = {"127.0.0.1"};
  options.router.host.name = "host" + std::to_string(rank);
  options.router.host.cluster = std::string(1, clusters[static_cast<std::size_t>(rank)]);
  options.router.host.nics = {nic};
  return options;
}

struct Outcome {
  bool threw = false;
  Cause cause = Cause::kInternal;
  std::string text;
};

using Body = std::function<void(Communicator&)>;
using Change = std::function<void(Options&)>;

/// Runs `body` on every rank, each in its own thread, and returns what they threw.
inline std::vector<Outcome> run_ranks(std::string_view clusters, const Body& body,
                                      const Change& change = {}) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  std::vector<Outcome> outcomes(clusters.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < static_cast<int>(clusters.size()); ++rank) {
    threads.emplace_back([&, rank] {
      Options options = options_for(clusters, rank, server.port());
      if (change) change(options);
      Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      try {
        const auto communicator = Communicator::create(options);
        body(*communicator);
      } catch (const Error& error) {
        outcome = {true, error.cause(), error.what()};
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

inline void expect_fine(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_FALSE(outcomes[rank].threw) << "rank " << rank << ": " << outcomes[rank].text;
  }
}

}  // namespace tombolo::collectives::test
