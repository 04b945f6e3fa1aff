#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/limited_warning.h"
#include "collectives/rendezvous/bootstrap.h"
#include "collectives/rendezvous/rendezvous_address.h"
#include "collectives/rendezvous/store_contents.h"
#include "transport/descriptor.h"
#include "transport/kernel.h"
#include "transport/not_inherited.h"

namespace tombolo::collectives {
namespace {

using asio::ip::tcp;
using ErrorCode = asio::error_code;

/// How long the closing frames may take to leave. A client that misses its own ends by its own deadline.
constexpr auto kServerClosingPatience = std::chrono::milliseconds(500);
/// The pause before accepting again where the kernel could not give a connection (no descriptors left), or
/// there is no memory for one.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
/// Lines about a state that lasts are logged once, and then once in this time.
constexpr auto kReminder = std::chrono::minutes(1);

/// A request of more bytes counts against the store's limit while it arrives.
constexpr std::size_t kSmallBody = 4096;

std::string name_of(const tcp::socket& socket) {
  ErrorCode ignored;
  const auto endpoint = socket.remote_endpoint(ignored);
  auto address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return fmt::format("{}:{}", address.to_string(), endpoint.port());
}

class Session;

/// What the sessions share. Everything here runs in the server's one thread.
struct Sessions {
  transport::Secret secret;
  Log log;
  StoreLimits limits;
  StoreContents* contents = nullptr;
  StoreId id{};
  std::set<std::shared_ptr<Session>> all;
  std::list<std::shared_ptr<Session>> unauthenticated;  // oldest first
  // Lines that whoever reaches the port can cause, and those that take the secret.
  LimitedWarning of_strangers, of_clients;
};

/// One client, as the server sees it.
class Session final : public StoreContents::Client, public std::enable_shared_from_this<Session> {
 private:
  /// A completion handler that runs `action`, and closes this session where that throws or the operation
  /// failed.
  template <typename Action>
  auto then(Action action) {
    return [self = shared_from_this(), action = std::move(action)](ErrorCode error, std::size_t) {
      if (error) return self->close("");
      try {
        action();
      } catch (const std::exception& problem) {
        self->close(problem.what());
      }
    };
  }

 public:
  Session(tcp::socket socket, Sessions& sessions)
      : socket_(std::move(socket)),
        own_(transport::not_inherited(socket_.native_handle())),
        read_timer_(socket_.get_executor()),
        write_timer_(socket_.get_executor()),
        sessions_(sessions) {}

  void start() noexcept try {
    ErrorCode ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    peer_ = name_of(socket_);
    nonce_ = store::random_nonce();
    hello_ = store::make_hello(nonce_);
    begin_patience(read_timer_, sessions_.limits.handshake_patience, "did not finish the handshake");
    asio::async_write(socket_, asio::buffer(hello_), then([this] { read_proof(); }));
  } catch (const std::exception& problem) {
    close(problem.what());
  }

  /// Drops the client where the answer cannot be kept.
  void answer(store::Kind kind, std::uint32_t request, StoreContents::SharedValue value) noexcept override {
    if (phase_ == Phase::kClosed) return;
    try {
      answers_.push_back({store::encode_answer_head(kind, request, value->bytes.size()), std::move(value)});
      if (answers_.size() == 1) write();
    } catch (const std::exception& problem) {
      close(problem.what());
    }
  }

  /// Tells the client that the server closes, and closes once all answers have left.
  void finish() noexcept {
    if (phase_ == Phase::kHandshake) return close("");
    phase_ = Phase::kClosing;
    try {
      answer(store::Kind::kServerClosing, 0, std::make_shared<StoreContents::Value>());
    } catch (const std::exception& problem) {
      close(problem.what());
    }
  }

  /// Says why in the log, unless that is empty.
  void close(std::string_view why) noexcept {
    if (phase_ == Phase::kClosed) return;
    const auto self = shared_from_this();
    LimitedWarning& kind = phase_ == Phase::kHandshake ? sessions_.of_strangers : sessions_.of_clients;
    phase_ = Phase::kClosed;
    try {
      if (!why.empty()) kind.write(sessions_.log, "store: dropped {}: {}", peer_, why);
    } catch (const std::exception&) {  // without memory for the line, the client is dropped without one
    }
    sessions_.contents->leave(*this);
    ErrorCode ignored;
    read_timer_.cancel();
    write_timer_.cancel();
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    own_.reset();
    socket_.close(ignored);
    sessions_.unauthenticated.remove(self);
    sessions_.all.erase(self);
  }

 private:
  enum class Phase {
    kHandshake,  // the client has not proven that it knows the secret
    kServing,
    kClosing,  // the client has been told that the server closes
    kClosed
  };
  struct Answer {
    std::array<std::byte, store::kLengthBytes + store::kHeaderBytes> head;
    StoreContents::SharedValue value;
  };

  void begin_patience(asio::steady_timer& timer, Duration patience, const char* why) {
    timer.expires_after(patience);
    timer.async_wait([self = shared_from_this(), &timer, why](ErrorCode error) {
      // A timer that was stopped in the moment in which it expired comes without an error.
      if (!error && timer.expiry() <= asio::steady_timer::clock_type::now()) self->close(why);
    });
  }
  static void end_patience(asio::steady_timer& timer) {
    timer.expires_at(asio::steady_timer::time_point::max());
  }

