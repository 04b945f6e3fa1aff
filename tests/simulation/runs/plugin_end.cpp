#include "tests/simulation/runs/plugin_end.h"

#include "base/format.h"

namespace tombolo::simulation {

std::string PluginEnd::name() const {
  return fmt::format("comm {} at the {} on h{}", number, role == Role::kSender ? "sender" : "receiver", host);
}

std::string PluginEnd::doing() const {
  static constexpr const char* kStates[] = {"connecting", "open", "finished", "closed"};
  return fmt::format("{}: {}, {} of {} done{}{}", name(), kStates[static_cast<int>(state)], done,
                     plan->messages.size(), aborted ? ", aborted" : "",
                     failed.empty() ? "" : ", failed: " + failed);
}

}  // namespace tombolo::simulation
