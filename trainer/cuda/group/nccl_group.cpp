#include "trainer/cuda/group/nccl_group.h"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::trainer::cuda {
namespace {

/// How long a rank that leaves waits until the others have done so too.
constexpr Duration kLeavingPatience = std::chrono::seconds(5);

}  // namespace

NcclGroup::NcclGroup(const NcclLibrary& library, const GroupId& id, const GroupMember& member, void* stream,
                     std::string device, std::function<void()> make_current)
    : library_(library),
      member_(member),
      stream_(stream),
      device_(std::move(device)),
      make_current_(std::move(make_current)) {
  make_current_();
  NcclConfig config;
  config.blocking = 0;
  const NcclResult result = library_.init_rank(&communicator_, member.size, id, member.rank, &config);
  settle(result, "joining the group", member.deadline);
}

NcclGroup::~NcclGroup() {
  if (communicator_ == nullptr) return;
  try {
    make_current_();
    check();
    settle(library_.finalize(communicator_), "leaving the group", kLeavingPatience);
    static_cast<void>(library_.destroy(std::exchange(communicator_, nullptr)));
  } catch (const std::exception& error) {
    // The work is done; that another rank has left otherwise is for that one to say.
    give_up(error.what());
  }
}

std::string NcclGroup::what(std::string_view operation) const {
  return fmt::format("{}: rank {} of {}: {}", device_, member_.rank, member_.size, operation);
}

void NcclGroup::check_usable(std::string_view operation) const {
  if (communicator_ == nullptr)
    fail(Cause::kAborted, "{}: the group was given up: {}", what(operation), given_up_);
}

void NcclGroup::settle(NcclResult result, std::string_view operation, Duration patience) {
  constexpr int kLooks = 1000;
  constexpr auto kSleep = std::chrono::microseconds(50);
  const Deadline deadline = Deadline::after(patience);
  for (int look = 0; result == NcclResult::kInProgress; ++look) {
    if (abort_wanted_) {
      std::string reason;
      {
        const std::scoped_lock lock(mutex_);
        reason = abort_reason_;
      }
      give_up(reason);
      fail(Cause::kAborted, "{}: {}", what(operation), reason);
    }
    if (deadline.passed()) {
      const std::string problem = fmt::format(
          "{}: not done after {}: another rank may have failed, or NCCL finds no "
          "network to it (NCCL_DEBUG=INFO says more)",
          what(operation), format_seconds(to_seconds(deadline.allowed())));
      give_up(problem);
      fail(Cause::kTimeout, "{}", problem);
    }
    if (look < kLooks)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
    library_.check(library_.async_error(communicator_, &result), what("asking for the state"), communicator_);
  }
  if (result == NcclResult::kSuccess) return;
  try {
    library_.failed(result, what(operation), communicator_);
  } catch (const Error& error) {
    give_up(error.what());
    throw;
  }
}

void NcclGroup::all_reduce(float* at, std::size_t count) {
  const std::string operation = fmt::format("the sum of {} gradients", count);
  check_usable(operation);
  make_current_();
  settle(library_.all_reduce(at, at, count, kNcclFloat32, kNcclSum, communicator_, stream_), operation,
         member_.deadline);
}

void NcclGroup::check() {
  constexpr std::string_view kOperation = "sums of gradients";
  check_usable(kOperation);
  // What is wanted to end is in progress, as far as the caller is concerned.
  NcclResult state = NcclResult::kInProgress;
  if (!abort_wanted_)
    library_.check(library_.async_error(communicator_, &state), what("asking for the state"), communicator_);
  if (state != NcclResult::kSuccess) settle(state, kOperation, member_.deadline);
}

void NcclGroup::give_up(const std::string& reason) noexcept {
  if (communicator_ == nullptr) return;
  try {
    given_up_ = reason;
    make_current_();
  } catch (const std::exception&) {
    // Without its GPU the communicator is aborted all the same.
  }
  static_cast<void>(library_.abort(std::exchange(communicator_, nullptr)));
}

void NcclGroup::abort(const std::string& reason) noexcept {
  try {
    const std::scoped_lock lock(mutex_);
    if (!abort_wanted_) abort_reason_ = reason;
  } catch (const std::exception&) {
    // It ends without its reason.
  }
  abort_wanted_ = true;
}

}  // namespace tombolo::trainer::cuda
