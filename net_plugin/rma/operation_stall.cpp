#include "net_plugin/rma/operation_stall.h"

#include "base/format.h"

namespace tombolo::net_plugin::rma {
namespace {

std::string_view meaning_of(OperationWaits waits) {
  switch (waits) {
    case OperationWaits::kConnection:
      return "the connection is not there yet: that rank may not have got so far, or makes no calls";
    case OperationWaits::kTurn:
      return "it is not sent yet: that rank may make no calls, its process may be stopped, or the path may "
             "be "
             "dead";
    case OperationWaits::kNic:
      return "the NICs have not finished it: the path may be dead";
    case OperationWaits::kAnswer:
      break;
  }
  return "that rank may make no calls, may not have registered the window yet, its process may be stopped, "
         "or "
         "the path may be dead";
}

std::string way_of(const transport::Route* route) {
  if (route == nullptr) return {};
  return fmt::format(" on host {} over {} ({} -> {}{})", route->peer_host.empty() ? "?" : route->peer_host,
                     route->transport, route->local_nic, route->peer_nic.empty() ? "?" : route->peer_nic,
                     route->peer_address.empty() ? "" : " " + route->peer_address);
}

}  // namespace

std::string stall_text(const StallReports& of, const OperationStall& facts) {
  return fmt::format(
      "{}: nothing has moved for {:.0f} s towards rank {} of one-sided operations{}: {}{}; {}. That rank's "
      "log "
      "says what it waits for. {}",
      of.place(), to_seconds(facts.stalled), facts.rank, way_of(facts.route), facts.operation,
      facts.behind == 0 ? "" : fmt::format(" and {} behind it", facts.behind), meaning_of(facts.waits),
      stall_hint());
}

}  // namespace tombolo::net_plugin::rma
