#include "transport/memory/pair.h"

#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>

#include "transport/descriptor.h"
#include "transport/request_pool.h"

namespace tombolo::transport::memory {
namespace {

/// A first-in first-out queue of posted requests; it never holds more than the pool gives out.
class Queue {
 public:
  bool empty() const noexcept { return begin_ == end_; }
  PostedRequest* front() const noexcept { return slots_[begin_ % kRequestsPerDirection]; }
  void push(PostedRequest* request) noexcept { slots_[end_++ % kRequestsPerDirection] = request; }
  void pop() noexcept { ++begin_; }

 private:
  std::array<PostedRequest*, kRequestsPerDirection> slots_{};
  std::size_t begin_ = 0, end_ = 0;
};

/// What the state that both ends share holds of one end.
struct End {
  RequestPool sends{true}, receives{false};
  Queue posted_sends, posted_receives;
  std::optional<Metering> meter;  // written under the lock of both ends
  Descriptor event;
  bool open = true;
  bool moved = false;  // something completed since this end last looked
  bool armed = false;  // this end waits on `event`
  std::unique_ptr<Error> error;
};

struct Shared {
  std::mutex mutex;
  std::array<End, 2> ends;
};

class PairConnection final : public HostMemoryConnection {
 public:
  PairConnection(std::shared_ptr<Shared> shared, std::size_t side, std::uint64_t label,
                 const std::shared_ptr<Meters>& meters)
      : shared_(std::move(shared)),
        mine_(shared_->ends[side]),
        peer_(shared_->ends[1 - side]),
        label_(label) {
    route_.transport = "memory";
    route_.peer_address = "in process";
    route_.reason = "both ends are in this process";
    mine_.meter.emplace(meters, MeterSubject{route_, label, {}});
  }

  ~PairConnection() override {
    std::scoped_lock lock(shared_->mutex);
    mine_.open = false;
    signal(peer_);
    mine_.meter.reset();
  }

  Request* post_send(std::span<const std::byte> data, Memory*) noexcept override {
    std::scoped_lock lock(shared_->mutex);
    // A send's data is only read; the common request type holds a plain pointer.
    PostedRequest* request = mine_.sends.take(const_cast<std::byte*>(data.data()), data.size());
    if (request == nullptr) return nullptr;
    mine_.posted_sends.push(request);
    match();
    return request;
  }

  Request* post_receive(std::span<std::byte> buffer, Memory*) noexcept override {
    std::scoped_lock lock(shared_->mutex);
    PostedRequest* request = mine_.receives.take(buffer.data(), buffer.size());
    if (request == nullptr) return nullptr;
    mine_.posted_receives.push(request);
    match();
    return request;
  }

  Outcome test(Request* base, std::size_t& bytes) noexcept override {
    auto* request = static_cast<PostedRequest*>(base);
    std::scoped_lock lock(shared_->mutex);
    look();
    bool done = request->state == PostedRequest::State::kDone;
    if (!done && mine_.error == nullptr) return Outcome::kPending;
    bytes = done ? request->moved : 0;
    (request->is_send ? mine_.sends : mine_.receives).put(request);
    return done ? Outcome::kDone : Outcome::kFailed;
  }

  bool progress() noexcept override {
    std::scoped_lock lock(shared_->mutex);
    return look();
  }

  void append_wait_handles(std::vector<pollfd>& handles) const override {
    std::scoped_lock lock(shared_->mutex);
    mine_.armed = true;
    if (mine_.moved || mine_.error != nullptr || !peer_.open) signal(mine_);
    handles.push_back({mine_.event.get(), POLLIN, 0});
  }

  const Error* error() const noexcept override {
    std::scoped_lock lock(shared_->mutex);
    return mine_.error.get();
  }
  std::uint64_t label() const noexcept override { return label_; }
  const Route& route() const noexcept override { return route_; }
  Statistics statistics() const noexcept override {
    std::scoped_lock lock(shared_->mutex);
    return (*mine_.meter)->statistics();
  }

 private:
  static void signal(End& end) noexcept {
    end.moved = true;
    if (!end.armed) return;
    end.armed = false;
    std::uint64_t one = 1;
    [[maybe_unused]] auto written = ::write(end.event.get(), &one, sizeof one);
  }

  /// Updates the counters; true if anything has completed since the last call.
  bool look() noexcept {
    if (!peer_.open && mine_.error == nullptr) {
      mine_.error = std::make_unique<Error>(
          Cause::kRemote, fmt::format("memory connection {}: the other end closed it", label_));
    }
    if (!mine_.moved) return false;
    mine_.moved = false;
    std::uint64_t count = 0;
    [[maybe_unused]] auto got = ::read(mine_.event.get(), &count, sizeof count);
    return true;
  }

  void match() noexcept {
    match(mine_, peer_);
    match(peer_, mine_);
  }

  static void match(End& from, End& to) noexcept {
    while (from.open && to.open && from.error == nullptr && to.error == nullptr &&
           !from.posted_sends.empty() && !to.posted_receives.empty()) {
      PostedRequest* send = from.posted_sends.front();
      PostedRequest* receive = to.posted_receives.front();
      if (send->size > receive->size) {
        to.error = std::make_unique<Error>(
            Cause::kRemote,
            fmt::format("memory connection: a message of {} bytes came for a receive of {} bytes", send->size,
                        receive->size));
        from.error = std::make_unique<Error>(
            Cause::kRemote,
            fmt::format("memory connection: a message of {} bytes was sent to a receive of {} bytes",
                        send->size, receive->size));
      } else {
        if (send->size != 0) std::memcpy(receive->data, send->data, send->size);
        for (PostedRequest* request : {send, receive}) {
          request->moved = send->size;
          request->state = PostedRequest::State::kDone;
        }
        (*from.meter)->sent_bytes.add(send->size);
        (*from.meter)->sent_messages.add(1);
        (*to.meter)->received_bytes.add(send->size);
        (*to.meter)->received_messages.add(1);
        from.posted_sends.pop();
        to.posted_receives.pop();
      }
      signal(from);
      signal(to);
    }
  }

  std::shared_ptr<Shared> shared_;
  End& mine_;
  End& peer_;
  std::uint64_t label_;
  Route route_;
};

}  // namespace

std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> make_pair(
    std::uint64_t label, const std::shared_ptr<Meters>& meters) {
  auto shared = std::make_shared<Shared>();
  for (End& end : shared->ends) {
    end.event = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!end.event) fail_errno(errno, "eventfd");
  }
  return {std::make_unique<PairConnection>(shared, 0, label, meters),
          std::make_unique<PairConnection>(shared, 1, label, meters)};
}

}  // namespace tombolo::transport::memory
