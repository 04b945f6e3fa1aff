// Collectives whose ranks have parts of different lengths, in memory that ranks share, by ranks that take
// turns at random in one thread: beside a reference, among other calls, and where ranks expect other lengths.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <string>

#include "base/randomized_test.h"
#include "collectives/data/data_type.h"
#include "collectives/host/host_collective.h"
#include "collectives/testing/elements.h"
#include "collectives/testing/host_ranks.h"

namespace tombolo::collectives {
namespace {

using test::Bytes;

constexpr Collective kWithParts[] = {Collective::kAllGather, Collective::kReduceScatter, Collective::kGather,
                                     Collective::kScatter, Collective::kAllToAll};

/// How long parts are.
enum class Lengths : std::uint8_t { kNone, kShort, kOneAlone, kAny, kEqual };
constexpr Lengths kAllLengths[] = {Lengths::kNone, Lengths::kShort, Lengths::kOneAlone, Lengths::kAny,
                                   Lengths::kEqual};

/// One call of all ranks.
struct DrawnUneven {
  Collective collective = Collective::kAllGather;
  Lengths lengths = Lengths::kAny;
  int root = 0;
  DataType type = DataType::kInt32;
  bool in_place = false, premultiplied = false;
};

/// What each rank gives and must get.
class UnevenRanks {
 public:
  UnevenRanks(const DrawnUneven& drawn, int ranks, std::mt19937_64& random)
      : drawn_(drawn), ranks_(ranks), random_(&random) {
    draw_counts();
    for (int rank = 0; rank < ranks; ++rank) all_.push_back(made(rank));
    for (int rank = 0; rank < ranks; ++rank) expect(rank);
  }

  HostCall call(int me) {
    One& one = of(me);
    Problem problem{one.count, size_of(drawn_.type), false, drawn_.root};
    if (drawn_.lengths != Lengths::kEqual) {
      problem.uneven = true;
      if (!is_rooted(drawn_.collective) || me == drawn_.root)
        problem.parts =
            std::make_shared<const Parts>(gets_parts(me) || !gives_parts(me) ? one.gets : one.gives);
      if (drawn_.collective == Collective::kAllToAll) {
        problem.sent_parts = std::make_shared<const Parts>(one.gives);
        problem.count = 3;  // means nothing
      }
    }
    problem.premultiplied = one.factor.has_value();
    const bool reads_output = is_in_place(me);
    const std::byte* input = one.input.data();
    std::byte* output = one.output.data();
    if (reads_output && gives_parts(me)) {  // the output is a part of the input
      input = output;
      output += begin(one.gives, me);
    } else if (reads_output) {
      input = output + begin(one.gets, me);
    }
    // A buffer that nothing is in or gets into may be missing.
    if (!reads_output && one.input.empty()) input = nullptr;
    if (!reads_output && one.output.empty()) output = nullptr;
    return {drawn_.collective,
            problem,
            drawn_.type,
            ReduceOp::kSum,
            input,
            output,
            one.factor ? Factor::at(one.scalar.data(), drawn_.type) : Factor{}};
  }
  bool is_right(int me) const { return of(me).output == of(me).expected; }

 private:
  struct One {
    std::size_t count = 0;
    Parts gives, gets;  // where its buffers have the parts
    Bytes input, output, expected;
    std::optional<double> factor;
    std::array<std::byte, 8> scalar{};
  };

  One& of(int rank) { return all_[static_cast<std::size_t>(rank)]; }
  const One& of(int rank) const { return all_[static_cast<std::size_t>(rank)]; }
  bool gives_parts(int rank) const {
    return drawn_.collective == Collective::kReduceScatter || drawn_.collective == Collective::kAllToAll ||
           (drawn_.collective == Collective::kScatter && rank == drawn_.root);
  }
  bool gets_parts(int rank) const {
    return drawn_.collective == Collective::kAllGather || drawn_.collective == Collective::kAllToAll ||
           (drawn_.collective == Collective::kGather && rank == drawn_.root);
  }
  bool is_in_place(int rank) const {
    return drawn_.in_place && drawn_.collective != Collective::kAllToAll &&
           (gives_parts(rank) || gets_parts(rank));
  }
  std::size_t begin(const Parts& parts, int rank) const {
    return parts.offsets[static_cast<std::size_t>(rank)] * size_of(drawn_.type);
  }
  std::size_t length(int from, int to) const {
    return counts_[static_cast<std::size_t>(drawn_.collective == Collective::kAllToAll ? from * ranks_ + to
                                            : gives_to_each()                          ? to
                                                                                       : from)];
  }
  bool gives_to_each() const {
    return drawn_.collective == Collective::kReduceScatter || drawn_.collective == Collective::kScatter;
  }

