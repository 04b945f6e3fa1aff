// Communicator's collectives: their arguments checked, their schedules carried out.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {
namespace {

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

/// Throws where two parts overlap that are not empty.
void check_overlap(std::string_view name, std::string_view buffer, const Parts& parts) {
  std::vector<std::pair<std::size_t, std::size_t>> intervals;  // begin and end
  for (std::size_t rank = 0; rank < parts.counts.size(); ++rank) {
    if (parts.counts[rank] > 0)
      intervals.emplace_back(parts.offsets[rank], parts.offsets[rank] + parts.counts[rank]);
  }
  std::ranges::sort(intervals);
  for (std::size_t i = 1; i < intervals.size(); ++i) {
    if (intervals[i].first < intervals[i - 1].second)
      fail(Cause::kInvalidUsage, "{}: two ranks' parts of the {} buffer overlap at element {}", name, buffer,
           intervals[i].first);
  }
}

/// The bytes of a buffer that holds these parts; throws where they are not those of `ranks`, are more than
/// memory can hold, or overlap in a buffer that is written.
std::size_t extent_of(std::string_view name, std::string_view buffer, const Parts* parts, DataType type,
                      int ranks, bool written) {
  const auto all = static_cast<std::size_t>(ranks);
  if (parts == nullptr || parts->counts.size() != all || parts->offsets.size() != all)
    fail(Cause::kInvalidUsage, "{}: the {} buffer needs a count and an offset for each of {} ranks", name,
         buffer, ranks);
  std::size_t extent = 0;
  bool in_order = true;  // none begins before another one of a lower rank ends
  for (std::size_t rank = 0; rank < all; ++rank) {
    std::size_t end = 0;
    if (__builtin_add_overflow(parts->offsets[rank], parts->counts[rank], &end))
      fail(Cause::kInvalidUsage, "{}: rank {}'s part is more than memory can hold", name, rank);
    if (parts->counts[rank] == 0) continue;
    in_order = in_order && parts->offsets[rank] >= extent;
    extent = std::max(extent, end);
  }
  if (written && !in_order) check_overlap(name, buffer, *parts);
  return total_bytes(name, extent, type, 1);
}

/// How the call's values travel between clusters, where that is not said: as `otherwise`. Throws where it is
/// said of what cannot be encoded, or the residual overlaps another buffer.
Compression compression_of(const CollectiveCall& call, Compression otherwise) {
  const bool possible = call.collective == Collective::kAllReduce && call.type == DataType::kFloat32 &&
                        (call.op == ReduceOp::kSum || call.op == ReduceOp::kAverage);
  if (!call.compression) return possible ? otherwise : Compression::kNone;
  if (!possible && *call.compression != Compression::kNone) {
    fail(Cause::kInvalidUsage, "{} of {} ({}): only sums and averages of float can be encoded",
         collective_name(call.collective), data_type_name(call.type), reduce_op_name(call.op));
  }
  const std::size_t bytes = call.count * size_of(call.type);
  if (call.residual != nullptr &&
      (overlap(call.residual, bytes, call.send, bytes) || overlap(call.residual, bytes, call.receive, bytes)))
    fail(Cause::kInvalidUsage, "{}: the residual overlaps another buffer", collective_name(call.collective));
  return *call.compression;
}

/// Whether all that it says of its elements is how many, of which type and by which operator.
bool is_plain(const CollectiveCall& call) noexcept {
  return !call.uneven && !call.factor && !call.compression && call.residual == nullptr;
}

/// Whether one of its buffers holds a part of each rank.
bool has_parts(Collective collective) noexcept {
  switch (collective) {
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
      return true;
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kBarrier:
      break;
  }
  return false;
}

/// Says for its lifetime which collective a call waits for.
class WaitedFor {
 public:
  WaitedFor(const StartedCollective*& at, const StartedCollective& started) : at_(at) { at_ = &started; }
  ~WaitedFor() { at_ = nullptr; }
  WaitedFor(const WaitedFor&) = delete;
  WaitedFor& operator=(const WaitedFor&) = delete;

