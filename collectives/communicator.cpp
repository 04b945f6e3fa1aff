#include "collectives/communicator.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include "base/error.h"
#include "base/units.h"
#include "collectives/algorithms/all_gather.h"
#include "collectives/algorithms/all_to_all.h"
#include "collectives/algorithms/barrier.h"
#include "collectives/algorithms/broadcast.h"
#include "collectives/algorithms/doubling_all_reduce.h"
#include "collectives/algorithms/reduce.h"
#include "collectives/algorithms/reduce_scatter.h"
#include "collectives/algorithms/ring_all_reduce.h"
#include "collectives/algorithms/two_level_all_reduce.h"
#include "collectives/communicator_state.h"

namespace tombolo::collectives {
namespace {

/// A training loop repeats a handful of shapes; building a schedule costs up to a millisecond.
constexpr std::size_t kMostSchedules = 32;
/// A sleeping wait looks at everything at least so often, whatever its descriptors say.
constexpr auto kLongestSleep = std::chrono::seconds(1);
/// How far apart the ranks' deadlines may pass in one stuck collective.
constexpr auto kRollCallPatience = std::chrono::seconds(1);
constexpr auto kLeavePatience = std::chrono::seconds(5);

const std::byte* bytes_of(const void* data) noexcept {
  return static_cast<const std::byte*>(data);
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) noexcept {
  return a_bytes > 0 && b_bytes > 0 && bytes_of(a) < bytes_of(b) + b_bytes &&
         bytes_of(b) < bytes_of(a) + a_bytes;
}

/// Whether the call is in place; throws where buffers overlap otherwise, or are missing. `in_place_at` is
/// where `send` must then be.
bool check_buffers(std::string_view name, const void* send, std::size_t send_bytes, const void* receive,
                   std::size_t receive_bytes, const void* in_place_at) {
  if ((send == nullptr && send_bytes > 0) || (receive == nullptr && receive_bytes > 0)) {
    fail(Cause::kInvalidUsage, "{}: the {} buffer is null", name, send == nullptr ? "send" : "receive");
  }
  if (in_place_at != nullptr && send == in_place_at) return true;
  if (overlap(send, send_bytes, receive, receive_bytes)) {
    fail(Cause::kInvalidUsage, "{}: the send and receive buffers overlap without being the same (in place)",
         name);
  }
  return false;
}

std::size_t total_bytes(std::string_view name, std::size_t count, DataType type, std::size_t ranks) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size_of(type) * ranks, &bytes)) {
    fail(Cause::kInvalidUsage, "{}: {} elements are more than memory can hold", name, count);
  }
  return bytes;
}

}  // namespace

// ---- waiting

void Communicator::State::require_usable() {
  if (broken) throw Error(*broken);
  if (signal->raised()) look_for_trouble([] { return std::string("this communicator"); });
}

void Communicator::State::check_peer(int peer, std::string_view what) const {
  if (peer < 0 || peer >= options.identity.size) {
    fail(Cause::kInvalidUsage, "{}: rank {} is not below {}", what, peer, options.identity.size);
  }
}

bool Communicator::State::turn() {
  // Connections that a peer wants sooner than this rank can wait until it is idle.
  bool moved = mesh->opening() && mesh->progress();
  if (!executor->finished()) moved |= executor->progress();
  if (!messages->idle()) moved |= messages->progress();
  return moved;
}

void Communicator::State::stop(Cause cause, const std::string& text) {
  broken.emplace(cause, text);
  executor->clear();
  messages->clear();
  mesh->close_all();
  throw Error(*broken);
}

void Communicator::State::give_up(Cause cause, const std::string& text) {
  const int rank = options.identity.rank;
  // A note that is here already explains what failed here; else this is the first to notice.
  AbortNote standing{rank, cause, text};
  if (signal->check() == AbortSignal::News::kNote) {
    standing = signal->note();
  } else {
    standing = AbortSignal::publish(rendezvous, standing);
    if (signal->check() == AbortSignal::News::kNote) standing = signal->note();
  }
  if (standing.rank == rank) stop(cause, text);
  stop(standing.cause, fmt::format("rank {} gave up first: {}", standing.rank, standing.text));
}

