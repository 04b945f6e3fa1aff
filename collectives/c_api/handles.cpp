#include "collectives/c_api/handles.h"

#include "collectives/c_api/failures.h"

namespace tombolo::c_api {

// The tables are never destroyed, because other objects of static lifetime may still use their communicators.

Handles<tomboloComm_t, Member>& handles() {
  static auto* all = new Handles<tomboloComm_t, Member>;
  return *all;
}

Handles<tomboloWork_t, StartedCall>& works() {
  static auto* all = new Handles<tomboloWork_t, StartedCall>;
  return *all;
}

void refuse_in_callback(const Member& member, const char* function) {
  if (member.communicator->calling_back())
    fail(Cause::kInvalidUsage, "{}: not possible in a callback of that communicator", function);
}

std::shared_ptr<Member> member_of(tomboloComm_t comm, const char* function) {
  if (comm == nullptr) refuse("{}: the communicator is null", function);
  auto member = handles().find(comm);
  if (!member) refuse("{}: there is no such communicator (was it destroyed?)", function);
  return member;
}

}  // namespace tombolo::c_api
