// What a communicator that waits in vain says of itself.
#include <algorithm>
#include <chrono>

#include "base/units.h"
#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {
namespace {

std::int64_t unix_ns(TimePoint then, TimePoint now) {
  const auto day = std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
  return (day - (now - then)).count();
}

}  // namespace

void Communicator::State::note_start(std::uint64_t number, const CollectiveCall& call) noexcept {
  operations_kept.start({number, call.collective, call.type, call.op, call.uneven, false, call.root,
                         call.count, options.router.clock->roughly_now()});
}

void Communicator::State::begin_to_report() {
  begin_to_report(options.store_reach.empty() ? options.identity.address : options.store_reach,
                  options.secret);
}

void Communicator::State::begin_to_report(const std::string& address, const transport::Secret& secret) {
  const Identity& identity = options.identity;
  if (identity.size == 1 || options.stuck_after <= Duration::zero()) return;
  stuck_reporter = std::make_shared<StuckReporter>(rendezvous, identity.rank, options.router.host.name,
                                                   options.stuck_after, options.log);
  if (options.store) return;
  stuck_reporter->publish_note(address, secret, identity.size);
}

std::int64_t Communicator::State::job_rank(int rank) const {
  return ranks_of_job.empty() ? rank : ranks_of_job[static_cast<std::size_t>(rank)];
}

std::vector<ReportedOperation> Communicator::State::reported_operations(TimePoint now) {
  // Those that were only started complete without a call that could note it.
  collectives.for_each_open([&](const PendingCollective& one) {
    if (done(one.started)) operations_kept.complete(one.started.number);
  });
  std::vector<ReportedOperation> all;
  operations_kept.for_each(operations, [&](const OperationRecord& record) {
    ReportedOperation one;
    one.number = record.number;
    one.collective = collective_name(record.collective);
    if (record.collective != Collective::kBarrier) {
      one.type = data_type_name(record.type);
      one.count = record.count;
    }
    if (is_reduction(record.collective)) one.op = reduce_op_name(record.op);
    if (is_rooted(record.collective)) one.root = job_rank(record.root);
    one.uneven = record.uneven;
    one.state = record.completed ? OperationState::kCompleted : OperationState::kStarted;
    one.started_ns = unix_ns(record.started, now);
    all.push_back(std::move(one));
  });
  return all;
}

std::vector<ReportedWait> Communicator::State::reported_waits(std::vector<ReportedOperation>& told) {
  std::vector<ReportedWait> waits;
  // The oldest one of each channel is carried out, and those behind it are not.
  std::vector<std::size_t> channels_seen;
  bool memory_seen = false;
  const auto scheduled = [&](std::uint64_t number) {
    for (ReportedOperation& one : told) {
      if (one.number == number) one.state = OperationState::kScheduled;
    }
  };
  const auto add = [&](const StartedCollective& started) {
    if (done(started)) return;
    const CarriedOut& by = started.carried_out();
    if (by.way == CarriedOut::Way::kHostMemory) {
      if (std::exchange(memory_seen, true)) return scheduled(started.number);
      for (int peer = 0; peer < host->size(); ++peer) {
        if (peer != options.identity.rank && host_collective->owes(peer))
          waits.push_back({started.number, job_rank(peer), WaitKind::kMemory, -1, 0, 0, 0});
      }
    } else if (by.way == CarriedOut::Way::kMessages) {
      if (std::ranges::count(channels_seen, by.ticket.channel) > 0) return scheduled(started.number);
      channels_seen.push_back(by.ticket.channel);
      channels->append_waits(by.ticket.channel, waits, started.number);
    }
  };
  if (waited_for != nullptr) add(*waited_for);
  std::vector<const StartedCollective*> open;
  collectives.for_each_open([&](const PendingCollective& one) { open.push_back(&one.started); });
  std::ranges::sort(open, {}, &StartedCollective::number);
  for (const StartedCollective* one : open) add(*one);
  messages->append_waits(waits);
  for (ReportedWait& wait : waits) {
    if (wait.kind != WaitKind::kMemory) wait.peer = job_rank(static_cast<int>(wait.peer));
  }
  return waits;
}

std::vector<ReportedLink> Communicator::State::reported_links() const {
  std::vector<ReportedLink> links;
  for (int peer = 0; peer < rank_map.size; ++peer) {
    for (const Traffic traffic : kAllTraffic) {
      const auto* connection = peer == options.identity.rank ? nullptr : mesh->find(traffic, peer);
      if (connection == nullptr) continue;
      const transport::Route& route = connection->route();
      const transport::Statistics counts = connection->statistics();
      links.push_back({job_rank(peer), static_cast<std::int64_t>(traffic), route.transport, route.local_nic,
                       route.peer_nic, route.peer_address, counts.messages_sent, counts.messages_received,
                       counts.live_streams, counts.retransmitted});
    }
  }
  return links;
}

void Communicator::State::tell_if_stuck(TimePoint idle_since, const std::function<std::string()>& what) {
  if (!stuck_reporter || !busy()) return;
  const TimePoint now = options.router.clock->now();
  const Duration idle = now - idle_since;
  if (idle < stuck_reporter->after()) return;
  const bool first = !stuck_told_at;
  if (!first && now - *stuck_told_at < StuckReporter::kRepeat) return;
  stuck_told_at = now;
  ReportedCommunicator state;
  state.name = rendezvous.prefix;
  for (int rank = 0; rank < rank_map.size; ++rank) state.ranks.push_back(job_rank(rank));
  state.doing = what();
  state.stuck_seconds = to_seconds(idle);
  state.operations = reported_operations(now);
  state.waits = reported_waits(state.operations);
  state.links = reported_links();
  stuck_reporter->tell(this, std::move(state), first);
}

void Communicator::State::no_longer_stuck() noexcept {
  stuck_told_at.reset();
  stuck_reporter->withdraw(this);
}

}  // namespace tombolo::collectives
