#include "tools/stuck/findings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/stuck/page.h"

namespace tombolo::tools::stuck {
namespace {

using collectives::OperationState;
using collectives::RankReport;
using collectives::ReportedCommunicator;
using collectives::WaitKind;

/// A job of ranks that all wait in all_reduce #7 of comm/0, each for the one before it, over TCP. What was
/// sent has come.
JobView ring(std::int64_t ranks) {
  JobView job{"127.0.0.1:29400", {}, {}};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    ReportedCommunicator one;
    one.name = "comm/0";
    one.stuck_seconds = 31;
    for (std::int64_t each = 0; each < ranks; ++each) one.ranks.push_back(each);
    one.operations.push_back({6, "barrier", "", "", 0, -1, false, OperationState::kCompleted, 1});
    one.operations.push_back({7, "all_reduce", "float", "sum", 1024, -1, false, OperationState::kStarted, 2});
    const std::int64_t before = (rank + ranks - 1) % ranks, after = (rank + 1) % ranks;
    one.waits.push_back({7, before, WaitKind::kReceive, 0, 2, 6, 1024});
    one.links.push_back({before, 0, "tcp", "eth0", "eth0", "10.0.0.1:1", 4, 4, 1, 0});
    if (after != before) one.links.push_back({after, 0, "tcp", "eth0", "eth0", "10.0.0.2:1", 4, 4, 1, 0});
    RankReport report{rank, "host" + std::to_string(rank), 100 + rank, 1'000, {one}};
    job.ranks.push_back({rank, report.host, report.process, ProcessState::kSleeping, report});
  }
  return job;
}

ReportedCommunicator& state_of(JobView& job, std::size_t rank) {
  return job.ranks[rank].report->communicators.front();
}

/// The only culprit.
Culprit culprit_of(const JobView& job) {
  const Findings findings = find(job);
  EXPECT_EQ(findings.culprits.size(), 1u) << page_of(job, findings);
  return findings.culprits.empty() ? Culprit{} : findings.culprits.front();
}

using Ranks = std::vector<std::int64_t>;

TEST(StuckFindings, BlameNobodyWhereNothingPointsAtAnyone) {
  const JobView job = ring(4);
  const Findings findings = find(job);
  EXPECT_TRUE(findings.culprits.empty());
  ASSERT_EQ(findings.groups.size(), 1u);
  EXPECT_EQ(findings.groups[0].ranks, (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(findings.waits.size(), 4u);
  const std::string page = page_of(job, findings);
  EXPECT_NE(page.find("ranks 0-3      waiting in all_reduce #7 (1024 float sum) of comm/0"),
            std::string::npos)
      << page;
  EXPECT_NE(
      page.find("rank 0 waits for rank 3 to receive message 3 of 6 (1 KiB), tcp eth0 -> eth0 (10.0.0.1:1)"),
      std::string::npos)
      << page;
  EXPECT_NE(page.find("nobody: all ranks wait in the same calls"), std::string::npos);
}

TEST(StuckFindings, BlameARankThatIsWaitedForAndWaitsInNoCall) {
  JobView job = ring(4);
  job.ranks[2].report.reset();
  const Culprit culprit = culprit_of(job);
  EXPECT_EQ(culprit.kind, CulpritKind::kAbsent);
  EXPECT_EQ(culprit.ranks, Ranks{2});
  EXPECT_EQ(culprit.text,
            "rank 2 on host host2 (process 102, sleeping) waits in no call, and rank 3 waits for it in "
            "all_reduce #7 (1024 float sum) of comm/0");
  EXPECT_NE(culprit.next.find("py-spy dump --pid 102"), std::string::npos);
}

TEST(StuckFindings, BlameNoRankThatNobodyWaitsFor) {
  JobView job = ring(4);
  job.ranks[2].report->communicators.clear();  // it has gone on
  state_of(job, 3).waits.clear();
  EXPECT_TRUE(find(job).culprits.empty());
}

TEST(StuckFindings, BlameAProcessThatIsStoppedThoughItSaidThatItWaits) {
  JobView job = ring(3);
  job.ranks[1].state = ProcessState::kStopped;
  const Culprit culprit = culprit_of(job);
  EXPECT_EQ(culprit.kind, CulpritKind::kStopped);
  EXPECT_EQ(culprit.ranks, Ranks{1});
  EXPECT_NE(culprit.next.find("kill -CONT 101"), std::string::npos);
}

TEST(StuckFindings, BlameAProcessThatIsGoneOnce) {
  JobView job = ring(3);
  job.ranks[1].state = ProcessState::kGone;
  job.ranks[1].report.reset();
  EXPECT_EQ(culprit_of(job).kind, CulpritKind::kGone);
}

TEST(StuckFindings, BlameTheRankThatMadeAnotherCall) {
  JobView job = ring(4);
  auto& other = state_of(job, 3).operations.back();
  other.collective = "broadcast";
  other.op.clear();
  other.root = 0;
  const Culprit culprit = culprit_of(job);
  EXPECT_EQ(culprit.kind, CulpritKind::kMismatch);
  EXPECT_EQ(culprit.ranks, Ranks{3});
  EXPECT_NE(
      culprit.text.find("ranks 0-2 called all_reduce #7 (1024 float sum), rank 3 called broadcast #7 (1024 "
                        "float, root 0)"),
      std::string::npos)
      << culprit.text;
}

TEST(StuckFindings, BlameAllWhereNoCallHasMoreRanksThanEveryOther) {
  JobView job = ring(4);
  state_of(job, 0).operations.back().count = state_of(job, 1).operations.back().count = 5;
  EXPECT_EQ(culprit_of(job).ranks, (Ranks{0, 1, 2, 3}));
}

TEST(StuckFindings, LetPartsDifferWhereTheyMay) {
  JobView job = ring(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    state_of(job, rank).operations.back().uneven = true;
    state_of(job, rank).operations.back().count = rank;
  }
  EXPECT_TRUE(find(job).culprits.empty());
}

TEST(StuckFindings, BlameALinkThatSwallowsMessages) {
  JobView job = ring(4);
  state_of(job, 1).links[1].messages_sent = 5;  // to rank 2, which has received 4
  const Culprit culprit = culprit_of(job);
  EXPECT_EQ(culprit.kind, CulpritKind::kLink);
  EXPECT_EQ(culprit.ranks, (Ranks{1, 2}));
  EXPECT_NE(culprit.text.find("nothing moves from rank 1 to rank 2, tcp eth0 -> eth0"), std::string::npos)
      << culprit.text;
  EXPECT_NE(culprit.text.find("rank 1 has sent 5 messages and rank 2 has received 4"), std::string::npos);
  EXPECT_NE(culprit.next.find("between host host1 and host host2"), std::string::npos);
}

TEST(StuckFindings, BlameALinkOverWhichASendIsPending) {
  JobView job = ring(4);
  state_of(job, 1).waits.push_back({7, 2, WaitKind::kSend, 0, 4, 6, 1024});
  EXPECT_EQ(culprit_of(job).ranks, (Ranks{1, 2}));
}

TEST(StuckFindings, BlameALinkOverWhichNoConnectionIsMade) {
  JobView job = ring(4);
  state_of(job, 1).waits[0].kind = WaitKind::kConnect;  // with rank 0, which wants it too
  state_of(job, 0).waits.push_back({7, 1, WaitKind::kConnect, 0, 0, 6, 1024});
  const Culprit culprit = culprit_of(job);
  EXPECT_EQ(culprit.kind, CulpritKind::kLink);
  EXPECT_EQ(culprit.ranks, (Ranks{0, 1}));
}

TEST(StuckFindings, BlameTheLinkToARankInAnEarlierCollectiveThanTheRest) {
  JobView job = ring(4);
  for (const std::size_t rank : {0u, 1u, 3u}) {
    state_of(job, rank).operations.back().state = OperationState::kCompleted;
    state_of(job, rank).operations.push_back(
        {8, "barrier", "", "", 0, -1, false, OperationState::kStarted, 3});
  }
  const Culprit culprit = culprit_of(job);
  EXPECT_EQ(culprit.kind, CulpritKind::kLink);
  EXPECT_EQ(culprit.ranks, (Ranks{1, 2}));
}

TEST(StuckFindings, BlameARankThatCallsTwoCommunicatorsInAnotherOrder) {
  JobView job = ring(4);
  auto& other = state_of(job, 3);
  other.name = "comm/0/1.0";
  other.waits[0].peer = 0;  // which waits for it in comm/0
  const Culprit first = find(job).culprits.front();
  EXPECT_EQ(first.kind, CulpritKind::kOrder);
  EXPECT_EQ(first.ranks, Ranks{3});
  EXPECT_NE(first.text.find("comm/0/1.0, while rank 0 waits for it in all_reduce #7"), std::string::npos)
      << first.text;
}

TEST(StuckFindings, ListRanksInRanges) {
  EXPECT_EQ(list_of_ranks({3}), "rank 3");
  EXPECT_EQ(list_of_ranks({0, 1, 2, 5, 6}), "ranks 0-2, 5, 6");
}

TEST(StuckPage, StaysShortForAJobOfManyRanksAndNamesWhatWasNotReached) {
  JobView job = ring(5000);
  job.unreached.emplace_back("the store at nowhere");
  const std::string page = page_of(job, find(job));
  EXPECT_LT(std::count(page.begin(), page.end(), 0x0a), 100);
  EXPECT_NE(page.find("Not reached\n  the store at nowhere\n"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::tools::stuck