 private:
  const StartedCollective*& at_;
};

}  // namespace

bool Communicator::State::check_arguments(const CollectiveCall& call) const {
  if (call.collective == Collective::kBarrier) return false;
  const std::string_view name = collective_name(call.collective);
  if (is_rooted(call.collective)) check_peer(call.root, name);
  const auto rank = static_cast<std::size_t>(options.identity.rank);
  const bool is_root = options.identity.rank == call.root;
  const std::size_t part = total_bytes(name, call.count, call.type, 1);
  if (call.uneven && !has_parts(call.collective))
    fail(Cause::kInternal, "{}: there are no parts that could differ", name);
  // Of the buffer that holds all ranks' parts: its bytes, and where the own part is.
  const auto all = [&](std::string_view buffer, bool written) {
    if (!call.uneven)
      return total_bytes(name, call.count, call.type, static_cast<std::size_t>(options.identity.size));
    const std::size_t extent =
        extent_of(name, buffer, call.parts.get(), call.type, options.identity.size, written);
    if (call.collective != Collective::kAllToAll && call.parts->counts[rank] != call.count)
      fail(Cause::kInvalidUsage, "{}: the own part has {} elements, and {} among those of all ranks", name,
           call.count, call.parts->counts[rank]);
    return extent;
  };
  const auto own_offset = [&] {
    return (call.uneven ? call.parts->offsets[rank] : call.count * rank) * size_of(call.type);
  };
  const auto* receive = bytes_of(call.receive);
  bool in_place = false;
  switch (call.collective) {
    case Collective::kAllReduce:
      in_place = check_buffers(name, call.send, part, receive, part, receive);
      break;
    case Collective::kReduceScatter: {
      const std::size_t whole = all("send", false);
      in_place =
          check_buffers(name, call.send, whole, receive, part, receive ? receive - own_offset() : nullptr);
      break;
    }
    case Collective::kAllGather: {
      const std::size_t whole = all("receive", true);
      in_place =
          check_buffers(name, call.send, part, receive, whole, receive ? receive + own_offset() : nullptr);
      break;
    }
    case Collective::kBroadcast:  // only the root's send buffer is read
      in_place =
          check_buffers(name, is_root ? call.send : nullptr, is_root ? part : 0, receive, part, receive);
      break;
    case Collective::kReduce:  // only the root's receive buffer is written
      in_place = is_root ? check_buffers(name, call.send, part, receive, part, receive)
                         : check_buffers(name, call.send, part, nullptr, 0, nullptr);
      break;
    case Collective::kGather:  // only the root's receive buffer is written
      if (is_root) {
        const std::size_t whole = all("receive", true);
        in_place =
            check_buffers(name, call.send, part, receive, whole, receive ? receive + own_offset() : nullptr);
      } else {
        in_place = check_buffers(name, call.send, part, nullptr, 0, nullptr);
      }
      break;
    case Collective::kScatter:  // only the root's send buffer is read
      if (is_root) {
        const std::size_t whole = all("send", false);
        in_place =
            check_buffers(name, call.send, whole, receive, part, receive ? receive - own_offset() : nullptr);
      } else {
        in_place = check_buffers(name, nullptr, 0, receive, part, nullptr);
      }
      break;
    case Collective::kAllToAll: {
      const std::size_t whole = all("receive", true);
      const std::size_t sent = call.uneven ? extent_of(name, "send", call.sent_parts.get(), call.type,
                                                       options.identity.size, false)
                                           : whole;
      if (call.uneven && call.parts->counts[rank] != call.sent_parts->counts[rank])
        fail(Cause::kInvalidUsage, "{}: this rank sends itself {} elements, and receives {}", name,
             call.sent_parts->counts[rank], call.parts->counts[rank]);
      check_buffers(name, call.send, sent, receive, whole, nullptr);
      break;
    }
    case Collective::kBarrier:
      break;
  }
  return in_place;
}

