// What a forked child must not do with the connections that stage its parent's GPU memory: CUDA does not work
// there, the sockets are the parent's, and a thread that is not there may hold any lock.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <latch>
#include <thread>

#include "net_plugin/testing/staged_connections.h"

namespace tombolo::net_plugin::gpu {
namespace {

/// The status of a child that does this, and is ended where that takes too long.
template <typename Work>
int status_of_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);  // a child that waits for ever must not hold up the parent, which waits for it
    ::_exit(work());
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST_F(StagedConnections, AForkedChildThatEndsThemAsksForNoCopyAndLeavesTheParentsAlone) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options, std::size_t{64} << 20, 4, std::chrono::minutes(10));
  auto ends = connect(tcp());
  constexpr std::size_t kBytes = 3 * kPieceBytes + 100;
  Buffer from(*ends.from, kBytes, true), to(*ends.to, kBytes, true);
  const auto bytes = data(kBytes);
  from.write(bytes);
  auto* receive = ends.to->post_receive(to.span(), to.memory());
  auto* send = ends.from->post_send(from.span(), from.memory());
  ends.from->progress();
  ASSERT_GT(cuda().copies(), 0U) << "a copy is under way";
  EXPECT_EQ(status_of_child([&] {
              ends = {};
              staging_.reset();
              for (const std::string& breach : cuda().breaches()) std::cerr << breach << "\n";
              return cuda().breaches().empty() ? 0 : 1;
            }),
            0);
  cuda().set_pace(PretendedPace::kRandom);
  finish(*ends.to, receive, kBytes, ends.from.get());
  finish(*ends.from, send, kBytes, ends.to.get());
  EXPECT_TRUE(to.read() == bytes);
}

std::latch* locking = nullptr;
std::latch* may_lock = nullptr;

/// Locks memory for as long as it is told to.
CudaResult lock_slowly(void**, std::size_t, unsigned) {
  locking->count_down();
  may_lock->wait();
  return CudaResult::kOutOfMemory;
}

TEST_F(StagedConnections, AForkedChildEndsItsPiecesThoughAThreadThatIsNotThereLocksMore) {
  start({}, 0);
  auto own = std::make_unique<OwnPieces>(staging_, 1, 1);
  auto functions = std::const_pointer_cast<CudaFunctions>(CudaFunctions::load(nullptr));
  functions->allocate_host = lock_slowly;
  const auto gpu = std::make_shared<const Gpu>(functions, 0, ContextOf::kOwn);
  std::latch begun(1), may_end(1);
  locking = &begun;
  may_lock = &may_end;
  std::thread other([&] {
    FreePieces more;
    EXPECT_THROW(staging_->pool().reserve(gpu, 1, &more, more), Error);
  });
  begun.wait();
  EXPECT_EQ(status_of_child([&] {
              own.reset();
              return 0;
            }),
            0);
  may_end.count_down();
  other.join();
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
