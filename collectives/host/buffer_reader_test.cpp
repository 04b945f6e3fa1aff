// Copies straight from the buffers of other ranks: among processes against what the ranks have given, where
// the system refuses to read, and where a rank gives up in the middle.
#include "collectives/host/buffer_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <random>

#include "base/randomized_test.h"
#include "collectives/testing/host_ranks.h"

namespace tombolo::collectives {
namespace {

using test::Bytes;
using test::collectives_of;
using test::formed_pair;
using test::given_byte;
using test::RefusingKernel;
using test::sum_of_given_bytes;

constexpr std::size_t kLarge = std::size_t{1} << 20;

TEST(BufferReader, SuitsCallsWhoseBytesHaveOneReader) {
  EXPECT_TRUE(BufferReader::suits(Collective::kAllToAll, kLarge, 5));
  EXPECT_TRUE(BufferReader::suits(Collective::kAllGather, kLarge, 2));
  EXPECT_TRUE(BufferReader::suits(Collective::kBroadcast, kLarge, 2));
  EXPECT_FALSE(BufferReader::suits(Collective::kAllGather, kLarge, 3));
  EXPECT_FALSE(BufferReader::suits(Collective::kBroadcast, kLarge, 3));
  EXPECT_FALSE(BufferReader::suits(Collective::kAllToAll, 1000, 2));
  EXPECT_TRUE(BufferReader::suits(Collective::kAllToAll, kLarge / 16, 2));
  EXPECT_TRUE(BufferReader::suits(Collective::kScatter, kLarge, 3));
  EXPECT_FALSE(BufferReader::suits(Collective::kGather, kLarge, 3));
  EXPECT_FALSE(BufferReader::suits(Collective::kReduce, kLarge, 3));
  EXPECT_TRUE(BufferReader::suits(Collective::kAllReduce, kLarge, 2)) << "the sums of the other rank";
  EXPECT_FALSE(BufferReader::suits(Collective::kAllReduce, kLarge, 3));
  EXPECT_FALSE(BufferReader::suits(Collective::kReduceScatter, kLarge, 2));
}

TEST(BufferReader, IsSlowerThanStreamsOfFewRanksThatCopyMuch) {
  EXPECT_TRUE(BufferReader::is_slower_than_streams(2, 1));
  EXPECT_FALSE(BufferReader::is_slower_than_streams(4, 2));
  EXPECT_TRUE(BufferReader::is_slower_than_streams(4, 8));
  EXPECT_FALSE(BufferReader::is_slower_than_streams(8, 8));
}

// --- ranks that are processes

/// What the processes of a test see of each other before they are a group.
struct Meeting {
  std::atomic<int> arrived;
  HostCard cards[8];
};

void wait_for(const auto& done) {
  while (!done()) sched_yield();  // the parent ends whoever waits in vain
}

/// A rank's calls, which `seed` draws alike for all; false after a wrong byte.
bool make_calls(HostGroup& group, std::uint64_t seed) {
  HostCollective collective(group);
  std::mt19937_64 random(seed);
  const int ranks = group.size(), own = group.index();
  const auto n = static_cast<std::size_t>(ranks), me = static_cast<std::size_t>(own);
  std::uint64_t reads = 0;
  for (std::size_t call = 0; call < 24; ++call) {
    const std::array kinds{Collective::kAllToAll,  Collective::kAllGather, Collective::kBroadcast,
                           Collective::kAllReduce, Collective::kGather,    Collective::kScatter,
                           Collective::kReduce};
    const Collective kind = kinds[random() % kinds.size()];
    // Around the thresholds, around a slot and around a turn.
    const std::array sizes{std::size_t{32} << 10, std::size_t{64} << 10, std::size_t{128} << 10,
                           std::size_t{512} << 10, BufferReader::kTurn};
    const std::size_t bytes = sizes[random() % sizes.size()] + random() % 5 - 2;
    const std::size_t offset = random() % 64;
    const bool in_place =
        random() % 2 == 0 && !(kind == Collective::kAllToAll || kind == Collective::kScatter);
    const int root = static_cast<int>(random() % n);
    const bool is_root = own == root;
    const bool gathers = kind == Collective::kAllGather || kind == Collective::kGather;
    const bool scatters = kind == Collective::kAllToAll || kind == Collective::kScatter;
    Bytes input(offset + bytes * (scatters ? n : 1));
    const bool parts_out = gathers || kind == Collective::kAllToAll;
    Bytes output(offset + bytes * (parts_out ? n : 1));
    std::byte* const out = output.data() + offset;
    std::byte* const in = in_place ? out + (gathers ? me * bytes : 0) : input.data() + offset;
    const std::size_t given = scatters ? n * bytes : bytes;
    if (kind != Collective::kBroadcast || is_root || !in_place)
      for (std::size_t i = 0; i < given; ++i) in[i] = given_byte(own, call, i);
    collective.start({kind, {bytes, 1, false, root}, DataType::kInt8, ReduceOp::kSum, in, out, {}});
    wait_for([&] {
      collective.progress();
      return collective.finished();
    });
    const bool one_gives = kind == Collective::kBroadcast || kind == Collective::kScatter;
    const bool one_gets = kind == Collective::kGather || kind == Collective::kReduce;
    if (kind != Collective::kAllReduce && BufferReader::suits(kind, bytes, ranks))
      reads += one_gives ? (is_root ? 0 : bytes) : one_gets && !is_root ? 0 : (n - 1) * bytes;
    for (std::size_t i = 0; i < output.size() - offset && (is_root || !one_gets); ++i) {
      const int from = static_cast<int>(i / bytes);
      const std::size_t at = i % bytes;
      const std::byte expected = kind == Collective::kAllReduce || kind == Collective::kReduce
                                     ? sum_of_given_bytes(ranks, call, i)
                                 : kind == Collective::kBroadcast ? given_byte(root, call, i)
                                 : kind == Collective::kScatter   ? given_byte(root, call, me * bytes + at)
                                 : gathers                        ? given_byte(from, call, at)
                                                                  : given_byte(from, call, me * bytes + at);
      if (out[i] == expected) continue;
      fprintf(stderr, "rank %d of %d: byte %zu of call %zu (%s of %zu bytes, root %d%s) is wrong\n", own,
              ranks, i, call, std::string(collective_name(kind)).c_str(), bytes, root,
              in_place ? ", in place" : "");
      return false;
    }
    // The others have read: what the owner does to its buffer now harms nobody.
    std::fill(input.begin(), input.end(), std::byte{0xee});
  }
  return collective.read() >= reads;
}

int rank_process(Meeting& meeting, int rank, int ranks, std::uint64_t seed) {
  const auto group = HostGroup::create();
  if (!group) return 2;
  meeting.cards[rank] = group->card();
  ++meeting.arrived;
  wait_for([&] { return meeting.arrived == ranks; });
  group->join({meeting.cards, static_cast<std::size_t>(ranks)}, rank);
  wait_for([&] { return group->look() != HostGroup::Standing::kForming; });
  if (group->standing() == HostGroup::Standing::kRefused) return 3;
  if (!make_calls(*group, seed)) return 4;
  // Its descriptors are what the slower ones join by.
  ++meeting.arrived;
  wait_for([&] { return meeting.arrived == 2 * ranks; });
  return 0;
}

TEST(BufferReader, GivesEveryProcessTheBytesOfTheOthers) {
  const std::uint64_t seed = test_seed();
  for (int ranks = 2; ranks <= 5; ++ranks) {
    void* shared = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    auto& meeting = *static_cast<Meeting*>(shared);
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t child = fork();
      if (child == 0) _exit(rank_process(meeting, rank, ranks, seed + static_cast<std::uint64_t>(ranks)));
      ASSERT_GT(child, 0);
      children.push_back(child);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    bool failed = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t child = children[static_cast<std::size_t>(rank)];
      int status = 0;
      pid_t ended = 0;
      while (!failed && (ended = waitpid(child, &status, WNOHANG)) == 0 &&
             std::chrono::steady_clock::now() < end)
        usleep(1000);
      if (ended != child) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
      }
      if (status != 0) failed = true;
      EXPECT_EQ(status, 0) << "rank " << rank << " of " << ranks
                           << (ended == child ? "" : ", which was ended");
    }
    munmap(shared, sizeof(Meeting));
    ASSERT_FALSE(failed);
  }
}

