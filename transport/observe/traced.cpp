#include "transport/observe/traced.h"

#include "transport/request_pool.h"

namespace tombolo::transport {
namespace {

class TracedConnection final : public Connection {
 public:
  TracedConnection(std::unique_ptr<Connection> real, Tracer& tracer)
      : real_(std::move(real)), tracer_(tracer), id_(real_->statistics().connection) {
    flying_.reserve(2 * kRequestsPerDirection);
  }

  std::unique_ptr<Memory> register_memory(std::span<std::byte> buffer, MemoryKind kind) override {
    return real_->register_memory(buffer, kind);
  }
  std::unique_ptr<Memory> register_dma_buf(std::span<std::byte> range, int file,
                                           std::uint64_t offset) override {
    return real_->register_dma_buf(range, file, offset);
  }
  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override {
    const TimePoint now = Clock::steady().now();
    return note(real_->post_send(data, memory), TraceKind::kSend, now);
  }
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override {
    const TimePoint now = Clock::steady().now();
    return note(real_->post_receive(buffer, memory), TraceKind::kReceive, now);
  }
  Request* post_flush(std::span<const std::byte> data, Memory* memory) noexcept override {
    return real_->post_flush(data, memory);
  }
  Outcome test(Request* request, std::size_t& bytes) noexcept override {
    const Outcome outcome = real_->test(request, bytes);
    if (outcome != Outcome::kPending) landed(request, outcome, bytes);
    return outcome;
  }
  bool progress() noexcept override { return real_->progress(); }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    real_->append_wait_handles(handles);
  }
  const Error* error() const noexcept override { return real_->error(); }
  bool peer_ended() noexcept override { return real_->peer_ended(); }
  std::uint64_t label() const noexcept override { return real_->label(); }
  const Route& route() const noexcept override { return real_->route(); }
  RequestWay way_of(const Request* request) const noexcept override { return real_->way_of(request); }
  Statistics statistics() const noexcept override { return real_->statistics(); }
  OneSided* one_sided() noexcept override { return real_->one_sided(); }

 private:
  struct Flying {
    Request* request;
    TraceKind kind;
    TimePoint from;
  };

  Request* note(Request* request, TraceKind kind, TimePoint now) noexcept {
    // A backend with larger pools loses events, not memory.
    if (request != nullptr && flying_.size() < flying_.capacity()) flying_.push_back({request, kind, now});
    return request;
  }

  void landed(const Request* request, Outcome outcome, std::size_t bytes) noexcept {
    for (Flying& one : flying_) {
      if (one.request != request) continue;
      tracer_.add({one.kind, outcome == Outcome::kFailed, 0, id_, bytes, one.from, Clock::steady().now()});
      one = flying_.back();
      flying_.pop_back();
      return;
    }
  }

  std::unique_ptr<Connection> real_;
  Tracer& tracer_;
  std::uint64_t id_;
  std::vector<Flying> flying_;
};

class TracedConnecting final : public Connecting {
 public:
  TracedConnecting(std::unique_ptr<Connecting> real, Tracer& tracer)
      : real_(std::move(real)), tracer_(tracer) {}
  std::unique_ptr<Connection> poll() override { return traced(real_->poll(), &tracer_); }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    real_->append_wait_handles(handles);
  }

 private:
  std::unique_ptr<Connecting> real_;
  Tracer& tracer_;
};

class TracedListener final : public Listener {
 public:
  TracedListener(std::unique_ptr<Listener> real, Tracer& tracer) : real_(std::move(real)), tracer_(tracer) {}
  const Endpoint& endpoint() const noexcept override { return real_->endpoint(); }
  std::unique_ptr<Connection> accept() override { return traced(real_->accept(), &tracer_); }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    real_->append_wait_handles(handles);
  }

 private:
  std::unique_ptr<Listener> real_;
  Tracer& tracer_;
};

}  // namespace

std::unique_ptr<Connection> traced(std::unique_ptr<Connection> connection, Tracer* tracer) {
  if (tracer == nullptr || !connection) return connection;
  return std::make_unique<TracedConnection>(std::move(connection), *tracer);
}

std::unique_ptr<Connecting> traced(std::unique_ptr<Connecting> connecting, Tracer* tracer) {
  if (tracer == nullptr || !connecting) return connecting;
  return std::make_unique<TracedConnecting>(std::move(connecting), *tracer);
}

std::unique_ptr<Listener> traced(std::unique_ptr<Listener> listener, Tracer* tracer) {
  if (tracer == nullptr || !listener) return listener;
  return std::make_unique<TracedListener>(std::move(listener), *tracer);
}

}  // namespace tombolo::transport
