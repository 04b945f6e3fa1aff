#include "collectives/engine/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/randomized_test.h"
#include "base/sanitizer.h"
#include "collectives/testing/elements.h"
#include "collectives/testing/test_support.h"
#include "compute/cores.h"

namespace tombolo::collectives {
namespace {

using namespace test;

/// Values that the type holds exactly, and whose sum and product over 8 ranks it does too (int8 and float16
/// up to 112, 8-bit floats up to 8).
double value_at(std::size_t index, DataType type, int rank, ReduceOp op, std::uint32_t seed) {
  const bool float8 = type == DataType::kFloat8E4m3 || type == DataType::kFloat8E5m2;
  const auto mixed =
      static_cast<std::uint32_t>(index * 2654435761U) ^ (static_cast<std::uint32_t>(rank) * 40503U) ^ seed;
  return op == ReduceOp::kProduct ? 1 + (mixed >> 7) % 2 * ((mixed >> 9) % 16 == 0 ? 1 : 0)
                                  : (mixed >> 7) % (float8 ? 2 : 15);
}

Bytes filled(std::size_t count, DataType type, int rank, ReduceOp op, std::uint32_t seed) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i)
    put(bytes.data() + i * size_of(type), type, value_at(i, type, rank, op, seed));
  return bytes;
}

/// The reduction in exact numbers, rounded once. Sums and products are exact (value_at()); an average is one
/// division.
Bytes reduced(std::size_t count, DataType type, int ranks, ReduceOp op, std::uint32_t seed) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    double value = value_at(i, type, 0, op, seed);
    for (int rank = 1; rank < ranks; ++rank) {
      const double other = value_at(i, type, rank, op, seed);
      value = op == ReduceOp::kProduct ? value * other
              : op == ReduceOp::kMin   ? std::min(value, other)
              : op == ReduceOp::kMax   ? std::max(value, other)
                                       : value + other;
    }
    if (op == ReduceOp::kAverage) {
      value /= ranks;
      if (type != DataType::kFloat64) value = static_cast<float>(value);
    }
    put(bytes.data() + i * size_of(type), type, value);
  }
  return bytes;
}

