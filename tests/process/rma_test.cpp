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
#include "topology/testing/pretended_cuda.h"

namespace tombolo::tests {
namespace {

/// What one rank does, which every other rank can work out too.
struct Step {
  enum class Kind { kPut, kPutSignal, kSignal, kGet, kFlush } kind;
  std::uint32_t rank;  // the other one
  std::size_t size, from, to;
  std::uint64_t value;
  bool increments;
};

constexpr std::size_t kRegion = 512 * 1024;  // of each rank in every rank's window

std::vector<Step> plan_of(unsigned seed, int rank, int ranks, int steps) {
  std::mt19937 random(seed * 31 + static_cast<unsigned>(rank));
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  std::vector<Step> plan;
  for (int i = 0; i < steps; ++i) {
    Step step{};
    step.kind = static_cast<Step::Kind>(below(5));
    step.rank = static_cast<std::uint32_t>(below(static_cast<std::size_t>(ranks)));
    constexpr std::array<std::size_t, 6> kLimits{9, 4098, 4098, 20'000, 140'000, 400'000};
    step.size = below(kLimits[below(kLimits.size())]);
    step.from = below(kRegion - step.size);
    step.to = below(kRegion - step.size);
    step.value = below(1000);
    step.increments = below(2) == 0;
    plan.push_back(step);
  }
  return plan;
}

std::vector<std::byte> source_of(unsigned seed, int rank) {
  std::mt19937_64 random(seed + 77U * static_cast<unsigned>(rank));
  std::vector<std::byte> bytes(kRegion);
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(&bytes[i], &word, 8);
  }
  return bytes;
}

struct Setting {
  int version;
  const char* transports;
  bool on_gpu;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << "v" << setting.version << " over " << setting.transports << (setting.on_gpu ? " on a GPU" : "");
}

/// The windows' words: one for each rank, which counts its signalled puts, and one to which all add.
void replay(const Setting& setting, unsigned seed, int rank, int ranks, Bootstrap& bootstrap) {
  if (setting.on_gpu) PretendedCuda::instance().reset({.seed = seed});
  const auto all = static_cast<std::size_t>(ranks);
  {
    Memory signals(8 * (all + 1), setting.on_gpu), data(all * kRegion, setting.on_gpu);
    Memory stamps(8 * all, setting.on_gpu), source(kRegion, setting.on_gpu), got(kRegion, setting.on_gpu);
    Memory numbers(8 * 4096, false);  // what is put as a stamp: its own number
    source.write(0, source_of(seed, rank));
    for (std::uint64_t i = 0; i < 4096; ++i) {
      std::vector<std::byte> word(8);
      std::memcpy(word.data(), &i, 8);
      numbers.write(8 * i, word);
    }
    auto plugin = make_rank(setting.version, rank, ranks, bootstrap);
    // Ranks are not at the same point when the first operations arrive.
    if (rank % 2 == 1) ::usleep(20'000);
    void* signal_window =
        plugin->reg(signals.data(), signals.size(), setting.on_gpu,
                    abi::NCCL_NET_MR_FLAG_FORCE_SO | abi::NCCL_NET_MR_FLAG_SIGNAL_NEVER_RESET);
    void* stamp_window = plugin->reg(stamps.data(), stamps.size(), setting.on_gpu, 0);
    void* source_window = plugin->reg(source.data(), source.size(), setting.on_gpu, 0);
    void* number_window = plugin->reg(numbers.data(), numbers.size(), false, 0);
    void* got_window = plugin->reg(got.data(), got.size(), setting.on_gpu, 0);
    void* data_window = plugin->reg(data.data(), data.size(), setting.on_gpu, 0);

    if (setting.on_gpu) PretendedCuda::instance().forbid_making(true);

    struct UnderWay {
      void* request;
      Step step;
    };
    std::vector<UnderWay> under_way;
    std::vector<std::size_t> per_rank(all);
    std::vector<std::uint64_t> stamped(all);
    std::mt19937 random(seed + static_cast<unsigned>(rank));
    const auto place = static_cast<std::uint64_t>(rank) * kRegion;
    const auto me = static_cast<std::uint64_t>(rank);
    bool getting = false;

    // A signal that is seen follows the puts before it: the stamp of that number, or a later one, is there.
    const auto look = [&] {
      for (std::size_t other = 0; other < all; ++other) {
        const std::uint64_t count = signals.word(other), stamp = stamps.word(other);
        require(stamp >= count,
                fmt::format("rank {} sees signal {} of rank {} but stamp {}", rank, count, other, stamp));
      }
    };
    const auto end_one = [&](std::size_t at) {
      bool done = false;
      succeed(plugin->test(under_way[at].request, done), "test");
      if (!done) return;
      const Step step = under_way[at].step;
      if (step.kind == Step::Kind::kGet) {
        getting = false;
        const auto there = source_of(seed, static_cast<int>(step.rank));
        const std::vector<std::byte> wanted(
            there.begin() + static_cast<std::ptrdiff_t>(step.from),
            there.begin() + static_cast<std::ptrdiff_t>(step.from + step.size));
        require(got.read(step.to, step.size) == wanted, "a get brought other bytes");
      }
      --per_rank[step.rank];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(at));
    };
    const auto posted = [&](abi::ncclResult_t result, void* const& request, const Step& step) {
      succeed(result, "post");
      require(request != nullptr, "a null request");
      under_way.push_back({request, step});
      ++per_rank[step.rank];
    };
    for (const Step& step : plan_of(seed, rank, ranks, kSanitized ? 60 : 200)) {
      while (per_rank[step.rank] + 2 > 256 || (getting && step.kind == Step::Kind::kGet) ||
             random() % 3 == 0) {
        if (under_way.empty()) break;
        end_one(random() % under_way.size());
        look();
      }
      void* request = nullptr;
      switch (step.kind) {
        case Step::Kind::kPut:
          posted(plugin->put(step.from, source_window, step.size, place + step.to, data_window, step.rank,
                             &request),
                 request, step);
          break;
        case Step::Kind::kPutSignal: {  // a stamp, then bytes with the signal that counts it
          const std::uint64_t number = ++stamped[step.rank];
          posted(plugin->put(8 * number, number_window, 8, 8 * me, stamp_window, step.rank, &request),
                 request, step);
          posted(
              plugin->put_signal(step.from, source_window, step.size, place + step.to, data_window, step.rank,
                                 8 * me, signal_window, 5, abi::NCCL_NET_SIGNAL_OP_INC, &request),
              request, step);
          break;
        }
        case Step::Kind::kSignal:
          posted(plugin->put_signal(
                     0, nullptr, 0, 0, nullptr, step.rank, 8 * all, signal_window, step.value,
                     step.increments ? abi::NCCL_NET_SIGNAL_OP_INC : abi::NCCL_NET_SIGNAL_OP_ADD, &request),
                 request, step);
          break;
        case Step::Kind::kGet:
          posted(plugin->get(step.from, source_window, step.size, step.to, got_window, step.rank, &request),
                 request, step);
          getting = true;
          break;
        case Step::Kind::kFlush:
          posted(plugin->flush(data_window, step.rank, &request), request, step);
          break;
      }
    }
    const Deadline deadline = Deadline::after(kPatience);
    while (!under_way.empty()) {
      end_one(random() % under_way.size());
      require(!deadline.passed(), "operations do not end");
    }
    for (++bootstrap.finished; bootstrap.finished < ranks;) {
      plugin->progress();
      look();
      require(!deadline.passed(), "the other ranks do not end");
    }
    require(!plugin->failed(), "an error is told of");

    std::uint64_t sum = 0;
    std::vector<std::uint64_t> counts(all);
    for (int other = 0; other < ranks; ++other) {
      std::vector<std::byte> wanted(kRegion);
      const std::vector<std::byte> there = source_of(seed, other);
      for (const Step& step : plan_of(seed, other, ranks, kSanitized ? 60 : 200)) {
        if (step.rank != static_cast<std::uint32_t>(rank)) continue;
        if (step.kind == Step::Kind::kSignal) sum += step.increments ? 1 : step.value;
        if (step.kind == Step::Kind::kPutSignal) ++counts[static_cast<std::size_t>(other)];
        if (step.kind == Step::Kind::kPut || step.kind == Step::Kind::kPutSignal)
          std::memcpy(&wanted[step.to], &there[step.from], step.size);
      }
      require(data.read(static_cast<std::size_t>(other) * kRegion, kRegion) == wanted,
              fmt::format("rank {} has other bytes of rank {} than were put", rank, other));
      require(signals.word(static_cast<std::size_t>(other)) == counts[static_cast<std::size_t>(other)],
              "a count");
    }
    require(signals.word(all) == sum, fmt::format("the sum is {} instead of {}", signals.word(all), sum));
    for (void* window : {data_window, got_window, number_window, source_window, stamp_window, signal_window})
      plugin->dereg(window);
  }
  if (setting.on_gpu) {
    PretendedCuda::instance().check_thread();
    for (const std::string& breach : PretendedCuda::instance().breaches()) require(false, breach);
  }
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
    run_ranks(ranks,
              [&](int rank, Bootstrap& bootstrap) { replay(GetParam(), seed, rank, ranks, bootstrap); });
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