  void draw_counts() {
    constexpr std::size_t kShort[] = {0, 1, 2, 3, 12}, kAny[] = {0, 1, 100, 1025, 5000, 20000, 33000};
    counts_.resize(static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(ranks_));
    const std::size_t alone = (*random_)() % static_cast<std::size_t>(ranks_);
    const std::size_t equal = kAny[(*random_)() % std::size(kAny)];
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      const std::size_t any = kAny[(*random_)() % std::size(kAny)] / (ranks_ > 4 ? 3 : 1);
      counts_[i] = drawn_.lengths == Lengths::kNone       ? 0
                   : drawn_.lengths == Lengths::kShort    ? kShort[(*random_)() % std::size(kShort)]
                   : drawn_.lengths == Lengths::kOneAlone ? (i == alone ? any + 40'000 : 0)
                   : drawn_.lengths == Lengths::kAny      ? any
                                                          : equal;
    }
  }

  /// The parts lie in any order, with gaps, where the call has offsets.
  Parts placed(const std::vector<std::size_t>& counts, bool may_overlap) {
    if (drawn_.lengths == Lengths::kEqual) return Parts::adjoining(counts);
    Parts made{counts, std::vector<std::size_t>(counts.size())};
    std::vector<std::size_t> order(counts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::shuffle(order, *random_);
    std::size_t at = 0;
    const bool overlap = may_overlap && (*random_)() % 3 == 0;
    for (const std::size_t part : order) {
      if (!overlap) at += (*random_)() % 4;
      // Of an empty part it may say anything.
      made.offsets[part] = counts[part] > 0 ? at : std::numeric_limits<std::size_t>::max() - at;
      if (!overlap) at += counts[part];
    }
    return made;
  }
  Bytes buffer_of(const Parts& parts, std::size_t unused) const {
    std::size_t end = 0;
    for (std::size_t i = 0; i < parts.counts.size(); ++i)
      if (parts.counts[i] > 0) end = std::max(end, parts.offsets[i] + parts.counts[i]);
    return Bytes(end > 0 ? (end + unused) * size_of(drawn_.type) : 0, std::byte{0x55});
  }

  One made(int me) {
    One one;
    std::vector<std::size_t> gives, gets;
    for (int rank = 0; rank < ranks_; ++rank) {
      gives.push_back(length(me, rank));
      gets.push_back(length(rank, me));
    }
    one.count = gives_to_each() ? length(0, me) : length(me, me);
    one.gives = placed(gives, !is_in_place(me));
    one.gets = placed(gets, false);
    const std::size_t own = one.count * size_of(drawn_.type);
    one.input = gives_parts(me) ? buffer_of(one.gives, 0) : Bytes(own);
    for (std::size_t i = 0; i < one.input.size() / size_of(drawn_.type); ++i)
      test::put(one.input.data() + i * size_of(drawn_.type), drawn_.type, value(random_));
    one.output = gets_parts(me) ? buffer_of(one.gets, 3) : Bytes(own, std::byte{0x55});
    if (drawn_.collective == Collective::kGather && me != drawn_.root) one.output.clear();
    if (drawn_.collective == Collective::kScatter && me != drawn_.root) one.input.clear();
    if (drawn_.premultiplied && (*random_)() % 4 != 0) {
      one.factor = 3;
      test::put(one.scalar.data(), drawn_.type, *one.factor);
    }
    return one;
  }
  /// Sums of floats depend on their order.
  double value(std::mt19937_64* random) const {
    const auto drawn = static_cast<double>((*random)() % 1000);
    return drawn_.type == DataType::kFloat32 || drawn_.type == DataType::kFloat64 ? 1e6 / (1 + drawn)
           : drawn_.type == DataType::kInt8 ? static_cast<double>((*random)() % 4)
                                            : drawn;
  }

  void copy(Bytes& to, std::size_t begin, const Bytes& from, std::size_t from_begin,
            std::size_t count) const {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(count == 0 ? 0 : from_begin),
                count * size_of(drawn_.type),
                to.begin() + static_cast<std::ptrdiff_t>(count == 0 ? 0 : begin));
  }

