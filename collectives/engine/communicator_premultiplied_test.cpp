// Sums to which each rank contributes its values times a factor, against exact numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/randomized_test.h"
#include "collectives/engine/communicator.h"
#include "collectives/testing/elements.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

/// The factor of a rank.
double factor_at(int rank, DataType type) {
  const bool small = size_of(type) == 1;
  return small ? 1 + (rank == 1 ? 1 : 0) : rank % 3 + 2;
}

/// A value that value_at() gives, but so that the products of 9 ranks sum up to at most 8 in 8-bit floats,
/// 127 in int8 and 256 elsewhere.
double value_at(std::size_t index, DataType type, int rank, std::uint32_t seed) {
  const bool float8 = type == DataType::kFloat8E4m3 || type == DataType::kFloat8E5m2;
  const auto mixed =
      static_cast<std::uint32_t>(index * 2654435761U) ^ (static_cast<std::uint32_t>(rank) * 40503U) ^ seed;
  return size_of(type) == 1 && rank > 6 ? 0 : (mixed >> 7) % (float8 ? 2 : 10);
}

Bytes multiplicands(std::size_t count, DataType type, int rank, std::uint32_t seed) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i)
    put(bytes.data() + i * size_of(type), type, value_at(i, type, rank, seed));
  return bytes;
}

/// Rank `without` has no factor.
Bytes reference(std::size_t count, DataType type, int ranks, int without, std::uint32_t seed) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int rank = 0; rank < ranks; ++rank)
      sum += value_at(i, type, rank, seed) * (rank == without ? 1 : factor_at(rank, type));
    put(bytes.data() + i * size_of(type), type, sum);
  }
  return bytes;
}

void check_premultiplied(Communicator& all, DataType type, std::size_t count, std::uint32_t seed) {
  const int n = all.size(), me = all.rank();
  const auto ranks = static_cast<std::size_t>(n);
  const std::size_t block = count * size_of(type);
  // At times one rank's contribution is taken as it is.
  const int without = seed % 2 == 0 ? -1 : static_cast<int>((count + seed) % ranks);
  std::byte scalar[8] = {};
  put(scalar, type, factor_at(me, type));
  const auto call = [&](Collective collective, const Bytes& send, std::byte* receive, int root = 0) {
    CollectiveCall made{collective, send.data(), receive, count, type, ReduceOp::kSum, root};
    if (me != without) made.factor = Factor::at(scalar, type);
    return made;
  };
  const Bytes own = multiplicands(count, type, me, seed);
  const Bytes expected = reference(count, type, n, without, seed);
  Bytes result(block, std::byte{0xcc}), in_place = own;
  all.run(call(Collective::kAllReduce, own, result.data()));
  ASSERT_EQ(result, expected) << "all_reduce by " << all.last_algorithm();
  all.run(call(Collective::kAllReduce, in_place, in_place.data()));
  ASSERT_EQ(in_place, expected) << "all_reduce in place by " << all.last_algorithm();
  const int root = static_cast<int>((count + seed) % ranks);
  result.assign(block, std::byte{0xcc});
  all.run(call(Collective::kReduce, own, me == root ? result.data() : nullptr, root));
  ASSERT_EQ(result, me == root ? expected : Bytes(block, std::byte{0xcc})) << "reduce";
  in_place = own;
  all.run(call(Collective::kReduce, in_place, me == root ? in_place.data() : nullptr, root));
  ASSERT_EQ(in_place, me == root ? expected : own) << "reduce in place";

  // Started, two at a time, with parts of equal size and of unequal ones.
  const auto own_part = static_cast<std::ptrdiff_t>(block * static_cast<std::size_t>(me));
  Bytes wide = multiplicands(ranks * count, type, me, seed);
  const Bytes sums = reference(ranks * count, type, n, without, seed);
  const Bytes part(sums.begin() + own_part, sums.begin() + own_part + static_cast<std::ptrdiff_t>(block));
  result.assign(block, std::byte{0xcc});
  Bytes second(block, std::byte{0xcc});
  CollectiveCall uneven = call(Collective::kReduceScatter, wide, second.data());
  uneven.uneven = true;
  uneven.parts = std::make_shared<const Parts>(Parts::adjoining(std::vector<std::size_t>(ranks, count)));
  const Work works[] = {all.start(call(Collective::kReduceScatter, wide, result.data())), all.start(uneven)};
  for (const Work work : works) all.wait(work);
  ASSERT_EQ(result, part) << "reduce_scatter";
  ASSERT_EQ(second, part) << "reduce_scatter of parts that may differ";
  all.run(call(Collective::kReduceScatter, wide, wide.data() + own_part));
  ASSERT_TRUE(std::equal(part.begin(), part.end(), wide.begin() + own_part)) << "reduce_scatter in place";
}