ScheduleKey Communicator::State::check(const CollectiveCall& call) const {
  const bool in_place = check_arguments(call);
  if (call.collective == Collective::kBarrier) return {Collective::kBarrier, {}, false};
  const std::string_view name = collective_name(call.collective);
  const bool rooted = is_rooted(call.collective);
  const bool average = is_reduction(call.collective) && call.op == ReduceOp::kAverage;
  Problem problem{call.count, size_of(call.type), average, rooted ? call.root : 0};
  problem.compression = compression_of(call, options.compression);
  problem.residual = call.residual != nullptr && problem.compression != Compression::kNone;
  problem.premultiplied = is_reduction(call.collective) && call.factor.has_value();
  if (problem.premultiplied && call.op != ReduceOp::kSum)
    fail(Cause::kInternal, "{}: only the contributions to a sum are multiplied", name);
  if (call.uneven) {
    problem.uneven = true;
    if (!rooted || options.identity.rank == call.root) problem.parts = call.parts;  // else not looked at
    problem.sent_parts = call.sent_parts;
  }
  return {call.collective, std::move(problem), in_place};
}

std::string Communicator::State::describe(const StartedCollective& started) {
  const CollectiveCall& call = started.call;
  std::string text = fmt::format("{} #{}", collective_name(call.collective), started.number);
  if (call.collective == Collective::kBarrier) return text;
  const bool reduces = is_reduction(call.collective);
  return text + fmt::format(" ({} {}{}{})", format_size(started.key.problem.bytes()),
                            data_type_name(call.type), reduces ? " " : "",
                            !reduces      ? ""
                            : call.factor ? "premulsum"
                                          : reduce_op_name(call.op));
}

std::uint64_t Communicator::State::start_in_host_memory(const CollectiveCall& call, const ScheduleKey& key) {
  return host_calls->push({call.collective, key.problem, call.type, call.op, bytes_of(call.send),
                           static_cast<std::byte*>(call.receive), call.factor.value_or(Factor{})});
}

bool Communicator::State::repeats_last(const CollectiveCall& call) const noexcept {
  if (!last || !last->plain || call.collective != last->collective) return false;
  if (call.collective == Collective::kBarrier) return true;
  return call.count == last->problem.count && call.type == last->type && call.op == last->op &&
         (call.root == last->problem.root || !is_rooted(call.collective)) && is_plain(call);
}

void Communicator::State::run_again(const CollectiveCall& call) {
  check_arguments(call);
  const std::uint64_t number = ++operations;
  Channels::Ticket ticket;
  ticket.number = host_calls->push({call.collective, last->problem, call.type, call.op, bytes_of(call.send),
                                    static_cast<std::byte*>(call.receive), Factor{}});
  // Others may wait for this rank's part, and nobody for its note.
  host_calls->progress();
  note_start(number, call);
  if (!host_calls->done(ticket.number) && !spin_in_host_memory(ticket.number)) {
    return wait_for(
        {call, {call.collective, last->problem, false}, number, {CarriedOut::Way::kHostMemory, ticket}});
  }
  operations_kept.complete(number);
}

Channels::Ticket Communicator::State::start_by_messages(const CollectiveCall& call, const ScheduleKey& key,
                                                        const Choice& choice, std::size_t channel,
                                                        gpu::Staged* staged_in) {
  auto schedule = schedule_for(key, choice);
  watched.reset();
  return channels->start(channel, {.schedule = std::move(schedule),
                                   .input = bytes_of(call.send),
                                   .output = static_cast<std::byte*>(call.receive),
                                   .residual = reinterpret_cast<std::byte*>(call.residual),
                                   .type = call.type,
                                   .op = call.op,
                                   .factor = call.factor.value_or(Factor{}),
                                   .ranks = static_cast<std::size_t>(rank_map.size),
                                   .reducer = staged_in != nullptr ? staged_in->reducer() : nullptr,
                                   .scratch = staged_in != nullptr ? staged_in->scratch() : nullptr});
}

