// What the communicators of a process do on the network, put together from NCCL's events: an operation of the
// proxy (one channel with one peer) has steps, and a step has the messages that the network tells of.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "net_plugin/abi/profiler_types.h"
#include "net_plugin/comms/events.h"
#include "transport/observe/meters.h"
#include "transport/observe/tracer.h"

namespace tombolo::net_plugin {

/// What a step of the proxy waits for.
enum class StepWait : std::uint8_t { kNothing, kGpu, kPeer, kNetwork, kFlush };
inline constexpr std::size_t kStepWaits = 5;

/// The messages of one direction between a rank and a peer on one channel, for one kind of collective.
struct ProfileKey {
  int rank = 0, peer = 0, channel = 0;
  bool send = false;
  /// "AllReduce", "Send", ...; empty where NCCL did not say. The text is the Profile's, or lives as long.
  std::string_view collective = {};
  // clang-tidy takes the 0 with which the compiler compares for one written here.
  auto operator<=>(const ProfileKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct ProfileCounts {
  std::uint64_t messages = 0, bytes = 0;
  Duration in_flight{};  ///< of all messages together, from posted to seen to be done

  ProfileCounts& operator+=(const ProfileCounts& other);
};

/// The messages that took one route.
struct ProfileWay {
  std::string transport, local_nic, peer_nic;
  ProfileCounts counts;
};

struct ProfileRow {
  /// In the order of their first messages: several where a connection went on over another way, or where
  /// several connections take different ones.
  std::vector<ProfileWay> ways;
  std::array<Duration, kStepWaits> waited{};  ///< of all steps together, by StepWait

  /// The index in `ways`, added where it is missing.
  std::size_t way_of(std::string_view transport, std::string_view local_nic, std::string_view peer_nic);
  ProfileCounts total() const;
  ProfileRow& operator+=(const ProfileRow& other);
};

/// An event under way: NCCL's handle of it.
struct ProfileEvent {
  enum class Kind : std::uint8_t { kFree, kCollective, kOperation, kStep, kMessage };
  Kind kind = Kind::kFree;
  std::uint64_t communicator = 0;
  ProfileKey key;
  TimePoint since{};  ///< kMessage: when it was posted; kStep: since when it waits
  StepWait waits = StepWait::kNothing;
  std::uint64_t connection = 0, lane = 0, bytes = 0;
  std::size_t way = 0;  ///< kMessage: of the row
  ProfileEvent* next_free = nullptr;
};

/// May be used by any thread at any time. Events that are null are ignored: NCCL has them where it asked for
/// none. A parent is read when its child starts and not later, so events may be stopped in any order.
class Profile {
 public:
  using Rows = std::map<ProfileKey, ProfileRow>;

  /// `tracer` may be null; it and the clock must outlive this.
  explicit Profile(transport::Tracer* tracer, const Clock& clock = Clock::steady());

  /// Begins a communicator and returns its number. `name` is shown in the trace.
  std::uint64_t open(std::string name);
  /// Ends it and returns its sums. What is still under way is not counted any more.
  Rows close(std::uint64_t communicator);
  /// The sums so far of all communicators, those that ended too, over channels.
  Rows sums() const;
  /// Communicators that were begun and not ended.
  std::size_t communicators() const;

  /// NCCL's handle of a collective, or of a send or receive, of that name: the same for all that have it,
  /// since NCCL stops a collective's event before it starts the operations that belong to it. Null for more
  /// than 64 different names.
  ProfileEvent* start_collective(std::string_view name);
  /// `collective`: NCCL's handle of what the operation belongs to. One that is not of this Profile, as where
  /// the operation is another process's, counts as null.
  ProfileEvent* start_operation(std::uint64_t communicator, const ProfileKey& key,
                                const void* collective = nullptr);
  /// Null where `operation` is.
  ProfileEvent* start_step(ProfileEvent* operation);
  /// Null where `step` is.
  ProfileEvent* start_message(ProfileEvent* step, const NetEvent& described);
  void waits(ProfileEvent* step, StepWait wait);
  void update(ProfileEvent* message, const NetEvent& described);
  void stop(ProfileEvent* event);

 private:
  struct Communicator {
    std::string name;
    Rows rows;
    /// In the trace, by connection and way; connection 0 is the lane of what the steps wait for.
    std::map<std::tuple<ProfileKey, std::uint64_t, std::size_t>, std::uint64_t> lanes;
  };

  ProfileEvent* take(ProfileEvent::Kind kind, std::uint64_t communicator, const ProfileKey& key);
  Communicator* find(std::uint64_t communicator);
  /// Notes by which way the message goes.
  void takes(Communicator& communicator, ProfileEvent& message, const NetEvent& described);
  /// `route`: null for the lane of what the steps wait for.
  std::uint64_t lane_of(Communicator& communicator, const ProfileEvent& event, const transport::Route* route);
  void end_wait(ProfileEvent& step, TimePoint now);
  void finish(const ProfileEvent& message, TimePoint now);

  transport::Tracer* tracer_;
  const Clock& clock_;
  mutable std::mutex lock_;
  std::uint64_t last_communicator_ = 0, last_lane_ = 0;
  std::map<std::uint64_t, Communicator> communicators_;
  Rows ended_;
  std::map<std::string, ProfileEvent, std::less<>> collectives_;  // by name
  std::deque<ProfileEvent> events_;                               // which stay where they are
  ProfileEvent* free_ = nullptr;
};

/// What a step waits for from the state on that NCCL names; kNothing for other states.
StepWait wait_of(abi::ncclProfilerEventState_t state);

/// sums() as series for the meters: messages, bytes, time in flight, and what steps waited for. Labels: rank,
/// peer_rank, direction ("send", "receive"), collective, transport, nic, peer_nic.
std::vector<transport::SeriesFamily> series_of(const Profile::Rows& sums);

/// One line for a row: peers, channel, collective, route, messages, bytes, and what was waited for.
std::string describe(const ProfileKey& key, const ProfileRow& row);

/// One line for each kind of collective that has a name: its messages of both directions, and what they
/// waited for.
std::vector<std::string> describe_collectives(const Profile::Rows& rows);

}  // namespace tombolo::net_plugin
