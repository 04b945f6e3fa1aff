#include "collectives/host/host_group.h"

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "transport/testing/forwarding_kernel.h"

namespace tombolo::collectives {
namespace {

using Absence = HostGroup::Absence;
using Standing = HostGroup::Standing;

std::vector<std::unique_ptr<HostGroup>> make(std::size_t ranks) {
  std::vector<std::unique_ptr<HostGroup>> groups(ranks);
  for (auto& group : groups) group = HostGroup::create();
  return groups;
}

std::vector<HostCard> cards_of(const std::vector<std::unique_ptr<HostGroup>>& groups) {
  std::vector<HostCard> cards;
  for (const auto& group : groups) cards.push_back(group->card());
  return cards;
}

TEST(HostGroup, IsFormedOnceEveryRankHasMappedAllOthers) {
  const auto groups = make(3);
  const auto cards = cards_of(groups);
  groups[0]->join(cards, 0);
  groups[2]->join(cards, 2);
  EXPECT_EQ(groups[0]->look(), Standing::kForming);
  groups[1]->join(cards, 1);
  EXPECT_EQ(groups[0]->standing(), Standing::kForming) << "nobody has looked";
  for (const auto& group : groups) EXPECT_EQ(group->look(), Standing::kFormed);
  EXPECT_EQ(groups[0]->standing(), Standing::kFormed);
}

TEST(HostGroup, IsRefusedByAllWhereOneCannotBeMapped) {
  const auto without = [](auto&& spoil) {
    const auto groups = make(3);
    auto cards = cards_of(groups);
    spoil(cards[1]);
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i]->join(cards, static_cast<int>(i));
    for (const auto& group : groups) EXPECT_EQ(group->look(), Standing::kRefused);
    EXPECT_EQ(groups[0]->refusal().find("rank 1: "), 0U) << groups[0]->refusal();
    EXPECT_TRUE(groups[1]->refusal().empty());
  };
  without([](HostCard& card) { card = {}; });
  without([](HostCard& card) { ++card.token; });
  without([](HostCard& card) { card.memory = 0; });
  without([](HostCard& card) { card.doorbell = card.memory; });
  without([](HostCard& card) { card.process = 0x7ffffff0; });
}

/// Or the process of another has ended.
bool doorbell_rings(const HostGroup& group) {
  std::vector<pollfd> handles;
  group.append_wait_handles(handles);
  return poll(handles.data(), static_cast<nfds_t>(handles.size()), 0) > 0;
}

TEST(HostGroup, WakesOnlyWhoSleeps) {
  const auto groups = make(2);
  const auto cards = cards_of(groups);
  groups[0]->join(cards, 0);
  groups[1]->join(cards, 1);
  for (const auto& group : groups) {  // what they told each other when they came
    group->fall_asleep();
    group->wake_up();
  }
  groups[1]->announce(1);
  EXPECT_FALSE(doorbell_rings(*groups[0]));
  EXPECT_TRUE(groups[0]->has_announced(1, 1));
  groups[0]->fall_asleep();
  groups[1]->announce(2);
  EXPECT_TRUE(doorbell_rings(*groups[0]));
  groups[0]->wake_up();
  EXPECT_FALSE(doorbell_rings(*groups[0]));
  groups[0]->fall_asleep();
  groups[1]->leave();
  EXPECT_TRUE(doorbell_rings(*groups[0]));
  EXPECT_EQ(groups[0]->absence(1), Absence::kLeft);
  EXPECT_EQ(groups[1]->absence(0), Absence::kNone);
}

/// Counts the reads of other processes' memory that ask for a proof.
class CountedReads final : public transport::test::ForwardingKernel {
 public:
  ssize_t process_vm_readv(pid_t process, const iovec* own, unsigned long own_count, const iovec* theirs,
                           unsigned long their_count, unsigned long flags) noexcept override {
    proofs += their_count > 1;
    return ForwardingKernel::process_vm_readv(process, own, own_count, theirs, their_count, flags);
  }
  int proofs = 0;
};

TEST(HostGroup, ReadsBuffersWithoutAProofForAShortTime) {
  using Outcome = transport::shm::PeerMemory::Outcome;
  const auto groups = make(2);
  const auto cards = cards_of(groups);
  for (std::size_t i = 0; i < 2; ++i) groups[i]->join(cards, static_cast<int>(i));
  for (const auto& group : groups) ASSERT_EQ(group->look(), Standing::kFormed);
  if (!groups[0]->reads_buffers()) GTEST_SKIP() << "the system lets nobody read the memory of others";
  const std::array<std::byte, 4> buffer{std::byte{7}, std::byte{8}, std::byte{9}, std::byte{10}};
  CountedReads kernel;
  const transport::KernelInPlace in_place(kernel);
  FakeClock clock;
  const auto read = [&] {
    std::array<std::byte, 4> seen{};
    const Outcome outcome =
        groups[0]->read_buffer(1, seen, reinterpret_cast<std::uint64_t>(buffer.data()), clock);
    if (outcome == Outcome::kRead) {
      EXPECT_EQ(seen, buffer);
    }
    return outcome;
  };
  EXPECT_EQ(read(), Outcome::kRead);
  EXPECT_EQ(kernel.proofs, 1);
  clock.advance(std::chrono::microseconds(90));
  EXPECT_EQ(read(), Outcome::kRead);
  EXPECT_EQ(kernel.proofs, 1);
  clock.advance(std::chrono::microseconds(90));
  EXPECT_EQ(read(), Outcome::kRead) << "longer after the last proof, though not after the last read";
  EXPECT_EQ(kernel.proofs, 2);
  groups[1]->withdraw();
  EXPECT_EQ(read(), Outcome::kNotThePeer) << "shortly after a proof";
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(read(), Outcome::kNotThePeer);
}

/// A process with a group of its own, which says its card and sleeps for good.
class SleepingMember {
 public:
  SleepingMember() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    process_ = fork();
    if (process_ == 0) {
      const auto kept = HostGroup::create();
      const HostCard own = kept->card();
      if (write(ends[1], &own, sizeof(own)) != static_cast<ssize_t>(sizeof(own))) _exit(1);
      for (;;) pause();
    }
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &card_, sizeof(card_)), static_cast<ssize_t>(sizeof(card_)));
    close(ends[0]);
  }
  ~SleepingMember() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  SleepingMember(const SleepingMember&) = delete;
  SleepingMember& operator=(const SleepingMember&) = delete;
  pid_t process() const { return process_; }
  const HostCard& card() const { return card_; }

 private:
  pid_t process_ = -1;
  HostCard card_;
};

