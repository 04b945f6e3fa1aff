#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "collectives/rendezvous/bootstrap.h"
#include "collectives/rendezvous/rendezvous_address.h"
#include "collectives/rendezvous/store_protocol.h"

namespace tombolo::collectives {
namespace {

using asio::ip::tcp;
using ErrorCode = asio::error_code;
using Bytes = std::vector<std::byte>;

constexpr auto kHandshakePatience = std::chrono::seconds(10);
/// How long the closing frames may take to leave. A client that misses its own ends by its own deadline.
constexpr auto kServerClosingPatience = std::chrono::milliseconds(500);
/// How many connections may be open that have not proven that they know the secret; one more closes the
/// oldest. A client that loses its connection this way tries again.
constexpr std::size_t kMostUnauthenticated = 256;
/// The pause before accepting again where the kernel could not give a connection (no descriptors left).
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

class Session;

/// Everything below runs in the server's one thread.
struct Shared {
  transport::Secret secret;
  Log log;
  std::map<std::string, Bytes, std::less<>> values;
  struct Waiter {
    std::weak_ptr<Session> session;
    std::uint32_t request;
  };
  std::unordered_map<std::string, std::vector<Waiter>> waiters;
  std::set<std::shared_ptr<Session>> sessions;
  std::list<std::shared_ptr<Session>>
      unauthenticated;  // sessions that have not yet proven that they know the secret; oldest first
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Shared& shared)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), shared_(shared) {}

  void start() {
    ErrorCode ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    const auto endpoint = socket_.remote_endpoint(ignored);
    auto address = endpoint.address();
    if (address.is_v6() && address.to_v6().is_v4_mapped())
      address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
    peer_ = fmt::format("{}:{}", address.to_string(), endpoint.port());
    nonce_ = store::random_nonce();
    hello_ = store::make_hello(nonce_);
    timer_.expires_after(kHandshakePatience);
    timer_.async_wait([self = shared_from_this()](ErrorCode error) {
      if (!error) self->close("did not finish the handshake");
    });
    asio::async_write(socket_, asio::buffer(hello_),
                      [self = shared_from_this()](ErrorCode error, std::size_t) {
                        if (error) return self->close("");
                        self->read_proof();
                      });
  }

  void answer(store::Kind kind, std::uint32_t request, std::span<const std::byte> value) {
    queue_.push_back(store::encode(kind, request, {}, value));
    if (queue_.size() == 1) write();
  }

  /// Tells the client that the server closes, and closes once all answers have left.
  void finish() {
    if (phase_ == Phase::kHandshake) return close("");
    phase_ = Phase::kClosing;
    answer(store::Kind::kServerClosing, 0, {});
  }

  void close(std::string_view why) {
    if (!why.empty()) shared_.log.warning("store: dropped {}: {}", peer_, why);
    ErrorCode ignored;
    timer_.cancel();
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    const auto self = shared_from_this();
    shared_.unauthenticated.remove(self);
    shared_.sessions.erase(self);
  }

 private:
  enum class Phase {
    kHandshake,  // the client has not proven that it knows the secret
    kServing,
    kClosing  // the client has been told that the server closes
  };

  void read_proof() {
    asio::async_read(socket_, asio::buffer(proof_),
                     [self = shared_from_this()](ErrorCode error, std::size_t) {
                       if (error) return self->close("");
                       self->check_proof();
                     });
  }

  void check_proof() {
    store::Nonce client;
    const bool accepted = store::check_proof(shared_.secret, nonce_, proof_, client);
    if (accepted) {
      phase_ = Phase::kServing;
      shared_.unauthenticated.remove(shared_from_this());
    }
    verdict_ = store::make_verdict(shared_.secret, nonce_, client, accepted);
    asio::async_write(socket_, asio::buffer(verdict_),
                      [self = shared_from_this()](ErrorCode error, std::size_t) {
                        if (error) return self->close("");
                        if (self->phase_ == Phase::kHandshake) return self->close("wrong secret");
                        self->timer_.cancel();
                        self->read_frame();
                      });
  }

