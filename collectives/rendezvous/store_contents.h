// What the store does with its clients' requests, without sockets and threads: keys, values, and who waits
// for which key.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/rendezvous/store_limits.h"
#include "collectives/rendezvous/store_protocol.h"

namespace tombolo::collectives {

/// Bytes that the store may still keep. Not thread-safe.
class StoreBudget {
 public:
  /// Taken bytes; they are given back at its end.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept : from_(other.from_), bytes_(other.bytes_) { other.from_ = nullptr; }
    Share& operator=(Share&& other) noexcept {
      std::swap(from_, other.from_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (from_ != nullptr) from_->taken_ -= bytes_;
    }

   private:
    friend class StoreBudget;
    Share(StoreBudget* from, std::size_t bytes) noexcept : from_(from), bytes_(bytes) {}
    StoreBudget* from_ = nullptr;
    std::size_t bytes_ = 0;
  };

  explicit StoreBudget(std::size_t bytes) noexcept : bytes_(bytes) {}
  StoreBudget(const StoreBudget&) = delete;
  StoreBudget& operator=(const StoreBudget&) = delete;

  std::size_t taken() const noexcept { return taken_; }
  /// Throws kRemote where the store is full.
  Share take(std::size_t bytes);

 private:
  std::size_t bytes_;
  std::size_t taken_ = 0;
};

/// One thread at a time.
class StoreContents {
 public:
  /// A value may outlive its key: answers that are under way share it. All must end before the contents.
  struct Value {
    std::vector<std::byte> bytes;
    StoreBudget::Share share = {};
  };
  using SharedValue = std::shared_ptr<const Value>;

  /// The receiver of one client's answers.
  class Client {
   public:
    virtual void answer(store::Kind kind, std::uint32_t request, SharedValue value) noexcept = 0;

   protected:
    Client() = default;
    ~Client() = default;

   private:
    friend class StoreContents;
    struct Waiting {
      std::string key;
      std::uint32_t request;
    };
    std::optional<Waiting> waiting_;
    std::optional<std::string> held_;
  };

  explicit StoreContents(const StoreLimits& limits) : most_keys_(limits.keys), budget_(limits.bytes) {}

  /// Carries out a request: answers it now or, a kGet, when its key is set. A client has one request at a
  /// time: a further one says that it does not wait for the one before any more. Throws kRemote where it is
  /// no request; its client is then to be dropped.
  void serve(Client& client, const store::Frame& request);
  /// To be called before a client ends: it waits for nothing any more, and the key that it holds goes, unless
  /// another one has set that since.
  void leave(Client& client) noexcept;

  StoreBudget& budget() noexcept { return budget_; }
  std::size_t keys() const noexcept { return entries_.size(); }
  /// How many clients wait for a key.
  std::size_t waiting() const noexcept;

 private:
  struct Entry {
    SharedValue value;
    StoreBudget::Share share;  // of the key
    const Client* holder = nullptr;
  };
  void stop_waiting(Client& client) noexcept;
  void hold(Client& client, const store::Frame& request);
  void wait(Client& client, const store::Frame& request);
  /// Throws kRemote, without having changed anything, where the store is full.
  const SharedValue& put(std::string_view key, std::span<const std::byte> bytes);
  SharedValue sum(const store::Frame& request, const Entry* old);

  std::size_t most_keys_;
  StoreBudget budget_;  // outlives the shares below
  std::unordered_map<std::string, Entry> entries_;
  std::unordered_map<std::string, std::set<Client*>> waiters_;
};

}  // namespace tombolo::collectives