/// One of two ranks' calls number so many, as `seed` has drawn it for both, into buffers of kMostOfTwo bytes.
constexpr std::size_t kMostOfTwo = std::size_t{1} << 20;
HostCall call_of_two(std::uint64_t seed, std::size_t call, int rank, Bytes& input, Bytes& output) {
  std::mt19937_64 random(seed + call);
  const std::array kinds{Collective::kAllToAll,  Collective::kAllGather, Collective::kBroadcast,
                         Collective::kAllReduce, Collective::kGather,    Collective::kScatter,
                         Collective::kReduce};
  const Collective kind = kinds[random() % kinds.size()];
  const std::size_t bytes = random() % 3 == 0 ? 5000 : (std::size_t{256} << 10) - random() % 70;
  const int root = static_cast<int>(random() % 2);
  for (std::size_t i = 0; i < 2 * bytes; ++i) input[i] = given_byte(rank, call, i);
  return {kind, {bytes, 1, false, root}, DataType::kInt8, ReduceOp::kSum, input.data(), output.data(), {}};
}

/// Makes calls until it is ended.
[[noreturn]] void call_for_good(Meeting& meeting, std::uint64_t seed) {
  const auto group = HostGroup::create();
  if (!group) _exit(2);
  meeting.cards[1] = group->card();
  ++meeting.arrived;
  group->join({meeting.cards, 2}, 1);
  wait_for([&] { return group->look() != HostGroup::Standing::kForming; });
  HostCollective collective(*group);
  Bytes input(kMostOfTwo), output(kMostOfTwo);
  for (std::size_t call = 0;; ++call) {
    collective.start(call_of_two(seed, call, 1, input, output));
    wait_for([&] {
      collective.progress();
      return collective.finished();
    });
  }
}

