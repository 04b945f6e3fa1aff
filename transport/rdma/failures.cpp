// What tells that a NIC, its port or the network between two NICs has failed.
#include "base/error.h"
#include "base/units.h"
#include "transport/rdma/connection.h"
#include "transport/rdma/timeouts.h"

namespace tombolo::transport::rdma {

/// A queue pair cannot be used any more. The reason may have been given by the peer over the control channel,
/// or by the device in an event.
void RdmaConnection::broken(const ibv_wc& completion) {
  look_at_devices();
  if (error_) return;
  look_at_channel();
  if (error_) return;
  const WorkId work = WorkId::unpack(completion.wr_id);
  const std::size_t at = agreed_.queue_pairs[work.queue_pair]->nic_pair;
  const NicPair& nic_pair = *agreed_.nic_pairs[at];
  const std::string where =
      fmt::format("queue pair {} of RDMA device {}", work.queue_pair, nic_pair.device().name());
  const std::string trouble = nic_pair.device().trouble(nic_pair.port().number);
  if (closing()) {
    peer_.give_up();
    return;
  }
  if (completion.status == IBV_WC_RETRY_EXC_ERR) {
    fail_path(Cause::kTimeout,
              fmt::format("{}: the peer's NIC ({}) acknowledged nothing, {} tries of at least {} each{}",
                          where, agreed_.peer_nic_pairs[at].port.nic, agreed_.options.retries + 1,
                          format_seconds(to_seconds(ack_timeout(agreed_.options.timeout))), trouble),
              at);
    return;
  }
  const bool remote = completion.status == IBV_WC_REM_ACCESS_ERR || completion.status == IBV_WC_REM_OP_ERR ||
                      completion.status == IBV_WC_REM_INV_REQ_ERR ||
                      completion.status == IBV_WC_RNR_RETRY_EXC_ERR;
  const std::string what =
      fmt::format("{}: {} (vendor's code {}){}{}", where,
                  nic_pair.device().verbs().wc_status_str(completion.status), completion.vendor_err,
                  work.kind == WorkId::Kind::kOneSided && completion.status == IBV_WC_REM_ACCESS_ERR
                      ? ", for memory of the peer's that is no window, or not any more"
                      : "",
                  trouble);
  // The others say that this program is at fault, which another way would not mend. Soft-RoCE ends a queue
  // pair with an operation error of its own where the link has just gone down, and its route with it.
  const bool path = completion.status == IBV_WC_WR_FLUSH_ERR || completion.status == IBV_WC_FATAL_ERR ||
                    completion.status == IBV_WC_RESP_TIMEOUT_ERR || completion.status == IBV_WC_LOC_QP_OP_ERR;
  if (path)
    fail_path(Cause::kSystem, what, at);
  else
    fail_with(remote ? Cause::kRemote : Cause::kSystem, what);
}

void RdmaConnection::look_at_devices() {
  for (std::size_t i = 0; i < agreed_.nic_pairs.size(); ++i) {
    const auto& nic_pair = agreed_.nic_pairs[i];
    nic_pair->device().look();
    if (nic_pair->device().lost()) {
      fail_path(Cause::kSystem,
                fmt::format("RDMA device {} reported a fatal error", nic_pair->device().name()), i);
      return;
    }
    // Without another way it is better to wait whether the port comes back before the NIC gives up.
    if (route().resumable && nic_pair->device().down(nic_pair->port().number)) {
      fail_path(Cause::kSystem,
                fmt::format("port {} of RDMA device {} went down", nic_pair->port().number,
                            nic_pair->device().name()),
                i);
      return;
    }
    for (const auto& pair : nic_pair->queue_pairs()) {
      const int fatal = pair->events.fatal.load(std::memory_order_relaxed);
      if (fatal < 0) continue;
      const std::string what =
          fmt::format("RDMA device {}: {}", nic_pair->device().name(),
                      nic_pair->device().verbs().event_type_str(static_cast<ibv_event_type>(fatal)));
      if (fatal == IBV_EVENT_QP_FATAL)
        fail_path(Cause::kSystem, what, i);
      else
        fail_with(Cause::kSystem, what);
      return;
    }
  }
}

}  // namespace tombolo::transport::rdma