void Communicator::State::run_alone(const CollectiveCall& call, const ScheduleKey& key) {
  const auto schedule = schedule_for(key, choose(key));
  // All that a rank alone does is to copy from one of the caller's buffers to the other: dividing by one
  // changes nothing.
  for (const Step& step : schedule->steps) {
    if (step.kind == StepKind::kDivide) continue;
    const bool reads_output = step.left.buffer == Buffer::kOutput;  // in place
    if (step.kind != StepKind::kCopy || step.target.buffer != Buffer::kOutput ||
        (!reads_output && step.left.buffer != Buffer::kInput))
      fail(Cause::kInternal, "{} by {} of one rank has another step than a copy of its input",
           collective_name(call.collective), schedule->algorithm);
    const std::byte* from = bytes_of(reads_output ? call.receive : call.send) + step.left.offset;
    std::byte* to = static_cast<std::byte*>(call.receive) + step.target.offset;
    if (step.premultiplied == Premultiplied::kNone) {
      std::copy_n(from, step.bytes, to);
    } else {
      premultiply(to, from, step.bytes / size_of(call.type), call.type, *call.factor);
    }
  }
}

CarriedOut Communicator::State::begin(const CollectiveCall& call, const ScheduleKey& key,
                                      const std::optional<Choice>& choice, std::size_t channel,
                                      gpu::Staged* staged_in) {
  CarriedOut by;
  if (!choice) {
    run_alone(call, key);
  } else if (choice->through_host_memory()) {
    by.way = CarriedOut::Way::kHostMemory;
    by.ticket.number = start_in_host_memory(call, key);
  } else {
    by.way = CarriedOut::Way::kMessages;
    by.ticket = start_by_messages(call, key, *choice, channel, staged_in);
  }
  return by;
}

StartedCollective Communicator::State::start(const CollectiveCall& call, std::size_t channel) {
  StartedCollective made{call, check(call)};
  CollectiveCall on_host = call;
  auto in_use = may_be_on_gpu(call) ? stage(on_host, made.key.in_place) : nullptr;
  made.number = ++operations;
  note_start(made.number, call);
  std::optional<Choice> choice;
  if (mesh) choice = choose(made.key);
  if (in_use && choice && !choice->through_host_memory()) prepare_reduction(*in_use, made.key, *choice);
  const bool begins = !in_use && deferred.empty();
  // Without a thread it stands still while its caller computes, which says nothing of the network.
  auto to_watch = watch ? count_call(made.key, begins && thread != nullptr) : std::nullopt;
  if (begins) {
    made.by = begin(call, made.key, choice, channel);
    watched = std::move(to_watch);
    return made;
  }
  made.deferred = std::make_shared<DeferredCollective>(
      DeferredCollective{std::move(on_host), made.key, choice, channel, std::move(in_use)});
  deferred.push_back(made.deferred);
  if (made.deferred->staged) {
    staged.push_back(
        {made.deferred->staged, [this, one = made.deferred] { return one->begun && done(one->by); }});
  }
  progress_staged();
  return made;
}

bool Communicator::State::done(const CarriedOut& by) const {
  switch (by.way) {
    case CarriedOut::Way::kHostMemory:
      return host_calls->done(by.ticket.number);
    case CarriedOut::Way::kMessages:
      return channels->done(by.ticket);
    case CarriedOut::Way::kDone:
      break;
  }
  return true;
}

bool Communicator::State::done(const StartedCollective& started) const {
  const auto& one = started.deferred;
  if (!one) return done(started.by);
  return one->begun && (one->staged ? one->staged->is_done() : done(one->by));
}

std::string Communicator::State::describe_wait(const StartedCollective& started) const {
  std::string text = describe(started);
  if (started.deferred && started.deferred->staged) {
    if (const std::string awaited = started.deferred->staged->describe_wait(); !awaited.empty())
      return text + ": waiting for " + awaited;
  }
  const CarriedOut& by = started.carried_out();
  if (by.way == CarriedOut::Way::kHostMemory)
    return text + fmt::format(": waiting for rank {} on this host", host_collective->awaited());
  if (by.way != CarriedOut::Way::kMessages) return text;
  if (const auto awaited = channels->awaited(by.ticket))
    text += fmt::format(": waiting for {}", mesh->describe(awaited->traffic, awaited->peer));
  return text;
}

