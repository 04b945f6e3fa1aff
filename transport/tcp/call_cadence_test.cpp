#include "transport/tcp/call_cadence.h"

#include <gtest/gtest.h>

namespace tombolo::transport::tcp {
namespace {

/// After how many calls of it `due` says yes.
template <typename Due>
int calls_until(const Due& due) {
  for (int calls = 1; calls <= 10'000; ++calls)
    if (due()) return calls;
  ADD_FAILURE() << "never";
  return 0;
}

TEST(CallCadence, AnEndThatOnlySendsLooksOnceInSoManyCallsWhetherThePeerHasClosed) {
  CallCadence cadence;
  const auto reads = [&] { return cadence.reads_unasked(); };
  EXPECT_EQ(calls_until(reads), 64);
  EXPECT_TRUE(cadence.reads_unasked()) << "it is due until somebody reads";
  cadence.reads();
  EXPECT_EQ(calls_until(reads), 64);
}

TEST(CallCadence, ReadingForAnotherReasonCountsToo) {
  CallCadence cadence;
  for (int i = 0; i < 63; ++i) ASSERT_FALSE(cadence.reads_unasked());
  cadence.reads();
  EXPECT_EQ(calls_until([&] { return cadence.reads_unasked(); }), 64);
}

TEST(CallCadence, TheClockIsReadWhereNothingMovesAndElseOnceInSoManyPasses) {
  CallCadence cadence;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(cadence.reads_clock(false, false)) << "nothing else is to be done";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(calls_until([&] { return cadence.reads_clock(true, false); }), 256);
}

TEST(CallCadence, TheClockIsReadMoreOftenWhileSomethingIsDueSoon) {
  CallCadence cadence;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(calls_until([&] { return cadence.reads_clock(true, true); }), 8);
}

}  // namespace
}  // namespace tombolo::transport::tcp