void check_collectives(Communicator& all, DataType type, ReduceOp op, std::size_t count, std::uint32_t seed) {
  const int n = all.size(), me = all.rank();
  const auto ranks = static_cast<std::size_t>(n);
  const std::size_t block = count * size_of(type);
  const Bytes own = filled(count, type, me, op, seed);
  const Bytes expected = reduced(count, type, n, op, seed);
  const auto begin = [&](Bytes& bytes) { return bytes.data(); };

  Bytes result(block, std::byte{0xcc});
  all.all_reduce(own.data(), result.data(), count, type, op);
  ASSERT_EQ(result, expected) << "all_reduce by " << all.last_algorithm();
  result = own;
  all.all_reduce(result.data(), result.data(), count, type, op);
  ASSERT_EQ(result, expected) << "all_reduce in place by " << all.last_algorithm();

  const int root = static_cast<int>((count + seed) % ranks);
  result.assign(block, std::byte{0xcc});
  all.reduce(own.data(), me == root ? result.data() : nullptr, count, type, op, root);
  if (me == root) {
    ASSERT_EQ(result, expected) << "reduce";
  }
  result = own;
  all.broadcast(me == root ? own.data() : nullptr, result.data(), count, type, root);
  ASSERT_EQ(result, filled(count, type, root, op, seed)) << "broadcast";

  // Every rank's vector is ranks * count long; the part of rank r is its elements from r * count on.
  const Bytes wide = filled(ranks * count, type, me, op, seed);
  Bytes wide_expected = reduced(ranks * count, type, n, op, seed);
  const Bytes part(
      wide_expected.begin() + static_cast<std::ptrdiff_t>(block * static_cast<std::size_t>(me)),
      wide_expected.begin() + static_cast<std::ptrdiff_t>(block * static_cast<std::size_t>(me + 1)));
  result.assign(block, std::byte{0xcc});
  all.reduce_scatter(wide.data(), result.data(), count, type, op);
  ASSERT_EQ(result, part) << "reduce_scatter";
  Bytes wide_result = wide;
  all.reduce_scatter(wide_result.data(), begin(wide_result) + block * static_cast<std::size_t>(me), count,
                     type, op);
  ASSERT_EQ(0, block == 0 ? 0
                          : std::memcmp(wide_result.data() + block * static_cast<std::size_t>(me),
                                        part.data(), block))
      << "reduce_scatter in place";

  Bytes gathered;
  for (int rank = 0; rank < n; ++rank) {
    const Bytes theirs = filled(count, type, rank, op, seed);
    gathered.insert(gathered.end(), theirs.begin(), theirs.end());
  }
  wide_result.assign(block * ranks, std::byte{0xcc});
  all.all_gather(own.data(), wide_result.data(), count, type);
  ASSERT_EQ(wide_result, gathered) << "all_gather";
  wide_result.assign(block * ranks, std::byte{0xcc});
  std::copy(own.begin(), own.end(),
            wide_result.begin() + static_cast<std::ptrdiff_t>(block * static_cast<std::size_t>(me)));
  all.all_gather(begin(wide_result) + block * static_cast<std::size_t>(me), wide_result.data(), count, type);
  ASSERT_EQ(wide_result, gathered) << "all_gather in place";

  const auto own_part = static_cast<std::ptrdiff_t>(block * static_cast<std::size_t>(me));
  for (const bool in_place : {false, true}) {
    wide_result.assign(block * ranks, std::byte{0xcc});
    const bool here = in_place && me == root;
    if (here) std::copy(own.begin(), own.end(), wide_result.begin() + own_part);
    all.gather(here ? wide_result.data() + own_part : own.data(), me == root ? wide_result.data() : nullptr,
               count, type, root);
    ASSERT_EQ(wide_result, me == root ? gathered : Bytes(block * ranks, std::byte{0xcc})) << "gather";
    wide_result = wide;
    Bytes received(block, std::byte{0xcc});
    all.scatter(me == root ? wide_result.data() : nullptr,
                here ? wide_result.data() + own_part : received.data(), count, type, root);
    if (here) {
      ASSERT_EQ(wide_result, wide) << "scatter in place";
      continue;
    }
    const Bytes whole = filled(ranks * count, type, root, op, seed);
    ASSERT_EQ(received,
              Bytes(whole.begin() + own_part, whole.begin() + own_part + static_cast<std::ptrdiff_t>(block)))
        << "scatter";
  }

  wide_result.assign(block * ranks, std::byte{0xcc});
  all.all_to_all(wide.data(), wide_result.data(), count, type);
  for (int rank = 0; rank < n && block > 0; ++rank) {
    const Bytes theirs = filled(ranks * count, type, rank, op, seed);
    ASSERT_EQ(0, std::memcmp(wide_result.data() + block * static_cast<std::size_t>(rank),
                             theirs.data() + block * static_cast<std::size_t>(me), block))
        << "all_to_all";
  }
  all.barrier();
}

class Everywhere : public testing::TestWithParam<const char*> {};

TEST_P(Everywhere, EveryCollectiveIsRightForEveryTypeAndOperator) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::uint32_t named = 0;
  for (const char* algorithm :
       {"auto", "ring", "two-level", "doubling", "relayed", "direct", "tree", "chain"}) {
    SCOPED_TRACE(algorithm);
    // A sanitizer sees each algorithm's code elsewhere: here it gets one of the names.
    if (kSanitized && algorithm != kAutomatic && named++ % 7 != seed % 7) continue;
    expect_fine(run_ranks(
        GetParam(),
        [&](Communicator& all) {
          for (const DataType type : kAllTypes) {
            for (const ReduceOp op : kAllOps) {
              // Types and operators do not meet each other elsewhere: a sanitizer sees each of them once.
              if (kSanitized && type != DataType::kFloat32 && op != ReduceOp::kSum) continue;
              // Nor types and algorithms: each named one takes some of them, others with another seed.
              if (algorithm != kAutomatic &&
                  (static_cast<std::uint32_t>(type) + seed) % (kSanitized ? 6 : 3) != 0)
                continue;
              for (const std::size_t count : {0UL, 1UL, 7UL, 300UL}) {
                SCOPED_TRACE(std::string(data_type_name(type)) + " " + std::string(reduce_op_name(op)) +
                             " count " + std::to_string(count) + " rank " + std::to_string(all.rank()) +
                             " seed " + std::to_string(seed));
                check_collectives(all, type, op, count, seed);
                if (testing::Test::HasFailure()) return all.abort("the test failed");
              }
            }
          }
        },
        [&](Options& options) {
          options.algorithm = algorithm;
          options.tuning.segment_bytes = 64 + seed % 512;  // several pieces already for small vectors
          options.tuning.small_bytes = 100 + seed % 1000;
        }));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Communicator, Everywhere,
                         testing::Values("A", "AA", "AB", "AAA", "ABAB", "AABBB", "ABCABC", "AAAAAAA",
                                         "ABABABAB", "ABCABCABC"));