  void expect(int me) {
    One& one = of(me);
    Bytes result = one.output;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::size_t count = length(rank, me);
      if (gets_parts(me)) {
        const bool is_part = drawn_.collective == Collective::kAllToAll;
        copy(result, begin(one.gets, rank), of(rank).input, is_part ? begin(of(rank).gives, me) : 0, count);
      } else if (drawn_.collective == Collective::kScatter && rank == drawn_.root) {
        copy(result, 0, of(rank).input, begin(of(rank).gives, me), count);
      } else if (drawn_.collective == Collective::kReduceScatter) {
        add(result, rank, me);
      }
    }
    one.expected = result;
    if (!is_in_place(me)) return;
    if (gives_parts(me)) {
      one.expected = one.output = one.input;
      copy(one.expected, begin(one.gives, me), result, 0, one.count);
    } else {
      copy(one.output, begin(one.gets, me), one.input, 0, one.count);
    }
  }
  /// In the order of the ranks.
  void add(Bytes& sum, int rank, int me) const {
    const One& other = of(rank);
    const std::size_t count = of(me).count;
    Bytes addend(sum.size());
    copy(addend, 0, other.input, begin(other.gives, me), count);
    if (other.factor)
      premultiply(addend.data(), addend.data(), count, drawn_.type,
                  Factor::at(other.scalar.data(), drawn_.type));
    if (rank == 0) {
      sum = addend;
    } else {
      combine(sum.data(), sum.data(), addend.data(), count, drawn_.type, ReduceOp::kSum);
    }
  }

  DrawnUneven drawn_;
  int ranks_;
  std::mt19937_64* random_;
  std::vector<std::size_t> counts_;  // by rank, or of an all-to-all by pair of ranks
  std::vector<One> all_;
};

std::unique_ptr<HostGroup> with_reach(Reach reach, std::size_t cache) {
  return HostGroup::create(reach, {cache, 1});
}

/// Lets the ranks take turns at random until all have finished; false where nobody moves any more.
bool finish_in_turns(std::vector<HostCollective>& ranks, std::mt19937_64& random) {
  std::size_t left = ranks.size();
  for (int vain = 0; left > 0 && vain < 10'000; ++vain) {
    HostCollective& one = ranks[random() % ranks.size()];
    if (one.finished()) continue;
    if (one.progress()) vain = 0;
    if (one.finished()) --left;
  }
  return left == 0;
}

struct UnevenWay {
  const char* name;
  Reach reach;
  std::size_t cache;
};

class UnevenEveryWay : public testing::TestWithParam<UnevenWay> {};

TEST_P(UnevenEveryWay, GivesWhatTheReferenceGivesInAnyOrderOfTurns) {
  constexpr DataType kTypes[] = {DataType::kInt8, DataType::kInt16, DataType::kFloat32, DataType::kFloat64};
  std::mt19937_64 random(test_seed());
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const auto groups =
        test::formed(ranks, [&](int) { return with_reach(GetParam().reach, GetParam().cache); });
    auto collectives = test::collectives_of(groups);
    ASSERT_EQ(collectives.size(), groups.size());
    // Every collective with every kind of lengths, each in place and not.
    const std::size_t kinds = std::size(kWithParts) * std::size(kAllLengths);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < 2 * kinds; ++i) order.push_back(i);
    std::ranges::shuffle(order, random);
    for (const std::size_t which : order) {
      DrawnUneven drawn;
      drawn.collective = kWithParts[which % std::size(kWithParts)];
      drawn.lengths = kAllLengths[which / std::size(kWithParts) % std::size(kAllLengths)];
      drawn.in_place = which >= kinds;
      drawn.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
      drawn.type = kTypes[random() % std::size(kTypes)];
      drawn.premultiplied = drawn.collective == Collective::kReduceScatter && random() % 2 == 0;
      UnevenRanks all(drawn, ranks, random);
      for (int rank = 0; rank < ranks; ++rank)
        collectives[static_cast<std::size_t>(rank)].start(all.call(rank));
      const std::string what = std::string(collective_name(drawn.collective)) + " with lengths of kind " +
                               std::to_string(static_cast<int>(drawn.lengths)) + ", root " +
                               std::to_string(drawn.root) + ", " + std::to_string(ranks) + " ranks" +
                               (drawn.in_place ? ", in place" : "");
      ASSERT_TRUE(finish_in_turns(collectives, random)) << "nobody moves in " << what;
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_FALSE(collectives[static_cast<std::size_t>(rank)].mismatch()) << what;
        ASSERT_TRUE(all.is_right(rank)) << what << ", rank " << rank;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HostUneven, UnevenEveryWay,
                         testing::Values(UnevenWay{"Slots", Reach::kShared, 0},
                                         UnevenWay{"Buffers", Reach::kBuffers, 0},
                                         UnevenWay{"PastCaches", Reach::kBuffers, 1}),
                         [](const auto& tested) { return tested.param.name; });

/// Three ranks whose calls a test says.
struct ThreeUneven {
  HostCall call(Collective collective, std::size_t count, std::vector<std::size_t> parts = {},
                std::vector<std::size_t> sent = {}) {
    Problem problem{count, 1, false, 0};
    problem.uneven = true;
    if (!parts.empty()) problem.parts = std::make_shared<const Parts>(Parts::adjoining(std::move(parts)));
    if (!sent.empty()) problem.sent_parts = std::make_shared<const Parts>(Parts::adjoining(std::move(sent)));
    return {collective, problem, DataType::kInt8, ReduceOp::kSum, in.data(), out.data(), {}};
  }
  void take_turns() {
    for (int turn = 0; turn < 100; ++turn)
      for (HostCollective& one : ranks) one.progress();
  }