  void read_proof() {
    asio::async_read(socket_, asio::buffer(proof_), then([this] { check_proof(); }));
  }

  void check_proof() {
    store::Nonce client;
    const bool accepted = store::check_proof(sessions_.secret, nonce_, proof_, client);
    if (accepted) {
      phase_ = Phase::kServing;
      sessions_.unauthenticated.remove(shared_from_this());
    }
    verdict_ = store::make_verdict(sessions_.secret, nonce_, client,
                                   accepted ? std::optional(sessions_.id) : std::nullopt);
    asio::async_write(socket_, asio::buffer(verdict_), then([this] {
                        if (phase_ == Phase::kHandshake) return close("wrong secret");
                        end_patience(read_timer_);
                        read_request();
                      }));
  }

  /// Reads the next request, unless one is being read or an answer has not left yet: a client that does not
  /// read its answers gets no more of them.
  void read_request() {
    if (reading_ || !answers_.empty() || phase_ == Phase::kClosed) return;
    reading_ = true;
    asio::async_read(socket_, asio::buffer(length_), then([this] { read_body(); }));
  }

  void read_body() {
    const std::size_t length = store::read_length(length_);
    if (length < store::kHeaderBytes || length > store::kMaxFrame)
      return close(fmt::format("frame of an absurd length, {} bytes", length));
    if (length > kSmallBody) body_share_ = sessions_.contents->budget().take(length);
    body_.resize(length);
    begin_patience(read_timer_, sessions_.limits.patience, "sent a request only in part");
    asio::async_read(socket_, asio::buffer(body_), then([this] {
                       end_patience(read_timer_);
                       reading_ = false;
                       serve_body();
                       read_request();
                     }));
  }

  void serve_body() {
    sessions_.contents->serve(*this, store::parse(body_));
    if (body_.size() > kSmallBody) body_ = {};
    body_share_ = {};
  }

  void write() {
    const Answer& first = answers_.front();
    const std::array<asio::const_buffer, 2> parts{asio::buffer(first.head), asio::buffer(first.value->bytes)};
    begin_patience(write_timer_, sessions_.limits.patience, "did not read its answers");
    asio::async_write(socket_, parts, then([this] {
                        answers_.pop_front();
                        if (!answers_.empty()) return write();
                        end_patience(write_timer_);
                        if (phase_ == Phase::kClosing) return close("");
                        read_request();
                      }));
  }

  tcp::socket socket_;
  transport::NotInherited own_;  // of the socket
  asio::steady_timer read_timer_, write_timer_;
  Sessions& sessions_;
  std::string peer_;
  store::Nonce nonce_{};
  Phase phase_ = Phase::kHandshake;
  bool reading_ = false;
  std::array<std::byte, store::kHelloBytes> hello_{};
  std::array<std::byte, store::kProofBytes> proof_{};
  std::array<std::byte, store::kVerdictBytes> verdict_{};
  std::array<std::byte, store::kLengthBytes> length_{};
  std::vector<std::byte> body_;
  StoreBudget::Share body_share_;  // where the body is large
  std::deque<Answer> answers_;     // at most two, and the last one of a server that closes
};

LimitedWarning reminder() {
  return LimitedWarning(Clock::steady(), 1, kReminder);
}

}  // namespace

struct StoreServer::State {
  explicit State(const StoreLimits& limits) : contents(limits) {
    sessions.limits = limits;
    transport::random_bytes(sessions.id);
  }

  /// What it takes to serve, for which asio opens descriptors of its own.
  struct Loop {
    Loop() : acceptor(io), patience(io), resting(io) {}

    asio::io_context io{1};
    tcp::acceptor acceptor;
    asio::steady_timer patience, resting;
  };

  StoreContents contents;          // outlives the answers that handlers of the loop hold
  transport::Descriptor listener;  // until there is a loop
  tcp protocol = tcp::v4();        // of the listener
  std::optional<Loop> loop;        // from serve() on
  transport::NotInherited own_acceptor;
  LimitedWarning cannot_accept = reminder(), too_many = reminder(), too_many_unauthenticated = reminder(),
                 failed = reminder();
  Sessions sessions;
  int port = 0;
  std::string own_address;
  std::mutex serving;
  std::thread thread;  // from serve() on; under `serving` until then
  const unsigned generation = transport::fork_generation();

  /// Handles connections until finish(). Whatever a client causes ends that client alone.
  void run() noexcept {
    for (bool again = false;; again = true) {
      try {
        if (!again) {
          accept();
        } else if (loop->acceptor.is_open()) {
          pause();
        }
        loop->io.run();
        return;
      } catch (const std::exception& problem) {
        warn_of(problem);
      }
    }
  }

  void warn_of(const std::exception& problem) noexcept {
    try {
      failed.write(sessions.log, "store: {}; serving on", problem.what());
    } catch (const std::exception&) {  // without memory for the line, there is none
    }
  }

