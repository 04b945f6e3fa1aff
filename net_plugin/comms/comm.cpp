#include "net_plugin/comms/comm.h"

#include "net_plugin/limits.h"
#include "net_plugin/result.h"

namespace tombolo::net_plugin {
namespace {

constexpr auto kMostRequests = static_cast<std::size_t>(abi::NCCL_NET_MAX_REQUESTS);
constexpr auto kMostParts = static_cast<std::size_t>(kMaxReceives);

const char* name_of_post(Comm::Direction direction) noexcept {
  return direction == Comm::Direction::kSend ? "isend" : "irecv";
}

/// What has become of a part that its lane's connection has.
Part::State state_of(Part& part) noexcept {
  const transport::Outcome outcome = part.lane->connection->test(part.posted, part.bytes);
  if (outcome == transport::Outcome::kPending) return Part::State::kPosted;
  --part.lane->posted;
  return outcome == transport::Outcome::kDone ? Part::State::kDone : Part::State::kFailed;
}

}  // namespace

// The sends that meet all the receives which may be in flight are as many as those have parts.
Comm::Comm(Direction direction, std::shared_ptr<transport::Router> router, std::unique_ptr<Lanes> lanes,
           Log log)
    : direction_(direction),
      most_receives_(lanes->grouped() ? kMaxReceives : 1),
      log_(std::move(log)),
      router_(std::move(router)),
      lanes_(std::move(lanes)),
      requests_(*this, direction == Direction::kSend ? kMostRequests * kMostParts : kMostRequests,
                direction == Direction::kSend ? 1 : kMostParts),
      flushes_(*this, kMostRequests, kMostParts) {}

void Comm::observe(abi::ncclProfilerCallback_t callback) {
  events_ = Events(callback, lanes_->first(), direction_ == Direction::kSend);
}

// ---- memory

Registration* Comm::register_memory(std::span<std::byte> buffer, int type) {
  if (type != abi::NCCL_PTR_HOST && type != abi::NCCL_PTR_CUDA) {
    fail(Cause::kUnsupported, "cannot register {} bytes at {}: no such pointer type as {}", buffer.size(),
         static_cast<const void*>(buffer.data()), type);
  }
  return keep(std::make_unique<Registration>(
      buffer, connection(),
      type == abi::NCCL_PTR_HOST ? transport::MemoryKind::kHost : transport::MemoryKind::kCuda));
}

Registration* Comm::register_dma_buf(std::span<std::byte> range, int file, std::uint64_t offset) {
  return keep(std::make_unique<Registration>(range, file, offset, connection()));
}

/// The first connection, taken under the lock. The lock is not held while it is used, because registering
/// takes long and posts and tests would wait for it.
transport::Connection& Comm::connection() {
  std::lock_guard guard(lock_);
  if (abandoned_) throw *abandoned_;
  return lanes_->first();
}

Registration* Comm::keep(std::unique_ptr<Registration> memory) {
  Registration* key = memory.get();
  std::lock_guard guard(lock_);
  memories_.emplace(key, std::move(memory));
  return key;
}

void Comm::deregister_memory(const Registration* memory) {
  std::unique_ptr<Registration> removed;
  std::unique_lock lock(lock_);
  auto found = memories_.find(memory);
  if (found == memories_.end()) {
    fail(Cause::kInvalidUsage,
         "memory handle {} was not registered with this connection, or twice deregistered",
         static_cast<const void*>(memory));
  }
  removed = std::move(found->second);
  memories_.erase(found);
  if (!requests_.any_under_way_in(memory) && !flushes_.any_under_way_in(memory)) return;
  if (state_ == State::kOpen) {
    removed.reset();  // registrations must be destroyed before their connection
    abandon(lock);
  }
  closed_.wait(lock, [this] { return state_ == State::kAbandoned; });  // another thread may be closing it
}

/// Closes without the lock, since that may wait for the peer, and post() and test() must not.
void Comm::abandon(std::unique_lock<std::mutex>& lock) {
  abandoned_.emplace(Cause::kAborted,
                     fmt::format("the connection to {} was closed: memory was deregistered while a {} was "
                                 "under way in it",
                                 lanes_->first().route().peer_host, name()));
  for (auto& [key, memory] : memories_) memory.reset();
  state_ = State::kAbandoning;
  auto closing = std::move(lanes_);
  lock.unlock();
  closing.reset();
  lock.lock();
  state_ = State::kAbandoned;
  closed_.notify_all();
}

// ---- posting

abi::ncclResult_t Comm::post(Direction direction, std::span<const Buffer> buffers, Request*& request,
                             void* const* parents) noexcept {
  request = nullptr;
  if (direction != direction_) {
    report(log_, name_of_post(direction), "the connection is of the other direction");
    return abi::ncclInvalidUsage;
  }
  std::lock_guard guard(lock_);
  if (failed_) return *failed_;
  if (state_ == State::kAbandoned) return failed(name_of_post(direction), nullptr);
  if (state_ == State::kAbandoning || requests_.empty()) return abi::ncclSuccess;
  if (!settled() && !move_lanes(name_of_post(direction))) return *failed_;
  watch_.begin();
  const abi::ncclResult_t result =
      direction == Direction::kSend ? send(buffers.front(), request) : receive(buffers, request);
  if (request != nullptr) events_.start(*request, parents, buffers);
  return result;
}

abi::ncclResult_t Comm::send(const Buffer& buffer, Request*& request) noexcept {
  Lane* lane = lanes_->find(buffer.tag);
  if (lane == nullptr && !attempt("isend", [&] { lane = &lanes_->add(buffer.tag); })) return *failed_;
  if (lane->state != Lane::State::kOpen) return abi::ncclSuccess;
  transport::Memory* memory = nullptr;
  if (buffer.memory != nullptr && !attempt("isend", [&] { memory = buffer.memory->on(*lane); }))
    return *failed_;
  transport::Request* posted = lane->connection->post_send(buffer.data, memory);
  if (posted == nullptr) {
    // When the transport's pool is full, NCCL should try again. When the connection is dead it must not,
    // because NCCL would do so for ever.
    return lane->connection->error() == nullptr ? abi::ncclSuccess : failed("isend", lane);
  }
  request = requests_.take(1);
  Part& part = request->parts().front();
  part.lane = lane;
  part.data = buffer.data;
  part.posted = posted;
  part.memory = buffer.memory;
  part.state = Part::State::kPosted;
  ++lane->posted;
  return abi::ncclSuccess;
}

/// NCCL gets all of a group or nothing, so what a lane cannot take yet waits in its order.
abi::ncclResult_t Comm::receive(std::span<const Buffer> buffers, Request*& request) noexcept {
  Request* taken = requests_.take(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Part& part = taken->parts()[i];
    part.memory = buffers[i].memory;
    part.data = buffers[i].data;
    part.state = Part::State::kDone;  // until a lane has it
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Part& part = taken->parts()[i];
    part.lane = lanes_->find(buffers[i].tag);
    if (part.lane == nullptr && !attempt("irecv", [&] { part.lane = &lanes_->add(buffers[i].tag); }))
      return *failed_;
    part.state = Part::State::kWaiting;
    part.lane->append(part);
    ++waiting_;
    post_waiting(*part.lane);
    if (part.state == Part::State::kFailed) return failed("irecv", part.lane);
  }
  request = taken;
  return abi::ncclSuccess;
}

void Comm::post_waiting(Lane& lane) noexcept {
  while (lane.state == Lane::State::kOpen && lane.first_waiting != nullptr) {
    Part& part = *lane.first_waiting;
    transport::Memory* memory = nullptr;
    bool refused = part.memory != nullptr && !attempt("irecv", [&] { memory = part.memory->on(lane); });
    if (!refused) {
      part.posted = lane.connection->post_receive(part.data, memory);
      refused = part.posted == nullptr && lane.connection->error() != nullptr;
      if (part.posted == nullptr && !refused) return;  // its pool is full
    }
    lane.pop();
    --waiting_;
    part.state = refused ? Part::State::kFailed : Part::State::kPosted;
    lane.posted += refused ? 0 : 1;
  }
}

/// False where the comm has failed.
bool Comm::move_lanes(const char* operation) noexcept {
  if (!lanes_->settled() && !attempt(operation, [&] { lanes_->progress(); })) return false;
  for (const auto& lane : lanes_->all()) post_waiting(*lane);
  return true;
}

/// Runs what may throw; false where the comm has failed by that.
template <typename Action>
bool Comm::attempt(const char* operation, Action&& action) noexcept {
  try {
    action();
    return true;
  } catch (const Error& error) {
    failed(operation, error.cause(), error.what());
  } catch (const std::bad_alloc&) {
    failed(operation, Cause::kSystem, "out of memory");
  } catch (const std::exception& error) {
    failed(operation, Cause::kInternal, error.what());
  }
  return false;
}

/// A NIC's read follows all that this NIC wrote before, so that one on the lane that carried a buffer last is
/// enough for it.
abi::ncclResult_t Comm::flush(std::span<const Buffer> buffers, Request*& request) noexcept {
  request = nullptr;
  std::lock_guard guard(lock_);
  if (failed_) return *failed_;
  if (state_ == State::kAbandoned) return failed("iflush", nullptr);
  if (state_ == State::kAbandoning) return abi::ncclSuccess;  // what follows fails
  if (flushes_.empty())
    return failed("iflush", Cause::kInternal, "more flushes are under way than a comm has receives");
  Request* taken = flushes_.take(0);
  for (const Buffer& buffer : buffers) {
    // What this processor wrote needs none, also where the connection has ended since.
    if (!buffer.memory->of_gpu()) continue;
    Lane* lane = buffer.memory->last();
    if (lane == nullptr || lane->state != Lane::State::kOpen || lane->connection->route().transport != "rdma")
      continue;
    transport::Request* posted = lane->connection->post_flush(buffer.data, buffer.memory->on(*lane));
    if (posted == nullptr) {
      if (lane->connection->error() == nullptr) continue;
      if (taken->count == 0) flushes_.put(*taken);
      return failed("iflush", lane);
    }
    ++taken->count;
    Part& part = taken->parts().back();
    part = {};
    part.lane = lane;
    part.posted = posted;
    part.memory = buffer.memory;
    part.data = buffer.data;
    part.state = Part::State::kPosted;
    ++lane->posted;
  }
  if (taken->count == 0) {
    flushes_.put(*taken);
  } else {
    request = taken;
  }
  return abi::ncclSuccess;
}

// ---- testing

abi::ncclResult_t Comm::test(Request& request, bool& done, int* sizes) noexcept {
  done = false;
  std::lock_guard guard(lock_);
  if (request.count == 0) [[unlikely]] {
    report(log_, "test", "the request is not in flight: it was reported done before");
    return abi::ncclInvalidUsage;
  }
  const std::size_t parts = request.count;  // none are left once it is done
  const abi::ncclResult_t result = look_at(request, done, sizes);
  events_.stop(request, parts, result != abi::ncclSuccess);
  return result;
}

abi::ncclResult_t Comm::look_at(Request& request, bool& done, int* sizes) noexcept {
  if (state_ != State::kOpen) [[unlikely]]  // while kAbandoning its memory may still be read and written
    return state_ == State::kAbandoning ? abi::ncclSuccess : failed(name(), nullptr);
  if (!settled() && !failed_ && !move_lanes(name())) return *failed_;

  bool under_way = false;
  const Lane* failed_lane = nullptr;
  for (Part& part : request.parts()) {
    if (part.state == Part::State::kPosted) part.state = state_of(part);
    under_way |= part.under_way();
    if (part.state == Part::State::kFailed) failed_lane = part.lane;
  }
  if (lanes_->all().size() > 1) progress_others();
  if (failed_lane != nullptr) return failed(name(), failed_lane);
  if (under_way) {
    if (watch_.due()) look_for_stall(request);
    return failed_.value_or(abi::ncclSuccess);
  }
  if (sizes != nullptr && request.pool == &requests_)  // which kMaxMessageBytes keeps within an int
    for (const Part& part : request.parts()) *sizes++ = static_cast<int>(part.bytes);
  request.pool->put(request);
  done = true;
  return abi::ncclSuccess;
}

void Comm::look_for_stall(Request& request) noexcept {
  if (!stalls_ || failed_ || state_ != State::kOpen) return;
  std::uint64_t moved = 0;
  for (const auto& lane : lanes_->all()) {
    if (!lane->connection) continue;
    const transport::Statistics counts = lane->connection->statistics();
    moved += counts.bytes_sent + counts.bytes_received + counts.messages_sent + counts.messages_received + 1;
  }
  const TimePoint now = router_->options().clock->now();
  const std::optional<Duration> stalled = watch_.look(moved, now, stalls_->limit());
  if (!stalled || !stalls_->may_tell(now)) return;
  try {
    StallFacts facts;
    facts.rank = stalls_->rank();
    facts.host = stalls_->host();
    facts.sends = direction_ == Direction::kSend;
    facts.stalled = *stalled;
    facts.route = lanes_->first().route();
    for (const Part& part : request.parts()) {
      if (!part.under_way()) continue;
      facts.bytes = part.data.size();
      facts.tag = part.lane->tag;
      facts.waits = part.state == Part::State::kWaiting ? StallWaits::kLane : StallWaits::kTransfer;
      if (part.lane->connection) {
        facts.route = part.lane->connection->route();
        if (part.state == Part::State::kPosted) {
          const transport::RequestWay way = part.lane->connection->way_of(part.posted);
          facts.waits = stall_waits(way.waits);
          facts.route = *way.route;
        }
        const transport::Statistics counts = part.lane->connection->statistics();
        facts.messages_done = facts.sends ? counts.messages_sent : counts.messages_received;
        facts.bytes_done = facts.sends ? counts.bytes_sent : counts.bytes_received;
      }
      break;
    }
    log_.warning("{}", stall_text(facts));
  } catch (...) {
    // Telling ran out of memory, and the job may go on.
  }
}

/// What NCCL does not test progresses too.
void Comm::progress_others() noexcept {
  for (const auto& lane : lanes_->all())
    if (lane->posted > 0) lane->connection->progress();
}

// ---- failing

/// Every request of a comm fails for the same reason, which is logged once.
abi::ncclResult_t Comm::failed(const char* operation, const Lane* lane) noexcept {
  if (failed_) return *failed_;
  if (abandoned_) return failed(operation, abandoned_->cause(), abandoned_->what());
  const Error* error = lane->connection ? lane->connection->error() : nullptr;
  const Cause cause = error != nullptr ? error->cause() : Cause::kInternal;
  const char* text = error != nullptr ? error->what() : "failed without a stated reason";
  if (lane->any_tag) return failed(operation, cause, text);
  char with_tag[48] = {};
  fmt::format_to_n(with_tag, sizeof with_tag - 1, "{} with tag {}", operation, lane->tag);
  return failed(with_tag, cause, text);
}

abi::ncclResult_t Comm::failed(const char* operation, Cause cause, std::string_view text) noexcept {
  if (!failed_) {
    report(log_, operation, text);
    failed_ = result_of(cause);
  }
  return *failed_;
}

}  // namespace tombolo::net_plugin
