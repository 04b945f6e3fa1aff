#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"
#include "tests/faults/arena.h"
#include "tests/faults/stream_proxy.h"

namespace tombolo::faults {
namespace {

using std::chrono::milliseconds;

std::vector<std::string> loopback_addresses(int nics) {
  std::vector<std::string> addresses;
  for (int nic = 0; nic < nics; ++nic) addresses.push_back(fmt::format("127.0.0.{}", nic + 1));
  return addresses;
}

class LoopbackArena final : public Arena {
 public:
  LoopbackArena(int nics, std::uint64_t seed) : proxy_(loopback_addresses(nics), seed) {}

  std::string description() const override {
    return fmt::format("loopback, {} NIC{}, every stream through a proxy", proxy_.addresses().size(),
                       proxy_.addresses().size() == 1 ? "" : "s");
  }

  topology::Host host(std::size_t end) const override {
    topology::Host host;
    host.name = end == 0 ? "left" : "right";
    for (std::size_t n = 0; n < proxy_.addresses().size(); ++n) {
      topology::Nic nic;
      nic.name = fmt::format("eth{}", n);
      nic.addresses = {proxy_.addresses()[n].address};
      nic.rate_bits_per_second = 10'000'000'000;
      if (n > 0) nic.fabric = fmt::format("path{}", n);
      host.nics.push_back(nic);
    }
    return host;
  }

  transport::Endpoint relay(transport::Endpoint endpoint) override {
    std::vector<std::uint16_t> targets(proxy_.addresses().size());
    for (transport::Offer& offer : endpoint.offers) {
      for (std::size_t n = 0; n < targets.size(); ++n) {
        if (offer.address != proxy_.addresses()[n].address) continue;
        targets[n] = offer.port;
        offer.port = proxy_.addresses()[n].port;
      }
    }
    proxy_.aim(targets);
    targets_ = targets;
    return endpoint;
  }

  std::vector<Fault> faults() override {
    auto order = [this](ProxyAction action, bool all, Duration delay = {}) {
      return [=, this](std::mt19937_64&) {
        return static_cast<int>(proxy_.order({action, all, delay}).affected);
      };
    };
    auto heal = [this] { proxy_.order({ProxyAction::kHeal}); };
    const auto short_while = milliseconds(50), long_while = milliseconds(500);
    std::vector<Fault> all;
    all.push_back({"reset", false, {}, {}, order(ProxyAction::kReset, false), {}});
    all.push_back({"reset-all", false, {}, {}, order(ProxyAction::kReset, true), {}});
    all.push_back({"half-close", false, {}, {}, order(ProxyAction::kHalfClose, false), {}});
    // A frozen stream may hold the bytes that every later message waits for. The kernel still acknowledges
    // for it, so that at first a freeze looks like a slow reader: it counts as a fault that stops everything.
    all.push_back({"freeze", true, short_while, long_while, order(ProxyAction::kFreeze, false), heal});
    all.push_back({"freeze-all", true, short_while, long_while, order(ProxyAction::kFreeze, true), heal});
    all.push_back(
        {"delay", true, short_while, long_while, order(ProxyAction::kDelay, true, milliseconds(40)), heal});
    all.push_back({"no-accept", true, short_while, long_while,
                   [this](std::mt19937_64&) {
                     proxy_.order({ProxyAction::kStopAccepting});
                     return static_cast<int>(proxy_.order({ProxyAction::kReset, true}).affected);
                   },
                   heal});
    all.push_back({"strangers", false, short_while, long_while,
                   [this](std::mt19937_64& random) { return connect_strangers(random); },
                   [this] { strangers_.clear(); }});
    return all;
  }

  void cut_all() override { proxy_.order({ProxyAction::kFreeze, true}); }

  std::vector<std::string> names(std::size_t end) const override {
    return {end == 0 ? "right" : "left", "eth"};
  }

 private:
  // Makes foreign connections to the listening port, which send noise, or nothing, and stay until the end.
  int connect_strangers(std::mt19937_64& random) {
    int made = 0;
    for (int i = 0; i < 8; ++i) {
      const std::size_t n = random() % targets_.size();
      Descriptor stranger(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_port = htons(targets_[n]);
      ::inet_pton(AF_INET, proxy_.addresses()[n].address.c_str(), &at.sin_addr);
      // Loopback answers at once, also with a refusal where the listener is closed.
      if (::connect(stranger.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 &&
          errno != EINPROGRESS) {
        continue;
      }
      std::vector<std::uint64_t> noise(random() % 100);
      for (std::uint64_t& word : noise) word = random();
      if (!noise.empty()) ::send(stranger.get(), noise.data(), noise.size() * 8, MSG_NOSIGNAL);
      strangers_.push_back(std::move(stranger));
      ++made;
    }
    return made;
  }

  StreamProxy proxy_;
  std::vector<std::uint16_t> targets_;
  std::vector<Descriptor> strangers_;
};

}  // namespace

std::unique_ptr<Arena> loopback_arena(int nics, std::uint64_t seed) {
  return std::make_unique<LoopbackArena>(nics, seed);
}

}  // namespace tombolo::faults
