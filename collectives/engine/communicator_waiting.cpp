// How a communicator waits, and how it ends: progress, deadlines, other ranks' failures, closing.
#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/units.h"
#include "collectives/engine/communicator_state.h"
#include "transport/kernel.h"

namespace tombolo::collectives {
namespace {

/// A sleeping wait wakes and checks everything at least so often, even where no descriptor is ready.
constexpr Duration kLongestSleep = std::chrono::seconds(1);
/// How often a sleeping wait looks whether the caller's stream has come to the call: nothing wakes it then.
constexpr Duration kStreamLook = std::chrono::milliseconds(1);
/// How long a rank whose deadline has passed waits for others to say that they are stuck too, and at most a
/// deadline. Theirs may pass a little later: a kernel that probes a peer with full buffers may move some
/// bytes once more.
constexpr Duration kStuckCheckPatience = std::chrono::seconds(5);
constexpr auto kClosingPatience = std::chrono::seconds(5);
/// How long a rank waits for the note that it has left, or for the end of the store.
constexpr Duration kEchoPatience = std::chrono::milliseconds(100);
/// That another rank has given up may be known before its last messages, and those of ranks that wait for
/// none of its, have come: they take another way, on which the kernel may have to send them again. Inside a
/// cluster it rarely has to.
constexpr Duration kLastWordsPatience = std::chrono::milliseconds(40);
constexpr Duration kLastWordsPatienceAcrossClusters = std::chrono::seconds(1);

}  // namespace

void Communicator::State::require_usable() {
  switch (phase) {
    case Phase::kOpen:
      break;
    case Phase::kFinalized:
      fail(Cause::kInvalidUsage,
           "rank {} has finalized this communicator: no more calls are possible on it, it can only be "
           "destroyed",
           options.identity.rank);
    case Phase::kFailed:
      throw Error(*failure);
  }
  if (signal->raised()) check_failures([] { return std::string("this communicator"); });
}

void Communicator::State::record_failure(Cause cause, const std::string& text) {
  failure.emplace(cause, text);
  phase = Phase::kFailed;
}

void Communicator::State::check_peer(int peer, std::string_view what) const {
  if (peer < 0 || peer >= options.identity.size) {
    fail(Cause::kInvalidUsage, "{}: rank {} is not below {}", what, peer, options.identity.size);
  }
}

bool Communicator::State::turn() {
  // Connections that only a peer has asked for can wait until this rank is idle.
  bool moved = mesh->opening() && mesh->progress();
  if (!staged.empty() || !deferred.empty()) moved |= progress_staged();
  moved |= channels->progress();
  if (watched && channels->idle()) note_watched();
  if (host_calls) moved |= host_calls->progress();
  if (!messages->idle()) moved |= messages->progress();
  if (callbacks > 0) call_back(nullptr);
  if (moved && stuck_told_at) no_longer_stuck();
  return moved;
}

void Communicator::State::turn_or_fail(const std::function<std::string()>& what) {
  try {
    polls_moved |= turn();
  } catch (const std::exception& error) {
    fail_for(error, what);
  }
}

void Communicator::State::fail_for(const std::exception& error, const std::function<std::string()>& what) {
  if (phase == Phase::kFailed) throw;
  // A connection could not be made, or there is no memory. The buffers of all calls return to their owners.
  const auto* known = dynamic_cast<const Error*>(&error);
  fail_all_ranks(known != nullptr ? known->cause() : Cause::kSystem,
                 fmt::format("{}: {}", what(), error.what()));
}

void Communicator::State::fail_this_rank(Cause cause, const std::string& text) {
  record_failure(cause, text);
  if (stuck_told_at) no_longer_stuck();
  channels->clear();
  if (host) {
    host_calls->clear();
    host->leave();
  }
  messages->clear();
  mesh->close_all();
  end_staged();
  call_back(&*failure);
  throw Error(*failure);
}

void Communicator::State::fail_all_ranks(Cause cause, const std::string& text) {
  const int rank = options.identity.rank;
  // A note that is already there names the cause of this failure. Without one, this rank is the first to
  // notice.
  AbortNote standing{rank, cause, text};
  auto news = signal->check();
  if (news == AbortSignal::News::kNone) {
    standing = AbortSignal::publish(rendezvous, standing);
    news = signal->await(within(kEchoPatience));
  }
  if (news == AbortSignal::News::kNote) standing = signal->note();
  if (news == AbortSignal::News::kStoreLost) {
    // Other ranks may have ended because of it, and their ends be seen first.
    fail_this_rank(cause, fmt::format("{}: {} died: its store at {}:{} vanished", text, name_store_keeper(),
                                      rendezvous.known_as, rendezvous.port));
  }
  if (standing.rank == rank) fail_this_rank(cause, text);
  fail_this_rank(standing.cause,
                 fmt::format("{} gave up first: {}", name_rank(standing.rank), standing.text));
}

void Communicator::State::end_with(Cause cause, const std::string& text) {
  if (mesh) fail_all_ranks(cause, text);
  record_failure(cause, text);
  end_staged();
  throw Error(*failure);
}

void Communicator::State::check_failures(const std::function<std::string()>& what) {
  if (const auto reason = signal->raised()) {
    const std::string text =
        fmt::format("{}: rank {} was aborted: {}", what(), options.identity.rank, *reason);
    if (!mesh) {
      record_failure(Cause::kAborted, text);
      throw Error(*failure);
    }
    fail_all_ranks(Cause::kAborted, text);
  }
  if (!gpu_failure.empty()) end_with(Cause::kSystem, fmt::format("{}: {}", what(), gpu_failure));
  if (!mesh) return;
  const auto failed = [&](int peer, Traffic traffic, const std::string& text) {
    fail_all_ranks(Cause::kRemote,
                   fmt::format("{}: {} failed: {}", what(), mesh->describe(traffic, peer), text));
  };
  if (const auto one = channels->failure()) failed(one->peer, one->traffic, one->text);
  if (messages->failure())
    failed(messages->failure()->peer, Traffic::kPointToPoint, messages->failure()->text);
}

std::string Communicator::State::describe_store_failure(const Error& error) const noexcept {
  try {
    if (error.cause() != Cause::kTimeout)
      return fmt::format("; which other ranks wait is not known: {}", error.what());
    return fmt::format("; {}, which keeps the store at {}:{}, does not answer", name_store_keeper(),
                       rendezvous.known_as, rendezvous.port);
  } catch (...) {
    return {};
  }
}

std::string Communicator::State::name_ranks_not_waiting() noexcept {
  try {
    const Duration patience = std::min<Duration>(kStuckCheckPatience, options.deadline);
    const auto store = rendezvous.store->reconnect(within(patience), Log());
    const auto key = [&](int rank) { return fmt::format("{}/stuck/{}", rendezvous.prefix, rank); };
    store->set(key(options.identity.rank), {});
    // The others' deadlines pass within moments of this one's. So this waits for one rank after the other
    // until the time is up, and of the rest it only asks whether their note is there.
    const auto deadline = within(patience);
    std::string absent;
    for (const Member& member : members) {
      try {
        if (!deadline.passed()) {
          store->get(key(member.rank), deadline);
          continue;
        }
      } catch (const Error& error) {
        if (error.cause() != Cause::kTimeout) throw;
      }
      if (store->try_get(key(member.rank))) continue;
      absent += (absent.empty() ? "" : ", ") + name_rank(member.rank);
    }
    return absent.empty() ? "; all ranks wait" : "; not waiting themselves: " + absent;
  } catch (const Error& error) {
    return describe_store_failure(error);
  } catch (...) {  // without memory, who is absent stays unknown
    return {};
  }
}

Duration Communicator::State::check_other_ranks(TimePoint idle_since,
                                                const std::function<std::string()>& what) {
  tell_if_stuck(idle_since, what);
  const Duration patience =
      rank_map.clusters.size() > 1 ? kLastWordsPatienceAcrossClusters : kLastWordsPatience;
  const auto news = signal->check();
  const auto gone = gone_before_connecting();
  if (news == AbortSignal::News::kNone && !gone) {
    told_at.reset();
    return kLongestSleep;
  }
  const TimePoint now = options.router.clock->now();
  if (!told_at) told_at = now;
  const Duration quiet = now - std::max(*told_at, idle_since);
  if (quiet < patience) return patience - quiet;
  switch (news) {
    case AbortSignal::News::kNote:
      fail_all_ranks(signal->note().cause, what());
    case AbortSignal::News::kStoreLost:
      fail_all_ranks(Cause::kRemote, what());
    case AbortSignal::News::kNone:
      break;
  }
  fail_all_ranks(Cause::kRemote,
                 fmt::format("{}: {} failed: it was gone before it had connected", what(), name_rank(*gone)));
}

void Communicator::State::sleep(Duration most) {
  const bool on_gpu =
      std::ranges::any_of(staged, [](const StagedCall& one) { return one.staged->is_moving(); });
  if (on_gpu) {  // it takes less time than a sleep
    transport::kernel().sched_yield();
    return;
  }
  if (!staged.empty()) most = std::min(most, kStreamLook);
  handles.clear();
  const bool forming = host && host->standing() == HostGroup::Standing::kForming;
  if (forming && host->look() != HostGroup::Standing::kForming) return;  // that may be what is waited for
  const bool in_host = forming || (host && !host_calls->idle());
  if (in_host) {
    host->fall_asleep();
    if (host_calls->progress()) return host->wake_up();
    host->append_wait_handles(handles);
  }
  signal->append_wait_handles(handles);
  mesh->append_wait_handles(handles);
  channels->append_wait_handles(handles);
  messages->append_wait_handles(handles);
  if (thread) thread->append_wait_handle(handles);
  const auto bounded = within(std::min<Duration>(most, kLongestSleep));
  const int ready = transport::kernel().poll(handles.data(), static_cast<nfds_t>(handles.size()),
                                             bounded.poll_milliseconds());
  const int error = errno;
  if (in_host) host->wake_up();
  if (ready < 0 && error != EINTR) {
    fail_all_ranks(Cause::kSystem, fmt::format("poll: {}", errno_text(error)));
  }
}

std::optional<Duration> Communicator::State::look_before_sleeping(TimePoint idle_since,
                                                                  const std::function<std::string()>& what) {
  bool moved = mesh->progress();
  moved |= channels->progress_connections();
  moved |= messages->progress_connections();
  check_failures(what);
  check_host(what);
  const Duration pause =
      mesh->opening() ? absentees->look(options.router.clock->now(), idle_since) : kLongestSleep;
  const Duration patience = check_other_ranks(idle_since, what);
  if (moved) return std::nullopt;
  return std::min(patience, pause);
}

bool Communicator::State::is_present(Store& store, int rank) const {
  // A rank becomes present before it has read the records.
  const bool has_read = store.try_get(read_key(rendezvous, kRankRecords, rank)).has_value();
  return store.try_get(presence_key(rendezvous, rank)).has_value() || !has_read;
}

void Communicator::State::wait_until(const std::function<bool()>& done,
                                     const std::function<std::string()>& what) {
  if (done()) return;
  if (!mesh) {  // a rank alone has only itself, and its GPU, to wait for
    auto deadline = within(idle_patience);
    for (;;) {
      const bool moved = progress_staged() | messages->progress();
      check_failures(what);
      const auto waits = [](const StagedCall& one) { return !one.staged->is_ready(); };
      if (done() || (!moved && std::ranges::none_of(staged, waits))) break;
      if (moved) deadline = within(idle_patience);
      if (deadline.passed())
        end_with(Cause::kTimeout,
                 fmt::format("{}, nothing moved for {}", what(), format_seconds(to_seconds(idle_patience))));
      transport::kernel().sched_yield();
    }
    if (messages->failure()) fail(Cause::kInvalidUsage, "{}: {}", what(), messages->failure()->text);
    if (done()) return;
    fail(Cause::kInvalidUsage, "{}: a message to oneself needs both its send and its receive started first",
         what());
  }
  auto deadline = within(idle_patience);
  TimePoint idle_since{};
  bool idle = false;
  try {
    for (;;) {
      const bool moved = turn();
      if (done()) return;
      if (moved) {
        idle = false;
        if (signal->is_raised()) check_failures(what);
        continue;
      }
      check_failures(what);
      const TimePoint now = options.router.clock->now();
      if (!idle) {
        idle = true;
        idle_since = now;
        deadline = within(idle_patience);
      }
      if (now - idle_since < spin) {
        // Other programs may want this processor, among them ranks of hosts that share it.
        transport::kernel().sched_yield();
        continue;
      }
      if (host_calls && !host_calls->idle() && host_collective->others_have_copied()) {
        idle_since = now;
        deadline = within(idle_patience);
      }
      const auto patience = look_before_sleeping(idle_since, what);
      if (!patience) {
        idle = false;
        continue;
      }
      if (deadline.passed()) {
        fail_all_ranks(Cause::kTimeout,
                       fmt::format("{}, nothing {} for {}{}", what(),
                                   channels->idle() || channels->awaits_arrival() ? "arrived" : "moved",
                                   format_seconds(to_seconds(idle_patience)), name_ranks_not_waiting()));
      }
      sleep(std::min(*patience, deadline.remaining()));
    }
  } catch (const std::exception& error) {
    fail_for(error, what);
  }
}

Communicator::State::~State() {
  if (mesh) mesh->close_all();
  end_staged();
}

void Communicator::State::close_with_peers() noexcept {
  // The closing message has no bytes, while every other message has some. Once the peer's has come,
  // everything that was sent to this rank before has been delivered.
  try {
    struct Closing {
      transport::Connection* connection;
      transport::Request* out;
      transport::Request* in;
    };
    std::vector<Closing> all;
    for (const Traffic traffic : kAllTraffic) {
      for (int peer = 0; peer < rank_map.size; ++peer) {
        transport::Connection* connection = mesh->find(traffic, peer);
        if (connection == nullptr || connection->error() != nullptr) continue;
        all.push_back({connection, connection->post_send({}), connection->post_receive({})});
      }
    }
    const auto deadline = within(std::min<Duration>(kClosingPatience, options.deadline));
    while (!all.empty() && !deadline.passed() && !signal->raised()) {
      for (auto one = all.begin(); one != all.end();) {
        std::size_t bytes = 0;
        if (one->out != nullptr && one->connection->test(one->out, bytes) != transport::Outcome::kPending)
          one->out = nullptr;
        if (one->in != nullptr && one->connection->test(one->in, bytes) != transport::Outcome::kPending)
          one->in = nullptr;
        one = one->out == nullptr && one->in == nullptr ? all.erase(one) : std::next(one);
      }
      if (all.empty()) break;
      if (signal->check() != AbortSignal::News::kNone) break;
      handles.clear();
      signal->append_wait_handles(handles);
      for (const auto& one : all) one.connection->append_wait_handles(handles);
      const auto nap = within(std::min<Duration>(deadline.remaining(), kLongestSleep));
      transport::kernel().poll(handles.data(), static_cast<nfds_t>(handles.size()), nap.poll_milliseconds());
    }
  } catch (...) {  // without memory for closing messages the connections close without them
  }
}

}  // namespace tombolo::collectives
