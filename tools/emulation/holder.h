// The process that owns an emulation. It makes the namespaces and then only waits until its parent ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/emulation/spec.h"
#include "tools/process/subprocess.h"

namespace tombolo::emulation {

/// The number under which the holder keeps host h's network namespace open: /proc/<holder>/fd/<this>.
constexpr int namespace_descriptor(std::size_t host_index) noexcept {
  return 10 + static_cast<int>(host_index);
}

/// The number under which the holder keeps its end of the socket for orders to the relay of its i-th relayed
/// link.
constexpr int relay_descriptor(std::size_t relay_index) noexcept {
  return 100 + static_cast<int>(relay_index);
}

struct Holder {
  pid_t pid = -1;
  bool user_namespace = false;     ///< it made a user namespace, which must be entered first
  Descriptor control;              ///< closing it ends the holder
  Descriptor alive;                ///< readable (end of file) when the holder has ended
  std::vector<Descriptor> relays;  ///< by link: for orders to its relay; empty where it has none
};

/// Forks the holder, and returns once the network is built. `directory` is removed when the holder ends in
/// any way except by SIGKILL. Without `namespaces` that is all that the holder does. Throws kUnsupported
/// saying what was refused and why.
Holder start_holder(const Spec& spec, bool namespaces, const std::string& directory);

/// Closes `control` and waits for the holder's end; kills it after 5 s.
void stop_holder(Holder& holder) noexcept;

}  // namespace tombolo::emulation
