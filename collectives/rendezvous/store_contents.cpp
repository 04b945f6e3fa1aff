#include "collectives/rendezvous/store_contents.h"

#include <cstring>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::collectives {
namespace {

/// What an entry, and a value, take besides their bytes; rounded up.
constexpr std::size_t kEntryOverhead = 128, kValueOverhead = 96;

StoreContents::SharedValue plain_value(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return std::make_shared<StoreContents::Value>(
      StoreContents::Value{std::vector<std::byte>(bytes.begin(), bytes.end())});
}

const StoreContents::SharedValue& no_value() {
  static const StoreContents::SharedValue value = plain_value("");
  return value;
}

}  // namespace

StoreBudget::Share StoreBudget::take(std::size_t bytes) {
  if (bytes > bytes_ - taken_) {
    fail(Cause::kRemote, "the store is full: {} more do not fit its {}", format_size(bytes),
         format_size(bytes_));
  }
  taken_ += bytes;
  return {this, bytes};
}

void StoreContents::serve(Client& client, const store::Frame& request) {
  // A question does not end a wait: what is set meanwhile would be missed where the store ends then.
  if (request.kind != store::Kind::kTryGet) stop_waiting(client);
  const auto found = entries_.find(std::string(request.key));
  const Entry* known = found != entries_.end() ? &found->second : nullptr;
  const auto answer = [&](store::Kind kind, SharedValue value) {
    client.answer(kind, request.request, std::move(value));
  };
  switch (request.kind) {
    case store::Kind::kGet:
      if (known != nullptr) return answer(store::Kind::kValue, known->value);
      wait(client, request);
      return;
    case store::Kind::kTryGet:
      if (known != nullptr) return answer(store::Kind::kValue, known->value);
      return answer(store::Kind::kAbsent, no_value());
    case store::Kind::kSet:
    case store::Kind::kClaim:
    case store::Kind::kAdd:
    case store::Kind::kHold:
      break;
    default:
      fail(Cause::kRemote, "unknown request {}", static_cast<int>(request.kind));
  }
  SharedValue value = no_value();
  try {
    if (request.kind == store::Kind::kAdd) {
      value = sum(request, known);
    } else if (request.kind == store::Kind::kSet) {
      put(request.key, request.value);
    } else if (request.kind == store::Kind::kHold) {
      hold(client, request);
    } else {
      value = known != nullptr ? known->value : put(request.key, request.value);
    }
  } catch (const Error& refusal) {
    return answer(store::Kind::kRefused, plain_value(refusal.what()));
  }
  answer(store::Kind::kValue, std::move(value));
}

void StoreContents::hold(Client& client, const store::Frame& request) {
  const std::string key(request.key);
  if (client.held_ && *client.held_ != key)
    fail(Cause::kRemote, "this client holds '{}' already, and one key at most", *client.held_);
  put(key, request.value);
  client.held_ = key;
  entries_.at(key).holder = &client;
}

void StoreContents::wait(Client& client, const store::Frame& request) {
  Client::Waiting waiting{std::string(request.key), request.request};
  waiters_[waiting.key].insert(&client);
  client.waiting_ = std::move(waiting);
}

StoreContents::SharedValue StoreContents::sum(const store::Frame& request, const Entry* old) {
  std::uint64_t by = 0, value = 0;
  if (request.value.size() != sizeof(by) || (old != nullptr && old->value->bytes.size() != sizeof(value)))
    fail(Cause::kRemote, "the key holds no counter");
  std::memcpy(&by, request.value.data(), sizeof(by));
  if (old != nullptr) std::memcpy(&value, old->value->bytes.data(), sizeof(value));
  value += by;
  return put(request.key, std::as_bytes(std::span(&value, 1)));
}

const StoreContents::SharedValue& StoreContents::put(std::string_view key, std::span<const std::byte> bytes) {
  if (bytes.size() > store::kMaxValue) {
    fail(Cause::kRemote, "a value of {} bytes; at most {}", bytes.size(), store::kMaxValue);
  }
  const std::string name(key);
  auto entry = entries_.find(name);
  auto share = budget_.take(bytes.size() + kValueOverhead);
  auto value = std::make_shared<Value>(Value{{bytes.begin(), bytes.end()}, std::move(share)});
  if (entry == entries_.end()) {
    if (entries_.size() >= most_keys_) fail(Cause::kRemote, "the store is full: it has {} keys", most_keys_);
    auto of_key = budget_.take(name.size() + kEntryOverhead);
    entry = entries_.emplace(name, Entry{std::move(value), std::move(of_key)}).first;
  } else {
    entry->second.value = std::move(value);
    entry->second.holder = nullptr;
  }
  const auto waiting = waiters_.find(name);
  if (waiting == waiters_.end()) return entry->second.value;
  const std::set<Client*> all = std::move(waiting->second);
  waiters_.erase(waiting);
  for (Client* const client : all) {
    const std::uint32_t request = client->waiting_->request;
    client->waiting_.reset();
    client->answer(store::Kind::kValue, request, entry->second.value);
  }
  return entry->second.value;
}

void StoreContents::leave(Client& client) noexcept {
  stop_waiting(client);
  if (!client.held_) return;
  const auto held = entries_.find(*client.held_);
  if (held != entries_.end() && held->second.holder == &client) entries_.erase(held);
  client.held_.reset();
}

void StoreContents::stop_waiting(Client& client) noexcept {
  if (!client.waiting_) return;
  const auto all = waiters_.find(client.waiting_->key);
  all->second.erase(&client);
  if (all->second.empty()) waiters_.erase(all);
  client.waiting_.reset();
}

std::size_t StoreContents::waiting() const noexcept {
  std::size_t clients = 0;
  for (const auto& [key, all] : waiters_) clients += all.size();
  return clients;
}

}  // namespace tombolo::collectives