void Communicator::State::look_for_trouble(const std::function<std::string()>& what) {
  if (const auto reason = signal->raised()) {
    const std::string text =
        fmt::format("{}: rank {} was aborted: {}", what(), options.identity.rank, *reason);
    if (!mesh) {
      broken.emplace(Cause::kAborted, text);
      throw Error(*broken);
    }
    give_up(Cause::kAborted, text);
  }
  if (!mesh) return;
  const auto failed = [&](int peer, Traffic traffic, const std::string& text) {
    give_up(Cause::kRemote, fmt::format("{}: {} failed: {}", what(), mesh->describe(traffic, peer), text));
  };
  if (executor->failure()) failed(executor->failure()->peer, Traffic::kCollective, executor->failure()->text);
  if (messages->failure())
    failed(messages->failure()->peer, Traffic::kPointToPoint, messages->failure()->text);
}

std::string Communicator::State::name_absent() noexcept {
  try {
    const auto store = Store::connect(rendezvous.address, rendezvous.port, rendezvous.secret,
                                      Deadline::after(kRollCallPatience), Log());
    const auto key = [&](int rank) { return fmt::format("{}/stuck/{}", rendezvous.prefix, rank); };
    store->set(key(options.identity.rank), {});
    // The others' deadlines pass within moments of this one's.
    const auto deadline = Deadline::after(kRollCallPatience);
    std::string absent;
    for (const Member& member : members) {
      try {
        store->get(key(member.rank), deadline);
      } catch (const Error& error) {
        if (error.cause() != Cause::kTimeout) throw;
        absent += fmt::format("{}rank {} on host {}", absent.empty() ? "" : ", ", member.rank, member.host);
      }
    }
    return absent.empty() ? "; all ranks wait" : "; not waiting themselves: " + absent;
  } catch (...) {  // without the store, who is absent stays unknown
    return {};
  }
}

void Communicator::State::heed_others(const std::function<std::string()>& what) {
  switch (signal->check()) {
    case AbortSignal::News::kNote:
      give_up(signal->note().cause, what());
    case AbortSignal::News::kStoreLost:
      give_up(Cause::kRemote,
              fmt::format("{}: {} died: its store at {}:{} vanished", what(),
                          options.store_elsewhere ? std::string("the process that made the unique id")
                                                  : fmt::format("rank 0 on host {}", members.front().host),
                          rendezvous.address, rendezvous.port));
    case AbortSignal::News::kNone:
      break;
  }
}

void Communicator::State::sleep(Duration most) {
  handles.clear();
  signal->append_wait_handles(handles);
  mesh->append_wait_handles(handles);
  if (!executor->finished()) executor->append_wait_handles(handles);
  messages->append_wait_handles(handles);
  const auto bounded = Deadline::after(std::min<Duration>(most, kLongestSleep));
  if (::poll(handles.data(), static_cast<nfds_t>(handles.size()), bounded.poll_milliseconds()) < 0 &&
      errno != EINTR) {
    give_up(Cause::kSystem, fmt::format("poll: {}", errno_text(errno)));
  }
}

void Communicator::State::wait_until(const std::function<bool()>& done,
                                     const std::function<std::string()>& what) {
  if (done()) return;
  if (!mesh) {  // a rank alone has only itself to wait for
    messages->progress();
    look_for_trouble(what);
    if (messages->failure()) fail(Cause::kInvalidUsage, "{}: {}", what(), messages->failure()->text);
    if (done()) return;
    fail(Cause::kInvalidUsage, "{}: a message to oneself needs both its send and its receive started first",
         what());
  }
  auto deadline = Deadline::after(options.deadline);
  TimePoint idle_since{};
  bool idle = false;
  try {
    for (;;) {
      const bool moved = turn();
      if (done()) return;
      if (moved) {
        idle = false;
        continue;
      }
      look_for_trouble(what);
      const TimePoint now = Clock::steady().now();
      if (!idle) {
        idle = true;
        idle_since = now;
        deadline = Deadline::after(options.deadline);
      }
      if (now - idle_since < spin) continue;
      // Before sleeping: bytes of unfinished messages count as progress, and other ranks may have given up.
      bool nudged = mesh->progress();
      nudged |= executor->nudge();
      nudged |= messages->nudge();
      look_for_trouble(what);
      heed_others(what);
      if (nudged) {
        idle = false;
        continue;
      }
      if (deadline.passed()) {
        give_up(Cause::kTimeout,
                fmt::format("{}, nothing {} for {}{}", what(),
                            executor->finished() || executor->awaits_arrival() ? "arrived" : "moved",
                            format_seconds(to_seconds(options.deadline)), name_absent()));
      }
      sleep(deadline.remaining());
    }
  } catch (const Error& error) {
    if (broken) throw;
    // A connection could not be made.
    give_up(error.cause(), fmt::format("{}: {}", what(), error.what()));
  }
}

