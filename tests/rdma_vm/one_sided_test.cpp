// That NICs of real verbs write and read the other end's memory by themselves.
#include "transport/one_sided.h"

#include "tests/rdma_vm/verbs_fixture.h"

namespace tombolo::transport {
namespace {

using test::expect_in;
using test::random_data;

TEST_F(Verbs, NicsWriteAndReadTheOtherEndsMemoryByThemselves) {
  for (const std::size_t nics : {1, 2}) {
    RdmaOptions options;
    options.queue_pairs = 2;
    auto pair = connect(nics, options);
    OneSided* const left = pair.first->one_sided();
    ASSERT_NE(left, nullptr);
    // More than soft-RoCE takes at once.
    constexpr std::size_t kLargest = (9 << 20) + 7;
    auto here = random_data(random_, kLargest), there = random_data(random_, kLargest);
    const auto mine = left->open(here), theirs = pair.second->one_sided()->open(there);
    auto wanted_here = here, wanted_there = there;
    for (int turn = 0; turn < 40; ++turn) {
      const std::size_t limit = turn % 10 == 0 ? kLargest : turn % 2 == 0 ? 300'000 : 5'000;
      OneSidedOperation one;
      one.kind = random_() % 2 == 0 ? OneSidedOperation::Kind::kWrite : OneSidedOperation::Kind::kRead;
      one.bytes = 1 + random_() % limit;
      const std::size_t at = random_() % (kLargest - one.bytes + 1);
      one.offset = random_() % (kLargest - one.bytes + 1);
      one.window = mine.get();
      one.local = here.data() + at;
      one.remote = theirs->remote();
      const bool writes = one.kind == OneSidedOperation::Kind::kWrite;
      const std::byte* from = writes ? wanted_here.data() + at : wanted_there.data() + one.offset;
      std::copy_n(from, one.bytes, writes ? wanted_there.data() + one.offset : wanted_here.data() + at);
      ASSERT_EQ(left->begin(one), OneSided::Begun::kYes);
      for (const auto deadline = test::soon(); one.state == OneSidedOperation::State::kUnderWay;) {
        pair.first->progress();
        ASSERT_FALSE(deadline.passed());
      }
      ASSERT_EQ(one.state, OneSidedOperation::State::kDone) << test::why_failed(*pair.first);
      if (turn % 5 == 4) {  // comparing is what takes long on an emulated machine
        ASSERT_EQ(there, wanted_there) << "turn " << turn;
        ASSERT_EQ(here, wanted_here) << "turn " << turn;
      }
    }
  }
}

TEST_F(Verbs, ANicRefusesAWindowThatIsClosed) {
  auto pair = connect();
  std::vector<std::byte> here(10'000), there(10'000, std::byte{7});
  const auto mine = pair.first->one_sided()->open(here);
  auto theirs = pair.second->one_sided()->open(there);
  OneSidedOperation one;
  one.window = mine.get();
  one.local = here.data();
  one.bytes = here.size();
  one.remote = theirs->remote();
  theirs.reset();
  ASSERT_EQ(pair.first->one_sided()->begin(one), OneSided::Begun::kYes);
  for (const auto deadline = test::soon(); one.state == OneSidedOperation::State::kUnderWay;) {
    pair.first->progress();
    ASSERT_FALSE(deadline.passed());
  }
  EXPECT_EQ(one.state, OneSidedOperation::State::kLost);
  expect_in(test::why_failed(*pair.first), "no window, or not any more");
  EXPECT_EQ(there, std::vector<std::byte>(there.size(), std::byte{7}));
}

}  // namespace
}  // namespace tombolo::transport
