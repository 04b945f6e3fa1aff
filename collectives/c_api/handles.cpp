#include "collectives/c_api/handles.h"

#include "collectives/c_api/failures.h"

namespace tombolo::c_api {

/// The table is never destroyed, because other objects of static lifetime may still use their communicators.
Handles& handles() {
  static auto* all = new Handles;
  return *all;
}

std::shared_ptr<Member> member_of(tomboloComm_t comm, const char* function) {
  if (comm == nullptr) refuse("{}: the communicator is null", function);
  auto member = handles().find(comm);
  if (!member) refuse("{}: there is no such communicator (was it destroyed?)", function);
  return member;
}

}  // namespace tombolo::c_api
