#include "transport/ucx/closing_workers.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <vector>

#include "base/error.h"
#include "transport/kernel.h"

namespace tombolo::transport::ucx {
namespace {

constexpr Duration kAtExit = std::chrono::seconds(1);
// The longest sleep of the thread, after which it checks the deadlines.
constexpr int kLongestSleep = 1000;  // ms

bool ended(int channel) {
  std::array<std::byte, 256> ignored;
  for (;;) {
    const ssize_t got = kernel().recv(channel, ignored.data(), ignored.size(), MSG_DONTWAIT);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
}

}  // namespace

ClosingWorkers& ClosingWorkers::of_process() {
  static ClosingWorkers all;
  return all;
}

ClosingWorkers::~ClosingWorkers() {
  if (generation_ != fork_generation()) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    std::lock_guard guard(lock_);
    stop_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void ClosingWorkers::add(Descriptor channel, std::unique_ptr<Worker> worker, Duration within) noexcept {
  try {
    std::lock_guard guard(lock_);
    if (stop_) return;
    if (generation_ != fork_generation()) {
      generation_ = fork_generation();
      if (thread_.joinable()) thread_.detach();
    }
    if (!thread_.joinable()) {
      if (!wake_) wake_ = Descriptor(kernel().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      if (!wake_) return;
      thread_ = std::thread([this] { run(); });
    }
    arrived_.push_back({std::move(channel), std::move(worker), Deadline::after(within)});
    ++count_;
  } catch (const std::exception&) {
    return;
  }
  wake();
}

void ClosingWorkers::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto done = kernel().write(wake_.get(), &one, sizeof one);
}

std::size_t ClosingWorkers::count() {
  std::lock_guard guard(lock_);
  return count_;
}

void ClosingWorkers::run() {
  std::list<One> mine;
  std::vector<pollfd> handles;
  Deadline last = Deadline::after(kAtExit);
  for (bool stopping = false; !stopping || (!mine.empty() && !last.passed());) {
    const std::size_t gone = mine.remove_if([](One& one) {
      while (one.worker->progress()) {
      }
      return ended(one.channel.get()) || one.deadline.passed();
    });
    {
      std::lock_guard guard(lock_);
      mine.splice(mine.end(), arrived_);
      count_ -= gone;
      if (stop_ && !stopping) last = Deadline::after(kAtExit);
      stopping = stop_;
      if (mine.empty() && stopping) return;
    }
    handles.assign(1, {wake_.get(), POLLIN, 0});
    bool busy = false;
    for (const One& one : mine) {
      busy |= !one.worker->arm();
      handles.push_back({one.worker->descriptor(), POLLIN, 0});
      handles.push_back({one.channel.get(), POLLIN, 0});
    }
    const int sleep = stopping       ? std::min(last.poll_milliseconds(), kLongestSleep)
                      : mine.empty() ? -1
                                     : kLongestSleep;
    kernel().poll(handles.data(), handles.size(), busy ? 0 : sleep);
    std::uint64_t ignored = 0;
    [[maybe_unused]] const auto got = kernel().read(wake_.get(), &ignored, sizeof ignored);
  }
}

}  // namespace tombolo::transport::ucx
