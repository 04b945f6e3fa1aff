// The store's contents beside a simple model of them, for its unit test and its fuzz target: whatever the
// requests, both must answer the same.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/rendezvous/store_contents.h"

namespace tombolo::collectives::test {

/// An answer as a client gets it.
struct Answered {
  store::Kind kind = store::Kind::kServerClosing;  ///< of no answer at all
  std::uint32_t request = 0;
  std::string text;

  bool operator==(const Answered&) const = default;
};

struct TestClient final : StoreContents::Client {
  void answer(store::Kind kind, std::uint32_t request, StoreContents::SharedValue value) noexcept override {
    answers.push_back({kind, request,
                       std::string(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size())});
    if (keep) kept.push_back(std::move(value));
  }
  std::vector<Answered> answers;
  bool keep = false;  ///< keeps the values, as a client does that does not read
  std::vector<StoreContents::SharedValue> kept;
};

class StoreModel {
 public:
  static constexpr std::size_t kClients = 4;

  explicit StoreModel(const StoreLimits& limits) : contents_(limits), limits_(limits) {}

  /// Gives both the request; what differs, or nothing.
  std::string step(std::size_t client, store::Kind kind, const std::string& key, const std::string& value) {
    const std::uint32_t request = ++last_request_;
    for (auto& one : clients_) one.answers.clear();
    contents_.serve(clients_[client], {kind, request, key, std::as_bytes(std::span(value))});
    const bool refused =
        !clients_[client].answers.empty() && clients_[client].answers.back().kind == store::Kind::kRefused;
    const auto found = values_.find(key);
    const bool no_counter = kind == store::Kind::kAdd &&
                            (value.size() != 8 || (found != values_.end() && found->second.size() != 8));
    const bool holds_another = kind == store::Kind::kHold && held_[client] && *held_[client] != key;
    const bool full = refused && !no_counter && !holds_another;
    if (full && values_.size() < limits_.keys && contents_.budget().taken() + 2 * kMostPerKey < limits_.bytes)
      return "refused although there is room";
    const auto expected = full ? refusal(client, request) : answer(client, kind, key, value, request);
    for (std::size_t i = 0; i < kClients; ++i) {
      if (!same(clients_[i].answers, expected[i]))
        return "client " + std::to_string(i) + " is answered otherwise";
    }
    if (contents_.keys() != values_.size()) return "another number of keys";
    std::size_t waiting = 0;
    for (const auto& one : waiting_) waiting += one.has_value() ? 1 : 0;
    if (contents_.waiting() != waiting) return "another number of waiting clients";
    if (contents_.budget().taken() > limits_.bytes || contents_.keys() > limits_.keys)
      return "beyond a limit";
    return {};
  }
  void leave(std::size_t client) {
    contents_.leave(clients_[client]);
    waiting_[client].reset();
    if (!held_[client]) return;
    const auto holder = holders_.find(*held_[client]);
    if (holder != holders_.end() && holder->second == client) {
      values_.erase(holder->first);
      holders_.erase(holder);
    }
    held_[client].reset();
  }

 private:
  static constexpr std::size_t kMostPerKey = 8192;  // keys and values of the tests are shorter
  using Answers = std::array<std::vector<Answered>, kClients>;

  /// Refusals say why in words of their own.
  static bool same(const std::vector<Answered>& left, const std::vector<Answered>& right) {
    if (left.size() != right.size()) return false;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i].kind != right[i].kind || left[i].request != right[i].request) return false;
      if (left[i].kind != store::Kind::kRefused && left[i].text != right[i].text) return false;
    }
    return true;
  }
  Answers refusal(std::size_t client, std::uint32_t request) {
    waiting_[client].reset();
    Answers answers;
    answers[client].push_back({store::Kind::kRefused, request, {}});
    return answers;
  }
  Answers answer(std::size_t client, store::Kind kind, const std::string& key, const std::string& value,
                 std::uint32_t request) {
    if (kind != store::Kind::kTryGet) waiting_[client].reset();
    Answers answers;
    const auto found = values_.find(key);
    const bool known = found != values_.end();
    const auto set = [&](const std::string& to) {
      values_[key] = to;
      holders_.erase(key);
      for (std::size_t i = 0; i < kClients; ++i) {
        if (!waiting_[i] || waiting_[i]->first != key) continue;
        answers[i].push_back({store::Kind::kValue, waiting_[i]->second, to});
        waiting_[i].reset();
      }
    };
    const auto reply = [&](store::Kind with, const std::string& text) {
      answers[client].push_back({with, request, text});
    };
    switch (kind) {
      case store::Kind::kSet:
        set(value);
        reply(store::Kind::kValue, "");
        break;
      case store::Kind::kGet:
        if (known)
          reply(store::Kind::kValue, found->second);
        else
          waiting_[client] = {key, request};
        break;
      case store::Kind::kTryGet:
        reply(known ? store::Kind::kValue : store::Kind::kAbsent, known ? found->second : "");
        break;
      case store::Kind::kHold:
        if (held_[client] && *held_[client] != key) {
          reply(store::Kind::kRefused, "");
          break;
        }
        set(value);
        held_[client] = key;
        holders_[key] = client;
        reply(store::Kind::kValue, "");
        break;
      case store::Kind::kClaim:
        if (!known) set(value);
        reply(store::Kind::kValue, values_[key]);
        break;
      default: {
        if (value.size() != 8 || (known && found->second.size() != 8)) {
          reply(store::Kind::kRefused, "");
          break;
        }
        std::uint64_t by = 0, sum = 0;
        std::memcpy(&by, value.data(), sizeof by);
        if (known) std::memcpy(&sum, found->second.data(), sizeof sum);
        sum += by;
        set(std::string(reinterpret_cast<const char*>(&sum), sizeof sum));
        reply(store::Kind::kValue, values_[key]);
      }
    }
    return answers;
  }

  StoreContents contents_;
  StoreLimits limits_;
  std::array<TestClient, kClients> clients_;
  std::uint32_t last_request_ = 0;
  std::map<std::string, std::string> values_;
  std::array<std::optional<std::pair<std::string, std::uint32_t>>, kClients> waiting_;
  std::array<std::optional<std::string>, kClients> held_;
  std::map<std::string, std::size_t> holders_;  // of keys that go with a client
};

}  // namespace tombolo::collectives::test
