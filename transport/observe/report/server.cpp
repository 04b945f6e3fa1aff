#include "transport/observe/report/server.h"

#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "transport/kernel.h"
#include "transport/not_inherited.h"
#include "transport/observe/report/http.h"

namespace tombolo::transport::report {
namespace {

using asio::ip::tcp;
using ErrorCode = asio::error_code;

/// A scrape takes milliseconds. A client that needs longer than this is cut off, because it holds one of few
/// places.
constexpr auto kScrapePatience = std::chrono::seconds(10);
constexpr std::size_t kMostScrapes = 16;
constexpr auto kScrapeAcceptPause = std::chrono::milliseconds(100);

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// The state of the server's thread; only that thread uses it.
struct Scrapes {
  const ServerOptions& options;
  std::size_t open = 0;
};

class Scrape : public std::enable_shared_from_this<Scrape> {
 public:
  Scrape(tcp::socket socket, Scrapes& all)
      : socket_(std::move(socket)),
        own_(not_inherited(socket_.native_handle())),
        timer_(socket_.get_executor()),
        all_(all) {
    ++all_.open;
  }
  ~Scrape() { --all_.open; }
  Scrape(const Scrape&) = delete;
  Scrape& operator=(const Scrape&) = delete;

  void start() {
    timer_.expires_after(kScrapePatience);
    timer_.async_wait([weak = weak_from_this()](ErrorCode error) {
      auto self = weak.lock();
      if (!error && self) self->close();
    });
    read();
  }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(part_),
                            [self = shared_from_this()](ErrorCode error, std::size_t count) {
                              if (error) return self->close();
                              self->came_.append(self->part_.data(), count);
                              self->judge();
                            });
  }

  void judge() {
    const HttpParse parse = parse_http_request(came_);
    if (!parse.request && parse.refusal == 0) return read();
    answer_ = parse.request
                  ? answer_to(*parse.request)
                  : http_response(parse.refusal, "text/plain", "this is no GET of /metrics or /json\n");
    asio::async_write(socket_, asio::buffer(answer_),
                      [self = shared_from_this()](ErrorCode, std::size_t) { self->finish(); });
  }

  std::string answer_to(const HttpRequest& request) const {
    const ServerOptions& options = all_.options;
    if (request.path == "/metrics") {
      return http_response(200, kPrometheusType, to_prometheus(options.meters->read(), options.reporter),
                           request.head_only);
    }
    if (request.path == "/json") {
      return http_response(200, "application/json", dump(to_json(options.meters->read(), options.reporter)),
                           request.head_only);
    }
    return http_response(404, "text/plain", "there are /metrics and /json\n", request.head_only);
  }

  /// Reads what is left before closing: unread bytes would turn the close into a reset, which may overtake
  /// the answer.
  void finish() {
    ErrorCode ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    socket_.async_read_some(asio::buffer(part_),
                            [self = shared_from_this()](ErrorCode error, std::size_t count) {
                              self->drained_ += count;
                              if (error || self->drained_ > kLongestRequest) return self->close();
                              self->finish();
                            });
  }

  void close() {
    ErrorCode ignored;
    timer_.cancel();
    own_.reset();
    socket_.close(ignored);
  }

  tcp::socket socket_;
  NotInherited own_;  // of the socket
  asio::steady_timer timer_;
  Scrapes& all_;
  std::array<char, 1024> part_{};
  std::string came_, answer_;
  std::size_t drained_ = 0;
};

struct Listening {
  tcp::acceptor acceptor;
  NotInherited own;  // of the acceptor
};