  void read_frame() {
    asio::async_read(
        socket_, asio::buffer(length_), [self = shared_from_this()](ErrorCode error, std::size_t) {
          if (error) return self->close("");
          const std::size_t length = store::read_length(self->length_);
          if (length < store::kHeaderBytes || length > store::kMaxFrame)
            return self->close("frame of an absurd length");
          self->body_.resize(length);
          asio::async_read(self->socket_, asio::buffer(self->body_), [self](ErrorCode failed, std::size_t) {
            if (failed) return self->close("");
            try {
              self->serve(store::parse(self->body_));
            } catch (const Error& problem) {
              return self->close(problem.what());
            }
            self->read_frame();
          });
        });
  }

  void serve(const store::Frame& frame) {
    const auto found = shared_.values.find(frame.key);
    const bool known = found != shared_.values.end();
    switch (frame.kind) {
      case store::Kind::kSet:
        put(frame.key, frame.value);
        return answer(store::Kind::kValue, frame.request, {});
      case store::Kind::kGet:
        if (known) return answer(store::Kind::kValue, frame.request, found->second);
        shared_.waiters[std::string(frame.key)].push_back({weak_from_this(), frame.request});
        return;
      case store::Kind::kTryGet:
        if (known) return answer(store::Kind::kValue, frame.request, found->second);
        return answer(store::Kind::kAbsent, frame.request, {});
      case store::Kind::kClaim:
        if (!known) put(frame.key, frame.value);
        return answer(store::Kind::kValue, frame.request, shared_.values.find(frame.key)->second);
      case store::Kind::kAdd:
        return add(frame, known ? &found->second : nullptr);
      default:
        fail(Cause::kRemote, "unknown request {}", static_cast<int>(frame.kind));
    }
  }

  void add(const store::Frame& frame, const Bytes* old) {
    std::int64_t by = 0, value = 0;
    if (frame.value.size() != sizeof(by) || (old != nullptr && old->size() != sizeof(value))) {
      constexpr std::string_view kWhy = "the key holds no counter";
      return answer(store::Kind::kRefused, frame.request, std::as_bytes(std::span(kWhy)));
    }
    std::memcpy(&by, frame.value.data(), sizeof(by));
    if (old != nullptr) std::memcpy(&value, old->data(), sizeof(value));
    value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(by));
    put(frame.key, std::as_bytes(std::span(&value, 1)));
    answer(store::Kind::kValue, frame.request, std::as_bytes(std::span(&value, 1)));
  }

  void put(std::string_view key, std::span<const std::byte> value) {
    shared_.values.insert_or_assign(std::string(key), Bytes(value.begin(), value.end()));
    const auto waiting = shared_.waiters.find(std::string(key));
    if (waiting == shared_.waiters.end()) return;
    const auto all = std::move(waiting->second);
    shared_.waiters.erase(waiting);
    for (const auto& waiter : all) {
      if (const auto session = waiter.session.lock())
        session->answer(store::Kind::kValue, waiter.request, value);
    }
  }

  void write() {
    asio::async_write(socket_, asio::buffer(queue_.front()),
                      [self = shared_from_this()](ErrorCode error, std::size_t) {
                        if (error) return self->close("");
                        self->queue_.pop_front();
                        if (!self->queue_.empty()) return self->write();
                        if (self->phase_ == Phase::kClosing) self->close("");
                      });
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  Shared& shared_;
  std::string peer_;
  store::Nonce nonce_{};
  Phase phase_ = Phase::kHandshake;
  std::array<std::byte, store::kHelloBytes> hello_{};
  std::array<std::byte, store::kProofBytes> proof_{};
  std::array<std::byte, store::kVerdictBytes> verdict_{};
  std::array<std::byte, store::kLengthBytes> length_{};
  Bytes body_;
  std::deque<Bytes> queue_;
};

}  // namespace

struct StoreServer::State {
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer patience{io};
  asio::steady_timer resting{io};
  bool told_of_errors = false;
  bool told_of_unauthenticated = false;
  Shared shared;
  int port = 0;
  std::string own_address;
  std::thread thread;

  void accept() {
    acceptor.async_accept([this](ErrorCode error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
      if (error) return pause(error);
      const auto session = std::make_shared<Session>(std::move(socket), shared);
      shared.sessions.insert(session);
      shared.unauthenticated.push_back(session);
      if (shared.unauthenticated.size() > kMostUnauthenticated) {
        if (!std::exchange(told_of_unauthenticated, true)) {
          shared.log.warning(
              "store: more than {} connections on port {} have not proven that they know the secret; "
              "dropping the oldest of them from here on",
              kMostUnauthenticated, port);
        }
        const auto oldest = shared.unauthenticated.front();
        oldest->close("");
      }
      session->start();
      accept();
    });
  }

