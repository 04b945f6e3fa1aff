// A way to a store that tells a test when a rank uses it, and may hold the rank there: for the orders of
// events between ranks that chance rarely gives.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "collectives/rendezvous/bootstrap.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives::test {

/// Called in the rank's own thread.
struct StoreHooks {
  std::function<void()> before_connect = [] {};
  /// Before a key is set.
  std::function<void(std::string_view key)> before_set = [](std::string_view) {};
  /// Before a key is set, to another value.
  std::function<void(std::string_view key, std::vector<std::byte>& value)> change_value =
      [](std::string_view, std::vector<std::byte>&) {};
  /// Before a key is put there in any way, of which one is to set it.
  std::function<void(std::string_view key)> before_put = [](std::string_view) {};
  /// Before a key is waited for.
  std::function<void(std::string_view key)> before_get = [](std::string_view) {};
  /// Before a look whether a key is there.
  std::function<void(std::string_view key)> before_try_get = [](std::string_view) {};
  /// Before a look whether another rank has given up, which a rank takes once it has found nothing to do.
  std::function<void(StoreWatch&)> before_look = [](StoreWatch&) {};
};

/// The hooks must outlive it and all that it makes.
class HookedStore final : public StoreAccess {
 public:
  HookedStore(std::shared_ptr<const StoreAccess> store, const StoreHooks& hooks)
      : store_(std::move(store)), hooks_(hooks) {}

  std::unique_ptr<Store> connect(Deadline deadline, Log log) const override {
    hooks_.before_connect();
    return std::make_unique<Client>(store_->connect(deadline, std::move(log)), hooks_);
  }
  std::unique_ptr<Store> reconnect(Deadline deadline, Log log) const override {
    hooks_.before_connect();
    return std::make_unique<Client>(store_->reconnect(deadline, std::move(log)), hooks_);
  }
  std::unique_ptr<StoreWatch> watch(std::string_view key, std::string_view presence,
                                    Deadline deadline) const override {
    if (!presence.empty()) hooks_.before_put(presence);
    return std::make_unique<Watch>(store_->watch(key, presence, deadline), hooks_);
  }

 private:
  class Client final : public Store {
   public:
    Client(std::unique_ptr<Store> store, const StoreHooks& hooks) : store_(std::move(store)), hooks_(hooks) {}

    void set(std::string_view key, std::span<const std::byte> value) override {
      hooks_.before_set(key);
      hooks_.before_put(key);
      std::vector<std::byte> changed(value.begin(), value.end());
      hooks_.change_value(key, changed);
      store_->set(key, changed);
    }
    std::vector<std::byte> get(std::string_view key, Deadline deadline) override {
      hooks_.before_get(key);
      return store_->get(key, deadline);
    }
    std::optional<std::vector<std::byte>> try_get(std::string_view key) override {
      hooks_.before_try_get(key);
      return store_->try_get(key);
    }
    std::vector<std::byte> claim(std::string_view key, std::span<const std::byte> value) override {
      hooks_.before_put(key);
      return store_->claim(key, value);
    }
    void hold(std::string_view key) override {
      hooks_.before_put(key);
      store_->hold(key);
    }
    std::int64_t add(std::string_view key, std::int64_t by) override {
      hooks_.before_put(key);
      return store_->add(key, by);
    }

   private:
    std::unique_ptr<Store> store_;
    const StoreHooks& hooks_;
  };

  class Watch final : public StoreWatch {
   public:
    Watch(std::unique_ptr<StoreWatch> watch, const StoreHooks& hooks)
        : watch_(std::move(watch)), hooks_(hooks) {}

    News check() override {
      hooks_.before_look(*watch_);
      return watch_->check();
    }
    void ask(std::string_view key) override {
      hooks_.before_try_get(key);
      watch_->ask(key);
    }
    std::optional<bool> answer() override { return watch_->answer(); }
    const std::vector<std::byte>& value() const noexcept override { return watch_->value(); }
    bool has_ended(Deadline deadline) override { return watch_->has_ended(deadline); }
    int descriptor() const noexcept override { return watch_->descriptor(); }

   private:
    std::unique_ptr<StoreWatch> watch_;
    const StoreHooks& hooks_;
  };

  std::shared_ptr<const StoreAccess> store_;
  const StoreHooks& hooks_;
};

/// Lets the deadlines of all ranks pass once so many have looked for the first time whether another one has
/// given up: each has told the others of itself by then, and waits for theirs. Outlives the ranks.
class FirstLooks {
 public:
  FirstLooks(HeldClock& clock, int awaited) : clock_(clock), left_(awaited) { clock_.hold(); }
  void into(Options& options) {
    auto& hooks = hooks_.at(static_cast<std::size_t>(options.identity.rank));
    hooks.before_look = [this, looked = false, most = options.deadline](StoreWatch&) mutable {
      if (!std::exchange(looked, true) && --left_ == 0) clock_.advance(most);
    };
    options.router.clock = &clock_;
    options.store =
        std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
  }

 private:
  HeldClock& clock_;
  std::atomic<int> left_;
  std::array<StoreHooks, 4> hooks_;  // by rank
};

}  // namespace tombolo::collectives::test
