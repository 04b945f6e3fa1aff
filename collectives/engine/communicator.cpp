#include "collectives/engine/communicator.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "base/units.h"
#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {
// ---- point to point

void Communicator::send(const void* data, std::size_t bytes, int peer, void* stream) {
  wait(start_send(data, bytes, peer, stream));
}

void Communicator::receive(void* data, std::size_t bytes, int peer, void* stream) {
  wait(start_receive(data, bytes, peer, stream));
}

Work Communicator::start_send(const void* data, std::size_t bytes, int peer, void* stream) {
  const Call entered(*state_);
  return state_->start_message(true, data, bytes, peer, stream);
}

Work Communicator::start_receive(void* data, std::size_t bytes, int peer, void* stream) {
  const Call entered(*state_);
  return state_->start_message(false, data, bytes, peer, stream);
}

Work Communicator::State::start_message(bool sending, const void* data, std::size_t bytes, int peer,
                                        void* stream) {
  const std::string_view what = sending ? "send" : "receive";
  require_usable();
  check_peer(peer, what);
  if (data == nullptr && bytes > 0) fail(Cause::kInvalidUsage, "{}: the buffer is null", what);
  auto in_use = stage(what, data, bytes, sending, stream);
  auto* const at = static_cast<std::byte*>(const_cast<void*>(data));
  const Work work = messages->start(sending, at, bytes, peer, in_use);
  if (in_use) staged.push_back({in_use, [this, work] { return messages->has_moved(work); }});
  polls_moved = true;
  poll([] { return false; });  // sends at once what the connection takes
  return work;
}

void Communicator::State::wait(Work work) {
  if (work.kind == WorkKind::kCollective) {
    const StartedCollective& one = collectives.at(work).started;
    if (one.by.way == CarriedOut::Way::kHostMemory && !done(one)) spin_in_host_memory(one.by.ticket.number);
    wait_until([&] { return done(one); }, [&] { return describe_wait(one); });
    return redeem(work);
  }
  const auto what = [&] {
    const auto facts = messages->facts(work);
    const std::string awaited = facts.staged != nullptr ? facts.staged->describe_wait() : std::string();
    return fmt::format("{} of {} {} {}{}{}", facts.sending ? "send" : "receive", format_size(facts.bytes),
                       facts.sending ? "to" : "from",
                       mesh ? mesh->describe(Traffic::kPointToPoint, facts.peer) : "itself",
                       awaited.empty() ? "" : ": waiting for ", awaited);
  };
  try {
    wait_until([&] { return messages->done(work); }, what);
  } catch (...) {
    // A rank alone stays usable, but the buffer is its caller's again. With peers every connection is closed.
    if (!mesh && phase == Phase::kOpen) {
      std::erase_if(staged, [of = messages->facts(work).staged](const StagedCall& one) {
        if (one.staged.get() != of) return false;
        one.staged->end();
        return true;
      });
      messages->take_back(work);
    }
    throw;
  }
  redeem(work);
}

bool Communicator::State::done(Work work) const {
  return work.kind == WorkKind::kCollective ? done(collectives.at(work).started) : messages->done(work);
}

void Communicator::State::redeem(Work work) {
  if (work.kind == WorkKind::kMessage) return messages->redeem(work);
  // A callback that is due is made before the Work is gone.
  call_back(nullptr);
  operations_kept.complete(collectives.at(work).started.number);
  collectives.redeem(work);
}

void Communicator::wait(Work work) {
  const Call entered(*state_);
  state_->require_usable();
  state_->wait(work);
}

bool Communicator::test(Work work) {
  const Call entered(*state_);
  state_->poll([&] { return state_->done(work); });
  if (!state_->done(work)) return false;
  state_->redeem(work);
  return true;
}

void Communicator::progress() {
  const Call entered(*state_);
  state_->poll([] { return false; });
}

void Communicator::State::poll(const std::function<bool()>& done) {
  require_usable();
  if (!mesh) {
    messages->progress();
    progress_staged();
    return check_failures([] { return std::string("progress"); });
  }
  const auto what = [] { return std::string("progress"); };
  turn_or_fail(what);
  if (done()) return;
  check_failures(what);
  // Callers that poll by test() shall learn of other ranks' failures too, but not by a system call each time.
  constexpr std::uint64_t kEvery = 64;
  if (++polls % kEvery != 0) return;
  const TimePoint now = options.router.clock->now();
  if (polls_moved) polls_idle_since = now;
  polls_moved = false;
  check_host(what);
  check_other_ranks(polls_idle_since, what);
  try {
    mesh->progress();
    mesh->check_awaited();
  } catch (const std::exception& error) {
    fail_for(error, what);
  }
}

// ---- set-up, end, and what callers ask

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {
  State* const own = state_.get();
  if (own->options.progress == Progress::kThread && own->mesh) {
    own->thread = std::make_unique<ProgressThread>(ProgressThread::Job{
        [own] { return own->busy(); }, [own](ProgressThread& by) { return own->work(by); }});
  }
}

