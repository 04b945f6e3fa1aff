// settle() passes over sockets of which nothing has changed and nothing is due. Two networks that see the
// same calls must not differ, though one is told before each that everything has changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/format.h"
#include "base/randomized_test.h"
#include "tests/simulation/pretended/network.h"

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Side {
 public:
  Side(std::uint64_t seed, bool looks_at_all) : random_(seed), looks_at_all_(looks_at_all) {
    clock_.advance(seconds(1000));
    listener_ = made();
    listener_->own = {address_of(1, 0), 7000};
    network_.listen(listener_, 3);
  }

  /// One call, which follows from `kind` and `number` alone.
  void take_step(unsigned kind, std::uint64_t number) {
    switch (kind) {
      case 0:
        open_.push_back(made());
        open_.back()->own = {address_of(0, 0), 0};
        if (number % 3 == 0) ask_for_keepalives(*open_.back());
        network_.connect(open_.back(), listener_->own);
        break;
      case 1:
        settle();
        if (listener_->waiting.empty()) break;
        open_.push_back(listener_->waiting.front());
        known_.push_back(open_.back());
        listener_->waiting.pop_front();
        open_.back()->open = true;
        open_.back()->note_change();
        break;
      case 2:
        clock_.advance(Duration(static_cast<Duration::rep>(number % 30'000'000)));
        break;
      case 3:
        network_.set_silent(0, number % 4 == 0);
        break;
      case 4:
        clock_.advance(seconds(number % 8));
        break;
      default:
        if (!open_.empty()) use(kind, number, number % open_.size());
    }
    settle();
  }

  std::string seen() {
    std::string text = fmt::format(
        "{} there", std::ranges::count_if(known_, [](const auto& one) { return !one.expired(); }));
    if (const auto next = network_.next()) text += fmt::format(", next {}", next->time_since_epoch().count());
    for (const auto& one : open_)
      text += fmt::format("; {} {} {} {} {} {} {}", static_cast<int>(one->state), one->error, one->in_edges,
                          one->out_edges, one->in ? one->in->arrived : 0, one->in && one->in->ended,
                          one->out ? one->out->unacknowledged() : 0);
    return text;
  }

 private:
  std::shared_ptr<Socket> made() {
    auto socket = std::make_shared<Socket>();
    known_.push_back(socket);
    return socket;
  }
  static void ask_for_keepalives(Socket& socket) {
    socket.keepalive_idle = seconds(2);
    socket.keepalive_interval = seconds(1);
    socket.keepalive_probes = 2;
    socket.note_change();
  }
  void settle() {
    if (looks_at_all_) {
      for (const auto& one : known_)
        if (const auto socket = one.lock()) socket->note_change();
      for (const auto& one : listener_->waiting) one->note_change();
    }
    network_.settle();
  }
  void use(unsigned kind, std::uint64_t number, std::size_t at) {
    Socket& socket = *open_[at];
    std::vector<std::byte> bytes(number % 70'000);
    switch (kind) {
      case 5:
        network_.shut_write(socket);
        break;
      case 6:
        network_.reset(socket, number % 2 == 0, number % 3 != 0);
        break;
      case 7:
        network_.close(open_[at]);
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 8:
      case 9:
        network_.read(socket, bytes, false);
        break;
      default:
        network_.write(socket, bytes);
    }
  }

  FakeClock clock_;
  std::mt19937_64 random_;
  Network network_{clock_, random_};
  bool looks_at_all_;
  std::shared_ptr<Socket> listener_;
  std::vector<std::shared_ptr<Socket>> open_;
  std::vector<std::weak_ptr<Socket>> known_;
};

TEST(NetworkArrivals, ArriveAsIfAllSocketsWereLookedAt) {
  const unsigned seed = test_seed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < test_rounds(300); ++round) {
    Side side(seed + static_cast<unsigned>(round), false), all(seed + static_cast<unsigned>(round), true);
    for (int step = 0; step < 120; ++step) {
      const auto kind = static_cast<unsigned>(random() % 20);
      const std::uint64_t number = random();
      side.take_step(kind, number);
      all.take_step(kind, number);
      ASSERT_EQ(side.seen(), all.seen()) << "round " << round << ", step " << step << " of kind " << kind;
    }
  }
}

}  // namespace
}  // namespace tombolo::simulation
