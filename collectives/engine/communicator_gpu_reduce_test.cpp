// Calls on GPU memory whose reductions the GPU carries out, against those on host memory.
#include <gtest/gtest.h>

#include "collectives/testing/gpu_calls.h"
#include "collectives/testing/held_clock.h"

namespace tombolo::collectives {
namespace {

using namespace test;
using test::Buffer;  // not that of a schedule

class ReductionsOnGpu : public CollectivesOnGpu {
 protected:
  /// On every rank the GPU takes every step, however small.
  static void all_steps(Options& options) { options.gpu_reduce_from = 1; }
  /// On every other one.
  static void on_even_ranks(Options& options) {
    if (options.identity.rank % 2 == 0) options.gpu_reduce_from = 1;
  }
  static Bytes elements(DataType type, std::size_t count, int rank) {
    Bytes made(count * size_of(type));
    for (std::size_t i = 0; i < count; ++i)
      put(&made[i * size_of(type)], type, static_cast<double>((i * 7 + static_cast<std::size_t>(rank)) % 11));
    return made;
  }
};

TEST_F(ReductionsOnGpu, GiveTheSameBytesInRandomCalls) {
  const unsigned seed = test_seed();
  for (const auto pace : {PretendedPace::kRandom, PretendedPace::kEarly}) {
    for (const char* clusters : {"A", "AA", "AAB", "AABB"}) {
      start({.gpus = 2, .pace = pace, .seed = seed});
      compare(clusters, false, seed, 40, 3000, all_steps);
    }
  }
}

TEST_F(ReductionsOnGpu, GiveTheSameBytesWhereOnlySomeRanksUseThem) {
  const unsigned seed = test_seed();
  for (const char* clusters : {"AA", "AABB"}) {
    start({.gpus = 2, .seed = seed});
    compare(clusters, false, seed, 40, 3000, on_even_ranks);
  }
}

/// Every type by every operator, with and without a factor, and whichever ranks' GPUs take part.
TEST_F(ReductionsOnGpu, GiveTheSameBytesOfEveryTypeByEveryOperator) {
  const Collective collectives[] = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce};
  for (auto& one : operations_carried_out) one = 0;
  for (const char* algorithm : {"auto", "ring", "two-level"}) {
    start({.seed = test_seed()});
    expect_fine(run(
        "AAB",
        [&](Communicator& communicator) {
          constexpr std::size_t kCount = 257;
          for (const DataType type : kAllTypes) {
            for (const ReduceOp op : kAllOps) {
              for (const Collective collective : collectives) {
                const Bytes given = elements(type, 3 * kCount, communicator.rank());
                Buffer host_in(given.size(), false), host_out(given.size(), false);
                Buffer in(given.size(), true), out(given.size(), true);
                host_in.write(given);
                in.write(given);
                CollectiveCall call{collective, host_in.data(), host_out.data(), kCount, type, op};
                if (op == ReduceOp::kSum && communicator.rank() != 1) {
                  std::byte factor[8];
                  put(factor, type, 3);
                  call.factor = Factor::at(factor, type);
                }
                communicator.run(call);
                call.send = in.data();
                call.receive = out.data();
                communicator.run(call);
                ASSERT_TRUE(out.read() == host_out.read())
                    << collective_name(collective) << " of " << data_type_name(type) << " by "
                    << reduce_op_name(op) << " on rank " << communicator.rank();
              }
            }
          }
        },
        false,
        [&](Options& options) {
          on_even_ranks(options);
          options.algorithm = algorithm;
        }));
  }
  for (std::size_t i = 0; i < operations_carried_out.size(); ++i)
    EXPECT_GT(operations_carried_out[i], 0) << "operation " << i;
}

TEST_F(ReductionsOnGpu, LeaveToTheProcessorWhatIsSmallOrInOtherMemory) {
  start({.seed = test_seed()});
  const auto launches_of = [&](std::size_t from, bool receive_on_gpu) {
    const std::uint64_t before = cuda().launches();
    expect_fine(run(
        "AB",
        [&](Communicator& communicator) {
          Buffer send(4096, true), receive(4096, receive_on_gpu);
          send.write(Bytes(4096, std::byte{1}));
          communicator.all_reduce(send.data(), receive.data(), 4096, DataType::kUint8, ReduceOp::kSum);
          EXPECT_TRUE(receive.read() == Bytes(4096, std::byte{2}));
        },
        false,
        [&](Options& options) {
          options.gpu_reduce_from = from;
          options.algorithm = "ring";
        }));
    return cuda().launches() - before;
  };
  EXPECT_EQ(launches_of(2049, true), 0u) << "each rank combines half of the vector";
  EXPECT_EQ(launches_of(2048, true), 2u);
  EXPECT_EQ(launches_of(1, false), 0u) << "what is combined is written to plain memory";
}

TEST_F(ReductionsOnGpu, SeveralAreUnderWayAtATime) {
  const unsigned seed = test_seed();
  for (const bool thread : {false, true}) {
    start({.gpus = 2, .pace = PretendedPace::kLate, .seed = seed});
    expect_fine(run(
        "AAB",
        [&](Communicator& communicator) {
          constexpr std::size_t kCount = 5000;
          std::vector<std::unique_ptr<Buffer>> buffers;
          std::vector<Work> works;
          for (int i = 0; i < 6; ++i) {
            buffers.push_back(std::make_unique<Buffer>(kCount * 4, true, communicator.rank() % 2));
            buffers.back()->write(elements(DataType::kInt32, kCount, 0));
            works.push_back(communicator.start({Collective::kAllReduce, buffers.back()->data(),
                                                buffers.back()->data(), kCount, DataType::kInt32}));
          }
          for (const Work work : works) communicator.wait(work);
          Bytes expected = elements(DataType::kInt32, kCount, 0);
          for (int i = 0; i < 2; ++i)
            combine(expected.data(), elements(DataType::kInt32, kCount, 0).data(), kCount, DataType::kInt32,
                    ReduceOp::kSum);
          for (const auto& one : buffers) EXPECT_TRUE(one->read() == expected);
        },
        false,
        [&](Options& options) {
          options.progress = thread ? Progress::kThread : Progress::kCaller;
          all_steps(options);
          options.tuning.segment_bytes = 2000;
        }));
    EXPECT_GT(cuda().launches(), 0u);
  }
}

TEST_F(ReductionsOnGpu, NothingIsMadeAfterTheFirstCall) {
  start({.pace = PretendedPace::kEarly, .seed = test_seed()});
  expect_fine(run(
      "AA",
      [&](Communicator& communicator) {
        Buffer buffer(10'000, true);
        for (int i = 0; i < 20; ++i) {
          communicator.all_reduce(buffer.data(), buffer.data(), 10'000 - static_cast<std::size_t>(i),
                                  DataType::kInt8, ReduceOp::kMax);
          if (i > 0) continue;
          communicator.barrier();
          cuda().forbid_making(true);
        }
        communicator.barrier();
      },
      false, all_steps));
  cuda().forbid_making(false);
}

/// A kernel that is refused, and one that fails later, ends the communicator on all ranks.
TEST_F(ReductionsOnGpu, AKernelThatFailsEndsTheCommunicatorOnAllRanks) {
  for (const bool refused : {true, false}) {
    start({.pace = PretendedPace::kLate, .seed = test_seed()});
    if (refused) cuda().refuse_launches(701);
    const auto outcomes = run(
        "AB",
        [&](Communicator& communicator) {
          Buffer buffer(2000, communicator.rank() == 0);
          const Work work = communicator.start(
              {Collective::kAllReduce, buffer.data(), buffer.data(), 500, DataType::kFloat32});
          if (communicator.rank() == 0 && !refused) {
            while (cuda().launches() == 0) ASSERT_FALSE(communicator.test(work));
            cuda().fail_with(719);
          }
          communicator.wait(work);
        },
        false,
        [](Options& options) {
          all_steps(options);
          options.algorithm = "ring";
        });
    cuda().refuse_launches(0);
    cuda().fail_with(0);
    for (const Outcome& one : outcomes) {
      EXPECT_EQ(one.cause, Cause::kSystem) << one.text;
      EXPECT_NE(one.text.find("kernel tombolo_reduce_float (sum, 1000 bytes) on GPU 0 failed: CUDA_ERROR_"),
                std::string::npos)
          << one.text;
      EXPECT_NE(one.text.find(refused ? "LAUNCH_OUT_OF_RESOURCES (701)" : "LAUNCH_FAILED (719)"),
                std::string::npos)
          << one.text;
    }
  }
}

TEST_F(ReductionsOnGpu, ModulesThatDoNotLoadAreAnErrorThatSaysWhatToDo) {
  start({.seed = test_seed()});
  cuda().reset({.default_stream = true, .seed = test_seed()});  // a GPU for which there are no kernels
  program_ = topology::CudaFunctions::load(nullptr);
  const auto outcomes = run(
      "AB",
      [&](Communicator& communicator) {
        Buffer buffer(64, communicator.rank() == 0);
        communicator.all_reduce(buffer.data(), buffer.data(), 64, DataType::kInt8, ReduceOp::kSum);
      },
      false, all_steps);
  for (const Outcome& one : outcomes) {
    EXPECT_EQ(one.cause, Cause::kSystem) << one.text;
    EXPECT_NE(one.text.find("GPU 0: load tombolo_reduce_int8"), std::string::npos) << one.text;
    EXPECT_NE(one.text.find("TOMBOLO_GPU_REDUCE=off"), std::string::npos) << one.text;
  }
}

TEST_F(ReductionsOnGpu, AKernelThatDoesNotEndIsATimeoutThatNamesIt) {
  start({.seed = test_seed()});
  HeldClock of_rank_0;
  of_rank_0.hold();
  cuda().hold_launches(true);
  const auto outcomes = run(
      "AA",
      [&](Communicator& communicator) {
        communicator.barrier();
        Buffer buffer(2000, communicator.rank() == 0);
        const CollectiveCall call{Collective::kAllReduce, buffer.data(), buffer.data(), 500,
                                  DataType::kFloat32};
        if (communicator.rank() == 0) of_rank_0.let_go();
        try {
          communicator.run(call);
        } catch (const Error&) {
          cuda().hold_launches(false);  // rank 0 waits for the end of its kernel
          throw;
        }
      },
      false,
      [&](Options& options) {
        options.algorithm = "ring";
        if (options.identity.rank != 0) return;
        options.gpu_reduce_from = 1;
        options.deadline = std::chrono::milliseconds(300);
        options.router.clock = &of_rank_0;
      });
  for (const Outcome& one : outcomes) {
    EXPECT_EQ(one.cause, Cause::kTimeout) << one.text;
    EXPECT_NE(one.text.find("waiting for kernel tombolo_reduce_float (sum, 1000 bytes) on GPU 0"),
              std::string::npos)
        << one.text;
  }
}

/// The memory that a kernel may touch is freed after its end, and not before.
TEST_F(ReductionsOnGpu, ACommunicatorThatEndsWaitsForItsKernels) {
  for (const bool abort : {false, true}) {
    start({.pace = PretendedPace::kLate, .seed = test_seed()});
    const auto outcomes = run(
        "AB",
        [&](Communicator& communicator) {
          Buffer buffer(40'000, true);
          const Work work = communicator.start(
              {Collective::kAllReduce, buffer.data(), buffer.data(), 10'000, DataType::kFloat32});
          if (communicator.rank() == 0) {
            while (cuda().launches() == 0) ASSERT_FALSE(communicator.test(work));
            if (!abort) throw Error(Cause::kInternal, "the program fails");
            communicator.abort("enough");
          }
          communicator.wait(work);
        },
        false, on_even_ranks);
    EXPECT_TRUE(outcomes[0].threw) << "rank 1 may have had all that it needs";
    const auto held = cuda().holdings();
    EXPECT_EQ(held.host_allocations + held.streams + held.events + held.modules, 0) << abort;
  }
}

}  // namespace
}  // namespace tombolo::collectives