// ---- collectives

bool Communicator::State::use_two_level() const {
  switch (options.algorithm) {
    case Algorithm::kRing:
      return false;
    case Algorithm::kTwoLevel:
      return true;
    case Algorithm::kAuto:
      break;
  }
  // Clusters are declared because what joins them is slower than what is inside. With shared routing nothing
  // is faster inside, and a ring puts no more than two levels on any NIC.
  return layout.clusters.size() > 1 && options.routing == Routing::kPerPeer;
}

const Schedule& Communicator::State::schedule_for(const ScheduleKey& key) {
  for (auto one = schedules.begin(); one != schedules.end(); ++one) {
    if (!(one->first == key)) continue;
    schedules.splice(schedules.begin(), schedules, one);
    return schedules.front().second;
  }
  const auto& [collective, problem, in_place] = key;
  Schedule schedule;
  switch (collective) {
    case Collective::kAllReduce: {
      const std::size_t bytes = problem.count * problem.element_bytes;
      // Between two ranks doubling moves no more bytes than a ring, in half as many steps.
      const std::size_t small =
          layout.size == 2 ? 4 * options.tuning.small_bytes : options.tuning.small_bytes;
      if (bytes <= small && options.algorithm == Algorithm::kAuto) {
        schedule = doubling_all_reduce(layout, problem, options.tuning, in_place);
      } else if (use_two_level()) {
        schedule = two_level_all_reduce(layout, problem, options.tuning, in_place);
      } else {
        schedule = ring_all_reduce(layout, problem, options.tuning, in_place);
      }
      break;
    }
    case Collective::kReduceScatter:
      schedule = collectives::reduce_scatter(layout, problem, options.tuning, in_place);
      break;
    case Collective::kAllGather:
      schedule = collectives::all_gather(layout, problem, options.tuning, in_place);
      break;
    case Collective::kBroadcast:
      schedule = collectives::broadcast(layout, problem, options.tuning, in_place);
      break;
    case Collective::kReduce:
      schedule = collectives::reduce(layout, problem, options.tuning, in_place);
      break;
    case Collective::kAllToAll:
      schedule = collectives::all_to_all(layout, problem, options.tuning);
      break;
    case Collective::kBarrier:
      schedule = collectives::barrier(layout);
      break;
  }
  if (schedules.size() >= kMostSchedules) schedules.pop_back();
  schedules.emplace_front(key, std::move(schedule));
  return schedules.front().second;
}

void Communicator::State::run(const ScheduleKey& key, std::string_view name, const void* input, void* output,
                              DataType type, ReduceOp op) {
  const Schedule& schedule = schedule_for(key);
  last_algorithm = schedule.algorithm;
  const std::uint64_t number = ++operations;
  if (!mesh) {  // alone: at most a copy, and dividing by one changes nothing
    for (const Step& step : schedule.steps) {
      if (step.kind == StepKind::kCopy) {
        std::copy_n(bytes_of(input) + step.left.offset, step.bytes,
                    static_cast<std::byte*>(output) + step.target.offset);
      }
    }
    return;
  }
  executor->start({&schedule, bytes_of(input), static_cast<std::byte*>(output), type, op,
                   static_cast<std::size_t>(layout.size)});
  wait_until([this] { return executor->finished(); },
             [&] {
               std::string text = fmt::format("{} #{}", name, number);
               if (key.collective != Collective::kBarrier) {
                 const bool reduces = key.collective == Collective::kAllReduce ||
                                      key.collective == Collective::kReduceScatter ||
                                      key.collective == Collective::kReduce;
                 text +=
                     fmt::format(" ({} {}{}{})", format_size(key.problem.count * key.problem.element_bytes),
                                 data_type_name(type), reduces ? " " : "", reduces ? reduce_op_name(op) : "");
               }
               if (const int peer = executor->awaited_peer(); peer >= 0 && !executor->failure()) {
                 text += fmt::format(": waiting for {}", mesh->describe(Traffic::kCollective, peer));
               }
               return text;
             });
}

