#include "collectives/discovery/islands.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "base/randomized_test.h"

namespace tombolo::collectives {
namespace {

constexpr double kLan = 30e-6;

/// Every two hosts with the rate and latency that `link` gives, in both directions alike.
template <typename Link>
LinkMatrix planted(std::size_t hosts, const Link& link) {
  LinkMatrix links(hosts);
  for (std::size_t i = 0; i < hosts; ++i) {
    for (std::size_t j = i + 1; j < hosts; ++j) {
      const auto [rate, latency] = link(i, j);
      links.bytes_per_second[i][j] = links.bytes_per_second[j][i] = rate;
      links.latency_seconds[i][j] = links.latency_seconds[j][i] = latency;
    }
  }
  return links;
}

TEST(Islands, OfHostsThatAreEquallyFarAreOneThoughWhatTheyAttainDiffersSomewhat) {
  std::mt19937_64 random(test_seed());
  std::uniform_real_distribution<double> noise(1, 1.8);
  for (std::size_t hosts = 1; hosts <= 24; ++hosts) {
    const auto links = planted(hosts, [&](auto, auto) { return std::pair(1e9 / noise(random), kLan); });
    EXPECT_EQ(find_islands(links).count, 1) << hosts;
  }
}

TEST(Islands, AreFoundWhateverTheirSizesAndRates) {
  std::mt19937_64 random(test_seed());
  std::uniform_real_distribution<double> noise(1, 1.5);
  for (int round = 0; round < 300; ++round) {
    const int islands = 2 + static_cast<int>(random() % 3);
    std::vector<int> of_host;
    for (int island = 0; island < islands; ++island) of_host.insert(of_host.end(), 2 + random() % 5, island);
    std::shuffle(of_host.begin(), of_host.end(), random);
    const double between = 1e7 * static_cast<double>(1 + random() % 20);
    const auto links = planted(of_host.size(), [&](std::size_t i, std::size_t j) {
      const bool same = of_host[i] == of_host[j];
      return std::pair((same ? between * 12 * (1 + of_host[i]) : between) / noise(random), kLan);
    });
    const Islands found = find_islands(links);
    EXPECT_EQ(found.count, islands);
    for (std::size_t i = 0; i < of_host.size(); ++i) {
      for (std::size_t j = 0; j < of_host.size(); ++j)
        EXPECT_EQ(found.of_host[i] == found.of_host[j], of_host[i] == of_host[j]) << i << " and " << j;
    }
    EXPECT_GT(found.inside_bytes_per_second, 4 * found.between_bytes_per_second);
  }
}

// As on a machine whose processors others use. The hosts of an island form a line of pairs that were not.
TEST(Islands, AreFoundThoughManyPairsWereHeldUp) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 100; ++round) {
    const std::size_t hosts = 4 + random() % 20;
    for (const std::size_t islands : {1, 2}) {
      const auto links = planted(hosts, [&](std::size_t i, std::size_t j) {
        const bool held_up = j != i + islands && random() % 2 == 0;
        const double longer = held_up ? 1 + static_cast<double>(random() % 30) : 1;
        return std::pair((i % islands == j % islands ? 1e9 : 1e8) / longer, kLan * longer);
      });
      const Islands found = find_islands(links);
      EXPECT_EQ(found.count, static_cast<int>(islands));
      for (std::size_t host = 0; host < hosts; ++host)
        EXPECT_EQ(found.of_host[host], static_cast<int>(host % islands)) << host;
    }
  }
}

TEST(Islands, AreApartWhereOnlyTheLatencyIs) {
  const auto links =
      planted(5, [](std::size_t i, std::size_t j) { return std::pair(1e9, i / 2 == j / 2 ? kLan : 10e-3); });
  EXPECT_EQ(find_islands(links).of_host, (std::vector<int>{0, 0, 1, 1, 2}));
}

TEST(Islands, AreNotMadeByTwoHostsThatHappenToBeQuick) {
  const auto links =
      planted(8, [](std::size_t i, std::size_t j) { return std::pair(i == 1 && j == 4 ? 1e10 : 1e9, kLan); });
  EXPECT_EQ(find_islands(links).count, 1);
}

