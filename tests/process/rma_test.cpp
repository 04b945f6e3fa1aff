// One-sided operations through the tables that NCCL looks up, in the order of NCCL 2.30's calls: ranks as
// processes, which put, get and raise signals at random, and compare every byte with what the plan says. The
// program is linked with a pretended CUDA driver, so that windows may lie in GPU memory.
#include "net_plugin/abi/rma.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <new>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/format.h"
#include "base/randomized_test.h"
#include "net_plugin/abi/net.h"
#include "tests/process/in_child.h"
#include "tests/process/plugin_library.h"
#include "tests/process/rma_ranks.h"
#include "tests/process/rma_replay.h"
#include "topology/testing/pretended_cuda.h"

namespace tombolo::tests {
namespace {

struct Setting {
  int version;
  const char* transports;
  bool on_gpu;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << "v" << setting.version << " over " << setting.transports << (setting.on_gpu ? " on a GPU" : "");
}

class RmaReplay : public testing::TestWithParam<Setting> {
 protected:
  static std::map<std::string, std::string> environment() {
    return {{"TOMBOLO_RMA", "auto"},
            {"TOMBOLO_TRANSPORTS", GetParam().transports},
            {"TOMBOLO_NET_GPU", GetParam().on_gpu ? "staged" : "off"}};
  }
};

TEST_P(RmaReplay, EveryByteAndSignalIsWhereItBelongs) {
  const unsigned seed = test_seed();
  std::mt19937 random(seed);
  const int most = kSanitized || GetParam().on_gpu ? 3 : 8;
  const int ranks = 2 + static_cast<int>(random() % static_cast<unsigned>(most - 1));
  in_child(environment(), [&] {
    run_ranks(ranks, [&](int rank, Bootstrap& bootstrap) {
      replay({GetParam().version, GetParam().on_gpu, seed}, rank, ranks, bootstrap);
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Tables, RmaReplay,
                         testing::Values(Setting{13, "tcp", false}, Setting{14, "tcp", false},
                                         Setting{14, "shm,tcp", false}, Setting{15, "tcp", false},
                                         Setting{15, "shm,tcp", false}, Setting{14, "tcp", true},
                                         Setting{15, "shm,tcp", true}));

TEST(Rma, OffersNothingUnlessAskedFor) {
  in_child({{"TOMBOLO_RMA", ""}}, [] {
    const auto expect_nothing = [](auto& table) {
      void* context = &table;
      int devices = -1;
      EXPECT_EQ(table.init(&context, 1, keep_line), abi::ncclSuccess);
      EXPECT_EQ(context, nullptr);
      EXPECT_EQ(table.devices(&devices), abi::ncclSuccess);
      EXPECT_EQ(devices, 0);
    };
    expect_nothing(table_of<abi::ncclRma_v13_t>("ncclRmaPlugin_v13"));
    expect_nothing(table_of<abi::ncclRma_v14_t>("ncclRmaPlugin_v14"));
    expect_nothing(table_of<abi::ncclRma_v15_t>("ncclRmaPlugin_v15"));
    EXPECT_EQ(log_text, "");
  });
}

TEST(Rma, WhatLiesOutsideAWindowIsRefused) {
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "tcp"}}, [] {
    run_ranks(2, [](int rank, Bootstrap& bootstrap) {
      Memory memory(1 << 16, false), signals(64, false);
      auto plugin = make_rank(15, rank, 2, bootstrap);
      void* window = plugin->reg(memory.data(), rank == 0 ? 65536 : 8192, false, 0);
      void* signal = plugin->reg(signals.data(), 64, false, 0);
      void* request = nullptr;
      if (rank == 0) {
        // What is wrong on this rank is refused here, and harms nothing.
        require(plugin->put(65536, window, 1, 0, window, 1, &request) == abi::ncclInvalidUsage,
                "beyond the end");
        require(plugin->put(0, window, 1, 0, window, 2, &request) == abi::ncclInvalidUsage, "no such rank");
        require(plugin->put(0, nullptr, 1, 0, window, 1, &request) == abi::ncclInvalidUsage, "no window");
        require(plugin->put_signal(0, window, 1, 0, window, 1, 0, signal, 1, 3, &request) ==
                    abi::ncclInvalidUsage,
                "no such signal operation");
        require(request == nullptr && !plugin->failed(), "an error remains");
        succeed(plugin->put(0, window, 8192, 0, window, 1, &request), "put");
        succeed(plugin->finish(request), "a put that fits");
        // What is wrong there is refused there: the connection has failed.
        succeed(plugin->put(0, window, 8192, 1, window, 1, &request), "put");
        require(plugin->finish(request) == abi::ncclRemoteError, "one byte beyond the other rank's window");
        require(log_text.find(
                    "put of 8192 bytes to rank 1, window 0 at offset 1: rank 1 refused: the range is not "
                    "inside its window of 8192 bytes") != std::string::npos,
                "the line");
        require(plugin->failed(), "no error is told of");
        require(plugin->put(0, window, 1, 0, window, 1, &request) == abi::ncclRemoteError, "after a failure");
        // A signal of this rank's own that is not aligned.
        succeed(plugin->put_signal(0, nullptr, 0, 0, nullptr, 0, 4, signal, 1, 2, &request), "putSignal");
        require(plugin->finish(request) == abi::ncclRemoteError, "a signal that is not aligned");
      }
      for (++bootstrap.finished; bootstrap.finished < 2;) plugin->progress();
      require(memory.word(0) == 0, "bytes that nobody put");
    });
  });
}

TEST(Rma, AnOperationOnARankThatDiesFails) {
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "tcp"}}, [] {
    const auto body = [](int rank, Bootstrap& bootstrap) {
      Memory memory(1 << 20, false);
      auto plugin = make_rank(14, rank, 2, bootstrap);
      void* window = plugin->reg(memory.data(), memory.size(), false, 0);
      if (rank == 1) {
        while (memory.word(0) == 0) plugin->progress();
        ::kill(::getpid(), SIGKILL);
      }
      const std::vector<std::byte> ones(memory.size(), std::byte{1});
      memory.write(0, ones);
      for (const Deadline deadline = Deadline::after(kPatience);;) {
        void* request = nullptr;
        const abi::ncclResult_t posted = plugin->put(0, window, memory.size(), 0, window, 1, &request);
        if (posted != abi::ncclSuccess || plugin->finish(request) != abi::ncclSuccess) break;
        require(!deadline.passed(), "nothing fails");
      }
      require(plugin->failed(), "no error is told of");
      plugin->dereg(window);
    };
    run_ranks(2, body, 1);
  });
}

