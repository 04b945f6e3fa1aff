#include "net_plugin/comms/set_up_stall.h"

#include <algorithm>

#include "base/format.h"
#include "net_plugin/parameters.h"

namespace tombolo::net_plugin {
namespace {

constexpr std::size_t kMostShown = 4;

std::string places(std::span<const transport::Offer> offers) {
  std::string text;
  for (const transport::Offer& one : offers.first(std::min(offers.size(), kMostShown)))
    text += fmt::format("{}{} port {} ({})", text.empty() ? "" : ", ", one.address, one.port,
                        topology::nic_kind_name(one.kind));
  if (offers.size() > kMostShown) text += fmt::format(" and {} more", offers.size() - kMostShown);
  return text.empty() ? "no address" : text;
}

}  // namespace

std::string stall_text(const StallReports& of, const SetUpStall& facts) {
  if (facts.of == SetUpStall::Of::kAccept) {
    return fmt::format(
        "{}: accept on device {} has waited for {:.0f} s, and no peer has connected to {}: the peer may not "
        "have got so far, its process may be stopped or gone, or the path may be dead or blocked by a "
        "firewall. The other ranks' logs say what they wait for. {}",
        of.place(), facts.device, to_seconds(facts.stalled), places(facts.offers), stall_hint());
  }
  return fmt::format(
      "{}: connect from device {} has waited for {:.0f} s for {} the listener at {}: the peer may not accept "
      "yet, its process may be stopped, or the path may be dead or blocked by a firewall. It fails after "
      "{:.0f} s in all ({}). The peer's log says what it waits for. {}",
      of.place(), facts.device, to_seconds(facts.stalled),
      facts.of == SetUpStall::Of::kQuery ? "the addresses of all NICs from" : "a connection to",
      places(facts.offers), to_seconds(facts.deadline), kNetDeadlineParameter.name, stall_hint());
}

}  // namespace tombolo::net_plugin