  /// Stops accepting for a while. The connection stays in the backlog, so accepting again at once would fail
  /// in an endless loop.
  void pause(ErrorCode error) {
    if (!std::exchange(told_of_errors, true)) {
      shared.log.warning("store: cannot accept connections on port {}: {} (errno {}); trying on", port,
                         error.message(), error.value());
    }
    resting.expires_after(kAcceptPause);
    resting.async_wait([this](ErrorCode stopped) {
      if (!stopped && acceptor.is_open()) accept();
    });
  }

  void listen(const ListenPlan& plan, const std::string& address, int wanted) {
    ErrorCode error;
    for (const auto& one : plan.addresses) {
      const tcp::endpoint endpoint(asio::ip::make_address(one), static_cast<std::uint16_t>(wanted));
      ErrorCode ignored;
      acceptor.close(ignored);
      acceptor.open(endpoint.protocol(), error);
      if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
      if (!error && plan.everywhere && endpoint.address().is_v6())
        acceptor.set_option(asio::ip::v6_only(false), error);
      if (!error) acceptor.bind(endpoint, error);
      if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
      if (!error || error == asio::error::address_in_use) break;
    }
    if (error == asio::error::address_in_use) {
      fail(Cause::kSystem,
           "store: cannot listen on {}:{}: port in use (errno {}). Another program or an earlier run of this "
           "job holds it: end that, or choose another port (MASTER_PORT or TOMBOLO_PORT, the same on every "
           "rank)",
           address, wanted, error.value());
    }
    if (error) {
      fail(Cause::kSystem,
           "store: cannot listen on {}:{}: {} (errno {}). Set MASTER_ADDR to an address of rank 0's host",
           address, wanted, error.message(), error.value());
    }
    const auto bound = acceptor.local_endpoint();
    port = bound.port();
    own_address = plan.everywhere ? "127.0.0.1" : bound.address().to_string();
  }

  void finish() {
    ErrorCode ignored;
    acceptor.close(ignored);
    resting.cancel();
    const auto all = shared.sessions;  // finish() may erase from the original
    for (const auto& session : all) session->finish();
    patience.expires_after(kServerClosingPatience);
    patience.async_wait([this](ErrorCode) { io.stop(); });
    wait_for_sessions();
  }

  void wait_for_sessions() {
    if (shared.sessions.empty()) return io.stop();
    asio::post(io, [this] { wait_for_sessions(); });
  }
};

StoreServer::StoreServer(const std::string& address, int port, const transport::Secret& secret, Log log,
                         const Resolve& resolve)
    : state_(std::make_unique<State>()) {
  state_->shared.secret = secret;
  state_->shared.log = std::move(log);
  ListenPlan plan;
  try {
    plan = plan_listening(address, resolve ? resolve(address) : resolve_addresses(address), own_addresses());
  } catch (const Error& error) {
    fail(error.cause(), "store: {}. Set MASTER_ADDR to an address of rank 0's host", error.what());
  }
  state_->listen(plan, address, port);
  const Log& told = state_->shared.log;
  if (!plan.everywhere) {
    told.info("store: listening on {}:{}", state_->own_address, state_->port);
  } else if (plan.of_this_host) {
    told.info("store: listening on every address of this host, port {}; the ranks look for it at {}",
              state_->port, address);
  } else {
    told.warning(
        "store: {} is no address of this host: listening on every address that it has, port {}. Unless {} "
        "leads here, other hosts will not find it: set MASTER_ADDR (for a unique id, TOMBOLO_ADDRESS) to an "
        "address of this host",
        address, state_->port, address);
  }
  state_->accept();
  state_->thread = std::thread([state = state_.get()] { state->io.run(); });
}

StoreServer::~StoreServer() {
  asio::post(state_->io, [state = state_.get()] { state->finish(); });
  state_->thread.join();
}

int StoreServer::port() const noexcept {
  return state_->port;
}

const std::string& StoreServer::own_address() const noexcept {
  return state_->own_address;
}

}  // namespace tombolo::collectives
