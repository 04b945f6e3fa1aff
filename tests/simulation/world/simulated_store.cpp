#include "tests/simulation/world/simulated_store.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace tombolo::simulation {

using namespace collectives;
using std::chrono::microseconds;
using std::chrono::milliseconds;

SimulatedStore::State SimulatedStore::state(unsigned from) const {
  if (world_.kernel().killed(0) || world_.kernel().killed(from)) return State::kLost;
  return left_ ? State::kLeft : State::kOpen;
}

std::optional<std::vector<std::byte>> SimulatedStore::find(std::string_view key) const {
  const auto held = held_.find(key);
  if (held != held_.end() && !world_.kernel().killed(held->second)) return std::vector<std::byte>();
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

class SimulatedStore::Client final : public Store {
 public:
  Client(SimulatedStore& store, unsigned host) : store_(store), host_(host) {}
  ~Client() override { store_.held_.erase(held_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void hold(std::string_view key) override {
    take_time();
    held_ = key;
    store_.held_.insert_or_assign(held_, host_);
  }
  void set(std::string_view key, std::span<const std::byte> value) override {
    take_time();
    store_.values_.insert_or_assign(std::string(key), std::vector<std::byte>(value.begin(), value.end()));
  }
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override {
    for (Duration pause = microseconds(200);; pause = std::min<Duration>(2 * pause, milliseconds(20))) {
      if (auto value = try_get(key)) return *value;
      if (deadline.passed()) fail(Cause::kTimeout, "the store has no key '{}'", key);
      store_.world_.sleep({}, store_.world_.clock().now() + std::min(pause, deadline.remaining()));
    }
  }
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override {
    take_time();
    return store_.find(key);
  }
  std::vector<std::byte> claim(std::string_view key, std::span<const std::byte> value) override {
    take_time();
    return store_.values_.emplace(std::string(key), std::vector<std::byte>(value.begin(), value.end()))
        .first->second;
  }
  std::int64_t add(std::string_view key, std::int64_t by) override {
    take_time();
    auto& bytes = store_.values_[std::string(key)];
    std::int64_t value = 0;
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    value += by;
    bytes.resize(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return value;
  }

 private:
  void take_time() {
    World& world = store_.world_;
    world.sleep({}, world.clock().now() + microseconds(1 + world.random()() % 300));
    if (store_.state(host_) != State::kOpen) fail(Cause::kRemote, "the store is gone");
  }

  SimulatedStore& store_;
  unsigned host_;
  std::string held_;
};

class SimulatedStore::Watch final : public StoreWatch {
 public:
  Watch(SimulatedStore& store, unsigned host, std::string_view key, std::string_view presence)
      : store_(store), host_(host), key_(key), presence_(presence) {
    if (!presence_.empty()) store_.held_.emplace(presence_, host);
  }
  ~Watch() override { store_.held_.erase(presence_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  News check() override {
    if (news_ != News::kNone) return news_;
    // The store sends a value as soon as it is set, so that it comes even where the store has gone since.
    if (const auto found = store_.values_.find(key_); found != store_.values_.end()) {
      value_ = found->second;
      return news_ = News::kValue;
    }
    switch (store_.state(host_)) {
      case State::kLost:
        return news_ = News::kStoreLost;
      case State::kLeft:
        return news_ = News::kStoreLeft;
      case State::kOpen:
        break;
    }
    return News::kNone;
  }
  void ask(std::string_view key) override { asked_ = key; }
  std::optional<bool> answer() override {
    if (asked_.empty() || check() != News::kNone) return std::nullopt;
    return store_.find(std::exchange(asked_, {})).has_value();
  }
  const std::vector<std::byte>& value() const noexcept override { return value_; }
  // The end of a simulated store is seen at once.
  bool has_ended(Deadline) override {
    return store_.state(host_) == State::kLost || store_.state(host_) == State::kLeft;
  }
  // A sleeping wait looks once a second at least.
  int descriptor() const noexcept override { return -1; }

 private:
  SimulatedStore& store_;
  unsigned host_;
  std::string key_, presence_, asked_;
  News news_ = News::kNone;
  std::vector<std::byte> value_;
};

class SimulatedStore::Access final : public StoreAccess {
 public:
  Access(SimulatedStore& store, unsigned host) : store_(store), host_(host) {}

  std::unique_ptr<Store> connect(Deadline deadline, Log) const override {
    World& world = store_.world_;
    while (store_.state(host_) != State::kOpen) {
      if (deadline.passed() || world.kernel().killed(host_)) fail(Cause::kTimeout, "cannot reach the store");
      world.sleep({}, world.clock().now() + milliseconds(20));
    }
    return std::make_unique<Client>(store_, host_);
  }
  std::unique_ptr<Store> reconnect(Deadline, Log) const override {
    if (store_.state(host_) != State::kOpen) fail(Cause::kRemote, "the store is gone");
    return std::make_unique<Client>(store_, host_);
  }
  std::unique_ptr<StoreWatch> watch(std::string_view key, std::string_view presence,
                                    Deadline) const override {
    return std::make_unique<Watch>(store_, host_, key, presence);
  }

 private:
  SimulatedStore& store_;
  unsigned host_;
};

std::shared_ptr<const StoreAccess> SimulatedStore::access(unsigned host) {
  return std::make_shared<Access>(*this, host);
}

}  // namespace tombolo::simulation