TEST(Islands, LeaveOneSlowHostAlone) {
  const auto links =
      planted(5, [](std::size_t i, std::size_t j) { return std::pair(i == 2 || j == 2 ? 1e8 : 1e9, kLan); });
  EXPECT_EQ(find_islands(links).of_host, (std::vector<int>{0, 0, 1, 0, 0}));
}

TEST(Islands, CountPairsThatWereNotMeasuredAsTheFarthest) {
  auto links =
      planted(4, [](std::size_t i, std::size_t j) { return std::pair(i / 2 == j / 2 ? 1e9 : 1e7, kLan); });
  links.bytes_per_second[0][3] = links.bytes_per_second[3][0] = 0;
  EXPECT_EQ(find_islands(links).of_host, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(find_islands(LinkMatrix(3)).count, 1) << "nothing was measured";
}

TEST(Islands, CountPairsThatWereTriedInVainAsFarther) {
  auto links = planted(4, [](auto, auto) { return std::pair(1e9, kLan); });
  for (const std::size_t other : {0, 1, 3})
    links.bytes_per_second[2][other] = links.bytes_per_second[other][2] = LinkMatrix::kNotAttained;
  EXPECT_EQ(find_islands(links).of_host, (std::vector<int>{0, 0, 1, 0})) << "nothing got through to one";
  links = planted(4, [](std::size_t i, std::size_t j) {
    return i / 2 == j / 2 ? std::pair(1e9, kLan) : std::pair(0.0, 20e-3);
  });
  links.bytes_per_second[0][2] = links.bytes_per_second[2][0] = LinkMatrix::kNotAttained;
  EXPECT_EQ(find_islands(links).of_host, (std::vector<int>{0, 0, 1, 1})) << "the only pair across failed";
  links.bytes_per_second[0][2] = links.bytes_per_second[2][0] = 0;
  EXPECT_EQ(find_islands(links).of_host, (std::vector<int>{0, 0, 1, 1})) << "there was no time for it";
}

TEST(Islands, AreUnlikeInsideWhereSomeOfTheirHostsWereHeldUp) {
  const auto unlike = [](double rate_of_last) {
    const auto links = planted(6, [&](std::size_t i, std::size_t j) {
      const bool between = i < 3 && j >= 3;
      return std::pair(between ? 1e6 : j == 2 ? rate_of_last : 1e9, kLan);
    });
    const Islands found = find_islands(links);
    EXPECT_EQ(found.count, 2) << rate_of_last;
    return unlike_inside(found, links);
  };
  EXPECT_FALSE(unlike(1e9));
  EXPECT_FALSE(unlike(4e8));
  EXPECT_TRUE(unlike(2e8));
}

TEST(LinkMatrices, KeepTheBestThatWasMeasured) {
  LinkMatrix links(2);
  links.learn_rate(0, 1, LinkMatrix::kNotAttained);
  EXPECT_EQ(links.bytes_per_second[0][1], LinkMatrix::kNotAttained);
  for (const double rate : {5.0, 0.0, 7.0, 6.0, LinkMatrix::kNotAttained}) links.learn_rate(0, 1, rate);
  EXPECT_EQ(links.bytes_per_second[0][1], 7);
  EXPECT_EQ(links.bytes_per_second[1][0], 0) << "another direction";
  for (const double latency : {0.0, 3.0, 2.0, 0.0, 4.0}) links.learn_latency(1, 0, latency);
  EXPECT_EQ(links.latency_seconds[0][1], 2);
  EXPECT_EQ(links.latency_seconds[1][0], 2);
}

TEST(Islands, AreTheSameAfterTheyWereText) {
  const Islands one{{0, 1, 0, 2}, 3, 1e9, 2e7, 1e-3};
  EXPECT_EQ(Islands::decode(one.encode(), 4, "x"), one);
  for (const std::string& text :
       {std::string("{"), std::string("{}"), Islands{{0, 2}, 3, 1, 1, 1}.encode(), one.encode()})
    EXPECT_THROW(Islands::decode(text, 2, "x"), Error) << text;
}

TEST(Islands, KeepWhatIsAttainedBetweenThem) {
  Islands one{{0, 1, 0, 2}, 3, 1e9, 2e7, 1e-3};
  one.between = {{0, 1e7, 2e7}, {3e7, 0, 4e7}, {5e7, 6e7, 0}};
  EXPECT_EQ(Islands::decode(one.encode(), 4, "x"), one);
  for (const std::vector<std::vector<double>>& wrong : {std::vector<std::vector<double>>{{0, 1}, {1, 0}},
                                                        {{0, 1, 1}, {1, 0, 1}, {1, 1}},
                                                        {{0, 1, 1}, {1, 0, -1}, {1, 1, 0}}}) {
    Islands broken = one;
    broken.between = wrong;
    EXPECT_THROW(Islands::decode(broken.encode(), 4, "x"), Error);
  }
}

TEST(Islands, MeetOncePerPairAndOneByOne) {
  const Islands islands{{0, 1, 0, 2, 3, 1}, 4, 1e9, 1e7, 1e-3};
  std::set<std::pair<int, int>> met;
  for (const auto& round : rounds_between(islands)) {
    std::set<int> busy;
    for (const auto& [left, right] : round) {
      EXPECT_LT(left, right);
      for (const int host : {left, right})
        EXPECT_TRUE(busy.insert(islands.of_host[static_cast<std::size_t>(host)]).second);
      met.emplace(left, right);
    }
  }
  EXPECT_EQ(met, (std::set<std::pair<int, int>>{{0, 1}, {0, 3}, {0, 4}, {1, 3}, {1, 4}, {3, 4}}));
}

void expect_disjoint(const std::vector<std::vector<std::pair<int, int>>>& rounds) {
  std::set<std::pair<int, int>> met;
  for (const auto& round : rounds) {
    std::set<int> busy;
    for (const auto& [left, right] : round) {
      EXPECT_LT(left, right);
      EXPECT_TRUE(busy.insert(left).second);
      EXPECT_TRUE(busy.insert(right).second);
      EXPECT_TRUE(met.emplace(left, right).second) << left << " and " << right << " meet twice";
    }
  }
}

TEST(SurveyRounds, PairEveryTwoHostsWhereNoneAreFarByLatency) {
  for (std::size_t hosts : {1, 2, 5, 16, 64, 65, 200}) {
    std::vector<std::vector<double>> latency(hosts, std::vector<double>(hosts, kLan));
    latency.front().back() = 3 * kLan;  // as of a busy host
    const auto rounds = survey_rounds(latency);
    expect_disjoint(rounds);
    EXPECT_LE(rounds.size(), kMostRounds);
    std::size_t pairs = 0;
    for (const auto& round : rounds) pairs += round.size();
    if (hosts <= kMostRounds) {
      EXPECT_EQ(pairs, hosts * (hosts - 1) / 2);
    }
    if (hosts > 1) {
      EXPECT_GE(pairs, std::min(hosts - 1, kMostRounds / 2) * (hosts / 2));
    }
  }
}

TEST(SurveyRounds, CrossALongWayOnceForEachTwoGroups) {
  std::vector<std::vector<double>> latency(9, std::vector<double>(9));
  const auto group = [](std::size_t host) { return host % 3; };
  for (std::size_t i = 0; i < 9; ++i) {
    for (std::size_t j = 0; j < 9; ++j) latency[i][j] = group(i) == group(j) ? kLan : 20e-3;
  }
  const auto rounds = survey_rounds(latency);
  expect_disjoint(rounds);
  int inside = 0, across = 0;
  for (const auto& round : rounds) {
    for (const auto& [left, right] : round)
      ++(group(static_cast<std::size_t>(left)) == group(static_cast<std::size_t>(right)) ? inside : across);
  }
  EXPECT_EQ(inside, 9);
  EXPECT_EQ(across, 3);
}

}  // namespace
}  // namespace tombolo::collectives