  void accept() {
    loop->acceptor.async_accept([this](ErrorCode error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || !loop->acceptor.is_open()) return;
      if (error) {
        cannot_accept.write(sessions.log,
                            "store: cannot accept connections on port {}: {} (errno {}); trying on", port,
                            error.message(), error.value());
        return pause();
      }
      admit(std::move(socket));
      accept();
    });
  }

  void admit(tcp::socket socket) {
    if (sessions.all.size() >= sessions.limits.clients) {
      return too_many.write(sessions.log,
                            "store: {} connections on port {} are open, and no more are accepted. Set "
                            "TOMBOLO_SECRET, the same on every rank, where strangers reach this port",
                            sessions.all.size(), port);
    }
    const auto session = std::make_shared<Session>(std::move(socket), sessions);
    sessions.all.insert(session);
    sessions.unauthenticated.push_back(session);
    if (sessions.unauthenticated.size() > sessions.limits.unauthenticated) {
      too_many_unauthenticated.write(
          sessions.log,
          "store: more than {} connections on port {} have not proven that they know the secret; "
          "dropping the oldest of them from here on",
          sessions.limits.unauthenticated, port);
      const auto oldest = sessions.unauthenticated.front();
      oldest->close("");
    }
    session->start();
  }

  /// Stops accepting for a while. The connection stays in the backlog, so accepting again at once would fail
  /// in an endless loop.
  void pause() {
    ErrorCode ignored;
    loop->acceptor.cancel(ignored);  // where one is under way, it must not become two
    loop->resting.expires_after(kAcceptPause);
    loop->resting.async_wait([this](ErrorCode stopped) {
      if (!stopped && loop->acceptor.is_open()) accept();
    });
  }

  void listen(const ListenPlan& plan, const std::string& address, int wanted) {
    asio::io_context io;
    tcp::acceptor acceptor(io);
    transport::NotInherited own;
    ErrorCode error;
    for (const auto& one : plan.addresses) {
      const tcp::endpoint endpoint(asio::ip::make_address(one), static_cast<std::uint16_t>(wanted));
      ErrorCode ignored;
      own.reset();
      acceptor.close(ignored);
      protocol = endpoint.protocol();
      acceptor.open(protocol, error);
      if (!error) own = transport::not_inherited(acceptor.native_handle());
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
    listener.reset(acceptor.release());
    own_acceptor = std::move(own);  // the number stays
  }

  void make_loop() {
    loop.emplace();
    ErrorCode error;
    loop->acceptor.assign(protocol, listener.get(), error);
    if (error) {
      loop.reset();
      throw std::system_error(error);
    }
    listener.release();
  }

  void finish() {
    ErrorCode ignored;
    own_acceptor.reset();
    loop->acceptor.close(ignored);
    loop->resting.cancel();
    const auto all = sessions.all;  // finish() may erase from the original
    for (const auto& session : all) session->finish();
    loop->patience.expires_after(kServerClosingPatience);
    loop->patience.async_wait([this](ErrorCode) { loop->io.stop(); });
    wait_for_sessions();
  }

  void wait_for_sessions() {
    if (sessions.all.empty()) return loop->io.stop();
    asio::post(loop->io, [this] { wait_for_sessions(); });
  }
};

StoreServer::StoreServer(const std::string& address, int port, const transport::Secret& secret, Log log,
                         const Resolve& resolve, const StoreLimits& limits, Begin begin)
    : state_(std::make_unique<State>(limits)) {
  state_->sessions.secret = secret;
  state_->sessions.log = std::move(log);
  state_->sessions.contents = &state_->contents;
  ListenPlan plan;
  try {
    plan = plan_listening(address, resolve ? resolve(address) : resolve_addresses(address), own_addresses());
  } catch (const Error& error) {
    fail(error.cause(), "store: {}. Set MASTER_ADDR to an address of rank 0's host", error.what());
  }
  state_->listen(plan, address, port);
  const Log& told = state_->sessions.log;
  if (begin == Begin::kOnDemand) return;
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
  serve();
}

void StoreServer::serve() {
  const std::lock_guard lock(state_->serving);
  if (state_->thread.joinable()) return;
  try {
    if (!state_->loop) state_->make_loop();
    state_->thread = std::thread([state = state_.get()] { state->run(); });
  } catch (const std::system_error& error) {
    fail(
        Cause::kSystem,
        "store: port {} is not served, for there is no thread, or no descriptor, for it: {} (ulimit -u, -n?)",
        state_->port, error.what());
  }
}

StoreServer::~StoreServer() {
  // A forked child has no such thread, and the copy that it has of this is of no use to it.
  if (state_->generation != transport::fork_generation()) {
    static_cast<void>(state_.release());
    return;
  }
  if (!state_->thread.joinable()) return;
  asio::post(state_->loop->io, [state = state_.get()] { state->finish(); });
  state_->thread.join();
}

int StoreServer::port() const noexcept {
  return state_->port;
}

const StoreId& StoreServer::id() const noexcept {
  return state_->sessions.id;
}

const std::string& StoreServer::own_address() const noexcept {
  return state_->own_address;
}

}  // namespace tombolo::collectives