/// Ends a child process, however the test ends.
struct EndsChild {
  pid_t child;
  ~EndsChild() {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
};

// Whichever way the call went at that moment, as often the one as the other, and whoever had chosen it. Where
// the child may not read its parent, all calls go through slots.
TEST(BufferReader, AwaitsAProcessThatIsKilledInACallOfEitherWay) {
  const std::uint64_t seed = test_seed();
  std::array<int, 2> killed_in{}, to_kill_in{};  // by HostWay
  for (std::size_t round = 0; round < 12; ++round) {
    void* shared = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    auto& meeting = *static_cast<Meeting*>(shared);
    const auto group = HostGroup::create();
    ASSERT_TRUE(group);
    meeting.cards[0] = group->card();
    const pid_t child = fork();
    if (child == 0) call_for_good(meeting, seed + 1000 * round);
    ASSERT_GT(child, 0);
    const EndsChild ends{child};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto in_time = [&] { return std::chrono::steady_clock::now() < end; };
    while (meeting.arrived == 0 && in_time()) sched_yield();
    group->join({meeting.cards, 2}, 0);
    while (group->look() == HostGroup::Standing::kForming && in_time()) sched_yield();
    ASSERT_EQ(group->standing(), HostGroup::Standing::kFormed);
    HostCollective collective(*group);
    Bytes input(kMostOfTwo), output(kMostOfTwo);
    // In a call from this one on the other is killed: from buffers, through slots by choice, or any way
    // through slots.
    const std::size_t last = 20 + round;
    const HostWay wanted =
        round % 2 == 0 && group->reads_buffers() ? HostWay::kFromBuffers : HostWay::kThroughSlots;
    ++to_kill_in[static_cast<std::size_t>(wanted)];
    const std::size_t least = round % 4 == 1 ? kMostOfTwo / 8 : 0;
    bool killed = false, gone = false;
    for (std::size_t call = 0; !gone && in_time(); ++call) {
      const HostCall now = call_of_two(seed + 1000 * round, call, 0, input, output);
      collective.start(now);
      const bool fits = call >= last && collective.way() == wanted && now.problem.bytes() >= least;
      for (std::size_t turns = 0; !collective.finished() && !gone && in_time(); ++turns) {
        if (!killed && fits && turns >= round / 2 % 3) {
          killed = kill(child, SIGKILL) == 0;
          ++killed_in[static_cast<std::size_t>(wanted)];
        }
        group->look_for_ended();  // before the look at what it has announced
        const bool ended = group->absence(1) == HostGroup::Absence::kEnded;
        if (!collective.progress() && ended && !collective.finished()) gone = true;
      }
      ASSERT_FALSE(collective.mismatch());
    }
    EXPECT_TRUE(gone) << "no call was left unfinished";
    EXPECT_EQ(collective.awaited(), 1);
    EXPECT_TRUE(collective.owes(1)) << "else the call would go on for good";
    munmap(shared, sizeof(Meeting));
  }
  const int slots = killed_in[static_cast<std::size_t>(HostWay::kThroughSlots)];
  const int buffers = killed_in[static_cast<std::size_t>(HostWay::kFromBuffers)];
  std::printf("killed in %d calls through slots and in %d from buffers\n", slots, buffers);
  EXPECT_EQ(killed_in, to_kill_in) << "by HostWay";
}

// --- ranks of one thread

/// Ranks of one process that exchange `kLarge` bytes with each other.
class Exchange : public testing::Test {
 protected:
  static constexpr std::size_t kRanks = 3;