Communicator::~Communicator() {
  state_->thread.reset();
  // The buffers of calls that are still under way return to their owners.
  if (state_->host_calls && !state_->host_calls->idle()) state_->host->withdraw();
  // While an exception unwinds this frame, this rank can do no more of its part, and the others must know.
  if (state_->mesh && state_->phase == Phase::kOpen && !state_->signal->raised()) {
    if (std::uncaught_exceptions() == 0) {
      state_->close_with_peers();
    } else {
      AbortSignal::publish(state_->rendezvous, {rank(), Cause::kRemote,
                                                fmt::format("rank {} failed outside of Tombolo", rank())});
    }
  }
}

void Communicator::finalize() {
  const Call entered(*state_);
  state_->require_usable();
  if (!state_->messages->idle() || !state_->staged.empty() || state_->collectives.open() > 0) {
    fail(Cause::kInvalidUsage, "finalize: rank {} has started {} that were not waited for", rank(),
         state_->collectives.open() > 0 ? "collectives" : "sends or receives");
  }
  if (state_->mesh) state_->close_with_peers();
  state_->phase = Phase::kFinalized;
}

std::optional<Cause> Communicator::failure_cause() const noexcept {
  switch (state_->phase) {
    case Phase::kFailed:
      return state_->failure->cause();
    case Phase::kFinalized:
      return std::nullopt;
    case Phase::kOpen:
      break;
  }
  if (state_->signal->is_raised()) return Cause::kAborted;
  return std::nullopt;
}

int Communicator::rank() const noexcept {
  return state_->options.identity.rank;
}

int Communicator::size() const noexcept {
  return state_->options.identity.size;
}

const std::vector<Member>& Communicator::members() const noexcept {
  return state_->members;
}

void Communicator::connect_to(int peer) {
  const Call entered(*state_);
  state_->require_usable();
  state_->check_peer(peer, "connect_to");
  if (peer == rank()) return;
  for (const Traffic traffic : {Traffic::kCollective, Traffic::kPointToPoint}) {
    try {
      state_->mesh->open(traffic, peer);
    } catch (const Error& error) {
      state_->fail_all_ranks(error.cause(), fmt::format("connecting to rank {}: {}", peer, error.what()));
    }
    state_->wait_until(
        [&] { return state_->mesh->find(traffic, peer) != nullptr; },
        [&] { return fmt::format("connecting to {}", state_->mesh->describe(traffic, peer)); });
  }
}

std::optional<transport::Route> Communicator::route_to(int peer) const {
  const Call entered(*state_);
  if (!state_->mesh || peer < 0 || peer >= size() || peer == rank()) return std::nullopt;
  for (const Traffic traffic : kAllTraffic) {
    if (const auto* connection = state_->mesh->find(traffic, peer)) return connection->route();
  }
  return std::nullopt;
}

std::vector<LinkTraffic> Communicator::traffic() const {
  const Call entered(*state_);
  std::vector<LinkTraffic> all;
  if (!state_->mesh) return all;
  if (state_->host) {
    const HostCollective& host = *state_->host_collective;
    const std::string& name = state_->members[static_cast<std::size_t>(rank())].host;
    if (host.written() + host.read() > 0)
      all.push_back(
          {name, "memory", name, "memory", topology::NicKind::kTcp, "shm", host.written(), host.read()});
  }
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    for (const Traffic traffic : kAllTraffic) {
      const auto* connection = state_->mesh->find(traffic, peer);
      if (connection == nullptr) continue;
      const transport::Route& route = connection->route();
      const transport::Statistics statistics = connection->statistics();
      const std::string& host = state_->members[static_cast<std::size_t>(rank())].host;
      const std::string& peer_host = state_->members[static_cast<std::size_t>(peer)].host;
      const auto same = std::find_if(all.begin(), all.end(), [&](const LinkTraffic& one) {
        return one.local_nic == route.local_nic && one.peer_host == peer_host &&
               one.peer_nic == route.peer_nic;
      });
      if (same == all.end()) {
        all.push_back({host, route.local_nic, peer_host, route.peer_nic, route.kind, route.transport,
                       statistics.bytes_sent, statistics.bytes_received});
      } else {
        same->bytes_sent += statistics.bytes_sent;
        same->bytes_received += statistics.bytes_received;
      }
    }
  }
  return all;
}

const transport::Secret& Communicator::secret() const noexcept {
  return state_->router ? state_->router->options().secret : state_->options.secret;
}

transport::Secret Communicator::secret_for_new_ranks() const {
  return state_->router ? secret() : transport::Secret::random();
}

void Communicator::set_deadline(Duration deadline) {
  const Call entered(*state_);
  state_->options.deadline = state_->idle_patience = deadline;
  if (state_->mesh) state_->mesh->set_deadline(deadline);
}

std::string Communicator::last_algorithm() const {
  const Call entered(*state_);
  return std::string(state_->last ? state_->last->choice.name() : "none");
}

void Communicator::abort(const std::string& reason) noexcept {
  state_->signal->raise(reason);
  if (!state_->mesh) return;
  try {
    AbortSignal::publish(state_->rendezvous,
                         {rank(), Cause::kAborted, fmt::format("rank {} was aborted: {}", rank(), reason)});
  } catch (...) {  // the wait that raise() has woken publishes it as well
  }
}

}  // namespace tombolo::collectives
