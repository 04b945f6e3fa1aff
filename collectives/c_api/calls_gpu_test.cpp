// The C interface and tombolo.hpp on GPU memory, of a pretended GPU. Ranks are threads.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tombolo/tombolo.hpp"
#include "topology/system/cuda_library.h"
#include "topology/testing/pretended_cuda.h"

namespace tombolo::c_api {
namespace {

using topology::test::PretendedCuda;

PretendedCuda& driver() {
  return PretendedCuda::instance();
}

/// GPU memory of so many integers.
class Integers {
 public:
  explicit Integers(std::vector<int> values)
      : count_(values.size()),
        data_(driver().allocate(count_ * sizeof(int), 0, PretendedCuda::MemoryOf::kPrimaryContext)) {
    driver().write(data_, std::as_bytes(std::span(values)));
  }
  ~Integers() { driver().release(data_); }
  Integers(const Integers&) = delete;
  Integers& operator=(const Integers&) = delete;

  int* data() { return reinterpret_cast<int*>(data_); }
  std::vector<int> read() const {
    std::vector<int> values(count_);
    const auto bytes = driver().read(data_, count_ * sizeof(int));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  std::size_t count_;
  std::byte* data_;
};

class CallsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    driver().reset({.default_stream = true});
    program_ = topology::CudaFunctions::load(nullptr);
    ASSERT_NE(program_, nullptr);
  }
  void TearDown() override {
    for (const std::string& breach : driver().breaches()) ADD_FAILURE() << breach;
    EXPECT_EQ(driver().holdings().host_allocations, 0);
    driver().reset();
  }

  template <typename Body>
  void run_pair(const Body& body) {
    const tomboloUniqueId id = api::make_unique_id();
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        try {
          const api::Communicator communicator(2, id, rank);
          body(communicator, rank);
          communicator.finalize();
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    }
    for (auto& rank : ranks) rank.join();
  }

  std::shared_ptr<const topology::CudaFunctions> program_;
};

TEST_F(CallsOnGpu, BlockOrAreStartedOrRecorded) {
  run_pair([](const api::Communicator& comm, int rank) {
    Integers own({rank + 1, 10 * rank}), out({0, 0}), both({0, 0, 0, 0, 0});
    comm.all_reduce(own.data(), out.data(), 2);
    EXPECT_EQ(out.read(), (std::vector{3, 10}));

    tomboloWork_t work = nullptr;
    const std::size_t counts[] = {2, 2}, offsets[] = {3, 0};
    api::check(
        tomboloAllGatherVAsync(own.data(), 2, both.data(), counts, offsets, tomboloInt32, comm.get(), &work));
    api::check(tomboloWorkWait(work));
    EXPECT_EQ(both.read(), (std::vector{2, 10, 0, 1, 0}));

    const int peer = 1 - rank;
    std::vector<int> in_host(2);
    api::group([&] {
      comm.send(own.data(), 2, tomboloInt32, peer);
      comm.receive(in_host.data(), 2, tomboloInt32, peer);
      comm.broadcast(own.data(), out.data(), 2, tomboloInt32, 0);
    });
    EXPECT_EQ(in_host, (std::vector{peer + 1, 10 * peer}));
    EXPECT_EQ(out.read(), (std::vector{1, 0}));
  });
}

TEST_F(CallsOnGpu, WaitForTheStreamOfTheirCommunicator) {
  run_pair([](const api::Communicator& comm, int rank) {
    void* const stream = driver().make_program_stream();
    Integers data({0});
    const int written = rank + 4;
    driver().hold(stream, true);
    driver().launch_write(stream, reinterpret_cast<std::byte*>(data.data()),
                          std::as_bytes(std::span(&written, 1)));
    comm.set_stream(stream);
    api::Work work = comm.all_reduce_async(std::span(data.data(), 1));
    for (int i = 0; i < 50; ++i) EXPECT_FALSE(work.test());
    // What a group has recorded keeps the stream that it was recorded with.
    int sent = 0;
    api::group([&] {
      if (rank == 0) comm.send(data.data(), 1, tomboloInt32, 1);
      if (rank == 1) comm.receive(&sent, 1, tomboloInt32, 0);
      comm.set_stream(nullptr);
      driver().hold(stream, false);
    });
    work.wait();
    EXPECT_EQ(data.read(), std::vector{9});
  });
}

TEST_F(CallsOnGpu, SayWhatIsWrongWithAStream) {
  run_pair([](const api::Communicator& comm, int rank) {
    Integers data({7});
    void* const stream = driver().make_program_stream();
    comm.barrier();
    driver().capture(true);
    comm.set_stream(stream);
    EXPECT_EQ(tomboloAllReduce(data.data(), data.data(), 1, tomboloInt32, tomboloSum, comm.get()),
              tomboloInvalidUsage);
    const std::string text = tomboloGetLastError(comm.get());
    EXPECT_NE(text.find("all_reduce: GPU 0: record an event on stream"), std::string::npos) << text;
    comm.barrier();
    driver().capture(false);
    comm.barrier();
    comm.all_reduce(data.data(), data.data(), 1);
    EXPECT_EQ(data.read(), std::vector{14}) << rank;
  });
}

}  // namespace
}  // namespace tombolo::c_api
