// Ranks as threads of one process, over TCP on loopback addresses.
#include "collectives/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"
#include "collectives/half.h"

namespace tombolo::collectives {
namespace {

constexpr DataType kAllTypes[] = {DataType::kInt8,     DataType::kUint8,   DataType::kInt16,
                                  DataType::kUint16,   DataType::kInt32,   DataType::kUint32,
                                  DataType::kInt64,    DataType::kUint64,  DataType::kFloat16,
                                  DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64};
constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax,
                                ReduceOp::kAverage};

const transport::Secret kSecret = transport::Secret::from_text("the tests' secret");

/// `clusters`: a letter per rank; every rank is its own host on loopback.
Options options_for(std::string_view clusters, int rank, int port) {
  Options options;
  options.identity.rank = rank;
  options.identity.size = static_cast<int>(clusters.size());
  options.identity.port = port;
  options.store_elsewhere = true;
  options.secret = kSecret;
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
std::vector<Outcome> run_ranks(std::string_view clusters, const Body& body, const Change& change = {}) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
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

void expect_fine(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_FALSE(outcomes[rank].threw) << "rank " << rank << ": " << outcomes[rank].text;
  }
}

/// Values that every type holds exactly, and whose sum and product over 8 ranks do too (in int8 and float16).
double value_at(std::size_t index, int rank, ReduceOp op, std::uint32_t seed) {
  const auto mixed =
      static_cast<std::uint32_t>(index * 2654435761U) ^ (static_cast<std::uint32_t>(rank) * 40503U) ^ seed;
  return op == ReduceOp::kProduct ? 1 + (mixed >> 7) % 2 * ((mixed >> 9) % 16 == 0 ? 1 : 0)
                                  : (mixed >> 7) % 15;
}

void put(std::byte* at, DataType type, double value) {
  const auto write = [&](auto typed) { std::memcpy(at, &typed, sizeof(typed)); };
  switch (type) {
    case DataType::kInt8:
      return write(static_cast<std::int8_t>(value));
    case DataType::kUint8:
      return write(static_cast<std::uint8_t>(value));
    case DataType::kInt16:
      return write(static_cast<std::int16_t>(value));
    case DataType::kUint16:
      return write(static_cast<std::uint16_t>(value));
    case DataType::kInt32:
      return write(static_cast<std::int32_t>(value));
    case DataType::kUint32:
      return write(static_cast<std::uint32_t>(value));
    case DataType::kInt64:
      return write(static_cast<std::int64_t>(value));
    case DataType::kUint64:
      return write(static_cast<std::uint64_t>(value));
    case DataType::kFloat16:
      return write(to_float16(static_cast<float>(value)));
    case DataType::kBfloat16:
      return write(to_bfloat16(static_cast<float>(value)));
    case DataType::kFloat32:
      return write(static_cast<float>(value));
    case DataType::kFloat64:
      return write(value);
  }
}

using Bytes = std::vector<std::byte>;

Bytes filled(std::size_t count, DataType type, int rank, ReduceOp op, std::uint32_t seed) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i)
    put(bytes.data() + i * size_of(type), type, value_at(i, rank, op, seed));
  return bytes;
}

/// The reduction in exact numbers, rounded once. Sums of at most 8 * 14 are exact in every type, and products
/// too; an average is one division.
Bytes reduced(std::size_t count, DataType type, int ranks, ReduceOp op, std::uint32_t seed) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    double value = value_at(i, 0, op, seed);
    for (int rank = 1; rank < ranks; ++rank) {
      const double other = value_at(i, rank, op, seed);
      value = op == ReduceOp::kProduct ? value * other
              : op == ReduceOp::kMin   ? std::min(value, other)
              : op == ReduceOp::kMax   ? std::max(value, other)
                                       : value + other;
    }
    if (op == ReduceOp::kAverage) {
      value /= ranks;
      if (type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16) {
        value = static_cast<float>(value);
      }
    }
    put(bytes.data() + i * size_of(type), type, value);
  }
  return bytes;
}

