// The process that owns an emulation. It makes the namespaces and then only waits for its parent's end.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/emulation/spec.h"
#include "tools/process/subprocess.h"

namespace tombolo::emulation {

/// Number under which the holder keeps host h's network namespace open: /proc/<holder>/fd/<this>.
constexpr int namespace_descriptor(std::size_t host_index) noexcept {
  return 10 + static_cast<int>(host_index);
}

/// Number under which the holder keeps the end on which the relay of its i-th relayed link takes orders.
constexpr int relay_descriptor(std::size_t relay_index) noexcept {
  return 100 + static_cast<int>(relay_index);
}

struct Holder {
  pid_t pid = -1;
  bool user_namespace = false;     ///< it made a user namespace, which must be entered first
  Descriptor control;              ///< closing it ends the holder
  Descriptor alive;                ///< end of file when it has ended
  std::vector<Descriptor> relays;  ///< by link: for orders to its relay; empty where it has none
};

/// Forks the holder, and returns once the network is built. `directory` is removed when the holder ends in
/// any way but SIGKILL. Without `namespaces` that is all the holder does. Throws kUnsupported with what
/// refused and why.
Holder start_holder(const Spec& spec, bool namespaces, const std::string& directory);

/// Closes `control`, waits for the end; kills after 5 s.
void stop_holder(Holder& holder) noexcept;

}  // namespace tombolo::emulation
