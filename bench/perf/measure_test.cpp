// Which calls a measurement makes, on one rank and with a collective that only writes them down.
#include "bench/perf/measure.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace tombolo::bench {
namespace {

std::vector<Call>& calls_made() {
  static std::vector<Call> calls;
  return calls;
}

/// A copy of one rank's input, which in place is there already.
Collective recorded() {
  Collective collective = *find_collective("all_gather");
  collective.run = [](const Call& call) {
    calls_made().push_back(call);
    if (call.send != call.receive)
      std::memcpy(call.receive, call.send, call.count * tomboloTypeSize(call.type));
  };
  return collective;
}

class PerfMeasure : public ::testing::Test {
 protected:
  PerfMeasure() {
    flags_.minimum_bytes = flags_.maximum_bytes = 4096;
    flags_.iterations = 3;
    flags_.warmup_iterations = 2;
    flags_.checks = 0;
    calls_made().clear();
  }
  Measurement measured(std::size_t bytes, Placement placement = Placement::kOutOfPlace,
                       tomboloDataType_t type = tomboloFloat32) {
    const Point point{shape_of(collective_.partitioning, bytes, tomboloTypeSize(type), 1), type, tomboloSum,
                      -1};
    return Measurer(collective_, flags_, communicator_).measure(point, placement);
  }
  api::Communicator communicator_{1, api::make_unique_id(), 0};
  Flags flags_;
  Collective collective_ = recorded();
};

TEST_F(PerfMeasure, WarmsUpAndOnceMoreBeforeItTakesTheTime) {
  const Measurement found = measured(4096);
  EXPECT_EQ(calls_made().size(), 2U + 1 + 3);
  EXPECT_EQ(found.iterations.size(), 3U);
  EXPECT_GE(found.seconds, found.least);
  EXPECT_GE(found.median, found.least);
  EXPECT_EQ(found.cpu_seconds, 0) << "not asked for";
  EXPECT_EQ(found.wrong, std::nullopt);
}

TEST_F(PerfMeasure, CountsEveryCallOfAnIteration) {
  flags_.aggregated = 4;
  measured(4096);
  EXPECT_EQ(calls_made().size(), 2U * 4 + 1 + 3 * 4);
}

TEST_F(PerfMeasure, SuccessiveCallsUseSuccessivePartsOfTheBuffers) {
  flags_.aggregated = 5;
  flags_.warmup_iterations = 0;
  measured(1024);
  const std::byte* const begin = calls_made()[0].receive;
  std::vector<std::ptrdiff_t> at;
  for (std::size_t i = 1; i <= 5; ++i) at.push_back(calls_made()[i].receive - begin);
  EXPECT_EQ(at, (std::vector<std::ptrdiff_t>{0, 1024, 2048, 3072, 0})) << "four fit into 4096 bytes";
  for (const Call& call : calls_made()) EXPECT_NE(call.send, call.receive);
}

TEST_F(PerfMeasure, ASizeThatDoesNotDivideTheBuffersStaysInside) {
  flags_.aggregated = 3;
  measured(3000);
  for (const Call& call : calls_made()) EXPECT_EQ(call.receive, calls_made()[0].receive) << "only one fits";
}

TEST_F(PerfMeasure, InPlaceBothAreInOneBuffer) {
  measured(4096, Placement::kInPlace);
  for (const Call& call : calls_made()) EXPECT_EQ(call.send, call.receive);
}

TEST_F(PerfMeasure, UnalignedBuffersBeginSoManyElementsLater) {
  const auto misaligned = [&] {
    calls_made().clear();
    measured(4096, Placement::kOutOfPlace, tomboloInt16);
    return reinterpret_cast<std::uintptr_t>(calls_made()[0].receive) % 4096;
  };
  EXPECT_EQ(misaligned(), 0U);
  flags_.unalign = 3;
  EXPECT_EQ(misaligned(), 6U);
}

TEST_F(PerfMeasure, ChecksAsOftenAsAskedWithOtherValuesEachTime) {
  flags_.checks = 3;
  EXPECT_EQ(measured(4096).wrong, 0);
  EXPECT_EQ(calls_made().size(), 2U + 1 + 3 + 3);
}

TEST_F(PerfMeasure, EndsCheckingAtTheFirstWrongResult) {
  flags_.checks = 3;
  collective_.run = [](const Call& call) { calls_made().push_back(call); };
  const Measurement found = measured(4096);
  EXPECT_EQ(found.wrong, 1024) << "what was there before has no element right";
  EXPECT_EQ(found.failed_checks, 1);
  EXPECT_EQ(calls_made().size(), 2U + 1 + 3 + 1);
}

TEST_F(PerfMeasure, AResultInPlaceThatIsNotDefinedIsNotChecked) {
  flags_.checks = 1;
  collective_.in_place = false;
  EXPECT_EQ(measured(4096, Placement::kInPlace).wrong, std::nullopt);
  EXPECT_EQ(measured(4096, Placement::kOutOfPlace).wrong, 0);
}

TEST_F(PerfMeasure, OfNoBytesIsCalledAllTheSame) {
  flags_.checks = 1;
  EXPECT_EQ(measured(0).wrong, 0);
  EXPECT_EQ(calls_made()[0].count, 0U);
}

TEST_F(PerfMeasure, TakesProcessorTimeWhereAskedFor) {
  flags_.cpu_time = true;
  collective_.run = [](const Call&) {
    // Enough to be seen by a clock of any resolution.
    volatile double sum = 0;
    for (int i = 0; i < 100'000; ++i) sum = sum + i;
  };
  EXPECT_GT(measured(4096).cpu_seconds, 0);
}

}  // namespace
}  // namespace tombolo::bench