/// All ranks on one host, as processes that the router takes to shared memory.
void on_one_host(Options& options) {
  options.router.host.name = "host0";
}

TEST(Communicator, GoesThroughMemoryWhereAllRanksAreOnOneHost) {
  for (const char* clusters : {"AA", "AAA", "AABBA"}) {
    expect_fine(run_ranks(
        clusters,
        [](Communicator& all) {
          const std::size_t ranks = static_cast<std::size_t>(all.size());
          const std::vector<compute::ProcessorSet> threads(ranks, compute::own_processors());
          const std::size_t limit =
              compute::has_processor_for_each(threads) ? Tuning().host_bytes : kHostBytesOnSharedProcessors;
          for (const std::size_t count :
               {std::size_t{1}, std::size_t{300}, std::size_t{70'000}, std::size_t{2'000'000}}) {
            for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
              auto values = filled(count, DataType::kFloat32, all.rank(), op, 5);
              Bytes result(values.size());
              all.all_reduce(values.data(), result.data(), count, DataType::kFloat32, op);
              ASSERT_EQ(result, reduced(count, DataType::kFloat32, all.size(), op, 5));
              ASSERT_EQ(all.last_algorithm() == "host", values.size() <= limit);
            }
          }
          std::vector<std::int64_t> parts(ranks);
          const std::int64_t own = all.rank();
          all.all_gather(&own, parts.data(), 1, DataType::kInt64);
          for (std::size_t i = 0; i < ranks; ++i) ASSERT_EQ(parts[i], static_cast<std::int64_t>(i));
          std::vector<std::int64_t> large(700'000, all.rank());  // what only copies has no limit
          ASSERT_GT(large.size() * sizeof(large.front()), Tuning().host_bytes);
          all.broadcast(large.data(), large.data(), large.size(), DataType::kInt64, 1);
          ASSERT_EQ(large, std::vector<std::int64_t>(large.size(), 1));
          ASSERT_EQ(all.last_algorithm(), "host");
          all.barrier();
          const auto part = all.split(all.rank() % 2, 0);
          std::int32_t one = 1;
          part->all_reduce(&one, &one, 1, DataType::kInt32, ReduceOp::kSum);
          ASSERT_EQ(one, part->size());
        },
        on_one_host));
  }
}

/// Calls that all ranks draw alike: half of them as the one before, the others changed in one argument.
class DrawnCalls {
 public:
  explicit DrawnCalls(unsigned seed) : random_(seed) {}

  void draw(int ranks) {
    const auto below = [&](int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); };
    switch (below(12)) {
      case 0:
        collective =
            std::array{Collective::kAllReduce, Collective::kReduce, Collective::kAllGather,
                       Collective::kBroadcast, Collective::kBarrier}[static_cast<std::size_t>(below(5))];
        break;
      case 1:
        type = below(2) == 0 ? DataType::kInt32 : DataType::kFloat32;
        break;
      case 2:
        op = std::array{ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}[static_cast<std::size_t>(below(3))];
        break;
      case 3:
        count = static_cast<std::size_t>(std::array{1, 7, 600, 40'000}[static_cast<std::size_t>(below(4))]);
        break;
      case 4:
        root = below(ranks);
        break;
      case 5:
        doubled_by = below(2) == 0 ? -1 : below(ranks);
        break;
      default:
        break;
    }
    started = below(8) == 0;
    wrong = below(8) == 0;
  }

  /// Makes the call, and compares what it gives.
  void make(Communicator& all, std::uint32_t seed) const {
    const int me = all.rank();
    const auto ranks = static_cast<std::size_t>(all.size());
    const bool doubles = is_reduction(collective) && op == ReduceOp::kSum && doubled_by >= 0;
    const std::size_t block = count * size_of(type);
    Bytes in = filled(count, type, me, op, seed), out(block * ranks, std::byte{0x55});
    Bytes expected = out;
    CollectiveCall call{collective, in.data(), out.data(), count, type, op, root};
    if (wrong && collective != Collective::kBarrier) {
      CollectiveCall overlapping = call;
      overlapping.send = out.data() + 1;
      if (collective != Collective::kReduce || me == root) {
        if (collective != Collective::kBroadcast || me == root) {
          EXPECT_THROW(all.run(overlapping), Error);
        }
      }
    }
    if (doubles && me == doubled_by) {
      Bytes two(size_of(type));
      put(two.data(), type, 2);
      call.factor = Factor::at(two.data(), type);
    }
    if (started) {
      all.wait(all.start(call));
    } else {
      all.run(call);
    }
    const bool gets = me == root || collective != Collective::kReduce;
    switch (collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        if (!gets) return;
        for (std::size_t i = 0; i < count; ++i) {
          double value = op == ReduceOp::kSum ? 0 : value_at(i, type, 0, op, seed);
          for (int rank = 0; rank < all.size(); ++rank) {
            const double other = value_at(i, type, rank, op, seed);
            value = op == ReduceOp::kMin   ? std::min(value, other)
                    : op == ReduceOp::kMax ? std::max(value, other)
                                           : value + other * (doubles && rank == doubled_by ? 2 : 1);
          }
          put(expected.data() + i * size_of(type), type, value);
        }
        break;
      case Collective::kAllGather:
        for (std::size_t rank = 0; rank < ranks; ++rank)
          std::ranges::copy(filled(count, type, static_cast<int>(rank), op, seed),
                            expected.begin() + static_cast<std::ptrdiff_t>(rank * block));
        break;
      case Collective::kBroadcast:
        std::ranges::copy(filled(count, type, root, op, seed), expected.begin());
        break;
      default:
        break;
    }
    ASSERT_EQ(out, expected) << collective_name(collective) << " of " << count;
  }

 private:
  std::mt19937 random_;
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kInt32;
  ReduceOp op = ReduceOp::kSum;
  std::size_t count = 7;
  int root = 0;
  int doubled_by = -1;  // the rank whose values are multiplied in sums; -1: none
  bool started = false, wrong = false;
};

TEST(Communicator, ACallThatDiffersFromTheLastInOneArgumentIsThatCall) {
  const unsigned seed = test_seed();
  for (const char* clusters : {"AA", "AAA"}) {
    expect_fine(run_ranks(
        clusters,
        [&](Communicator& all) {
          DrawnCalls calls(seed);
          for (int call = 0; call < test_rounds(1500); ++call) {
            calls.draw(all.size());
            calls.make(all, seed + static_cast<unsigned>(call));
            if (testing::Test::HasFatalFailure()) return;
            ASSERT_EQ(all.last_algorithm(), "host");
          }
        },
        on_one_host));
  }
}

TEST(Communicator, DoesWithoutTheHostsMemoryWhereOneRankMayNotUseIt) {
  std::atomic<int> arrived{0};
  expect_fine(run_ranks(
      "AAA",
      [](Communicator& all) {
        std::int32_t one = 1;
        all.all_reduce(&one, &one, 1, DataType::kInt32, ReduceOp::kSum);
        ASSERT_EQ(one, 3);
        ASSERT_NE(all.last_algorithm(), "host");
      },
      [&](Options& options) {
        on_one_host(options);
        if (arrived.fetch_add(1) == 0) options.router.policy.transports = {"tcp"};
      }));
}

TEST(Communicator, SleepsInTheHostsMemoryUntilTheOthersCome) {
  expect_fine(run_ranks(
      "AAA",
      [](Communicator& all) {
        // Long enough for every other rank to fall asleep, each time another one.
        for (int round = 0; round < 9; ++round) {
          if (round % 3 == all.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
          std::int32_t sum = all.rank();
          all.all_reduce(&sum, &sum, 1, DataType::kInt32, ReduceOp::kSum);
          ASSERT_EQ(sum, 3);
        }
      },
      on_one_host));
}

TEST(Communicator, NamesARankOfTheHostThatLeavesOrMakesAnotherCall) {
  const auto left = run_ranks(
      "AAA",
      [](Communicator& all) {
        all.barrier();
        if (all.rank() == 1) return;
        std::int32_t one = 1;
        all.all_reduce(&one, &one, 1, DataType::kInt32, ReduceOp::kSum);
      },
      on_one_host);
  EXPECT_FALSE(left[1].threw) << left[1].text;
  for (const std::size_t rank : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_TRUE(left[rank].threw);
    EXPECT_EQ(left[rank].cause, Cause::kRemote);
    EXPECT_NE(left[rank].text.find("rank 1 on host host0 failed: it has left the communicator"),
              std::string::npos)
        << left[rank].text;
  }
  const auto other = run_ranks(
      "AA",
      [](Communicator& all) {
        std::int32_t values[2] = {};
        all.all_reduce(values, values, all.rank() == 0 ? 1 : 2, DataType::kInt32, ReduceOp::kSum);
      },
      on_one_host);
  for (const Outcome& outcome : other) {
    EXPECT_TRUE(outcome.threw);
    EXPECT_NE(outcome.text.find("it made another call"), std::string::npos) << outcome.text;
  }
}

TEST(Communicator, CarriesVectorsOfManySegments) {
  const std::size_t count = kSanitized ? 50'001 : 150'001;
  for (const char* clusters : {"AAA", "ABAB"}) {
    expect_fine(run_ranks(
        clusters,
        [&](Communicator& all) {
          check_collectives(all, DataType::kFloat32, ReduceOp::kSum, count, 7);
          check_collectives(all, DataType::kFloat32, ReduceOp::kSum, count,
                            8);  // by the remembered schedules
        },
        [](Options& options) { options.tuning.segment_bytes = std::size_t{32} << 10; }));
  }
}

TEST(Communicator, GivesEveryRankTheSameBitsEveryTime) {
  // Random floats: their sum depends on the order, so equal bits mean an equal order.
  for (const char* clusters : {"AAAA", "ABBAB"}) {
    for (const std::size_t count : {13UL, 5000UL}) {
      std::mutex mutex;
      std::vector<std::vector<float>> results;
      for (int round = 0; round < 2; ++round) {
        expect_fine(run_ranks(
            clusters,
            [&](Communicator& all) {
              std::mt19937 random(static_cast<std::uint32_t>(all.rank()));
              std::vector<float> data(count);
              for (float& one : data) one = std::uniform_real_distribution<float>(-1, 1)(random);
              all.all_reduce(data.data(), data.data(), count, DataType::kFloat32, ReduceOp::kSum);
              const std::lock_guard lock(mutex);
              results.push_back(data);
            },
            [](Options& options) { options.tuning.segment_bytes = 1024; }));
      }
      for (const auto& one : results) {
        ASSERT_EQ(0, std::memcmp(one.data(), results.front().data(), count * sizeof(float))) << clusters;
      }
    }
  }
}

TEST(Communicator, ChoosesTheAlgorithmByLayoutAndRouting) {
  const auto algorithm_of = [](const char* clusters, Routing routing, std::size_t count) {
    std::string found;
    expect_fine(run_ranks(
        clusters,
        [&](Communicator& all) {
          std::vector<float> data(count);
          all.all_reduce(data.data(), data.data(), count, DataType::kFloat32, ReduceOp::kSum);
          if (all.rank() == 0) found = all.last_algorithm();
        },
        [&](Options& options) { options.routing = routing; }));
    return found;
  };
  EXPECT_EQ(algorithm_of("AAA", Routing::kPerPeer, 100'000), "ring");
  EXPECT_EQ(algorithm_of("ABA", Routing::kPerPeer, 100'000), "two-level");
  EXPECT_EQ(algorithm_of("ABA", Routing::kShared, 100'000), "ring");
  EXPECT_EQ(algorithm_of("ABA", Routing::kPerPeer, 1), "doubling");
}

TEST(Communicator, SharedRoutingUsesTheKindThatAllRanksHave) {
  // A is InfiniBand inside, B RoCE; all have Ethernet.
  const auto kind_between = [](Routing routing, int peer) {
    topology::NicKind kind{};
    std::string nic;
    expect_fine(run_ranks(
        "AABB",
        [&](Communicator& all) {
          if (all.rank() == 0 || all.rank() == peer) all.connect_to(all.rank() == 0 ? peer : 0);
          if (all.rank() == 0) kind = all.route_to(peer)->kind, nic = all.route_to(peer)->local_nic;
          all.barrier();
        },
        [&](Options& options) {
          options.routing = routing;
          auto& host = options.router.host;
          topology::Nic fast = host.nics.front();
          fast.name = "fast0";
          fast.kind = host.cluster == "A" ? topology::NicKind::kInfiniBand : topology::NicKind::kRoce;
          fast.fabric = host.cluster;
          fast.emulated = true;
          fast.addresses = {"127.0.0.2"};
          host.nics.insert(host.nics.begin(), fast);
        }));
    return std::pair(kind, nic);
  };
  EXPECT_EQ(kind_between(Routing::kPerPeer, 1),
            std::pair(topology::NicKind::kInfiniBand, std::string("fast0")));
  EXPECT_EQ(kind_between(Routing::kPerPeer, 2), std::pair(topology::NicKind::kTcp, std::string("eth0")));
  EXPECT_EQ(kind_between(Routing::kShared, 1), std::pair(topology::NicKind::kTcp, std::string("eth0")));
}

TEST(Communicator, SendsAndReceivesInOrderAmidCollectives) {
  expect_fine(run_ranks("AAAB", [](Communicator& all) {
    const int n = all.size(), next = (all.rank() + 1) % n, previous = (all.rank() + n - 1) % n;
    constexpr std::size_t kMessages = 40;
    std::vector<std::vector<std::uint32_t>> out(kMessages), in(kMessages);
    std::vector<Work> works;
    for (std::size_t i = 0; i < kMessages; ++i) {
      out[i].assign(i * i * 10,
                    static_cast<std::uint32_t>(all.rank()) * 1000 + static_cast<std::uint32_t>(i));
      in[i].resize(i * i * 10);
      works.push_back(all.start_receive(in[i].data(), in[i].size() * 4, previous));
      works.push_back(all.start_send(out[i].data(), out[i].size() * 4, next));
      if (i % 10 == 5) {  // a collective in the middle uses other connections
        std::int32_t one = 1;
        all.all_reduce(&one, &one, 1, DataType::kInt32, ReduceOp::kSum);
        ASSERT_EQ(one, n);
      }
    }
    // Redeemed in another order than started, some by test().
    for (std::size_t i = works.size(); i-- > 0;) {
      if (i % 3 == 0) {
        while (!all.test(works[i])) std::this_thread::yield();
      } else {
        all.wait(works[i]);
      }
    }
    for (std::size_t i = 0; i < kMessages; ++i) {
      ASSERT_EQ(in[i], std::vector<std::uint32_t>(i * i * 10, static_cast<std::uint32_t>(previous) * 1000 +
                                                                  static_cast<std::uint32_t>(i)));
    }
    EXPECT_THROW(all.wait(works.front()), Error) << "redeemed twice";
  }));
}

TEST(Communicator, ARankMaySendToItself) {
  for (const char* clusters : {"A", "AA"}) {
    expect_fine(run_ranks(clusters, [](Communicator& all) {
      const int sent = 42;
      int got = 0;
      const Work receive = all.start_receive(&got, sizeof(got), all.rank());
      all.send(&sent, sizeof(sent), all.rank());
      all.wait(receive);
      EXPECT_EQ(got, 42);
      all.barrier();
    }));
  }
}

TEST(Communicator, CountsTrafficPerPairOfNics) {
  expect_fine(run_ranks("AB", [](Communicator& all) {
    std::vector<float> data(100'000);
    all.all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32, ReduceOp::kSum);
    all.barrier();
    const auto traffic = all.traffic();
    ASSERT_EQ(traffic.size(), 1U);
    EXPECT_EQ(traffic[0].local_nic, "eth0");
    EXPECT_EQ(traffic[0].peer_host, all.rank() == 0 ? "host1" : "host0");
    EXPECT_GE(traffic[0].bytes_sent, 400'000U);
    EXPECT_LT(traffic[0].bytes_sent, 410'000U) << "two levels cross once";
  }));
}

}  // namespace
}  // namespace tombolo::collectives