void Communicator::all_reduce(const void* send, void* receive, std::size_t count, DataType type,
                              ReduceOp op) {
  state_->require_usable();
  const std::size_t bytes = total_bytes("all_reduce", count, type, 1);
  const bool in_place = check_buffers("all_reduce", send, bytes, receive, bytes, receive);
  state_->run({Collective::kAllReduce, {count, size_of(type), op == ReduceOp::kAverage, 0}, in_place},
              "all_reduce", send, receive, type, op);
}

void Communicator::reduce_scatter(const void* send, void* receive, std::size_t count, DataType type,
                                  ReduceOp op) {
  state_->require_usable();
  const std::size_t all = total_bytes("reduce_scatter", count, type, static_cast<std::size_t>(size()));
  const std::size_t bytes = count * size_of(type);
  const void* at =
      receive == nullptr ? nullptr : bytes_of(receive) - bytes * static_cast<std::size_t>(rank());
  const bool in_place = check_buffers("reduce_scatter", send, all, receive, bytes, at);
  state_->run({Collective::kReduceScatter, {count, size_of(type), op == ReduceOp::kAverage, 0}, in_place},
              "reduce_scatter", send, receive, type, op);
}

void Communicator::all_gather(const void* send, void* receive, std::size_t count, DataType type) {
  state_->require_usable();
  const std::size_t all = total_bytes("all_gather", count, type, static_cast<std::size_t>(size()));
  const std::size_t bytes = count * size_of(type);
  const void* at =
      receive == nullptr ? nullptr : bytes_of(receive) + bytes * static_cast<std::size_t>(rank());
  const bool in_place = check_buffers("all_gather", send, bytes, receive, all, at);
  state_->run({Collective::kAllGather, {count, size_of(type), false, 0}, in_place}, "all_gather", send,
              receive, type, ReduceOp::kSum);
}

void Communicator::broadcast(const void* send, void* receive, std::size_t count, DataType type, int root) {
  state_->require_usable();
  state_->check_peer(root, "broadcast");
  const std::size_t bytes = total_bytes("broadcast", count, type, 1);
  // Only the root's send buffer is read.
  const bool is_root = rank() == root;
  const bool in_place =
      check_buffers("broadcast", is_root ? send : nullptr, is_root ? bytes : 0, receive, bytes, receive);
  state_->run({Collective::kBroadcast, {count, size_of(type), false, root}, in_place}, "broadcast", send,
              receive, type, ReduceOp::kSum);
}

void Communicator::reduce(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op,
                          int root) {
  state_->require_usable();
  state_->check_peer(root, "reduce");
  const std::size_t bytes = total_bytes("reduce", count, type, 1);
  const bool is_root = rank() == root;  // only its receive buffer is written
  const bool in_place = is_root ? check_buffers("reduce", send, bytes, receive, bytes, receive)
                                : check_buffers("reduce", send, bytes, nullptr, 0, nullptr);
  state_->run({Collective::kReduce, {count, size_of(type), op == ReduceOp::kAverage, root}, in_place},
              "reduce", send, receive, type, op);
}

void Communicator::all_to_all(const void* send, void* receive, std::size_t count, DataType type) {
  state_->require_usable();
  const std::size_t all = total_bytes("all_to_all", count, type, static_cast<std::size_t>(size()));
  check_buffers("all_to_all", send, all, receive, all, nullptr);
  state_->run({Collective::kAllToAll, {count, size_of(type), false, 0}, false}, "all_to_all", send, receive,
              type, ReduceOp::kSum);
}

void Communicator::barrier() {
  state_->require_usable();
  state_->run({Collective::kBarrier, {}, false}, "barrier", nullptr, nullptr, DataType::kInt8,
              ReduceOp::kSum);
}

// ---- point to point

void Communicator::send(const void* data, std::size_t bytes, int peer) {
  wait(start_send(data, bytes, peer));
}

void Communicator::receive(void* data, std::size_t bytes, int peer) {
  wait(start_receive(data, bytes, peer));
}

Work Communicator::start_send(const void* data, std::size_t bytes, int peer) {
  state_->require_usable();
  state_->check_peer(peer, "send");
  if (data == nullptr && bytes > 0) fail(Cause::kInvalidUsage, "send: the buffer is null");
  const Work work = state_->messages->start(true, const_cast<std::byte*>(bytes_of(data)), bytes, peer);
  progress();  // what can leave at once does
  return work;
}

