// One-sided operations through the tables that NCCL looks up, by the NICs of two hosts: even ranks are on
// one, odd ranks on the other. TOMBOLO_TEST_RDMA names the NICs (transport/testing/test_support.h),
// TOMBOLO_CLUSTER, TOMBOLO_HOST and TOMBOLO_TEST_PEER_HOST say which host has which; links go down by ip(8),
// so that it runs as root, in tests/rdma_vm.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/format.h"
#include "base/randomized_test.h"
#include "tests/process/rma_replay.h"
#include "transport/testing/test_support.h"

namespace tombolo::tests {
namespace {

using Variables = std::map<std::string, std::string>;
using transport::test::rdma_hosts;

constexpr std::size_t kBytes = 100'000;  // longer than what goes with a message

void run(const std::string& command) {
  require(std::system(command.c_str()) == 0, command);
}

bool is_logged(const std::string& text) {
  return log_text.find(text) != std::string::npos;
}

std::vector<std::byte> pattern(unsigned seed) {
  std::mt19937_64 random(seed);
  return transport::test::random_data(random, kBytes);
}

class RmaByNics : public testing::Test {
 protected:
  void SetUp() override {
    if (rdma_hosts().size() != 2) GTEST_SKIP() << "TOMBOLO_TEST_RDMA names no NICs";
  }
  static void take_down(int side) { run("ip link set " + rdma_hosts().at(side).nics[0].name + " down"); }
  static void bring_up(int side) {
    run("ip link set " + rdma_hosts().at(side).nics[0].name +
        " up && bash -c '. \"$TOMBOLO_TEST_NETWORK\" && rail_again 0'");
  }
};

struct ByNics {
  int version;
  const char* operations;  // TOMBOLO_RMA
};

void PrintTo(const ByNics& setting, std::ostream* out) {
  *out << "v" << setting.version << ", " << setting.operations;
}

class RmaReplayByNics : public RmaByNics, public testing::WithParamInterface<ByNics> {};

TEST_P(RmaReplayByNics, EveryByteAndSignalIsWhereItBelongs) {
  const unsigned seed = test_seed();
  const int ranks = 2 + static_cast<int>(seed % 3);
  in_child({{"TOMBOLO_RMA", GetParam().operations}, {"TOMBOLO_TRANSPORTS", "rdma"}}, [&] {
    run_ranks(ranks, [&](int rank, Bootstrap& bootstrap) {
      replay({GetParam().version, false, seed, 100}, rank, ranks, bootstrap);
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Tables, RmaReplayByNics,
                         testing::Values(ByNics{13, "auto"}, ByNics{14, "auto"}, ByNics{15, "auto"},
                                         ByNics{15, "messages"}));

TEST_F(RmaByNics, PutsAndGetsTakeNoCallsOfTheOtherRankButMessagesDo) {
  for (const bool by_nic : {true, false}) {
    const Variables environment{{"TOMBOLO_RMA", by_nic ? "auto" : "messages"},
                                {"TOMBOLO_TRANSPORTS", "rdma"}};
    in_child(environment, [&] {
      run_ranks(2, [&](int rank, Bootstrap& bootstrap) {
        Memory memory(2 * kBytes, false);
        auto plugin = make_rank(15, rank, 2, bootstrap);
        void* window = plugin->reg(memory.data(), memory.size(), false, 0);
        if (rank == 1) {
          // Until the other rank knows the window; then no calls between two barriers.
          while (bootstrap.finished < 1) plugin->progress();
          bootstrap.wait();
          bootstrap.wait();
          require(!by_nic || memory.read(0, kBytes) == pattern(2), "other bytes than a NIC put");
          while (bootstrap.finished < 2) plugin->progress();
          require(memory.read(0, kBytes) == pattern(2), "other bytes than were put");
        } else {
          void* request = nullptr;
          memory.write(0, pattern(1));
          succeed(plugin->put(0, window, kBytes, 0, window, 1, &request), "put");
          succeed(plugin->finish(request), "the first put");
          ++bootstrap.finished;
          bootstrap.wait();
          memory.write(0, pattern(2));
          succeed(plugin->put(0, window, kBytes, 0, window, 1, &request), "put");
          if (by_nic) {
            succeed(plugin->finish(request), "a put to a rank that makes no calls");
            succeed(plugin->get(0, window, kBytes, kBytes, window, 1, &request), "get");
            succeed(plugin->finish(request), "a get from a rank that makes no calls");
            require(memory.read(kBytes, kBytes) == pattern(2), "a get brought other bytes");
          } else {
            for (int i = 0; i < 1000; ++i) {
              bool done = false;
              succeed(plugin->test(request, done), "test");
              require(!done, "a message was answered by a rank that makes no calls");
            }
          }
          bootstrap.wait();
          if (!by_nic) succeed(plugin->finish(request), "a put to a rank that makes calls again");
          ++bootstrap.finished;
        }
        bootstrap.wait();
        plugin->dereg(window);
      });
    });
  }
}

TEST_F(RmaByNics, NothingIsLostWhereTheNicOfEitherRankGoesDown) {
  const unsigned seed = test_seed();
  for (const int side : {0, 1}) {
    for (const char* operations : {"auto", "messages"}) {
      in_child({{"TOMBOLO_RMA", operations}, {"TOMBOLO_TRANSPORTS", ""}}, [&] {
        run_ranks(2, [&](int rank, Bootstrap& bootstrap) {
          constexpr int kSteps = 100;
          const auto fault = [&](int at, int step) {
            if (at == 0 && step == kSteps / 3) take_down(side);
          };
          replay({15, false, seed, kSteps, fault}, rank, 2, bootstrap);
          require(is_logged("queue pair(s) for payload"), "no connection was RDMA");
          require(rank != 0 || is_logged("goes on over tcp"), "nothing left the NICs");
        });
      });
      bring_up(side);
    }
  }
}

TEST_F(RmaByNics, WithoutAnotherWayAnOperationFailsAndNamesItselfAndTheNic) {
  const Variables environment{
      {"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", ""}, {"TOMBOLO_FAILOVER", "off"}};
  in_child(environment, [] {
    run_ranks(2, [](int rank, Bootstrap& bootstrap) {
      Memory memory(kBytes, false);
      auto plugin = make_rank(15, rank, 2, bootstrap);
      void* window = plugin->reg(memory.data(), memory.size(), false, 0);
      if (rank == 0) {
        for (int i = 0;; ++i) {
          if (i == 20) take_down(0);
          void* request = nullptr;
          const abi::ncclResult_t posted = plugin->put(0, window, kBytes, 0, window, 1, &request);
          const abi::ncclResult_t result = posted == abi::ncclSuccess ? plugin->finish(request) : posted;
          require(result == abi::ncclSuccess || (i >= 20 && result == abi::ncclRemoteError),
                  "another result");
          if (result != abi::ncclSuccess) break;
        }
        require(is_logged(fmt::format("put of {} bytes to rank 1, window 0 at offset 0: ", kBytes)),
                "the operation");
        require(is_logged(rdma_hosts()[0].nics[0].rdma_device) && is_logged("went down"), "the NIC");
        require(plugin->failed(), "no error is told of");
      }
      for (++bootstrap.finished; bootstrap.finished < 2;) plugin->progress();
      plugin->dereg(window);
    });
  });
  bring_up(0);
}

TEST_F(RmaByNics, AWindowThatTheOtherRankHasDeregisteredIsOutOfReach) {
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "rdma"}}, [] {
    run_ranks(2, [](int rank, Bootstrap& bootstrap) {
      Memory memory(kBytes, false);
      auto plugin = make_rank(15, rank, 2, bootstrap);
      void* window = plugin->reg(memory.data(), memory.size(), false, 0);
      void* request = nullptr;
      if (rank == 0) {
        memory.write(0, pattern(1));
        succeed(plugin->put(0, window, kBytes, 0, window, 1, &request), "put");
        succeed(plugin->finish(request), "a put into the window");
        ++bootstrap.finished;
        bootstrap.wait();
        memory.write(0, pattern(2));
        succeed(plugin->put(0, window, kBytes, 0, window, 1, &request), "put");
        require(plugin->finish(request) == abi::ncclRemoteError, "a put into the deregistered window");
        require(is_logged(fmt::format("put of {} bytes to rank 1, window 0 at offset 0: ", kBytes)),
                "the line");
      } else {
        while (bootstrap.finished < 1) plugin->progress();
        plugin->dereg(window);
        bootstrap.wait();
      }
      for (++bootstrap.finished; bootstrap.finished < 3;) plugin->progress();
      if (rank == 1) require(memory.read(0, kBytes) == pattern(1), "the memory was written to");
      if (rank == 0) plugin->dereg(window);
    });
  });
}

}  // namespace
}  // namespace tombolo::tests
