// Which way calls go, by what they take on a clock that only the test moves; and that they
// give the right bytes whichever way that is, while one rank is calls ahead of the other, and once buffers
// cannot be read any more.
#include "collectives/host/call_way.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>

#include "base/randomized_test.h"
#include "collectives/testing/host_ranks.h"

namespace tombolo::collectives {
namespace {

using std::chrono::microseconds;

/// Reads of buffers take so long on the clock.
class TimedReads final : public transport::test::ForwardingKernel {
 public:
  TimedReads(FakeClock& clock, microseconds read) : clock_(&clock), read_(read) {}

  ssize_t process_vm_readv(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                           unsigned long their_count, unsigned long flags) noexcept override {
    if (theirs[0].iov_len > 0) clock_->advance(read_);
    return ForwardingKernel::process_vm_readv(process, mine, count, theirs, their_count, flags);
  }

 private:
  FakeClock* clock_;
  microseconds read_;
};

/// Two ranks whose calls of one kind go one after the other.
class TimedPair {
 public:
  TimedPair(Collective collective, std::size_t bytes, microseconds read)
      : kernel_(clock_, read), collective_(collective), bytes_(bytes), buffers_(4, test::Bytes(2 * bytes)) {}

  FakeClock& clock() { return clock_; }
  HostCollective& rank(std::size_t rank) { return all_[rank]; }
  void start(std::size_t rank) { start(rank, bytes_); }
  void start(std::size_t rank, std::size_t bytes) {
    all_[rank].start({collective_,
                      {bytes, 1, false, 0},
                      DataType::kInt8,
                      ReduceOp::kSum,
                      buffers_[rank].data(),
                      buffers_[2 + rank].data(),
                      {}});
  }
  /// "s": through slots, "b": from buffers.
  char way() const { return all_[0].way() == HostWay::kThroughSlots ? 's' : 'b'; }
  bool finish() {
    for (int turn = 0; turn < 1000; ++turn)
      for (HostCollective& one : all_) one.progress();
    return all_[0].finished() && all_[1].finished();
  }

