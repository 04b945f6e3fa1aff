// A way to a store that tells a test when a rank uses it, and may hold the rank there: for the orders of
// events between ranks that chance rarely gives.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "collectives/rendezvous/bootstrap.h"

namespace tombolo::collectives::test {

/// Called in the rank's own thread.
struct StoreHooks {
  std::function<void()> before_connect = [] {};
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
    return store_->connect(deadline, std::move(log));
  }
  std::unique_ptr<StoreWatch> watch(std::string_view key, Deadline deadline) const override {
    return std::make_unique<Watch>(store_->watch(key, deadline), hooks_);
  }

 private:
  class Watch final : public StoreWatch {
   public:
    Watch(std::unique_ptr<StoreWatch> watch, const StoreHooks& hooks)
        : watch_(std::move(watch)), hooks_(hooks) {}

    News check() override {
      hooks_.before_look(*watch_);
      return watch_->check();
    }
    const std::vector<std::byte>& value() const noexcept override { return watch_->value(); }
    int descriptor() const noexcept override { return watch_->descriptor(); }

   private:
    std::unique_ptr<StoreWatch> watch_;
    const StoreHooks& hooks_;
  };

  std::shared_ptr<const StoreAccess> store_;
  const StoreHooks& hooks_;
};

}  // namespace tombolo::collectives::test
