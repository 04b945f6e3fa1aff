#include "collectives/c_api/group.h"

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/c_api/failures.h"
#include "collectives/c_api/handles.h"
#include "collectives/c_api/types.h"

namespace tombolo::c_api {
namespace {

/// What this thread has recorded between tomboloGroupStart and the outermost tomboloGroupEnd. It holds
/// handles, not pointers to members, because a communicator may be destroyed before the group ends.
struct Group {
  struct Message {
    tomboloComm_t comm;
    bool sending;
    void* data;
    std::size_t bytes;
    int peer;
    void* stream;
  };
  struct Call {
    tomboloComm_t comm;
    collectives::CollectiveCall call;
  };
  /// Where in the recorded calls a group begins.
  struct Start {
    std::size_t messages, calls;
  };
  std::vector<Start> open;  // innermost last
  std::vector<Message> messages;
  std::vector<Call> calls;
};
thread_local Group group;

/// Carries out what a group has recorded. Where something fails, this first waits until all that was started
/// has ended, because the caller may reuse its buffers once this throws. (On a communicator that failed,
/// everything ended when its connections were closed.)
void carry_out_group(const std::vector<Group::Message>& messages, const std::vector<Group::Call>& calls) {
  struct Started {
    std::shared_ptr<Member> member;
    collectives::Work work;
  };
  std::vector<Started> works;
  works.reserve(messages.size());
  std::exception_ptr first;
  const auto attempt = [&](auto&& action) {
    try {
      action();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  const auto live = [](tomboloComm_t comm) {
    auto member = handles().find(comm);
    if (!member) {
      fail(Cause::kInvalidUsage,
           "tomboloGroupEnd: a communicator was destroyed after the group had recorded calls on it; they are "
           "dropped");
    }
    return member;
  };
  for (const auto& one : messages) {
    attempt([&] {
      auto member = live(one.comm);
      auto& communicator = *member->communicator;
      const auto work = one.sending ? communicator.start_send(one.data, one.bytes, one.peer, one.stream)
                                    : communicator.start_receive(one.data, one.bytes, one.peer, one.stream);
      works.push_back({std::move(member), work});
    });
  }
  for (const auto& one : calls) attempt([&] { live(one.comm)->communicator->run(one.call); });
  for (const auto& one : works) attempt([&] { one.member->communicator->wait(one.work); });
  if (first) std::rethrow_exception(first);
}

}  // namespace

void refuse_in_group(const char* function) {
  if (group.open.empty()) return;
  fail(Cause::kInvalidUsage, "{}: not possible between tomboloGroupStart and tomboloGroupEnd", function);
}

tomboloResult_t carry_out(const char* function, tomboloComm_t comm, tomboloDataType_t type, tomboloRedOp_t op,
                          collectives::CollectiveCall call) noexcept {
  return guarded([&] {
    const auto member = member_of(comm, function);
    complete(call, *member, type, op, function);
    if (group.open.empty()) return member->communicator->run(call);
    member->communicator->check(call);
    group.calls.push_back({comm, std::move(call)});
  });
}

tomboloResult_t carry_out(const char* function, tomboloComm_t comm, tomboloDataType_t type, tomboloRedOp_t op,
                          const std::function<collectives::CollectiveCall()>& make) noexcept {
  collectives::CollectiveCall call;
  const tomboloResult_t made = guarded([&] { call = make(); });
  return made == tomboloSuccess ? carry_out(function, comm, type, op, std::move(call)) : made;
}

std::size_t message_bytes(const char* function, const collectives::Communicator& communicator,
                          const void* data, std::size_t count, tomboloDataType_t type, int peer) {
  const std::size_t element = collectives::size_of(type_of(type, function));
  if (peer < 0 || peer >= communicator.size())
    refuse("{}: there is no rank {} among {}", function, peer, communicator.size());
  if (count > 0) require_pointer(data, function, "the buffer");
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element, &bytes))
    refuse("{}: {} elements are more than memory can hold", function, count);
  return bytes;
}

tomboloResult_t message(const char* function, tomboloComm_t comm, bool sending, void* data, std::size_t count,
                        tomboloDataType_t type, int peer) noexcept {
  return guarded([&] {
    const auto member = member_of(comm, function);
    auto& communicator = *member->communicator;
    const std::size_t bytes = message_bytes(function, communicator, data, count, type, peer);
    if (!group.open.empty()) {
      group.messages.push_back({comm, sending, data, bytes, peer, member->stream});
    } else if (sending) {
      communicator.send(data, bytes, peer, member->stream);
    } else {
      communicator.receive(data, bytes, peer, member->stream);
    }
  });
}

}  // namespace tombolo::c_api

using namespace tombolo;
using namespace tombolo::c_api;

tomboloResult_t tomboloGroupStart() {
  return guarded([] { group.open.push_back({group.messages.size(), group.calls.size()}); });
}

tomboloResult_t tomboloGroupEnd() {
  return guarded([] {
    if (group.open.empty()) fail(Cause::kInvalidUsage, "tomboloGroupEnd without tomboloGroupStart");
    group.open.pop_back();
    if (!group.open.empty()) return;
    const auto messages = std::exchange(group.messages, {});
    const auto calls = std::exchange(group.calls, {});
    carry_out_group(messages, calls);
  });
}

tomboloResult_t tomboloGroupDiscard() {
  return guarded([] {
    if (group.open.empty()) fail(Cause::kInvalidUsage, "tomboloGroupDiscard without tomboloGroupStart");
    const Group::Start start = group.open.back();
    group.open.pop_back();
    group.messages.erase(group.messages.begin() + static_cast<std::ptrdiff_t>(start.messages),
                         group.messages.end());
    group.calls.erase(group.calls.begin() + static_cast<std::ptrdiff_t>(start.calls), group.calls.end());
  });
}