Listening listen_at(asio::io_context& context, const Address& address, const Log& log) {
  Listening listening{tcp::acceptor(context), {}};
  tcp::acceptor& acceptor = listening.acceptor;
  const auto host = asio::ip::make_address(address.host);
  for (std::uint32_t port = address.first_port; port <= address.last_port; ++port) {
    const tcp::endpoint at(host, static_cast<std::uint16_t>(port));
    ErrorCode error;
    acceptor.open(at.protocol(), error);
    if (error) fail_errno(error.value(), "TOMBOLO_METRICS: socket");
    listening.own = not_inherited(acceptor.native_handle());
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    acceptor.bind(at, error);
    if (!error) acceptor.listen(16, error);
    if (!error) {
      log.info("meters are served at http://{}:{}/metrics and /json",
               host.is_v6() ? fmt::format("[{}]", address.host) : address.host,
               acceptor.local_endpoint().port());
      return listening;
    }
    listening.own.reset();
    acceptor.close();
    if (error != asio::error::address_in_use || port == address.last_port) {
      const bool in_use = error == asio::error::address_in_use;
      fail(Cause::kSystem, "TOMBOLO_METRICS: cannot listen at {} port {}{}: {}{}", address.host,
           address.first_port,
           address.last_port != address.first_port ? fmt::format(" to {}", address.last_port) : "",
           errno_text(error.value()),
           in_use ? "; several processes of a host need a range of ports (9400-9407), or 0 for any free one"
                  : "");
    }
  }
  fail(Cause::kInternal, "no port in {} to {}", address.first_port, address.last_port);
}

}  // namespace

Address parse_address(std::string_view text, std::string_view what) {
  Address address{"127.0.0.1", 0, 0};
  std::string_view ports = text;
  if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (!host.empty()) address.host = host;
    ports = text.substr(colon + 1);
  }
  const auto dash = ports.find('-');
  const auto first = parse_port(ports.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_port(ports.substr(dash + 1));
  ErrorCode error;
  asio::ip::make_address(address.host, error);
  if (!first || !last || *last < *first || (dash != std::string_view::npos && *first == 0) || error) {
    fail(Cause::kInvalidUsage,
         "{}='{}': expected [ADDRESS:]PORT[-LAST] with a numeric address, as 9400, 0.0.0.0:9400-9407, or 0 "
         "for "
         "any free port",
         what, text);
  }
  address.first_port = *first;
  address.last_port = *last;
  return address;
}

void write_meters(const Meters& meters, const Reporter& reporter, const std::string& path) {
  write_json_file(path, to_json(meters.read(), reporter));
}

struct Server::State {
  ServerOptions options;
  Scrapes scrapes{options};  // outlives the context, whose handlers hold them
  asio::io_context context{1};
  std::optional<Listening> listening;
  asio::steady_timer pause{context}, timer{context};
  std::thread thread;
  const unsigned generation = fork_generation();
  std::uint16_t port = 0;
  std::string last_trouble;
  Log log = Log::to_stderr(LogLevel::kWarning);

  void accept() {
    listening->acceptor.async_accept([this](ErrorCode error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        // Accepting fails when, say, descriptors have run out. Without a pause that would become a busy loop.
        pause.expires_after(kScrapeAcceptPause);
        pause.async_wait([this](ErrorCode stopped) {
          if (!stopped) accept();
        });
        return;
      }
      if (scrapes.open < kMostScrapes) std::make_shared<Scrape>(std::move(socket), scrapes)->start();
      accept();
    });
  }

  void write_later() {
    timer.expires_after(options.every);
    timer.async_wait([this](ErrorCode error) {
      if (error) return;
      write_now();
      write_later();
    });
  }

  void write_now() {
    try {
      write_meters(*options.meters, options.reporter, options.file);
      last_trouble.clear();
    } catch (const Error& error) {
      if (last_trouble != error.what()) log.warning("TOMBOLO_METRICS_FILE: {}", error.what());
      last_trouble = error.what();
    }
  }
};

Server::Server(ServerOptions options) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.options = std::move(options);
  if (!state.options.listen.empty()) {
    state.listening.emplace(
        listen_at(state.context, parse_address(state.options.listen, "TOMBOLO_METRICS"), state.options.log));
    state.port = state.listening->acceptor.local_endpoint().port();
    state.accept();
  }
  if (!state.options.file.empty()) state.write_later();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    state.thread = std::thread([&state] {
      pthread_setname_np(pthread_self(), "tombolo-meters");
      for (;;) {
        try {
          state.context.run();
          return;
        } catch (const std::exception& error) {
          state.log.warning("serving meters: {}", error.what());
        }
      }
    });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    fail(Cause::kSystem, "TOMBOLO_METRICS: cannot start a thread: {}", error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Server::~Server() {
  // A forked child has no such thread, and the copy that it has of this is of no use to it.
  if (state_->generation != fork_generation()) {
    static_cast<void>(state_.release());
    return;
  }
  state_->context.stop();
  state_->thread.join();
}

std::uint16_t Server::port() const noexcept {
  return state_->port;
}

}  // namespace tombolo::transport::report
