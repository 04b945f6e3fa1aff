#include "probe/bootstrap/connectivity.h"

#include <poll.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::probe {
namespace {

using transport::Endpoint;

constexpr int kPollMilliseconds = 20;

/// An attempt to connect to one other rank. The lower rank of the two connects.
struct Attempt {
  ConnectivityResult result;
  std::unique_ptr<transport::Connecting> connecting;
  std::unique_ptr<transport::Connection> connection;
  bool open = true;

  void ready(std::unique_ptr<transport::Connection> made) {
    connection = std::move(made);
    result.route = connection->route();
    open = false;
  }
  void failed(std::string why) {
    result.error = std::move(why);
    connecting.reset();
    open = false;
  }
};

std::vector<std::optional<Endpoint>> decode_all(const std::vector<std::string>& texts) {
  std::vector<std::optional<Endpoint>> endpoints;
  for (const std::string& text : texts) {
    endpoints.emplace_back();
    if (!text.empty())
      endpoints.back() = Endpoint::decode(std::as_bytes(std::span(text.data(), text.size())));
  }
  return endpoints;
}

class ConnectivityCheck {
 public:
  explicit ConnectivityCheck(const collectives::Options& options)
      : options_(options), rank_(options.identity.rank), router_options_(options.router) {}

  std::vector<ConnectivityResult> run(RendezvousGroup& group) {
    std::string mine;
    router_options_.secret = group.agree_on_secret(options_);
    try {
      router_ = std::make_unique<transport::Router>(router_options_);
      listener_ = router_->listen();
      auto bytes = listener_->endpoint().encode();
      mine.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } catch (const Error& error) {
      no_listener_reason_ = error.what();
    }
    endpoints_ = decode_all(group.gather("endpoint", mine, options_.deadline));
    start();
    Deadline deadline = Deadline::after(options_.deadline / 2, *options_.router.clock);
    while (std::ranges::any_of(attempts_, &Attempt::open) && !deadline.passed()) {
      advance();
      wait(deadline);
    }
    give_up(deadline);
    // Connections stay open until every rank has finished its attempts: an end that closes early would look
    // like a failure.
    group.gather("paired", "", options_.deadline * 2);
    std::vector<ConnectivityResult> results;
    for (Attempt& attempt : attempts_) results.push_back(std::move(attempt.result));
    return results;
  }

 private:
  void start() {
    if (options_.routing == collectives::Routing::kShared) {
      // A rank without any NIC fails in each of its pairs. It does not influence which kind the others share.
      std::vector<Endpoint> present;
      for (const auto& endpoint : endpoints_)
        if (endpoint) present.push_back(*endpoint);
      router_options_.policy.only_kind = transport::shared_kind(present);
      if (router_options_.policy.only_kind) {
        of_one_kind_ = std::make_unique<transport::Router>(router_options_);
      } else {
        no_listener_reason_ =
            "routing 'shared': there is no NIC kind that all ranks share; use per-peer routing";
      }
    }
    for (int peer = 0; peer < static_cast<int>(endpoints_.size()); ++peer) {
      if (peer == rank_) continue;
      Attempt& attempt = attempts_.emplace_back();
      attempt.result.peer = peer;
      const auto& endpoint = endpoints_[static_cast<std::size_t>(peer)];
      if (endpoint) attempt.result.peer_host = endpoint->host;
      if (!no_listener_reason_.empty() || !endpoint) {
        attempt.failed(no_listener_reason_.empty() ? fmt::format("rank {} has no NIC that it could use", peer)
                                                   : no_listener_reason_);
      } else if (peer > rank_) {
        connect(attempt, *endpoint);
      }
    }
  }

  void connect(Attempt& attempt, const Endpoint& endpoint) {
    transport::ConnectOptions connect;
    connect.label = static_cast<std::uint64_t>(rank_);
    connect.deadline = options_.deadline / 2;
    connect.peer_name = fmt::format("rank {}", attempt.result.peer);
    try {
      attempt.connecting = (of_one_kind_ ? of_one_kind_ : router_)->connect(endpoint, connect);
    } catch (const Error& error) {
      attempt.failed(error.what());
    }
  }

  void advance() {
    for (Attempt& attempt : attempts_) {
      if (!attempt.connecting) continue;
      try {
        if (auto made = attempt.connecting->poll()) {
          attempt.ready(std::move(made));
          attempt.connecting.reset();
        }
      } catch (const Error& error) {
        attempt.failed(error.what());
      }
    }
    if (!listener_) return;
    while (auto made = listener_->accept()) {
      auto from = std::ranges::find_if(attempts_, [&](const Attempt& attempt) {
        return attempt.open && !attempt.connecting &&
               static_cast<std::uint64_t>(attempt.result.peer) == made->label();
      });
      if (from != attempts_.end()) from->ready(std::move(made));
    }
  }

  void wait(const Deadline& deadline) const {
    std::vector<pollfd> handles;
    for (const Attempt& attempt : attempts_) {
      if (attempt.connecting) attempt.connecting->append_wait_handles(handles);
    }
    if (listener_) listener_->append_wait_handles(handles);
    ::poll(handles.data(), handles.size(), std::min(kPollMilliseconds, deadline.poll_milliseconds()));
  }

  void give_up(const Deadline& deadline) {
    for (Attempt& attempt : attempts_) {
      if (!attempt.open) continue;
      attempt.failed(
          attempt.connecting
              ? fmt::format("not connected within {}", format_seconds(to_seconds(deadline.allowed())))
              : fmt::format("rank {} on {} did not connect to this rank within {}; it says why",
                            attempt.result.peer, attempt.result.peer_host,
                            format_seconds(to_seconds(deadline.allowed()))));
    }
  }

  const collectives::Options& options_;
  int rank_;
  transport::RouterOptions router_options_;
  std::unique_ptr<transport::Router> router_;       // declared before what it makes, which it must outlive
  std::unique_ptr<transport::Router> of_one_kind_;  // for routing 'shared'
  std::unique_ptr<transport::Listener> listener_;
  std::string no_listener_reason_;
  std::vector<std::optional<Endpoint>> endpoints_;
  std::vector<Attempt> attempts_;
};

}  // namespace

std::vector<ConnectivityResult> check_connectivity(RendezvousGroup& group,
                                                   const collectives::Options& options) {
  return ConnectivityCheck(options).run(group);
}

}  // namespace tombolo::probe