  void form(const auto& before_joining) {
    std::vector<HostCard> cards;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      groups_.push_back(HostGroup::create());
      cards.push_back(groups_.back()->card());
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      before_joining(rank);
      groups_[rank]->join(cards, static_cast<int>(rank));
    }
    for (const auto& group : groups_) {
      ASSERT_EQ(group->look(), HostGroup::Standing::kFormed);
      all_.emplace_back(*group);
    }
  }
  void form() {
    form([](std::size_t) {});
  }
  void start() {
    ++call_;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      Bytes& in = inputs_[rank];
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = given_byte(static_cast<int>(rank), call_, i);
      outputs_[rank].assign(kRanks * kLarge, std::byte{});
      all_[rank].start({Collective::kAllToAll,
                        {kLarge, 1, false, 0},
                        DataType::kInt8,
                        ReduceOp::kSum,
                        in.data(),
                        outputs_[rank].data(),
                        {}});
    }
  }
  void turns(std::initializer_list<std::size_t> ranks) {
    for (int turn = 0; turn < 100; ++turn)
      for (const std::size_t rank : ranks) all_[rank].progress();
  }
  void expect_right() {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(all_[rank].finished()) << rank;
      for (std::size_t i = 0; i < outputs_[rank].size(); ++i) {
        ASSERT_EQ(outputs_[rank][i],
                  given_byte(static_cast<int>(i / kLarge), call_, rank * kLarge + i % kLarge))
            << "byte " << i << " of rank " << rank;
      }
    }
  }
  /// What a call gives to others is counted, whichever way it goes, and once.
  void expect_counted() const {
    for (const HostCollective& one : all_) {
      EXPECT_EQ(one.written(), call_ * (kRanks - 1) * kLarge);
      EXPECT_EQ(one.read(), call_ * (kRanks - 1) * kLarge);
    }
  }
  bool wrote_into_slots() const {
    return std::ranges::any_of(groups_, [](const auto& group) {
      const std::span bytes(group->own().slots[0], sizeof group->own().slots);
      return std::ranges::any_of(bytes, [](std::byte byte) { return byte != std::byte{0}; });
    });
  }

  RefusingKernel kernel_;
  transport::KernelInPlace in_place_{kernel_};
  std::vector<std::unique_ptr<HostGroup>> groups_;
  std::vector<HostCollective> all_;
  std::vector<Bytes> inputs_ = std::vector<Bytes>(kRanks, Bytes(kRanks*kLarge)), outputs_ = inputs_;
  std::size_t call_ = 0;
};

