// What single pairs attained, by pair. The loads themselves are tested with the whole probe
// (tests/process/probe_test.cpp), what follows from them in analyse/.
#include "probe/under_load.h"

#include <gtest/gtest.h>

namespace tombolo::probe {
namespace {

using Rates = std::optional<std::pair<double, double>>;

TEST(PairRates, AreFoundFromEitherEnd) {
  PairRates rates;
  rates.add({2, 5, 0, 1}, 10, 20);
  rates.add({5, 2, 0, 0}, 30, 40);
  EXPECT_EQ(rates.find({2, 5, 0, 1}), Rates({10, 20}));
  EXPECT_EQ(rates.find({5, 2, 1, 0}), Rates({20, 10}));
  EXPECT_EQ(rates.find({5, 2, 0, 0}), Rates({30, 40}));
  EXPECT_EQ(rates.find({2, 5, 0, 0}), Rates({40, 30}));
}

TEST(PairRates, TellOtherNicsAndHostsApart) {
  PairRates rates;
  rates.add({2, 5, 0, 1}, 10, 20);
  EXPECT_EQ(rates.find({2, 5, 1, 0}), std::nullopt) << "the NICs of the other ends";
  EXPECT_EQ(rates.find({5, 2, 0, 1}), std::nullopt);
  EXPECT_EQ(rates.find({2, 4, 0, 1}), std::nullopt);
  rates.add({5, 2, 1, 0}, 1, 2);
  EXPECT_EQ(rates.find({2, 5, 0, 1}), Rates({2, 1})) << "the later measurement counts";
}

}  // namespace
}  // namespace tombolo::probe
