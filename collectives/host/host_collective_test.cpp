// Every collective in memory that ranks share, by ranks that take turns at random in one thread, against a
// reference.
#include "collectives/host/host_collective.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::collectives {
namespace {

std::vector<std::unique_ptr<HostGroup>> make_groups(int ranks, Reach reach = Reach::kBuffers,
                                                    std::size_t caches = 0) {
  std::vector<std::unique_ptr<HostGroup>> groups;
  std::vector<HostCard> cards;
  for (int rank = 0; rank < ranks; ++rank) {
    groups.push_back(HostGroup::create(reach, {caches, 1}));
    cards.push_back(groups.back()->card());
  }
  for (int rank = 0; rank < ranks; ++rank) groups[static_cast<std::size_t>(rank)]->join(cards, rank);
  return groups;
}

using Values = std::vector<std::int32_t>;

struct Rank {
  Values input, output, expected;
  std::int32_t factor = 1;
  std::size_t input_begin = 0;  // in place: of the input in `output`
  bool in_place = false;
};

/// The buffers of a call and what must be in them afterwards. Values whose sums depend on no order.
std::vector<Rank> buffers_for(Collective collective, std::size_t count, int root, bool in_place, int ranks,
                              bool premultiplied, std::mt19937_64& random) {
  const auto n = static_cast<std::size_t>(ranks);
  const bool whole_input = collective == Collective::kReduceScatter || collective == Collective::kScatter ||
                           collective == Collective::kAllToAll;
  const bool whole_output = collective == Collective::kAllGather || collective == Collective::kGather ||
                            collective == Collective::kAllToAll;
  std::vector<Rank> all(n);
  for (Rank& rank : all) {
    rank.input.resize(whole_input ? count * n : count);
    for (auto& value : rank.input) value = static_cast<std::int32_t>(random());
    if (premultiplied && random() % 4 != 0) rank.factor = static_cast<std::int32_t>(random());
    rank.output.assign(whole_output ? count * n : count, 7);
  }
  const auto sum = [&](std::size_t at) {
    std::uint32_t total = 0;
    for (const Rank& rank : all)
      total += static_cast<std::uint32_t>(rank.input[at]) * static_cast<std::uint32_t>(rank.factor);
    return static_cast<std::int32_t>(total);
  };
  for (std::size_t me = 0; me < n; ++me) {
    Rank& rank = all[me];
    const bool is_root = static_cast<int>(me) == root;
    rank.expected = rank.output;
    for (std::size_t i = 0; i < rank.expected.size() && collective != Collective::kBarrier; ++i) {
      const std::size_t from = count == 0 ? 0 : i / count, at = count == 0 ? 0 : i % count;
      switch (collective) {
        case Collective::kAllReduce:
          rank.expected[i] = sum(i);
          break;
        case Collective::kReduce:
          if (is_root) rank.expected[i] = sum(i);
          break;
        case Collective::kReduceScatter:
          rank.expected[i] = sum(me * count + i);
          break;
        case Collective::kAllGather:
          rank.expected[i] = all[from].input[at];
          break;
        case Collective::kGather:
          if (is_root) rank.expected[i] = all[from].input[at];
          break;
        case Collective::kBroadcast:
          rank.expected[i] = all[static_cast<std::size_t>(root)].input[i];
          break;
        case Collective::kScatter:
          rank.expected[i] = all[static_cast<std::size_t>(root)].input[me * count + i];
          break;
        case Collective::kAllToAll:
          rank.expected[i] = all[from].input[me * count + at];
          break;
        case Collective::kBarrier:
          break;
      }
    }
  }
  if (!in_place || collective == Collective::kAllToAll || collective == Collective::kBarrier) return all;
  for (std::size_t me = 0; me < n; ++me) {
    Rank& rank = all[me];
    const bool is_root = static_cast<int>(me) == root;
    const bool rooted = collective == Collective::kBroadcast || collective == Collective::kReduce ||
                        collective == Collective::kGather || collective == Collective::kScatter;
    if (rooted && !is_root) continue;
    rank.in_place = true;
    if (whole_input) {  // the output is a part of the input
      Values expected = rank.input;
      std::copy(rank.expected.begin(), rank.expected.end(),
                expected.begin() + static_cast<std::ptrdiff_t>(me * count));
      rank.output = rank.input;
      rank.expected = expected;
    } else {
      rank.input_begin = whole_output ? me * count : 0;
      std::copy(rank.input.begin(), rank.input.end(),
                rank.output.begin() + static_cast<std::ptrdiff_t>(rank.input_begin));
    }
  }
  return all;
}

struct TestedWay {
  const char* name;
  Reach reach;
  std::size_t caches;
};

class EveryWay : public testing::TestWithParam<TestedWay> {};

TEST_P(EveryWay, GivesWhatTheReferenceGivesInAnyOrderOfTurns) {
  std::mt19937_64 random(test_seed());
  const std::size_t counts[] = {0, 1, 3, 12, 13, 100, 1024, 1025, 5000, 32768, 40000, 120001, 300000};
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const auto groups = make_groups(ranks, GetParam().reach, GetParam().caches);
    std::vector<HostCollective> collectives;
    for (const auto& group : groups) {
      ASSERT_EQ(group->look(), HostGroup::Standing::kFormed);
      collectives.emplace_back(*group);
    }
    for (int call = 0; call < 30; ++call) {
      const Collective collective = kAllCollectives[random() % std::size(kAllCollectives)];
      std::size_t count = counts[random() % std::size(counts)];
      if (collective == Collective::kBarrier) count = 0;
      if (count > 5000 && ranks > 4) count /= 4;
      const int root = static_cast<int>(random() % static_cast<unsigned>(ranks));
      const bool in_place = random() % 2 == 0, reduces = collective == Collective::kAllReduce ||
                                                         collective == Collective::kReduce ||
                                                         collective == Collective::kReduceScatter;
      const bool premultiplied = reduces && random() % 2 == 0;
      auto all = buffers_for(collective, count, root, in_place, ranks, premultiplied, random);
      for (std::size_t me = 0; me < all.size(); ++me) {
        Rank& rank = all[me];
        auto* output = reinterpret_cast<std::byte*>(rank.output.data());
        const bool part_of_input =
            rank.in_place && rank.output.size() > count && rank.input_begin == 0 &&
            (collective == Collective::kReduceScatter || collective == Collective::kScatter);
        const std::byte* input = rank.in_place ? output + rank.input_begin * sizeof(std::int32_t)
                                               : reinterpret_cast<const std::byte*>(rank.input.data());
        if (part_of_input) {
          input = output;
          output += me * count * sizeof(std::int32_t);
        }
        Problem problem{count, sizeof(std::int32_t), false, root};
        // A rank whose factor is 1 may also have none.
        problem.premultiplied = premultiplied && (rank.factor != 1 || random() % 2 == 0);
        collectives[me].start({collective, problem, DataType::kInt32, ReduceOp::kSum, input, output,
                               Factor::at(&rank.factor, DataType::kInt32)});
      }
      std::size_t left = all.size();
      for (int vain = 0; left > 0; ++vain) {
        ASSERT_LT(vain, 10000) << "nobody moves in " << collective_name(collective);
        auto& one = collectives[random() % collectives.size()];
        if (one.finished()) continue;
        if (one.progress()) vain = 0;
        if (one.finished()) --left;
        ASSERT_FALSE(one.mismatch());
      }
      for (std::size_t me = 0; me < all.size(); ++me) {
        ASSERT_EQ(all[me].output, all[me].expected)
            << collective_name(collective) << " of " << count << " with root " << root << " and " << ranks
            << " ranks, rank " << me << (in_place ? ", in place" : "")
            << (premultiplied ? ", premultiplied" : "") << ", call " << call;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HostCollective, EveryWay,
                         testing::Values(TestedWay{"Slots", Reach::kShared, 0},
                                         TestedWay{"Buffers", Reach::kBuffers, 0},
                                         TestedWay{"PastCaches", Reach::kBuffers, 1}),
                         [](const auto& tested) { return tested.param.name; });

TEST(HostCollective, NoticesThatAnotherRankMakesAnotherCall) {
  const auto groups = make_groups(2);
  HostCollective first(*groups[0]), second(*groups[1]);
  std::int32_t in[2] = {1, 2}, out[2] = {};
  const auto call = [&](std::size_t count) {
    return HostCall{
        Collective::kAllReduce, {count, sizeof(std::int32_t), false, 0}, DataType::kInt32,
        ReduceOp::kSum,         reinterpret_cast<std::byte*>(in),        reinterpret_cast<std::byte*>(out)};
  };
  first.start(call(1));
  second.start(call(2));
  first.progress();
  second.progress();
  first.progress();
  EXPECT_EQ(first.mismatch(), 1);
  EXPECT_EQ(second.mismatch(), 0);
  EXPECT_FALSE(first.finished());
}

// Its next call looks the same as the other's, whose bytes are not for it all the same.
TEST(HostCollective, NoticesThatARankHasMadeACallMoreThoughTheNextOneLooksTheSame) {
  const auto groups = make_groups(2);
  HostCollective first(*groups[0]), second(*groups[1]);
  std::byte in[8] = {}, out[16] = {};
  const auto call = [&](Collective collective) {
    return HostCall{collective, {sizeof in, 1, false, 0}, DataType::kInt8, ReduceOp::kSum, in, out, {}};
  };
  second.start(call(Collective::kGather));
  second.progress();
  ASSERT_TRUE(second.finished()) << "the root needs it, and it needs nobody";
  for (int more = 0; more < 2; ++more) {
    first.start(call(Collective::kBroadcast));
    first.progress();
    ASSERT_TRUE(first.finished()) << "the root of a broadcast needs nobody";
  }
  second.start(call(Collective::kBroadcast));
  second.progress();
  EXPECT_EQ(second.mismatch(), 0);
  EXPECT_FALSE(second.finished());
}

// Each look at another rank's announcement brings a line from another processor.
TEST(HostCollective, LooksAtNoAnnouncementsOfARankThatKeepsUpUntilItHasUsedItsSlots) {
  const auto groups = make_groups(2);
  HostCollective root(*groups[0]), other(*groups[1]);
  std::byte in[8] = {}, out[8] = {};
  const auto finishes = [&](HostCollective& rank) {
    rank.start(
        {Collective::kBroadcast, {sizeof in, 1, false, 0}, DataType::kInt8, ReduceOp::kSum, in, out, {}});
    rank.progress();
    return rank.finished();
  };
  for (std::size_t call = 1; call < kSlots; ++call) {
    ASSERT_TRUE(finishes(root) && finishes(other));
  }
  ASSERT_TRUE(finishes(root)) << "it looks whether the other has read what was in the slot";
  for (Announcement& one : groups[1]->own().announcements) one.round = 0;  // who looks again sees nothing
  for (std::size_t call = 0; call < kSlots - 2; ++call) EXPECT_TRUE(finishes(root)) << call;
  EXPECT_FALSE(finishes(root));
}

/// Three ranks that make one call, and who owes whom something after some turns.
struct Owing {
  explicit Owing(Collective collective, int root = 0) {
    for (auto& group : groups) collectives.emplace_back(*group);
    for (int rank = 0; rank < 3; ++rank) {
      collectives[static_cast<std::size_t>(rank)].start({collective,
                                                         {kCount, 1, false, root},
                                                         DataType::kInt8,
                                                         ReduceOp::kSum,
                                                         in.data(),
                                                         out.data() + rank * std::ssize(out) / 3});
    }
  }
  /// To `to`, "-": nobody.
  std::string owed_to(std::size_t to) const {
    std::string names;
    for (int rank = 0; rank < 3; ++rank)
      if (collectives[to].owes(rank)) names += static_cast<char>('0' + rank);
    return names.empty() ? "-" : names;
  }

  static constexpr std::size_t kCount = 5 * kSlotBytes;  // more rounds than there are slots
  std::vector<std::byte> in = std::vector<std::byte>(3 * kCount), out = std::vector<std::byte>(9 * kCount);
  std::vector<std::unique_ptr<HostGroup>> groups = make_groups(3);
  std::vector<HostCollective> collectives;
};

TEST(HostCollective, OwesNothingOnceItHasAnnouncedWhatTheOthersNeed) {
  Owing gather(Collective::kGather);
  EXPECT_EQ(gather.owed_to(0), "12");
  EXPECT_EQ(gather.owed_to(1), "02") << "its slots are used again once all have gone on";
  while (!gather.collectives[2].finished()) {
    gather.collectives[2].progress();
    gather.collectives[1].progress();
    EXPECT_EQ(gather.collectives[0].owes(2), !gather.collectives[2].finished());
    gather.collectives[0].progress();
  }
  gather.groups[2]->leave();
  for (int turn = 0; turn < 100; ++turn) {
    gather.collectives[0].progress();
    gather.collectives[1].progress();
  }
  EXPECT_TRUE(gather.collectives[0].finished() && gather.collectives[1].finished());
  EXPECT_EQ(gather.owed_to(0), "-");

  Owing broadcast(Collective::kBroadcast, 1);
  EXPECT_EQ(broadcast.owed_to(0), "12");
  for (int turn = 0; turn < 100; ++turn) {
    broadcast.collectives[0].progress();
    broadcast.collectives[1].progress();
  }
  EXPECT_EQ(broadcast.owed_to(0), "12") << "a rank that never comes keeps slots from being used again";
  EXPECT_EQ(broadcast.owed_to(1), "2") << "the root waits for rank 0 no more, which has read enough";
}

}  // namespace
}  // namespace tombolo::collectives
