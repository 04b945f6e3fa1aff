#include "transport/bootstrap/dial.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "transport/tcp/backend.h"

namespace tombolo::transport::bootstrap {
namespace {

/// Takes every connection and resets it, as fast as it can.
class Doorman {
 public:
  Doorman() : listener_(sockets::listen_on("", "127.0.0.1", port_)) {
    fcntl(listener_.get(), F_SETFL, fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
    thread_ = std::thread([this] { serve(); });
  }
  ~Doorman() {
    closed_ = true;
    thread_.join();
  }
  std::uint16_t port() const noexcept { return port_; }

 private:
  void serve() const {
    const linger at_once{1, 0};
    while (!closed_) {
      const Descriptor taken(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (taken.get() >= 0) setsockopt(taken.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
  }

  std::uint16_t port_ = 0;
  Descriptor listener_;
  std::atomic<bool> closed_ = false;
  std::thread thread_;
};

// However early in an attempt that happens, somebody was there and ended it.
TEST(Dial, IsTurnedAwayByWhoEndsEveryAttempt) {
  const Doorman doorman;
  const Clock& clock = Clock::steady();
  auto local = std::make_shared<Local>();
  local->clock = &clock;
  local->idle_timeout = std::chrono::seconds(10);
  local->backends = {std::make_shared<tcp::TcpBackend>(TcpOptions{}, std::vector<NicLimit>{}, Log{})};
  auto target = std::make_shared<Target>();
  target->local_address = "127.0.0.1";
  target->peer = sockets::SocketAddress::parse("127.0.0.1", doorman.port());
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(10), clock);
    Dial dial(local, target, deadline);
    dial.greet(Hello{}, 1);
    while (dial.last_trouble().empty() && !deadline.passed()) dial.poll();
    ASSERT_TRUE(dial.turned_away()) << attempt << ": " << dial.last_trouble();
  }
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
