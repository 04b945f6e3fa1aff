// Calls on GPU memory, and what they wait for: streams, copies that fail, ends in flight.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>

#include "collectives/testing/held_clock.h"
#include "collectives/testing/on_gpu.h"

namespace tombolo::collectives {
namespace {

using namespace test;
using test::Buffer;  // not that of a schedule

/// A call begins once what was queued on its stream before has run, and not earlier.
TEST_F(CollectivesOnGpu, BeginOnceTheStreamHasComeToThem) {
  start({.seed = test_seed()});
  void* const stream = cuda().make_program_stream();
  std::atomic<bool> released{false};
  expect_fine(run("AA", [&](Communicator& communicator) {
    const bool on_gpu = communicator.rank() == 0;
    Buffer buffer(4096, on_gpu);
    CollectiveCall call{Collective::kAllReduce, buffer.data(), buffer.data(), 4096, DataType::kUint8};
    if (on_gpu) {
      cuda().hold(stream, true);
      cuda().launch_write(stream, buffer.data(), Bytes(4096, std::byte{5}));
      call.stream = stream;
    } else {
      buffer.write(Bytes(4096, std::byte{2}));
    }
    const Work work = communicator.start(call);
    if (on_gpu) {
      for (int i = 0; i < 200; ++i) ASSERT_FALSE(communicator.test(work));
      released = true;
      cuda().hold(stream, false);
    }
    communicator.wait(work);
    EXPECT_TRUE(released) << "the sum needs what the stream writes";
    EXPECT_TRUE(buffer.read() == Bytes(4096, std::byte{7}));
  }));
}

TEST_F(CollectivesOnGpu, WithoutAStreamTheDefaultOneIsWaitedFor) {
  start({.seed = test_seed()});
  expect_fine(run("AA", [&](Communicator& communicator) {
    Buffer buffer(4096, true);
    for (int i = 0; i < 10; ++i) {
      cuda().launch_write(nullptr, buffer.data(), Bytes(4096, static_cast<std::byte>(i)));
      communicator.all_reduce(buffer.data(), buffer.data(), 4096, DataType::kUint8, ReduceOp::kSum);
      ASSERT_TRUE(buffer.read() == Bytes(4096, static_cast<std::byte>(2 * i))) << i;
    }
  }));
}

TEST_F(CollectivesOnGpu, AStreamThatNeverComesIsATimeoutThatNamesIt) {
  start({.seed = test_seed()});
  void* const stream = cuda().make_program_stream();
  cuda().hold(stream, true);
  HeldClock of_rank_0;
  of_rank_0.hold();
  const auto outcomes = run(
      "AA",
      [&](Communicator& communicator) {
        communicator.barrier();
        if (communicator.rank() == 0) of_rank_0.let_go();
        Buffer buffer(64, communicator.rank() == 0);
        CollectiveCall call{Collective::kAllReduce, buffer.data(), buffer.data(), 64, DataType::kUint8};
        if (communicator.rank() == 0) call.stream = stream;
        communicator.run(call);
      },
      false,
      [&](Options& options) {
        if (options.identity.rank != 0) return;
        options.deadline = std::chrono::milliseconds(300);
        options.router.clock = &of_rank_0;
      });
  for (const Outcome& one : outcomes) {
    EXPECT_EQ(one.cause, Cause::kTimeout) << one.text;
    EXPECT_NE(one.text.find("queued on stream"), std::string::npos) << one.text;
  }
}

TEST_F(CollectivesOnGpu, ACopyThatFailsEndsTheCommunicatorOnAllRanks) {
  for (const bool back : {false, true}) {
    start({.pace = PretendedPace::kLate, .seed = test_seed()});
    const auto outcomes = run("AB", [&](Communicator& communicator) {
      if (communicator.rank() == 1) {
        Buffer buffer(1000, false);
        // Of a copy back the other ranks learn by the next call.
        for (int i = 0; i < (back ? 2 : 1); ++i)
          communicator.all_reduce(buffer.data(), buffer.data(), 1000, DataType::kInt8, ReduceOp::kSum);
        return;
      }
      Buffer buffer(1000, true);
      CollectiveCall call{Collective::kAllReduce, buffer.data(), buffer.data(), 1000, DataType::kInt8};
      Buffer in_host(1000, false);
      if (back) call.send = in_host.data();
      const Work work = communicator.start(call);
      while (cuda().copies() == 0) ASSERT_FALSE(communicator.test(work));
      cuda().fail_with(719);
      EXPECT_THROW(communicator.wait(work), Error);
      EXPECT_EQ(communicator.failure_cause(), Cause::kSystem);
      communicator.wait(work);
    });
    cuda().fail_with(0);
    for (const Outcome& one : outcomes) {
      EXPECT_NE(one.text.find(back ? "of the receive buffer" : "of the send buffer"), std::string::npos)
          << one.text;
      EXPECT_EQ(one.cause, Cause::kSystem) << one.text;
      EXPECT_NE(one.text.find("CUDA_ERROR_LAUNCH_FAILED (719)"), std::string::npos) << one.text;
      EXPECT_NE(one.text.find("GPU 0"), std::string::npos) << one.text;
    }
  }
}

TEST_F(CollectivesOnGpu, ACommunicatorThatEndsWaitsForItsCopiesAlone) {
  start({.pace = PretendedPace::kLate, .seed = test_seed()});
  constexpr std::size_t kBytes = std::size_t{6} << 20;
  Buffer on_gpu(kBytes, true), in_host(kBytes, false);
  for (int i = 0; i < 5; ++i) {
    run("AA", [&](Communicator& communicator) {
      Buffer& buffer = communicator.rank() == 0 ? on_gpu : in_host;
      const CollectiveCall call{Collective::kAllReduce, buffer.data(), buffer.data(), kBytes,
                                DataType::kInt8};
      const Work work = communicator.start(call);
      for (int turn = 0; turn < 20 * i && communicator.rank() == 0; ++turn)
        if (communicator.test(work)) return;
      if (communicator.rank() == 0) throw Error(Cause::kInternal, "the program fails");
      communicator.wait(work);
    });
    const auto held = cuda().holdings();
    EXPECT_EQ(held.host_allocations + held.streams + held.events, 0) << i;
  }
}

TEST_F(CollectivesOnGpu, NothingIsMadeAfterTheFirstCall) {
  start({.pace = PretendedPace::kEarly, .seed = test_seed()});
  expect_fine(run("AA", [&](Communicator& communicator) {
    Buffer buffer(10'000, true);
    for (int i = 0; i < 30; ++i) {
      communicator.all_reduce(buffer.data(), buffer.data(), 10'000 - static_cast<std::size_t>(i),
                              DataType::kInt8, ReduceOp::kMax);
      if (i > 0) continue;
      communicator.barrier();
      cuda().forbid_making(true);
    }
    communicator.barrier();
  }));
  cuda().forbid_making(false);
}

TEST_F(CollectivesOnGpu, WrongArgumentsAreRefusedAndChangeNothing) {
  start({.gpus = 2, .pace = PretendedPace::kEarly, .seed = test_seed()});
  void* const stream = cuda().make_program_stream();
  expect_fine(run("A", [&](Communicator& communicator) {
    Buffer here(64, true, 0), there(64, true, 1);
    CollectiveCall call{Collective::kAllReduce, here.data(), there.data(), 64, DataType::kUint8};
    const auto refused = [&](const char* why) {
      try {
        communicator.run(call);
        ADD_FAILURE() << why;
      } catch (const Error& error) {
        EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
        EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      }
    };
    refused("on GPU 1: a call takes memory of one GPU");
    call.receive = here.data();
    call.stream = stream;
    cuda().capture(true);
    refused("no graph may be captured of it");
    cuda().capture(false);
    communicator.run(call);
  }));
}

}  // namespace
}  // namespace tombolo::collectives