void Communicator::State::wait_for(const StartedCollective& started) {
  const WaitedFor waiting(waited_for, started);
  wait_until([&] { return done(started); }, [&] { return describe_wait(started); });
  operations_kept.complete(started.number);
}

void Communicator::State::run(const CollectiveCall& call) {
  if (repeats_last(call)) return run_again(call);
  const ScheduleKey key = check(call);
  const std::uint64_t number = ++operations;
  if (!mesh) return run_alone(call, key);
  note_start(number, call);
  CarriedOut by{CarriedOut::Way::kMessages, {}};
  if (const Choice choice = choose(key); choice.through_host_memory()) {
    by.way = CarriedOut::Way::kHostMemory;
    last->type = call.type;
    last->op = call.op;
    last->plain = choice.reason == Reason::kHostMemory && is_plain(call);
    by.ticket.number = start_in_host_memory(call, key);
    if (spin_in_host_memory(by.ticket.number)) return operations_kept.complete(number);
  } else {
    auto to_watch = watch ? count_call(key, true) : std::nullopt;
    by.ticket = start_by_messages(call, key, choice, 0);
    watched = std::move(to_watch);
  }
  wait_for({call, key, number, by});
}

void Communicator::run(const CollectiveCall& call) {
  const Call entered(*state_);
  state_->require_usable();
  if (state_->watch) state_->check_network_before(call);
  if (state_->may_be_on_gpu(call) || !state_->deferred.empty()) return state_->run_deferred(call);
  state_->run(call);
}

Work Communicator::start(const CollectiveCall& call) {
  const Call entered(*state_);
  state_->require_usable();
  const StartedCollective made = state_->start(call, state_->collectives_started % Channels::kCount);
  ++state_->collectives_started;
  const Work work = state_->collectives.add({made, {}});
  state_->polls_moved = true;
  state_->poll([] { return false; });  // sends at once what the connections take
  return work;
}

void Communicator::when_done(Work work, std::function<void(const Error*)> callback) {
  const Call entered(*state_);
  state_->require_usable();
  PendingCollective& one = state_->collectives.at(work);
  if (one.callback) fail(Cause::kInvalidUsage, "a Work that has a callback already");
  one.callback = std::move(callback);
  ++state_->callbacks;
  state_->call_back(nullptr);
}

void Communicator::check(const CollectiveCall& call) const {
  state_->check(call);
}

void Communicator::all_reduce(const void* send, void* receive, std::size_t count, DataType type,
                              ReduceOp op) {
  run({Collective::kAllReduce, send, receive, count, type, op});
}

void Communicator::reduce_scatter(const void* send, void* receive, std::size_t count, DataType type,
                                  ReduceOp op) {
  run({Collective::kReduceScatter, send, receive, count, type, op});
}

void Communicator::all_gather(const void* send, void* receive, std::size_t count, DataType type) {
  run({Collective::kAllGather, send, receive, count, type});
}

void Communicator::broadcast(const void* send, void* receive, std::size_t count, DataType type, int root) {
  run({Collective::kBroadcast, send, receive, count, type, ReduceOp::kSum, root});
}

void Communicator::reduce(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op,
                          int root) {
  run({Collective::kReduce, send, receive, count, type, op, root});
}

void Communicator::gather(const void* send, void* receive, std::size_t count, DataType type, int root) {
  run({Collective::kGather, send, receive, count, type, ReduceOp::kSum, root});
}

void Communicator::scatter(const void* send, void* receive, std::size_t count, DataType type, int root) {
  run({Collective::kScatter, send, receive, count, type, ReduceOp::kSum, root});
}

void Communicator::all_to_all(const void* send, void* receive, std::size_t count, DataType type) {
  run({Collective::kAllToAll, send, receive, count, type});
}

void Communicator::barrier() {
  run({});
}

}  // namespace tombolo::collectives