TEST_F(Exchange, WritesNothingForOthersWhereAllMayReadBuffers) {
  form();
  for (int call = 0; call < 2; ++call) {  // the third one tries the other way
    start();
    turns({2, 0, 1});
    expect_right();
  }
  EXPECT_FALSE(wrote_into_slots());
  expect_counted();
}

TEST_F(Exchange, GoesThroughSlotsForAllWhereOneMayNotReadBuffers) {
  form([&](std::size_t rank) { kernel_.forbids = rank == 1; });
  for (const auto& group : groups_) EXPECT_FALSE(group->reads_buffers());
  start();
  turns({0, 1, 2});
  expect_right();
  EXPECT_TRUE(wrote_into_slots());
  EXPECT_EQ(kernel_.reads, 0U);
  expect_counted();
}

// As of memory that a driver has mapped, and of a process whose first thread has ended while others live.
TEST_F(Exchange, StartsAgainThroughSlotsWhereABufferCannotBeRead) {
  for (const int error : {EFAULT, ESRCH}) {
    groups_.clear();
    all_.clear();
    call_ = 0;
    form();
    kernel_.unreadable = &inputs_[2];
    kernel_.unreadable_error = error;
    start();
    turns({0, 1, 2});
    expect_right();
    EXPECT_TRUE(wrote_into_slots());
    expect_counted();
    kernel_.unreadable = nullptr;
    const std::size_t reads = kernel_.reads;
    start();
    turns({2, 1, 0});
    expect_right();
    EXPECT_EQ(kernel_.reads, reads) << "later calls do not try again";
    expect_counted();
  }
}

// In place the input is gone by then: what was summed up goes on through slots.
TEST(BufferReader, SpreadsTheSumsOfAnAllReduceThroughSlotsWhereTheyCannotBeRead) {
  for (const int unreadable : {0, 1}) {
    for (const bool in_place : {false, true}) {
      RefusingKernel kernel;
      const transport::KernelInPlace in_force(kernel);
      const auto groups = formed_pair([](int) { return HostGroup::create(); });
      std::vector<HostCollective> all = collectives_of(groups);
      ASSERT_EQ(all.size(), 2u);
      std::vector<Bytes> inputs(2, Bytes(kLarge)), outputs = inputs;
      kernel.unreadable = &outputs[static_cast<std::size_t>(unreadable)];
      for (std::size_t call = 0; call < 2; ++call) {
        const std::size_t reads = kernel.reads;
        for (std::size_t rank = 0; rank < 2; ++rank) {
          Bytes& in = in_place ? outputs[rank] : inputs[rank];
          for (std::size_t i = 0; i < kLarge; ++i) in[i] = given_byte(static_cast<int>(rank), call, i);
          all[rank].start({Collective::kAllReduce,
                           {kLarge, 1, false, 0},
                           DataType::kInt8,
                           ReduceOp::kSum,
                           in.data(),
                           outputs[rank].data(),
                           {}});
        }
        for (int turn = 0; turn < 1000; ++turn)
          for (HostCollective& one : all) one.progress();
        for (std::size_t rank = 0; rank < 2; ++rank) {
          ASSERT_TRUE(all[rank].finished()) << rank;
          for (std::size_t i = 0; i < kLarge; ++i)
            ASSERT_EQ(outputs[rank][i], sum_of_given_bytes(2, call, i))
                << "byte " << i << " of rank " << rank;
        }
        EXPECT_EQ(kernel.reads > reads, call == 0) << "later calls do not try again";
      }
    }
  }
}

