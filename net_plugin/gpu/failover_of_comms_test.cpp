// Communicators and one-sided operations, by what NCCL calls, over NICs that reach GPU memory and fail: over
// a library of verbs without hardware, whose NICs write the memory of a pretended GPU.
#include "net_plugin/testing/failover_of_comms.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "net_plugin/rma/group.h"

namespace tombolo::net_plugin::gpu {
namespace {

class GpuFailoverOfMessages : public GpuFailoverOfComms {
 protected:
  struct Memory {
    bool sender_on_gpu = true, receiver_on_gpu = true;
  };
  /// One message after another, whose NICs die behind the first. What the second one ends with.
  abi::ncclResult_t second_message(GpuMode mode, Memory where) {
    start({.seed = test_seed()});
    Context from(node("left", mode), book_.of("left")), to(node("right", mode), book_.of("right"));
    const auto [send, receive] = connect_comms(from, to);
    constexpr std::size_t kBytes = 2 * kPieceBytes + 3;
    Registered source(*send, kBytes, where.sender_on_gpu), target(*receive, kBytes, where.receiver_on_gpu);
    abi::ncclResult_t result = abi::ncclSuccess;
    for (const bool dead : {false, true}) {
      if (dead) verbs_.set_link(kLeft, false);
      cuda().forbid_making(true);
      const auto bytes = data(kBytes, dead ? 1 : 2);
      source.write(bytes);
      void *sent = nullptr, *received = nullptr, *into = target.data(), *memory = target.memory();
      const std::size_t room = kBytes;
      const int tag = 0;
      result = entry::receive(receive.get(), 1, &into, &room, &tag, &memory, nullptr, &received);
      if (result == abi::ncclSuccess)
        result = entry::send(send.get(), source.data(), kBytes, tag, source.memory(), nullptr, &sent);
      // Where one end fails, the other one does, soon.
      abi::ncclResult_t results[2] = {result, result};
      int done[2] = {};
      const auto test = [&](int end, void* request) {
        if (results[end] == abi::ncclSuccess && done[end] == 0)
          results[end] = entry::test(request, &done[end], nullptr);
        return results[end] != abi::ncclSuccess || done[end] != 0;
      };
      for (auto deadline = soon(); result == abi::ncclSuccess;) {
        const bool both = test(0, sent) & test(1, received);
        if (both) break;
        if (deadline.passed()) {
          ADD_FAILURE() << "an end hangs: results " << results[0] << ", " << results[1];
          break;
        }
      }
      cuda().forbid_making(false);
      if (result == abi::ncclSuccess) result = results[1];
      if (result != abi::ncclSuccess) break;
      int size = static_cast<int>(kBytes), flushed = 0;
      void* flush = nullptr;
      EXPECT_EQ(entry::flush(receive.get(), 1, &into, &size, &memory, &flush), abi::ncclSuccess);
      for (auto deadline = soon(); flush != nullptr && flushed == 0 && !deadline.passed();)
        EXPECT_EQ(entry::test(flush, &flushed, nullptr), abi::ncclSuccess);
      EXPECT_TRUE(target.read() == bytes);
    }
    return result;
  }
};

TEST_F(GpuFailoverOfMessages, GoOnStaged) {
  EXPECT_EQ(second_message(GpuMode::kAuto, {}), abi::ncclSuccess);
  EXPECT_NE(book_.text().find("goes on over tcp"), std::string::npos);
  EXPECT_GT(cuda().copies(), 0U);
}

TEST_F(GpuFailoverOfMessages, FailWhereNothingMayBeStaged) {
  for (const Memory where : {Memory{true, true}, Memory{false, true}, Memory{true, false}}) {
    EXPECT_NE(second_message(GpuMode::kDirect, where), abi::ncclSuccess);
    EXPECT_EQ(book_.text().find("goes on over tcp"), std::string::npos);
    EXPECT_EQ(cuda().copies(), 0U);
    verbs_.reset(test_seed());
  }
}

TEST_F(GpuFailoverOfMessages, HostMemoryGoesOnWhereNothingMayBeStaged) {
  EXPECT_EQ(second_message(GpuMode::kDirect, {false, false}), abi::ncclSuccess);
  EXPECT_NE(book_.text().find("goes on over tcp"), std::string::npos) << book_.text();
  EXPECT_EQ(cuda().copies(), 0U);
}

/// Puts and gets, of windows in host memory and in GPU memory: their connections carry host memory alone.
class GpuFailoverOfOneSided : public GpuFailoverOfComms {
 protected:
  ~GpuFailoverOfOneSided() override { ::unsetenv("TOMBOLO_RMA"); }
  /// What it failed with; empty where it is done.
  static std::string finish(rma::Group& asks, rma::Group& is_asked, rma::Operation* operation) {
    try {
      for (auto deadline = soon(); !asks.test(operation);) {
        is_asked.progress();
        if (deadline.passed()) return "it does not end";
      }
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }
  /// There and back by rank 0, before its NIC has failed and after.
  void exchange(const char* operations, GpuMode mode, bool on_gpu) {
    SCOPED_TRACE(fmt::format("{}, mode {}, {}", operations, static_cast<int>(mode), on_gpu ? "GPU" : "host"));
    ::setenv("TOMBOLO_RMA", operations, 1);
    start({.seed = test_seed()});
    constexpr std::size_t kBytes = rma::kPartBytes + 100;
    std::vector<std::byte> near(2 * kBytes), far(kBytes);
    std::byte* mine = on_gpu ? cuda().allocate(near.size()) : near.data();
    std::byte* theirs = on_gpu ? cuda().allocate(far.size()) : far.data();
    const auto read = [&](std::byte* at) {
      return on_gpu ? cuda().read(at, kBytes) : std::vector<std::byte>(at, at + kBytes);
    };
    {
      const auto left = node("left", mode), right = node("right", mode);
      const rma::Listening at_left(left, left->devices->at(0), book_.of("left"));
      const rma::Listening at_right(right, right->devices->at(0), book_.of("right"));
      const std::array handles{at_left.handle(), at_right.handle()};
      rma::Group asks(at_left, handles, 0), is_asked(at_right, handles, 1);
      const int type = on_gpu ? abi::NCCL_PTR_CUDA : abi::NCCL_PTR_HOST;
      const rma::Window* window = asks.add_window({mine, near.size()}, type);
      is_asked.add_window({theirs, far.size()}, type);
      for (const bool dead : {false, true}) {
        if (dead) verbs_.set_link(kLeft, false);
        const auto bytes = data(kBytes, dead ? 1 : 2);
        on_gpu ? cuda().write(mine, bytes) : static_cast<void>(std::ranges::copy(bytes, mine));
        EXPECT_EQ(finish(asks, is_asked, asks.put(1, window, 0, kBytes, window, 0, {})), "");
        EXPECT_TRUE(read(theirs) == bytes);
        EXPECT_EQ(finish(asks, is_asked, asks.get(1, window, 0, kBytes, window, kBytes)), "");
        EXPECT_TRUE(read(mine + kBytes) == bytes);
      }
      EXPECT_FALSE(asks.failed() || is_asked.failed());
    }
    if (on_gpu) {
      cuda().release(mine);
      cuda().release(theirs);
    }
    verbs_.reset(test_seed());
  }
};

TEST_F(GpuFailoverOfOneSided, GoesOnInEveryMode) {
  std::size_t went_on = 0;
  for (const char* operations : {"auto", "messages"}) {
    for (const GpuMode mode : {GpuMode::kAuto, GpuMode::kDirect}) {
      for (const bool on_gpu : {false, true}) {
        exchange(operations, mode, on_gpu);
        EXPECT_GT(book_.count("goes on over tcp"), std::exchange(went_on, book_.count("goes on over tcp")));
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