void check_collectives(Communicator& all, DataType type, ReduceOp op, std::size_t count, std::uint32_t seed,
                       bool only_all_reduce = false) {
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
  if (only_all_reduce) return;

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
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const Algorithm algorithm : {Algorithm::kAuto, Algorithm::kRing, Algorithm::kTwoLevel}) {
    expect_fine(run_ranks(
        GetParam(),
        [&](Communicator& all) {
          for (const DataType type : kAllTypes) {
            for (const ReduceOp op : kAllOps) {
              for (const std::size_t count : {0UL, 1UL, 7UL, 300UL}) {
                SCOPED_TRACE(std::string(data_type_name(type)) + " " + std::string(reduce_op_name(op)) +
                             " count " + std::to_string(count) + " rank " + std::to_string(all.rank()) +
                             " seed " + std::to_string(seed));
                check_collectives(all, type, op, count, seed, algorithm != Algorithm::kAuto);
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
                                         "ABABABAB"));

TEST(Communicator, CarriesVectorsOfManySegments) {
  for (const char* clusters : {"AAA", "ABAB"}) {
    expect_fine(run_ranks(
        clusters,
        [](Communicator& all) {
          check_collectives(all, DataType::kFloat32, ReduceOp::kSum, 150'001, 7);
          check_collectives(all, DataType::kFloat32, ReduceOp::kSum, 150'001,
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

TEST(Communicator, SplitsByColorAndOrdersByKey) {
  expect_fine(run_ranks("AABBA", [](Communicator& all) {
    // Colors 0 1 0 1 -; descending keys turn the order around.
    const int color = all.rank() == 4 ? -1 : all.rank() % 2;
    const auto part = all.split(color, -all.rank());
    ASSERT_EQ(part == nullptr, all.rank() == 4);
    if (!part) return;
    EXPECT_EQ(part->size(), 2);
    EXPECT_EQ(part->rank(), all.rank() < 2 ? 1 : 0);
    std::int64_t value = all.rank();
    part->all_reduce(&value, &value, 1, DataType::kInt64, ReduceOp::kSum);
    EXPECT_EQ(value, color == 0 ? 0 + 2 : 1 + 3);
    EXPECT_EQ(part->members()[0].host, color == 0 ? "host2" : "host3");
  }));
}

TEST(Communicator, PartsOfASplitAreIndependentAcrossThreads) {
  expect_fine(run_ranks("AAAA", [](Communicator& all) {
    const auto rows = all.split(all.rank() / 2, 0), columns = all.split(all.rank() % 2, 0);
    const auto work = [](Communicator& one) {
      for (int i = 0; i < 50; ++i) {
        std::int32_t value = one.rank() + 1;
        one.all_reduce(&value, &value, 1, DataType::kInt32, ReduceOp::kSum);
        ASSERT_EQ(value, 3);
      }
    };
    std::thread other([&] { work(*columns); });
    work(*rows);
    other.join();
    all.barrier();
  }));
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

// ---- failures
// -------------------------------------------------------------------------------------------------

void expect_words(const Outcome& outcome, std::initializer_list<std::string_view> words) {
  EXPECT_TRUE(outcome.threw);
  for (const auto word : words)
    EXPECT_NE(outcome.text.find(word), std::string::npos) << word << " in: " << outcome.text;
}

TEST(CommunicatorFailure, NamesEveryMissingRankOnEveryRank) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  std::vector<Outcome> outcomes(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Options options = options_for("AAAA", rank, server.port());
      options.deadline = std::chrono::milliseconds(400);
      try {
        Communicator::create(options);
      } catch (const Error& error) {
        outcomes[static_cast<std::size_t>(rank)] = {true, error.cause(), error.what()};
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.cause, Cause::kTimeout);
    expect_words(outcome, {"ranks 2, 3 of 4 did not arrive", "127.0.0.1:" + std::to_string(server.port())});
  }
}

TEST(CommunicatorFailure, RanksBehindRankZeroLearnWhoWasMissing) {
  // Rank 0 keeps the store here, and closes it when it gives up.
  int port = 0;
  {
    StoreServer probe("127.0.0.1", 0, kSecret, Log());
    port = probe.port();
  }
  std::vector<Outcome> outcomes(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Options options = options_for("AAA", rank, port);
      options.store_elsewhere = false;
      options.deadline = rank == 0 ? std::chrono::milliseconds(500) : std::chrono::seconds(60);
      try {
        Communicator::create(options);
      } catch (const Error& error) {
        outcomes[static_cast<std::size_t>(rank)] = {true, error.cause(), error.what()};
      }
    });
  }
  for (auto& thread : threads) thread.join();
  expect_words(outcomes[0], {"did not arrive"});
  // Rank 1 came in time and waits for rank 2 only, or (on a slow machine) never met rank 0.
  EXPECT_TRUE(outcomes[1].threw);
}

TEST(CommunicatorFailure, RejectsAWrongSecretAndATwiceTakenRank) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  Options options = options_for("AA", 1, server.port());
  options.secret = transport::Secret::from_text("another");
  try {
    Communicator::create(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("wrong secret"), std::string::npos) << error.what();
  }
  const auto twice = run_ranks(
      "AA", [](Communicator&) {},
      [](Options& one) {
        one.identity.rank = 0;
        one.deadline = std::chrono::milliseconds(500);
      });
  EXPECT_TRUE(twice[0].threw && twice[1].threw);
  EXPECT_NE((twice[0].text + twice[1].text).find("two processes say that they are rank 0"),
            std::string::npos);
}

TEST(CommunicatorFailure, SaysThatThePortIsInUse) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  Options options = options_for("AA", 0, server.port());
  options.store_elsewhere = false;
  try {
    Communicator::create(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kSystem);
    EXPECT_NE(std::string(error.what()).find("port in use"), std::string::npos) << error.what();
  }
}

TEST(CommunicatorFailure, RejectsDifferentSettings) {
  const auto outcomes = run_ranks(
      "AA", [](Communicator&) {},
      [](Options& options) {
        if (options.identity.rank == 1) options.algorithm = Algorithm::kRing;
      });
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.cause, Cause::kInvalidUsage);
    expect_words(outcome, {"TOMBOLO_ALGORITHM", "ring", "auto"});
  }
}

TEST(CommunicatorFailure, ARankThatLeavesByAnExceptionFailsTheOthersAtOnce) {
  const auto start = Clock::steady().now();
  const auto outcomes = run_ranks("AABB", [](Communicator& all) {
    std::vector<float> data(50'000, 1);
    for (int i = 0; i < 1000; ++i) {
      if (all.rank() == 2 && i == 3) fail(Cause::kSystem, "the trainer of rank 2 broke");
      all.all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32, ReduceOp::kSum);
    }
  });
  EXPECT_LT(to_seconds(Clock::steady().now() - start), 30) << "well before the deadline of 60 s";
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    expect_words(outcomes[rank], {"rank 2"});
    if (rank != 2) {
      EXPECT_EQ(outcomes[rank].cause, Cause::kRemote) << outcomes[rank].text;
    }
  }
}

TEST(CommunicatorFailure, AStuckWaitEndsAtTheDeadlineAndNamesWhomItWaitedFor) {
  std::atomic<int> failed{0};
  const auto outcomes = run_ranks(
      "AAA",
      [&](Communicator& all) {
        all.barrier();
        if (all.rank() == 2) {  // alive, but elsewhere
          const auto deadline = Deadline::after(std::chrono::seconds(40));
          while (failed < 2 && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          all.barrier();
        }
        std::vector<float> data(1'000'000, 1);
        try {
          all.all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32, ReduceOp::kSum);
        } catch (...) {
          ++failed;
          throw;
        }
      },
      [](Options& options) { options.deadline = std::chrono::seconds(2); });
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome.threw);
  // Rank 1 waits for rank 0, which waits for rank 2: whoever gave up first has found out.
  for (int rank = 0; rank < 2; ++rank) {
    expect_words(outcomes[static_cast<std::size_t>(rank)],
                 {"all_reduce #2 (3.81 MiB float sum): waiting for rank",
                  "not waiting themselves: rank 2 on host host2"});
  }
}

TEST(CommunicatorFailure, AbortFromAnotherThreadEndsAllRanks) {
  const auto start = Clock::steady().now();
  const auto outcomes = run_ranks("AAB", [](Communicator& all) {
    all.barrier();
    std::thread aborter;
    if (all.rank() == 1) {
      aborter = std::thread([&] { all.abort("the user pressed a button"); });
    }
    struct Join {
      std::thread& thread;
      ~Join() {
        if (thread.joinable()) thread.join();
      }
    } join{aborter};
    std::byte one{};
    all.receive(&one, 1, (all.rank() + 1) % all.size());  // nobody sends
  });
  EXPECT_LT(to_seconds(Clock::steady().now() - start), 30);
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.cause, Cause::kAborted) << outcome.text;
    expect_words(outcome, {"rank 1", "the user pressed a button"});
  }
}

TEST(CommunicatorFailure, EveryLaterCallFailsTheSameWay) {
  run_ranks("AA", [](Communicator& all) {
    all.barrier();
    all.abort("enough");
    for (int i = 0; i < 2; ++i) {
      try {
        all.barrier();
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.cause(), Cause::kAborted);
        EXPECT_NE(std::string(error.what()).find("enough"), std::string::npos) << error.what();
      }
    }
  });
}

TEST(CommunicatorFailure, DifferentCountsAreAnErrorNotAHang) {
  const auto outcomes = run_ranks("AA", [](Communicator& all) {
    std::vector<float> data(100, 1);
    all.all_reduce(data.data(), data.data(), all.rank() == 0 ? 100 : 90, DataType::kFloat32, ReduceOp::kSum);
  });
  EXPECT_TRUE(outcomes[0].threw && outcomes[1].threw);
}

TEST(CommunicatorFailure, RejectsBadArguments) {
  run_ranks("A", [](Communicator& all) {
    std::vector<float> data(10);
    const auto sum = [&](const void* send, void* receive, std::size_t count) {
      all.all_reduce(send, receive, count, DataType::kFloat32, ReduceOp::kSum);
    };
    EXPECT_THROW(sum(nullptr, data.data(), 1), Error);
    EXPECT_THROW(sum(data.data(), data.data() + 1, 5), Error);
    EXPECT_THROW(sum(data.data(), data.data(), ~std::size_t{0} / 2), Error);
    EXPECT_THROW(all.broadcast(data.data(), data.data(), 1, DataType::kFloat32, 1), Error);
    EXPECT_THROW(all.send(data.data(), 1, -1), Error);
    EXPECT_THROW(all.wait(Work{7, 7}), Error);
    sum(data.data(), data.data(), 10);  // usage errors leave the communicator usable
  });
}

TEST(CommunicatorFailure, LeavingEarlyKeepsWhatWasSent) {
  // Rank 0 is gone long before rank 1 looks.
  for (int round = 0; round < 5; ++round) {
    expect_fine(run_ranks("AA", [](Communicator& all) {
      std::vector<std::uint32_t> data(30'000, 7);
      if (all.rank() == 0) {
        all.send(data.data(), data.size() * 4, 1);
      } else {
        const Work work = all.start_receive(data.data(), data.size() * 4, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        all.wait(work);
      }
    }));
  }
}

}  // namespace
}  // namespace tombolo::collectives