/// The rank that combines, whose values are multiplied, and what of the other's buffer cannot be read.
struct HinderedReduce {
  int root = 0;
  int multiplies = -1;  // neither
  bool in_place = false;
  std::size_t readable = 0;  // bytes from the beginning on
  bool average = false;
};

// What the root has combined so far it must not combine again: in place it is its input, too.
TEST(BufferReader, CombinesTheRestOfAReduceThroughSlotsWhereItCannotBeRead) {
  std::vector<HinderedReduce> all_cases;
  for (const int root : {0, 1})
    for (const bool in_place : {false, true}) {
      for (const std::size_t readable :
           {std::size_t{0}, std::size_t{64} << 10, std::size_t{200} << 10, SIZE_MAX})
        for (const bool average : {false, true}) all_cases.push_back({root, -1, in_place, readable, average});
      for (const int multiplies : {0, 1}) all_cases.push_back({root, multiplies, in_place, SIZE_MAX});
    }
  constexpr std::size_t kBytes = (std::size_t{300} << 10) + 4;
  for (const HinderedReduce& one : all_cases) {
    SCOPED_TRACE(fmt::format("root {}, {} multiplies, {} bytes can be read{}{}", one.root, one.multiplies,
                             one.readable, one.in_place ? ", in place" : "", one.average ? ", average" : ""));
    RefusingKernel kernel;
    const transport::KernelInPlace in_force(kernel);
    const auto groups = formed_pair([](int) { return HostGroup::create(); });
    std::vector<HostCollective> all = collectives_of(groups);
    ASSERT_EQ(all.size(), 2u);
    std::vector<std::vector<std::int32_t>> inputs(2, std::vector<std::int32_t>(kBytes / 4));
    auto outputs = inputs;
    if (one.readable < kBytes) {
      auto* from = reinterpret_cast<std::byte*>(inputs[static_cast<std::size_t>(1 - one.root)].data());
      kernel.unreadable_bytes = {from + one.readable, kBytes - one.readable};
    }
    const std::int32_t factor = 3;
    for (std::int32_t call = 0; call < 3; ++call) {
      const std::size_t reads = kernel.reads;
      for (int rank = 0; rank < 2; ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        auto& in = one.in_place && rank == one.root ? outputs[at] : inputs[at];
        for (std::size_t i = 0; i < in.size(); ++i)
          in[i] = static_cast<std::int32_t>(i) * 7 + rank * 100 + call;
        Problem problem{in.size(), sizeof(std::int32_t), one.average, one.root};
        problem.premultiplied = rank == one.multiplies;
        all[at].start({Collective::kReduce, problem, DataType::kInt32, ReduceOp::kSum,
                       reinterpret_cast<const std::byte*>(in.data()),
                       reinterpret_cast<std::byte*>(outputs[at].data()),
                       Factor::at(&factor, DataType::kInt32)});
      }
      for (int turn = 0; turn < 1000; ++turn)
        for (HostCollective& rank : all) rank.progress();
      const auto& got = outputs[static_cast<std::size_t>(one.root)];
      for (const HostCollective& rank : all) ASSERT_TRUE(rank.finished()) << "call " << call;
      for (std::size_t i = 0; i < got.size(); ++i) {
        std::int32_t sum = 0;
        for (int rank = 0; rank < 2; ++rank)
          sum +=
              (static_cast<std::int32_t>(i) * 7 + rank * 100 + call) * (rank == one.multiplies ? factor : 1);
        ASSERT_EQ(got[i], one.average ? sum / 2 : sum) << "element " << i << " of call " << call;
      }
      EXPECT_TRUE(call == 0 || one.readable == SIZE_MAX || kernel.reads == reads)
          << "later calls do not try again";
      const auto calls = static_cast<std::uint64_t>(call + 1);
      EXPECT_EQ(all[static_cast<std::size_t>(one.root)].read(), calls * kBytes);
      EXPECT_EQ(all[static_cast<std::size_t>(1 - one.root)].written(), calls * kBytes);
    }
  }
}