 private:
  FakeClock clock_;
  TimedReads kernel_;
  transport::KernelInPlace in_place_{kernel_};
  std::vector<std::unique_ptr<HostGroup>> groups_ = test::formed_pair([](int) {
    return HostGroup::create(Reach::kBuffers, {0, 1});
  });
  std::vector<HostCollective> all_ = test::collectives_of(groups_, clock_);
  Collective collective_;
  std::size_t bytes_;
  std::vector<test::Bytes> buffers_;  // inputs, then outputs
};

/// Who comes to a call later than the other, by much.
enum class Later { kNobody, kGiver, kGetter };

/// The ways of calls of which one rank, who only gets, reads for so long. The giver has written all into
/// slots by then.
std::string ways_of_one_way(Collective collective, int calls, Later later, microseconds slots,
                            microseconds buffers) {
  // As much as a rank writes without waiting; a scatter leaves half of each slot to the root's own part.
  const std::size_t bytes = std::size_t{15 * 64} << (collective == Collective::kScatter ? 9 : 10);
  constexpr microseconds kLate(100000);
  // A reduce reads in pieces of 64 KiB, any other call at once.
  TimedPair pair(collective, bytes, collective == Collective::kReduce ? buffers / 15 : buffers);
  const std::size_t giving = collective == Collective::kGather || collective == Collective::kReduce ? 1 : 0;
  HostCollective& root = pair.rank(giving);
  HostCollective& leaf = pair.rank(1 - giving);
  std::string ways;
  for (int call = 0; call < calls; ++call) {
    if (later == Later::kGiver) {
      pair.start(1 - giving);
      leaf.progress();
      pair.clock().advance(kLate);
    }
    pair.start(giving);
    while (root.progress()) {
    }
    if (later == Later::kGetter) pair.clock().advance(kLate);
    if (later != Later::kGiver) pair.start(1 - giving);
    const bool through_slots = pair.way() == 's';
    leaf.progress();
    if (through_slots) {
      EXPECT_TRUE(root.finished()) << "call " << call;
      EXPECT_FALSE(leaf.finished()) << "call " << call;
      pair.clock().advance(slots);
    }
    EXPECT_TRUE(pair.finish()) << "call " << call;
    ways += pair.way();
  }
  return ways;
}

class OneWay : public testing::TestWithParam<Collective> {};

TEST_P(OneWay, TakesTheWayThatIsTheFasterOneForWhoGets) {
  for (const microseconds buffers : {microseconds(100), microseconds(10'000'000)}) {
    for (const Later later : {Later::kNobody, Later::kGiver, Later::kGetter}) {
      for (const bool slots_are_faster : {false, true}) {
        const microseconds slots = slots_are_faster ? buffers / 4 : buffers * 4;
        const std::string ways = ways_of_one_way(GetParam(), 120, later, slots, buffers);
        const auto slower = std::ranges::count(ways.substr(40), slots_are_faster ? 'b' : 's');
        EXPECT_LE(slower, 3) << ways << " where " << static_cast<int>(later) << " was later and buffers took "
                             << buffers.count() << " us";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CallWay, OneWay,
                         testing::Values(Collective::kBroadcast, Collective::kScatter, Collective::kGather,
                                         Collective::kReduce),
                         [](const auto& tested) {
                           std::string name(collective_name(tested.param));
                           std::erase(name, '-');
                           return name;
                         });

/// The ways of calls of three ranks, which take so long, or each read so long. The roots are taken in turns.
std::string ways_of_three(Collective collective, std::vector<int> roots, int calls, microseconds slots,
                          microseconds read) {
  constexpr std::size_t kBytes = std::size_t{100} << 10, kRanks = 3;
  FakeClock clock;
  TimedReads kernel(clock, read);
  const transport::KernelInPlace in_place(kernel);
  const auto groups = test::formed(kRanks, [](int) { return HostGroup::create(Reach::kBuffers, {0, 1}); });
  std::vector<HostCollective> all = test::collectives_of(groups, clock);
  std::vector<test::Bytes> inputs(kRanks, test::Bytes(kRanks * kBytes)), outputs = inputs;
  std::string ways;
  for (int call = 0; call < calls; ++call) {
    const auto root = static_cast<std::size_t>(roots[static_cast<std::size_t>(call) % roots.size()]);
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      all[rank].start({collective,
                       {kBytes, 1, false, static_cast<int>(root)},
                       DataType::kInt8,
                       ReduceOp::kSum,
                       inputs[rank].data(),
                       outputs[rank].data(),
                       {}});
    for (const HostCollective& one : all) EXPECT_EQ(one.way(), all[0].way()) << "call " << call;
    for (const std::size_t after_root : {1U, 2U}) all[(root + after_root) % kRanks].progress();
    ways += all[0].way() == HostWay::kThroughSlots ? 's' : 'b';
    if (ways.back() == 's') clock.advance(slots);
    for (int turn = 0; turn < 1000; ++turn)
      for (HostCollective& one : all) one.progress();
    for (HostCollective& one : all) EXPECT_TRUE(one.finished()) << "call " << call;
  }
  return ways;
}

struct CallsOfThree {
  Collective collective;
  std::vector<int> roots;
};

TEST(CallWay, TakesAmongThreeRanksTheWayThatIsTheFasterOneWhoeverTheRootIs) {
  const std::vector<CallsOfThree> cases{{Collective::kAllToAll, {1}},
                                        {Collective::kScatter, {1}},
                                        {Collective::kScatter, {0, 1, 2}},
                                        {Collective::kScatter, {2, 2, 2, 2, 2, 2, 0}}};
  for (const auto& [collective, roots] : cases) {
    for (const bool slots_are_faster : {false, true}) {
      const std::string ways = ways_of_three(collective, roots, 400,
                                             microseconds(slots_are_faster ? 10 : 4000), microseconds(100));
      const auto slower = std::ranges::count(ways.substr(200), slots_are_faster ? 'b' : 's');
      EXPECT_LE(slower, 12) << collective_name(collective) << ", root " << roots[0] << " and "
                            << roots.size() - 1 << " more in turn: " << ways;
    }
  }
}

// Slots have room for 32 rounds of 64 KiB between two ranks. A call of 256 KiB of each touches four of them,
// one of 63 KiB, of which there is no choice, all pages of one.
TEST(CallWay, CountsNoCallThatIsTheFirstToTouchPagesOfSlots) {
  for (const bool touched_before : {false, true}) {
    TimedPair pair(Collective::kAllGather, std::size_t{256} << 10, microseconds(50));  // for each rank
    for (int call = 0; call < (touched_before ? 32 : 0); ++call) {
      for (std::size_t rank : {0U, 1U}) pair.start(rank, std::size_t{63} << 10);
      ASSERT_TRUE(pair.finish()) << "call " << call;
    }
    const int cold = touched_before ? 0 : 32 / 4;
    int through_slots = 0;
    std::string ways;
    for (int call = 0; call < 2 + cold + 6; ++call) {
      for (std::size_t rank : {0U, 1U}) pair.start(rank);
      for (std::size_t rank : {0U, 1U, 0U}) pair.rank(rank).progress();  // both have come, and it is not over
      ways += pair.way();
      if (pair.way() == 's') pair.clock().advance(microseconds(++through_slots <= cold ? 1000 : 10));
      ASSERT_TRUE(pair.finish()) << "call " << call;
    }
    EXPECT_EQ(ways, "bb" + std::string(static_cast<std::size_t>(cold) + 5, 's') + "b")
        << "slots are the faster way, but for a look";
  }
}

// --- calls whose bytes are compared

struct DrawnCall {
  Collective collective = Collective::kBarrier;
  std::size_t bytes = 0, offset = 0;
  int root = 0;
  bool in_place = false;
};

/// One of two ranks: the call that it is in, which may be another one than the other rank's, and its buffers.
class Caller {
 public:
  Caller(HostCollective& collective, int rank, std::size_t most)
      : collective_(&collective), rank_(rank), input_(2 * most + kAround), output_(input_) {}

  static constexpr std::size_t kAround = 8;

  std::size_t calls() const { return calls_; }  // that are over
  bool idle() const { return idle_; }
  HostCollective& collective() { return *collective_; }

  void start(const DrawnCall& drawn) {
    std::ranges::fill(output_, std::byte{0xee});
    std::byte* const output = output_.data() + drawn.offset;
    std::byte* input = input_.data() + drawn.offset;
    if (drawn.in_place)
      input = output + (drawn.collective == Collective::kAllGather || drawn.collective == Collective::kGather
                            ? static_cast<std::size_t>(rank_) * drawn.bytes
                            : 0);
    const bool one_gives =
        drawn.collective == Collective::kBroadcast || drawn.collective == Collective::kScatter;
    const bool gives = !one_gives || rank_ == drawn.root;
    const bool scatters =
        drawn.collective == Collective::kAllToAll || drawn.collective == Collective::kScatter;
    const std::size_t given = (scatters ? 2 : 1) * drawn.bytes;
    for (std::size_t i = 0; gives && i < given; ++i) input[i] = test::given_byte(rank_, calls_, i);
    call_ = {drawn.collective,
             {drawn.bytes, 1, false, drawn.root},
             DataType::kInt8,
             ReduceOp::kSum,
             input,
             output,
             {}};
    offset_ = drawn.offset;
    idle_ = false;
    collective_->start(call_);
  }

  /// Once the call is finished: empty, or what is wrong with the output.
  std::string end() {
    const bool two_parts = call_.collective == Collective::kAllToAll ||
                           call_.collective == Collective::kAllGather ||
                           call_.collective == Collective::kGather;
    const bool one_gets = call_.collective == Collective::kGather || call_.collective == Collective::kReduce;
    const std::size_t bytes = (two_parts ? 2 : 1) * call_.problem.bytes();
    const std::size_t call = calls_++;
    idle_ = true;
    if (one_gets && rank_ != call_.problem.root) return {};
    for (std::size_t i = 0; i < output_.size(); ++i) {
      const bool within = i >= offset_ && i - offset_ < bytes;
      const std::byte expected =
          within ? test::given_to_one_of_two(call_, call, rank_, i - offset_) : std::byte{0xee};
      if (output_[i] == expected) continue;
      return "byte " + std::to_string(i) + " of rank " + std::to_string(rank_) + " in call " +
             std::to_string(call) + ", " + std::string(collective_name(call_.collective)) + " of " +
             std::to_string(call_.problem.bytes()) + " bytes, root " + std::to_string(call_.problem.root);
    }
    return {};
  }

 private:
  HostCollective* collective_;
  int rank_;
  test::Bytes input_, output_;
  HostCall call_;
  std::size_t calls_ = 0, offset_ = 0;
  bool idle_ = true;
};

std::vector<Caller> callers_of(std::vector<HostCollective>& all, std::size_t most) {
  std::vector<Caller> callers;
  for (int rank = 0; rank < 2; ++rank) callers.emplace_back(all[static_cast<std::size_t>(rank)], rank, most);
  return callers;
}

// The way of a call is chosen in the one before; both ranks must know it, whoever is the root, whether or not
// the calls between are of other kinds, and while one of them is ahead of the other as far as it can be. At
// first each way is tried.
TEST(CallWay, IsTheSameForRanksOfWhichOneIsAheadAndGivesTheSameBytes) {
  std::mt19937_64 random(test_seed());
  const auto groups = test::formed_pair([](int) { return HostGroup::create(); });
  std::vector<HostCollective> all = test::collectives_of(groups);
  ASSERT_EQ(all.size(), 2u);
  const std::array kinds{Collective::kAllToAll,  Collective::kAllGather, Collective::kBroadcast,
                         Collective::kAllReduce, Collective::kGather,    Collective::kScatter,
                         Collective::kReduce};
  const auto has_root = [](Collective collective) {
    return collective != Collective::kAllToAll && collective != Collective::kAllGather &&
           collective != Collective::kAllReduce;
  };
  constexpr std::size_t kMost = std::size_t{200} << 10, kCalls = 200;
  std::vector<DrawnCall> calls;
  while (calls.size() < kCalls) {
    // Some of a kind, one after the other: the root of broadcasts can be ahead.
    const Collective collective = kinds[random() % kinds.size()];
    const int root = static_cast<int>(random() % 2);
    for (std::size_t alike = 1 + random() % 5; alike > 0; --alike) {
      // Also sizes that go through slots alone, small ones among them, whose rounds shift what the others
      // find where.
      const std::array sizes{std::size_t{400}, std::size_t{3000}, std::size_t{5000},
                             (std::size_t{160} << 10) - random() % 70, kMost - random() % 70};
      const bool in_place =
          collective != Collective::kAllToAll && collective != Collective::kScatter && random() % 2 == 0;
      calls.push_back(
          {collective, sizes[random() % sizes.size()], random() % Caller::kAround, root, in_place});
    }
  }
  // However few of a kind were drawn.
  for (const Collective collective : kinds)
    for (const int root : {0, 1})
      for (int more = 0; more < 4; ++more) calls.push_back({collective, kMost, 0, root, false});
  // However seldom the turns fell so: at the end each rank is the root of some that it makes before the
  // other.
  constexpr std::size_t kAhead = 3;
  const std::size_t drawn = calls.size();
  for (const int root : {0, 1})
    calls.insert(calls.end(), kAhead, {Collective::kBroadcast, 400, 0, root, false});
  std::array<std::array<std::array<int, 2>, 2>, 7> went{};  // by place of the kind, root, and HostWay
  std::vector<Caller> callers = callers_of(all, kMost);
  std::size_t most_ahead = 0;
  std::size_t until = drawn;  // so many calls are made before any other
  for (int vain = 0; callers[0].calls() < calls.size() || callers[1].calls() < calls.size();) {
    if (callers[0].calls() == until && callers[1].calls() == until) until += kAhead;
    const auto root = static_cast<std::size_t>(calls[until - 1].root);
    const std::size_t root_first = callers[root].calls() < until ? root : 1 - root;
    Caller& one = callers[until == drawn ? random() % 2 : root_first];
    for (auto turns = random() % 40; turns > 0 && one.calls() < until; --turns) {
      ASSERT_LT(++vain, 100000) << "nobody moves";
      if (one.idle()) one.start(calls[one.calls()]);
      if (one.collective().progress()) vain = 0;
      ASSERT_FALSE(one.collective().mismatch());
      if (!one.collective().finished()) continue;
      const DrawnCall& made = calls[one.calls()];
      if (BufferReader::suits(made.collective, made.bytes, 2))
        ++went[static_cast<std::size_t>(std::ranges::find(kinds, made.collective) - kinds.begin())]
              [has_root(made.collective) ? static_cast<std::size_t>(made.root) : 0]
              [static_cast<std::size_t>(one.collective().way())];
      ASSERT_EQ(one.end(), "") << (made.in_place ? "in place" : "");
      const std::size_t first = callers[0].calls(), second = callers[1].calls();
      most_ahead = std::max(most_ahead, first > second ? first - second : second - first);
    }
  }
  EXPECT_GE(most_ahead, kAhead) << "calls that one rank was ahead";
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    for (std::size_t root = 0; root < (has_root(kinds[kind]) ? 2 : 1); ++root) {
      EXPECT_GT(went[kind][root][0], 0) << collective_name(kinds[kind]) << " through slots, root " << root;
      EXPECT_GT(went[kind][root][1], 0) << collective_name(kinds[kind]) << " from buffers, root " << root;
    }
  }
}

// As where a security module comes to forbid it, or a rank gives up the right to be read. Either rank may be
// the one that is refused, right after the first call or when both ways have long been known.
TEST(CallWay, TakesSlotsFromTheCallOnInWhichAReadIsRefused) {
  constexpr std::size_t kBytes = std::size_t{100} << 10, kMostUntilRead = 70;  // from one look to the next
  for (const Collective collective :
       {Collective::kAllGather, Collective::kBroadcast, Collective::kGather, Collective::kScatter}) {
    for (const std::size_t refused : {0U, 1U}) {
      for (const std::size_t from : {1U, 30U}) {
        SCOPED_TRACE(std::string(collective_name(collective)) + ", rank " + std::to_string(refused) +
                     " refused from call " + std::to_string(from) + " on");
        test::RefusingKernel kernel;
        const transport::KernelInPlace in_force(kernel);
        const auto groups = test::formed_pair([](int) { return HostGroup::create(); });
        std::vector<HostCollective> all = test::collectives_of(groups);
        ASSERT_EQ(all.size(), 2u);
        std::vector<Caller> callers = callers_of(all, kBytes);
        // Where one rank gives or gets all, only one reads.
        const int root = static_cast<int>(collective == Collective::kGather ? refused : 1 - refused);
        std::size_t since_failed = 0;  // calls
        for (std::size_t call = 0; since_failed < 3 && call < from + kMostUntilRead; ++call) {
          for (Caller& one : callers) one.start({collective, kBytes, 3, root, false});
          const std::size_t before = kernel.reads;
          const HostWay way = all[0].way();
          ASSERT_EQ(way, all[1].way());
          for (int turn = 0; turn < 100; ++turn) {
            for (std::size_t rank : {0U, 1U}) {
              kernel.forbids = rank == refused && call >= from;
              all[rank].progress();
            }
          }
          for (Caller& one : callers) {
            ASSERT_TRUE(one.collective().finished()) << "call " << call;
            ASSERT_EQ(one.end(), "");
            ASSERT_TRUE(call < from || one.collective().way() == HostWay::kThroughSlots) << "call " << call;
          }
          ASSERT_TRUE(since_failed == 0 || kernel.reads == before) << "call " << call << " tries again";
          if (since_failed > 0 || (call >= from && way == HostWay::kFromBuffers)) ++since_failed;
        }
        EXPECT_GT(since_failed, 0U) << "no call went from buffers";
      }
    }
  }
}

}  // namespace
}  // namespace tombolo::collectives
