// The part of NCCL that issues a profiler's events, as its proxy does: a collective, an operation of it for
// each channel and peer, steps within that, and within these what the network tells through the callback of
// its init.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <type_traits>
#include <utility>

#include "net_plugin/abi/net_events.h"
#include "net_plugin/abi/profiler.h"

namespace tombolo::net_plugin::testing_support {

/// Fails the running test where events do not pair up, are null where they must not be, or outlive what they
/// belong to. Like NCCL it runs one profiler at a time, so that one object may exist at a time.
template <typename Table>
class PretendedCore {
 public:
  /// NCCL's "phandle": what the network hands back as a parent.
  struct Step {
    PretendedCore* core = nullptr;
    void* event = nullptr;
    int rank = 0;
  };

  PretendedCore(Table& table, const char* name, std::uint64_t id, int rank, abi::ncclDebugLogger_t logger)
      : table_(table) {
    if constexpr (std::is_invocable_v<decltype(table.init), void**, int*>) {
      EXPECT_EQ(table.init(&context_, &mask_), abi::ncclSuccess);
    } else if constexpr (std::is_invocable_v<decltype(table.init), void**, int*, const char*, std::uint64_t,
                                             int, int, int, abi::ncclDebugLogger_t>) {
      EXPECT_EQ(table.init(&context_, &mask_, name, id, 2, 2, rank, logger), abi::ncclSuccess);
    } else {
      EXPECT_EQ(table.init(&context_, id, &mask_, name, 2, 2, rank, logger), abi::ncclSuccess);
    }
    active_ = this;
  }
  ~PretendedCore() {
    EXPECT_TRUE(open_.empty()) << open_.size() << " events were not stopped";
    if (context_ != nullptr) {
      EXPECT_EQ(table_.finalize(context_), abi::ncclSuccess);
    }
    active_ = nullptr;
  }
  PretendedCore(const PretendedCore&) = delete;
  PretendedCore& operator=(const PretendedCore&) = delete;

  int mask() const noexcept { return mask_; }
  std::size_t started(int type) const {
    const auto found = started_.find(type);
    return found != started_.end() ? found->second : 0;
  }

  /// What NCCL calls a task: starts the event of a collective of that name, or of a send or receive, and
  /// stops it, which NCCL does before it starts the operations that have it as their parent.
  void* run_collective(const char* name, int rank, bool point_to_point = false) {
    auto description = make(point_to_point ? abi::ncclProfileP2p : abi::ncclProfileColl, nullptr, rank);
    if constexpr (requires { description.coll.func; }) {
      if (point_to_point)
        description.p2p.func = name;
      else
        description.coll.func = name;
    }
    if ((mask_ & static_cast<int>(description.type)) == 0) return nullptr;
    void* event = nullptr;
    EXPECT_EQ(table_.startEvent(context_, &event, &description), abi::ncclSuccess);
    if (event == nullptr) return nullptr;
    ++started_[static_cast<int>(description.type)];
    EXPECT_EQ(table_.stopEvent(event), abi::ncclSuccess);
    return event;
  }
  void* start_operation(int rank, int peer, int channel, bool send, void* collective = nullptr) {
    auto description = make(abi::ncclProfileProxyOp, collective, rank);
    description.detail.proxyOp = {4711, static_cast<std::uint8_t>(channel), peer, 8, 65536, send ? 1 : 0};
    return start(description);
  }
  Step start_step(void* operation, int rank) {
    auto description = make(abi::ncclProfileProxyStep, operation, rank);
    description.detail.proxyStep.step = 0;
    return {this, start(description), rank};
  }
  void record(const Step& step, abi::ncclProfilerEventState_t state) {
    if (step.event == nullptr) return;
    Arguments arguments{};
    EXPECT_EQ(table_.recordEventState(step.event, state, &arguments), abi::ncclSuccess);
  }
  void stop(void* event) {
    if (event == nullptr) return;
    const auto found = open_.find(event);
    if (found == open_.end()) {
      ADD_FAILURE() << "an event that is not under way was stopped";
      return;
    }
    EXPECT_EQ(found->second.children, 0) << "what belongs to the event is still under way";
    if (const auto around = open_.find(found->second.parent); around != open_.end())
      --around->second.children;
    open_.erase(found);
    EXPECT_EQ(table_.stopEvent(event), abi::ncclSuccess);
  }

  /// What NCCL passes to the network's init.
  static abi::ncclResult_t callback(void** event, int type, void* parent, std::int64_t id, void* data) {
    PretendedCore* core = active_;
    if (core == nullptr) return abi::ncclSuccess;
    switch (type) {
      case abi::ncclProfilerNetEventStart:
        core->start_network_event(event, parent, id, data);
        break;
      case abi::ncclProfilerNetEventUpdateAndStop:
        if constexpr (kUpdates) {
          Arguments arguments{};
          arguments.netPlugin.data = data;
          EXPECT_EQ(core->table_.recordEventState(*event, abi::ncclProfilerNetPluginUpdate, &arguments),
                    abi::ncclSuccess);
        }
        core->stop(*event);
        break;
      default:
        EXPECT_EQ(type, abi::ncclProfilerNetEventStop);
        EXPECT_NE(*event, nullptr);
        core->stop(*event);
    }
    return abi::ncclSuccess;
  }

 private:
  struct Open {
    void* parent = nullptr;
    int children = 0;
  };
  // What the last argument of startEvent and of recordEventState points to.
  template <typename Result, typename A, typename B, typename C>
  static std::remove_pointer_t<C> third(Result (*)(A, B, C));
  using Description = decltype(third(std::declval<Table>().startEvent));
  using Arguments = decltype(third(std::declval<Table>().recordEventState));
  static constexpr bool kUpdates = requires(Arguments arguments) { arguments.netPlugin; };

  static Description make(int type, void* parent, int rank) {
    Description description{};
    description.type = static_cast<decltype(description.type)>(type);
    description.parentObj = parent;
    description.rank = rank;
    return description;
  }
  void* start(Description& description) {
    const int type = static_cast<int>(description.type);
    if ((mask_ & type) == 0) return nullptr;
    void* event = nullptr;
    EXPECT_EQ(table_.startEvent(context_, &event, &description), abi::ncclSuccess);
    if (event == nullptr) return nullptr;
    EXPECT_TRUE(open_.emplace(event, Open{description.parentObj, 0}).second)
        << "the event is under way already";
    if (const auto around = open_.find(description.parentObj); around != open_.end())
      ++around->second.children;
    ++started_[type];
    return event;
  }
  void start_network_event(void** event, void* parent, std::int64_t id, void* data) {
    ASSERT_NE(parent, nullptr) << "NCCL would read it";
    EXPECT_EQ(*event, nullptr);
    const auto& step = *static_cast<Step*>(parent);
    auto description = make(abi::ncclProfileNetPlugin, step.event, step.rank);
    description.detail.netPlugin = {id, data};
    *event = start(description);
  }

  inline static PretendedCore* active_ = nullptr;
  Table& table_;
  void* context_ = nullptr;
  int mask_ = -1;
  std::map<void*, Open> open_;
  std::map<int, std::size_t> started_;
};

}  // namespace tombolo::net_plugin::testing_support