class OfEveryType : public testing::TestWithParam<const char*> {};

TEST_P(OfEveryType, ContributionsAreMultipliedBeforeTheyAreSummed) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const std::string_view algorithm : {"auto", "ring", "two-level"}) {
    for (const bool one_host : {false, true}) {
      if (one_host && algorithm != kAutomatic) continue;
      expect_fine(run_ranks(
          GetParam(),
          [&](Communicator& all) {
            for (const DataType type : kAllTypes) {
              for (const std::size_t count : {0UL, 1UL, 7UL, 301UL}) {
                SCOPED_TRACE(std::string(data_type_name(type)) + " count " + std::to_string(count) +
                             " rank " + std::to_string(all.rank()) + " by " + std::string(algorithm));
                check_premultiplied(all, type, count, seed + static_cast<std::uint32_t>(count));
                if (testing::Test::HasFailure()) return all.abort("the test failed");
              }
            }
          },
          [&](Options& options) {
            if (one_host) options.router.host.name = "host0";
            options.algorithm = algorithm;
            options.tuning.segment_bytes = 64 + seed % 512;
            options.tuning.small_bytes = 100 + seed % 1000;
          }));
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CommunicatorPremultiplied, OfEveryType,
                         testing::Values("A", "AB", "AAA", "ABAB", "AABBB", "ABCABC", "AAAAAAA", "ABABABAB",
                                         "AAABBBCCC"));

// Encoded between clusters, the products are what is encoded: every rank has the same bits, near the sum.
TEST(CommunicatorPremultiplied, CompressesPremultipliedSums) {
  for (const char* clusters : {"AB", "AABB", "ABC"}) {
    for (const Compression compression : {Compression::kBfloat16, Compression::kInt8}) {
      std::mutex mutex;
      std::vector<Bytes> results;
      expect_fine(run_ranks(
          clusters,
          [&](Communicator& all) {
            constexpr std::size_t kCount = 5003;
            const float factor = 0.5F + static_cast<float>(all.rank());
            std::vector<float> values(kCount), result(kCount);
            for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i % 97);
            CollectiveCall call{Collective::kAllReduce, values.data(), result.data(), kCount,
                                DataType::kFloat32};
            call.compression = compression;
            call.factor = Factor::at(&factor, DataType::kFloat32);
            all.run(call);
            float factors = 0;
            for (int rank = 0; rank < all.size(); ++rank) factors += 0.5F + static_cast<float>(rank);
            const float most = 97 * factors * static_cast<float>(std::string(clusters) == "ABC" ? 3 : 2);
            for (std::size_t i = 0; i < kCount; ++i)
              ASSERT_NEAR(result[i], static_cast<float>(i % 97) * factors, most / 254);
            const auto* bytes = reinterpret_cast<const std::byte*>(result.data());
            const std::lock_guard lock(mutex);
            results.emplace_back(bytes, bytes + kCount * sizeof(float));
          },
          [](Options& options) { options.tuning.small_bytes = 0; }));
      for (const Bytes& one : results) EXPECT_EQ(one, results.front());
    }
  }
}

TEST(Premultiplied, ARankAloneMultipliesItsPartInPlaceWhereThatDoesNotBeginAtTheStart) {
  test::expect_fine(test::run_ranks("A", [](Communicator& communicator) {
    std::int32_t data[] = {1, 2, 3, 4, 5};
    const std::int32_t two = 2;
    CollectiveCall call{Collective::kReduceScatter, data, data + 2, 3, DataType::kInt32};
    call.uneven = true;
    call.parts = std::make_shared<const Parts>(Parts{{3}, {2}});
    call.factor = Factor::at(&two, DataType::kInt32);
    communicator.run(call);
    EXPECT_EQ(std::vector<std::int32_t>(data + 2, data + 5), (std::vector<std::int32_t>{6, 8, 10}));
  }));
}

}  // namespace
}  // namespace tombolo::collectives