TEST(Rma, MemoryMayBeDeregisteredUnderAnOperation) {
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "tcp"}}, [] {
    run_ranks(2, [](int rank, Bootstrap& bootstrap) {
      auto plugin = make_rank(14, rank, 2, bootstrap);
      auto memory = std::make_unique<Memory>(16 << 20, false);
      void* window = plugin->reg(memory->data(), memory->size(), false, 0);
      if (rank == 0) {
        void* request = nullptr;
        succeed(plugin->put(0, window, memory->size(), 0, window, 1, &request), "put");
        for (int i = 0; i < 1000; ++i) {
          bool done = false;
          succeed(plugin->test(request, done), "test");
          require(!done, "the other rank makes no calls");
        }
        plugin->dereg(window);
        memory.reset();
        require(plugin->finish(request) != abi::ncclSuccess, "the operation did not fail");
      }
      bootstrap.wait();
    });
  });
}

TEST(Rma, DeregisteringWaitsForTheCopiesOfTheGpu) {
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "tcp"}, {"TOMBOLO_NET_GPU", "staged"}}, [] {
    run_ranks(2, [](int rank, Bootstrap& bootstrap) {
      PretendedCuda::instance().reset({.pace = topology::test::PretendedPace::kLate});
      auto plugin = make_rank(14, rank, 2, bootstrap);
      for (const std::size_t size : {std::size_t{64}, std::size_t{100'000}}) {
        auto memory = std::make_unique<Memory>(size, true);
        void* window = plugin->reg(memory->data(), size, true, 0);
        void* request = nullptr;
        // To itself, since a connection that has failed takes no more: one for each size.
        const auto to = static_cast<std::uint32_t>(size == 64 ? rank : 1 - rank);
        succeed(plugin->put(0, window, size, 0, window, to, &request), "put");
        for (int i = 0; i < 10; ++i) plugin->progress();
        plugin->dereg(window);
        memory.reset();
        bool done = false;
        require(plugin->test(request, done) != abi::ncclSuccess, "the operation did not fail");
        bootstrap.wait();
      }
      plugin.reset();
      for (const std::string& breach : PretendedCuda::instance().breaches()) require(false, breach);
    });
  });
}

TEST(Rma, WindowsComeAndGoBesideOperations) {
  constexpr int kRanks = 3, kPuts = 200, kWindows = 50;
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "shm,tcp"}}, [] {
    run_ranks(kRanks, [](int rank, Bootstrap& bootstrap) {
      Memory memory(1 << 16, false), signals(8, false), others(1 << 16, false);
      auto plugin = make_rank(15, rank, kRanks, bootstrap);
      void* window = plugin->reg(memory.data(), memory.size(), false, 0);
      void* signal = plugin->reg(signals.data(), signals.size(), false, 0);
      // NCCL's progress thread, beside the one in which its user registers windows.
      std::string wrong;
      std::thread progress([&] {
        try {
          for (std::uint64_t i = 0; i < kPuts; ++i) {
            void* request = nullptr;
            succeed(plugin->put_signal(0, window, 1 + (i * 997) % 30'000, 32'768, window,
                                       static_cast<std::uint32_t>((rank + 1) % kRanks), 0, signal, 1,
                                       abi::NCCL_NET_SIGNAL_OP_INC, &request),
                    "putSignal");
            succeed(plugin->finish(request), "test");
          }
          for (++bootstrap.finished; bootstrap.finished < kRanks;) plugin->progress();
        } catch (const std::exception& error) {
          wrong = error.what();
        }
      });
      for (int i = 0; i < kWindows; ++i) {
        void* another = plugin->reg(others.data(), others.size(), false, 0);
        plugin->dereg(another);
      }
      progress.join();
      require(wrong.empty(), wrong);
      require(signals.word(0) == kPuts, "the signals");
      plugin->dereg(signal);
      plugin->dereg(window);
    });
  });
}

}  // namespace
}  // namespace tombolo::tests
