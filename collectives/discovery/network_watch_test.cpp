#include "collectives/discovery/network_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace tombolo::collectives {
namespace {

using std::chrono::milliseconds;
constexpr std::uint64_t kMebi = 1 << 20;

/// Four ranks on hosts of their own; ranks 0 and 1 in one island where there are two.
class Watches {
 public:
  explicit Watches(Islands found) {
    for (std::size_t rank = 0; rank < 4; ++rank) all_.emplace_back(found, found.of_host, hosts_, rank);
  }
  static Islands one_island(double rate) {
    Islands found;
    found.of_host = {0, 0, 0, 0};
    found.count = 1;
    found.inside_bytes_per_second = rate;
    found.inside_latency_seconds = 1e-4;
    return found;
  }
  static Islands two_islands(double between) {
    Islands found;
    found.of_host = {0, 0, 1, 1};
    found.count = 2;
    found.inside_bytes_per_second = 1e9;
    found.inside_latency_seconds = 1e-4;
    found.between_bytes_per_second = between;
    found.between_latency_seconds = 1e-3;
    return found;
  }

  /// In which each rank received so much from each other one.
  void call(const std::vector<std::vector<std::uint64_t>>& bytes, const std::vector<milliseconds>& took) {
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      const std::size_t number = all_[rank].count();
      all_[rank].note(number, took[rank], all_[rank].sort(bytes[rank]));
    }
  }
  void count() {
    for (NetworkWatch& one : all_) one.count();
  }
  bool due() const { return all_.front().due(); }
  NetworkWatch::Judgement check() {
    std::vector<float> reports;
    for (NetworkWatch& one : all_) {
      const auto own = one.begin_check(able_);
      reports.insert(reports.end(), own.begin(), own.end());
    }
    for (const NetworkWatch& one : all_)
      EXPECT_EQ(one.judge(reports).verdict, all_.front().judge(reports).verdict);
    return all_.front().judge(reports);
  }

  bool able_ = true;  // to measure

 private:
  std::vector<std::size_t> hosts_{0, 1, 2, 3};
  std::vector<NetworkWatch> all_;
};

/// A ring in the ranks' order.
std::vector<std::vector<std::uint64_t>> ring(std::uint64_t bytes) {
  return {{0, 0, 0, bytes}, {bytes, 0, 0, 0}, {0, bytes, 0, 0}, {0, 0, bytes, 0}};
}
std::vector<milliseconds> all_in(milliseconds took) {
  return {4, took};
}

TEST(NetworkWatch, IsDueEverMoreRarely) {
  Watches watches(Watches::one_island(1e8));
  std::vector<std::size_t> checks;
  for (std::size_t call = 1; call <= 1100; ++call) {
    watches.count();
    if (!watches.due()) continue;
    EXPECT_EQ(watches.check().verdict, NetworkVerdict::kAsFound) << "nothing was noted";
    checks.push_back(call);
  }
  EXPECT_EQ(checks, (std::vector<std::size_t>{8, 32, 128, 512}));
}

TEST(NetworkWatch, IsDueLaterTheOftenerTheNetworkWasMeasured) {
  const Islands found = Watches::one_island(1e8);
  NetworkWatch watch(found, found.of_host, {0, 1, 2, 3}, 0, 2);
  std::size_t calls = 0;
  for (; !watch.due(); ++calls) watch.count();
  EXPECT_EQ(calls, 16 * NetworkWatch::kFirstCheck);
}

TEST(NetworkWatch, FindsNothingWhereARankCouldNotMeasure) {
  Watches watches(Watches::one_island(1e9));
  watches.able_ = false;
  watches.call(ring(100 * kMebi), all_in(milliseconds(400)));
  EXPECT_EQ(watches.check().verdict, NetworkVerdict::kAsFound);
  watches.able_ = true;
  EXPECT_EQ(watches.check().verdict, NetworkVerdict::kSlower);
}

// What the others received would be missing from the sum.
TEST(NetworkWatch, FindsNothingSlowInACallThatNotAllNoted) {
  Watches watches(Watches::one_island(1e9));
  watches.call(ring(100 * kMebi), {milliseconds(400), milliseconds(400), milliseconds(0), milliseconds(400)});
  EXPECT_EQ(watches.check().verdict, NetworkVerdict::kAsFound);
}

TEST(NetworkWatch, TakesNoCallForLargeThatLatenciesHide) {
  Islands found = Watches::two_islands(1e9);
  found.between_latency_seconds = 0.05;
  const NetworkWatch far(found, found.of_host, {0, 1, 2, 3}, 0);
  EXPECT_FALSE(far.shows_rates(700'000'000));
  EXPECT_TRUE(far.shows_rates(900'000'000));
  std::vector<std::size_t> hosts;
  Islands many = Watches::one_island(1e9);
  many.of_host.assign(64, 0);
  for (std::size_t host = 0; host < 64; ++host) hosts.push_back(host);
  EXPECT_FALSE(NetworkWatch(many, many.of_host, hosts, 0).shows_rates(25'000'000)) << "of 390 kB to a host";
  EXPECT_TRUE(NetworkWatch(many, many.of_host, hosts, 0).shows_rates(26'000'000));
  const Islands one = Watches::one_island(1e6);
  const NetworkWatch near(one, one.of_host, {0, 1, 2, 3}, 0);
  EXPECT_FALSE(near.shows_rates(kMebi - 1));
  EXPECT_TRUE(near.shows_rates(kMebi));
}

