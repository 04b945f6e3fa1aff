// Where connections begin that go on over another way.
#include "transport/routing/failover_connection.h"

namespace tombolo::transport {
namespace {

bool goes_on(Connection& connection) {
  return connection.route().resumable && connection.resumable() != nullptr;
}

class FailoverConnecting final : public Connecting {
 public:
  FailoverConnecting(std::unique_ptr<BestConnecting> beneath, LegMaker maker, Endpoint peer,
                     ConnectOptions options)
      : beneath_(std::move(beneath)),
        maker_(std::move(maker)),
        peer_(std::move(peer)),
        options_(std::move(options)) {}
  std::unique_ptr<Connection> poll() override {
    auto made = beneath_->poll();
    if (!made || !goes_on(*made)) return made;
    auto listener = std::make_unique<bootstrap::AuthenticatingListener>(maker_.acceptor);
    return std::make_unique<FailoverConnection>(std::move(made), maker_,
                                                FailoverConnection::Side::kConnecting, std::move(listener),
                                                peer_, options_, beneath_->left());
  }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    beneath_->append_wait_handles(handles);
  }

 private:
  std::unique_ptr<BestConnecting> beneath_;
  LegMaker maker_;
  Endpoint peer_;
  ConnectOptions options_;
};

class FailoverListener final : public Listener {
 public:
  FailoverListener(std::unique_ptr<bootstrap::AuthenticatingListener> beneath, LegMaker maker)
      : beneath_(std::move(beneath)), maker_(std::move(maker)) {}
  const Endpoint& endpoint() const noexcept override { return beneath_->endpoint(); }
  std::unique_ptr<Connection> accept() override {
    auto [made, legs] = beneath_->accept_with_legs();
    if (!made || !goes_on(*made)) return std::move(made);
    // None was reserved where the peer hears of it in the first record.
    auto listener = legs.number != 0 ? std::make_unique<bootstrap::AuthenticatingListener>(maker_.acceptor,
                                                                                           std::move(legs))
                                     : std::make_unique<bootstrap::AuthenticatingListener>(maker_.acceptor);
    return std::make_unique<FailoverConnection>(std::move(made), maker_, FailoverConnection::Side::kAccepting,
                                                std::move(listener), Endpoint(), ConnectOptions());
  }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    beneath_->append_wait_handles(handles);
  }

 private:
  std::unique_ptr<bootstrap::AuthenticatingListener> beneath_;
  LegMaker maker_;
};

}  // namespace

std::unique_ptr<Connecting> failing_over(std::unique_ptr<BestConnecting> connecting, LegMaker maker,
                                         const Endpoint& peer, const ConnectOptions& options) {
  return std::make_unique<FailoverConnecting>(std::move(connecting), std::move(maker), peer, options);
}

std::unique_ptr<Listener> failing_over(std::unique_ptr<bootstrap::AuthenticatingListener> listener,
                                       LegMaker maker) {
  return std::make_unique<FailoverListener>(std::move(listener), std::move(maker));
}

}  // namespace tombolo::transport
