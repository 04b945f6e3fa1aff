// What becomes of it whether the two ends run on one processor.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "transport/shm/connection.h"
#include "transport/testing/forwarding_kernel.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::shm {
namespace {

/// Puts the calling thread on any processor, and counts what it asks for.
class KernelWithProcessors final : public test::ForwardingKernel {
 public:
  int processor = 0;
  std::size_t yields = 0, reads = 0;

  int sched_getcpu() noexcept override { return processor; }
  int sched_yield() noexcept override {
    ++yields;
    return 0;
  }
  ssize_t process_vm_readv(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                           unsigned long their_count, unsigned long flags) noexcept override {
    if (mine->iov_len >= CopyCost::kLeast) ++reads;
    return ForwardingKernel::process_vm_readv(process, mine, count, theirs, their_count, flags);
  }
};

class ShmProcessors : public testing::Test {
 protected:
  /// Turns of that end on that processor in which nothing moves; how often it yielded.
  std::size_t wait_in_vain(Connection& end, int processor) {
    kernel_.processor = processor;
    const std::size_t before = kernel_.yields;
    for (int turn = 0; turn < 1000; ++turn) end.progress();
    return kernel_.yields - before;
  }
  /// How many parts of messages the receiver on that processor reads in the memory of the sender on another.
  std::size_t read_parts(int sender, int receiver) {
    // Messages that take little, so that this does not come to the trial of the other way.
    constexpr std::size_t kMessages = 10, kSize = 64 * 1024;
    std::vector<std::byte> sent(kSize, std::byte{7});
    const std::size_t before = kernel_.reads;
    for (std::size_t i = 0; i < kMessages; ++i) {
      std::vector<std::byte> got(kSize);
      Request* receive = pair_.second->post_receive(got);
      set_costs();
      kernel_.processor = sender;
      Request* send = pair_.first->post_send(sent);
      std::size_t bytes = 0;
      for (bool received = false, done = false; !received || !done;) {
        kernel_.processor = receiver;
        received = received || pair_.second->test(receive, bytes) == Outcome::kDone;
        kernel_.processor = sender;
        done = done || pair_.first->test(send, bytes) == Outcome::kDone;
      }
      EXPECT_EQ(got, sent);
    }
    return kernel_.reads - before;
  }

  KernelWithProcessors kernel_;
  KernelInPlace in_place_{kernel_};
  test::Pair pair_ = test::make_connected({"Shm", false, {}, test::TestedBackend::Shm::kFetch});

 private:
  /// Two copies that overlap take less time than to read, and one after the other more.
  static void set_costs() {
    const auto book = CopyBook::of(kernel().getpid());
    for (int i = 0; i < 100; ++i) {
      book->into_ring.add(std::chrono::microseconds(100), 1'000'000);
      book->out_of_ring.add(std::chrono::microseconds(100), 1'000'000);
      book->reading.add(std::chrono::microseconds(150), 1'000'000);
      book->announcing.add(std::chrono::microseconds(1), 1'000'000);
    }
  }
};

TEST_F(ShmProcessors, AnEndThatWaitsYieldsUnlessItsPeerRunsElsewhere) {
  Connection &one = *pair_.first, &other = *pair_.second;
  EXPECT_GT(wait_in_vain(one, 1), 0u) << "the peer has not said where it is";
  EXPECT_GT(wait_in_vain(other, 1), 0u) << "the peer runs there, too";
  EXPECT_GT(wait_in_vain(one, 1), 0u) << "the peer runs there, too";
  wait_in_vain(other, 2);
  EXPECT_EQ(wait_in_vain(one, 1), 0u) << "the peer runs elsewhere";
  EXPECT_GT(wait_in_vain(one, 2), 0u) << "it has moved to its peer's";
}

TEST_F(ShmProcessors, LargeMessagesAreReadWhereTwoCopiesCannotOverlap) {
  read_parts(1, 2);  // both ends learn each other's costs and processors
  EXPECT_EQ(read_parts(1, 2), 0u);
  read_parts(1, 1);
  EXPECT_EQ(read_parts(1, 1), 10u);
  read_parts(1, 2);
  EXPECT_EQ(read_parts(1, 2), 0u);
}

}  // namespace
}  // namespace tombolo::transport::shm