// The kernel would bring into the caches what it overwrites.
TEST(BufferReader, ReadsNothingOfTwoRanksWhoseOutputsFillTheOnlyCache) {
  constexpr std::size_t kCall = 1, kWritten = 4 * kLarge;
  const compute::LastLevelCaches settings[] = {{kWritten, 1}, {kWritten + 1, 1}, {kWritten, 2}};
  for (const compute::LastLevelCaches caches : settings) {
    RefusingKernel kernel;
    const transport::KernelInPlace in_force(kernel);
    const auto groups = formed_pair([&](int rank) {  // the first rank's count
      return HostGroup::create(Reach::kBuffers, rank == 0 ? caches : compute::LastLevelCaches{1, 1});
    });
    std::vector<HostCollective> all = collectives_of(groups);
    ASSERT_EQ(all.size(), 2u);
    std::vector<Bytes> inputs(2, Bytes(2 * kLarge)), outputs = inputs;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (std::size_t i = 0; i < 2 * kLarge; ++i)
        inputs[rank][i] = given_byte(static_cast<int>(rank), kCall, i);
      all[rank].start({Collective::kAllToAll,
                       {kLarge, 1, false, 0},
                       DataType::kInt8,
                       ReduceOp::kSum,
                       inputs[rank].data(),
                       outputs[rank].data(),
                       {}});
    }
    for (int turn = 0; turn < 1000; ++turn)
      for (HostCollective& one : all) one.progress();
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(all[rank].finished()) << rank;
      for (std::size_t i = 0; i < 2 * kLarge; ++i)
        ASSERT_EQ(outputs[rank][i],
                  given_byte(static_cast<int>(i / kLarge), kCall, rank * kLarge + i % kLarge))
            << "byte " << i << " of rank " << rank;
    }
    EXPECT_EQ(kernel.reads > 0, caches.bytes > kWritten || caches.count > 1);
  }
}

TEST_F(Exchange, TellsWhoHasReadAllThatOthersStillCopy) {
  form();
  start();
  EXPECT_FALSE(all_[0].others_have_copied());
  for (int turn = 0; turn < 3; ++turn)
    for (std::size_t rank : {1U, 2U}) all_[rank].progress();
  EXPECT_TRUE(all_[0].others_have_copied());
  EXPECT_FALSE(all_[0].others_have_copied());
  turns({0, 1, 2});
  expect_right();
  EXPECT_TRUE(all_[0].others_have_copied());
}

TEST_F(Exchange, AwaitsARankThatGivesUpBeforeItHasReadAll) {
  form();
  start();
  turns({0});       // announces its buffer
  turns({1, 2});    // read it, but wait for rank 0 to have read theirs
  all_[0].clear();  // and from here on its caller may do to the buffer what it likes
  turns({1, 2});
  EXPECT_FALSE(all_[1].finished());
  EXPECT_TRUE(all_[1].owes(0));
  EXPECT_FALSE(all_[1].owes(2));
}

TEST_F(Exchange, MissesARankThatHasReadAllAndGivesUpBeforeItIsRead) {
  form();
  start();
  for (int turn = 0; turn < 3; ++turn)
    all_[1].progress(), all_[2].progress();  // they announce, before rank 0
  all_[0].progress();                        // its own bytes
  all_[0].progress();                        // those of rank 1
  all_[0].progress();                        // those of rank 2; it has read all, and announces that
  all_[0].progress();
  turns({2});
  EXPECT_FALSE(all_[1].owes(2));
  EXPECT_TRUE(all_[1].owes(0)) << "its bytes are still to be read";
  all_[0].clear();
  std::fill(inputs_[0].begin(), inputs_[0].end(), std::byte{0xee});
  turns({1, 2});
  EXPECT_FALSE(all_[1].finished());
  EXPECT_EQ(all_[1].awaited(), 0);
  EXPECT_TRUE(all_[1].owes(0));
}

}  // namespace
}  // namespace tombolo::collectives