Work Communicator::start_receive(void* data, std::size_t bytes, int peer) {
  state_->require_usable();
  state_->check_peer(peer, "receive");
  if (data == nullptr && bytes > 0) fail(Cause::kInvalidUsage, "receive: the buffer is null");
  const Work work = state_->messages->start(false, static_cast<std::byte*>(data), bytes, peer);
  progress();
  return work;
}

void Communicator::State::wait(Work work) {
  wait_until([&] { return messages->done(work); },
             [&] {
               const auto facts = messages->facts(work);
               return fmt::format("{} of {} {} {}", facts.sending ? "send" : "receive",
                                  format_size(facts.bytes), facts.sending ? "to" : "from",
                                  mesh ? mesh->describe(Traffic::kPointToPoint, facts.peer) : "itself");
             });
  messages->redeem(work);
}

void Communicator::wait(Work work) {
  state_->require_usable();
  state_->wait(work);
}

bool Communicator::test(Work work) {
  progress();
  if (!state_->messages->done(work)) return false;
  state_->messages->redeem(work);
  return true;
}

void Communicator::progress() {
  state_->require_usable();
  if (!state_->mesh) {
    state_->messages->progress();
    return;
  }
  const auto what = [] { return std::string("progress"); };
  try {
    state_->turn();
  } catch (const Error& error) {
    state_->give_up(error.cause(), error.what());
  }
  state_->look_for_trouble(what);
  // Callers that poll by test() shall learn of other ranks' failures too, but not by a system call each time.
  constexpr std::uint64_t kEvery = 64;
  if (++state_->polls % kEvery != 0) return;
  state_->heed_others(what);
  try {
    state_->mesh->progress();
  } catch (const Error& error) {
    state_->give_up(error.cause(), error.what());
  }
}

// ---- the rest

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {}

Communicator::~Communicator() {
  // An exception on its way through here means that this rank will not do its part any more.
  if (state_->mesh && !state_->broken && !state_->signal->raised()) {
    if (std::uncaught_exceptions() == 0) {
      state_->take_leave();
    } else {
      AbortSignal::publish(state_->rendezvous, {rank(), Cause::kRemote,
                                                fmt::format("rank {} failed outside of Tombolo", rank())});
    }
  }
}

Communicator::State::~State() {
  if (mesh) mesh->close_all();
}

void Communicator::State::take_leave() noexcept {
  // A zero-byte message each way is the farewell: real messages are never empty. Once the peer's has come,
  // all that it was sent before has been delivered.
  try {
    struct Farewell {
      transport::Connection* connection;
      transport::Request* out;
      transport::Request* in;
    };
    std::vector<Farewell> all;
    for (const Traffic traffic : kAllTraffic) {
      for (int peer = 0; peer < layout.size; ++peer) {
        transport::Connection* connection = mesh->find(traffic, peer);
        if (connection == nullptr || connection->error() != nullptr) continue;
        all.push_back({connection, connection->post_send({}), connection->post_receive({})});
      }
    }
    const auto deadline = Deadline::after(std::min<Duration>(kLeavePatience, options.deadline));
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
      const auto nap = Deadline::after(std::min<Duration>(deadline.remaining(), kLongestSleep));
      ::poll(handles.data(), static_cast<nfds_t>(handles.size()), nap.poll_milliseconds());
    }
  } catch (...) {  // without memory to say farewell, close without
  }
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
  state_->require_usable();
  state_->check_peer(peer, "connect_to");
  if (peer == rank()) return;
  for (const Traffic traffic : kAllTraffic) {
    try {
      state_->mesh->open(traffic, peer);
    } catch (const Error& error) {
      state_->give_up(error.cause(), fmt::format("connecting to rank {}: {}", peer, error.what()));
    }
    state_->wait_until(
        [&] { return state_->mesh->find(traffic, peer) != nullptr; },
        [&] { return fmt::format("connecting to {}", state_->mesh->describe(traffic, peer)); });
  }
}

std::optional<transport::Route> Communicator::route_to(int peer) const {
  if (!state_->mesh || peer < 0 || peer >= size() || peer == rank()) return std::nullopt;
  for (const Traffic traffic : kAllTraffic) {
    if (const auto* connection = state_->mesh->find(traffic, peer)) return connection->route();
  }
  return std::nullopt;
}

std::vector<LinkTraffic> Communicator::traffic() const {
  std::vector<LinkTraffic> all;
  if (!state_->mesh) return all;
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

std::string Communicator::last_algorithm() const {
  return std::string(state_->last_algorithm);
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