TEST(HostGroup, NoticesThatAProcessHasEnded) {
  const SleepingMember member;
  const auto own = HostGroup::create();
  const std::array cards{own->card(), member.card()};
  own->join(cards, 0);
  EXPECT_EQ(own->look(), Standing::kForming);
  const auto absence = [&] {
    own->look_for_ended();
    return own->absence(1);
  };
  EXPECT_EQ(absence(), Absence::kNone);
  EXPECT_FALSE(own->has_voted(1));
  EXPECT_FALSE(doorbell_rings(*own));
  kill(member.process(), SIGKILL);
  pollfd none{-1, 0, 0};
  bool woken = false;
  for (int waited = 0; !woken && waited < 2000; ++waited) {
    poll(&none, 1, 5);
    woken = doorbell_rings(*own);
  }
  EXPECT_TRUE(woken) << "by the end of the process";
  EXPECT_EQ(absence(), Absence::kEnded);
  EXPECT_FALSE(doorbell_rings(*own)) << "a known end wakes nobody";
  EXPECT_EQ(absence(), Absence::kEnded);
}

std::array<std::byte, 4> member_values{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

/// As when the reader is stopped between looking at the clock and reading: the member dies, and another
/// process gets its number.
class NumberThatComesBack final : public transport::test::ForwardingKernel {
 public:
  NumberThatComesBack(pid_t member, FakeClock& clock) : member_(member), clock_(clock) {}
  ssize_t process_vm_readv(pid_t process, const iovec* own, unsigned long own_count, const iovec* theirs,
                           unsigned long their_count, unsigned long flags) noexcept override {
    if (their_count == 1 && process == member_ && !replaced) replace();
    return ForwardingKernel::process_vm_readv(process, own, own_count, theirs, their_count, flags);
  }
  bool replaced = false, could_not = false;

 private:
  void replace() {
    replaced = true;
    clock_.advance(std::chrono::seconds(1));
    kill(member_, SIGKILL);
    waitpid(member_, nullptr, 0);
    int ends[2];
    if (pipe(ends) != 0) return;
    clone_args given{};
    pid_t wanted = member_;
    given.exit_signal = SIGCHLD;
    given.set_tid = reinterpret_cast<std::uint64_t>(&wanted);
    given.set_tid_size = 1;
    const long other = syscall(SYS_clone3, &given, sizeof(given));
    if (other == 0) {
      member_values.fill(std::byte{99});
      if (write(ends[1], "x", 1) != 1) _exit(1);
      for (;;) pause();
    }
    could_not = other != member_;
    char there = 0;
    if (!could_not && read(ends[0], &there, 1) != 1) could_not = true;
    close(ends[0]);
    close(ends[1]);
  }
  pid_t member_;
  FakeClock& clock_;
};

TEST(HostGroup, TakesNoBytesOfAnotherProcessForTheMembers) {
  using Outcome = transport::shm::PeerMemory::Outcome;
  const SleepingMember member;
  const auto own = HostGroup::create();
  const std::array cards{own->card(), member.card()};
  own->join(cards, 0);
  FakeClock clock;
  NumberThatComesBack kernel(member.process(), clock);
  const transport::KernelInPlace in_place(kernel);
  std::array<std::byte, 4> seen{};
  const auto from = reinterpret_cast<std::uint64_t>(member_values.data());
  EXPECT_EQ(own->read_buffer(1, seen, from, clock), Outcome::kRead);
  EXPECT_EQ(seen, member_values);
  const Outcome second = own->read_buffer(1, seen, from, clock);
  ASSERT_TRUE(kernel.replaced);
  if (kernel.could_not) GTEST_SKIP() << "no process may choose its number here";
  EXPECT_NE(second, Outcome::kRead) << "value " << static_cast<int>(seen[0]);
}

}  // namespace
}  // namespace tombolo::collectives