  Bytes in = Bytes(1 << 20), out = Bytes(1 << 20);
  std::vector<std::unique_ptr<HostGroup>> groups = test::formed(3, [](int) { return HostGroup::create(); });
  std::vector<HostCollective> ranks = test::collectives_of(groups);
};

void expect_wrong(const HostCollective& reader, int rank, std::uint64_t sent, std::uint64_t expected) {
  EXPECT_FALSE(reader.finished());
  EXPECT_EQ(reader.mismatch(), rank);
  ASSERT_TRUE(reader.wrong_part());
  EXPECT_EQ(reader.wrong_part()->rank, rank);
  EXPECT_EQ(reader.wrong_part()->sent, sent);
  EXPECT_EQ(reader.wrong_part()->expected, expected);
}

constexpr std::size_t kManyRounds = 5 * kSlotBytes;

TEST(HostUneven, NamesARankThatGathersOtherLengthsThanTheRootExpects) {
  for (const std::size_t sent : {std::size_t{0}, std::size_t{41}, kManyRounds}) {
    for (const std::size_t expected : {std::size_t{0}, std::size_t{40}, kManyRounds - 1}) {
      if (sent == expected) continue;
      ThreeUneven all;
      all.ranks[0].start(all.call(Collective::kGather, 7, {7, 8, expected}));
      all.ranks[1].start(all.call(Collective::kGather, 8));
      all.ranks[2].start(all.call(Collective::kGather, sent));
      all.take_turns();
      expect_wrong(all.ranks[0], 2, sent, expected);
    }
  }
}

TEST(HostUneven, ARankNamesTheRootThatScattersAnotherLengthThanItExpects) {
  for (const std::size_t sent : {std::size_t{0}, std::size_t{41}, kManyRounds}) {
    for (const std::size_t expected : {std::size_t{0}, std::size_t{40}, kManyRounds - 1}) {
      if (sent == expected) continue;
      ThreeUneven all;
      all.ranks[0].start(all.call(Collective::kScatter, 7, {7, 8, sent}));
      all.ranks[1].start(all.call(Collective::kScatter, 8));
      all.ranks[2].start(all.call(Collective::kScatter, expected));
      all.take_turns();
      expect_wrong(all.ranks[2], 0, sent, expected);
    }
  }
}

TEST(HostUneven, ARankNamesAnotherThatSendsItToAllAnotherLength) {
  for (const std::size_t sent : {std::size_t{0}, std::size_t{41}, kManyRounds}) {
    for (const std::size_t expected : {std::size_t{0}, std::size_t{40}, kManyRounds - 1}) {
      if (sent == expected) continue;
      ThreeUneven all;
      all.ranks[0].start(all.call(Collective::kAllToAll, 0, {1, 1, 1}, {1, 1, 1}));
      all.ranks[1].start(all.call(Collective::kAllToAll, 0, {1, 1, 1}, {1, 1, sent}));
      all.ranks[2].start(all.call(Collective::kAllToAll, 0, {1, expected, 1}, {1, 1, 1}));
      all.take_turns();
      expect_wrong(all.ranks[2], 1, sent, expected);
    }
  }
}

TEST(HostUneven, OfPartsThatAllKnowAnyDifferenceIsAnotherCall) {
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    ThreeUneven all;
    all.ranks[0].start(all.call(collective, 7, {7, 8, 9}));
    all.ranks[1].start(all.call(collective, 8, {7, 8, 9}));
    all.ranks[2].start(all.call(collective, 10, {7, 8, 10}));
    all.take_turns();
    EXPECT_EQ(all.ranks[0].mismatch(), 2);
    EXPECT_EQ(all.ranks[2].mismatch(), 0);
    EXPECT_FALSE(all.ranks[0].wrong_part());
  }
}