TEST(NetworkWatch, FindsOneIslandSlowerWhereNoCallAttainsAThird) {
  Watches watches(Watches::one_island(1e9));
  watches.call(ring(100 * kMebi), all_in(milliseconds(400)));
  const auto found = watches.check();
  EXPECT_EQ(found.verdict, NetworkVerdict::kSlower);
  EXPECT_NE(found.why.find("Gbit/s between hosts, where 8 Gbit/s were found"), std::string::npos)
      << found.why;
  watches.call(ring(100 * kMebi), all_in(milliseconds(400)));
  watches.call(ring(100 * kMebi), all_in(milliseconds(200)));
  watches.call(ring(100 * kMebi), all_in(milliseconds(900)));
  EXPECT_EQ(watches.check().verdict, NetworkVerdict::kAsFound) << "one call was fast enough";
}

// Who came early waited for the last, which did not wait at all.
TEST(NetworkWatch, CountsTheShortestTimeOfACall) {
  Watches watches(Watches::one_island(1e9));
  watches.call(ring(100 * kMebi),
               {milliseconds(5000), milliseconds(150), milliseconds(4000), milliseconds(9000)});
  EXPECT_EQ(watches.check().verdict, NetworkVerdict::kAsFound);
}

TEST(NetworkWatch, AddsUpWhatTheHostsOfAnIslandReceive) {
  // 1 and 3 receive from the other island, and 0 and 2 as well.
  const std::vector<std::vector<std::uint64_t>> crossing{
      {0, 0, 20 * kMebi, 0}, {0, 0, 0, 20 * kMebi}, {20 * kMebi, 0, 0, 0}, {0, 20 * kMebi, 0, 0}};
  Watches watches(Watches::two_islands(1e8));
  watches.call(crossing, all_in(milliseconds(1000)));
  EXPECT_EQ(watches.check().verdict, NetworkVerdict::kAsFound) << "42 MB/s of 100";
  Watches others(Watches::two_islands(1e8));
  others.call(crossing, all_in(milliseconds(2000)));
  const auto found = others.check();
  EXPECT_EQ(found.verdict, NetworkVerdict::kSlower) << "21 MB/s of 100";
  EXPECT_NE(found.why.find("between islands"), std::string::npos) << found.why;
}

TEST(NetworkWatch, FindsIslandsNearerWhereOneHostReceivesMuchFaster) {
  Watches watches(Watches::two_islands(1e7));
  watches.call(ring(10 * kMebi), all_in(milliseconds(400)));
  EXPECT_EQ(watches.check().verdict, NetworkVerdict::kAsFound) << "26 MB/s, where 10 were found";
  watches.call(ring(10 * kMebi), all_in(milliseconds(200)));
  const auto found = watches.check();
  EXPECT_EQ(found.verdict, NetworkVerdict::kNearer) << "52 MB/s";
  EXPECT_NE(found.why.find("5.2 times"), std::string::npos) << found.why;
}

// Who came late found there what the others had sent long before.
TEST(NetworkWatch, TakesNoHostForNearWhereARankCameLate) {
  Watches watches(Watches::two_islands(1e7));
  watches.call(ring(10 * kMebi),
               {milliseconds(1000), milliseconds(1000), milliseconds(100), milliseconds(900)});
  EXPECT_EQ(watches.check().verdict, NetworkVerdict::kAsFound);
}

TEST(NetworkWatch, HoldsPairsOfIslandsAgainstWhatWasFoundOfThem) {
  Islands found = Watches::two_islands(1e7);
  found.of_host = {0, 1, 2, 2};
  found.count = 3;
  found.between = {{0, 1e7, 1e8}, {1e7, 0, 1e7}, {1e8, 1e7, 0}};
  Watches watches(found);
  // 50 MB/s from island 0 to 2, where 100 were found, and 5 between the others.
  watches.call({{0, 0, 0, 0}, {kMebi, 0, 0, 0}, {10 * kMebi, 0, 0, 0}, {0, kMebi, 0, 0}},
               all_in(milliseconds(200)));
  EXPECT_EQ(watches.check().verdict, NetworkVerdict::kAsFound);
}

TEST(NetworkWatch, HearsNothingOfCallsThatOnlySomeNoted) {
  const Islands found = Watches::one_island(1e9);
  NetworkWatch watch(found, found.of_host, {0, 1, 2, 3}, 0);
  const std::vector<std::uint64_t> received{0, kMebi, 0, 0};
  const std::size_t first = watch.count();
  watch.note(first, milliseconds(1), watch.sort(received));
  for (std::size_t i = 0; i < NetworkWatch::kKept; ++i) watch.count();
  watch.note(first, milliseconds(1), watch.sort(received));  // too late
  for (const float each : watch.begin_check(false)) EXPECT_EQ(each, 0);
}

}  // namespace
}  // namespace tombolo::collectives