TEST(HostUneven, ACallWithPartsThatMayDifferIsAnotherOneThanWithEqualParts) {
  ThreeUneven all;
  HostCall even = all.call(Collective::kAllGather, 8);
  even.problem.uneven = false;
  all.ranks[0].start(even);
  all.ranks[1].start(all.call(Collective::kAllGather, 8, {8, 8, 8}));
  all.take_turns();
  EXPECT_EQ(all.ranks[0].mismatch(), 1);
  EXPECT_EQ(all.ranks[1].mismatch(), 0);
}

// It cannot know before how many rounds there are.
TEST(HostUneven, WhoGivesToAGatherWaitsForTheRootToComeAndForNothingElse) {
  ThreeUneven all;
  HostCollective& leaf = all.ranks[1];
  for (int call = 0; call < 3; ++call) {
    leaf.start(all.call(Collective::kGather, 8));
    for (int turn = 0; turn < 100; ++turn) leaf.progress();
    EXPECT_FALSE(leaf.finished());
    EXPECT_EQ(leaf.awaited(), 0);
    EXPECT_TRUE(leaf.owes(0));
    EXPECT_FALSE(leaf.owes(2));
    all.ranks[0].start(all.call(Collective::kGather, 7, {7, 8, 9}));
    all.ranks[0].progress();
    EXPECT_FALSE(all.ranks[0].finished()) << "rank 2 has given nothing";
    leaf.progress();
    EXPECT_TRUE(leaf.finished());
    all.ranks[2].start(all.call(Collective::kGather, 9));
    all.take_turns();
    EXPECT_TRUE(all.ranks[0].finished() && all.ranks[2].finished());
  }
}

// A rank that has left owes the others what it has not announced, and no more than that.
TEST(HostUneven, OwesEveryRoundThatTheRootSaysThereAre) {
  ThreeUneven all;
  all.ranks[0].start(all.call(Collective::kGather, 7, {7, kManyRounds, 9}));
  all.ranks[1].start(all.call(Collective::kGather, kManyRounds));
  all.ranks[2].start(all.call(Collective::kGather, 9));
  EXPECT_TRUE(all.ranks[0].owes(1));
  for (int turn = 0; turn < 100 && !all.ranks[2].finished(); ++turn) {
    for (const std::size_t rank : {2U, 1U, 0U}) all.ranks[rank].progress();
    EXPECT_EQ(all.ranks[0].owes(2), !all.ranks[2].finished());
  }
  EXPECT_TRUE(all.ranks[2].finished());
  EXPECT_FALSE(all.ranks[0].owes(2));
  all.groups[2]->leave();
  all.take_turns();
  EXPECT_TRUE(all.ranks[0].finished() && all.ranks[1].finished());
}

}  // namespace
}  // namespace tombolo::collectives
