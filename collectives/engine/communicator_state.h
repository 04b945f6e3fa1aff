// The inside of a communicator: what its calls share.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/abort_signal.h"
#include "collectives/engine/communicator.h"
#include "collectives/engine/executor.h"
#include "collectives/engine/mesh.h"
#include "collectives/engine/point_to_point.h"
#include "collectives/schedule/layout.h"

namespace tombolo::collectives {

/// What a schedule was made for.
struct ScheduleKey {
  Collective collective = Collective::kBarrier;
  Problem problem;
  bool in_place = false;
  bool operator==(const ScheduleKey& other) const noexcept {
    return collective == other.collective && problem.count == other.problem.count &&
           problem.element_bytes == other.problem.element_bytes && problem.average == other.problem.average &&
           problem.root == other.problem.root && in_place == other.in_place;
  }
};

struct Communicator::State {
  explicit State(Options given);
  ~State();

  /// Meets the others of `prefix` at the store, and is ready. Throws naming who did not come.
  void join();
  /// Options::make_secret: the one that rank 0 has made.
  transport::Secret agree_on_secret(Store& store, Deadline deadline);
  /// Routing::kShared: restricts the policy to the kind of NIC that all ranks share.
  void agree_on_kind(Store& store, Deadline deadline);

  // --- what calls do
  /// The schedule that the call wants; throws kInvalidUsage where its arguments cannot be right.
  ScheduleKey check(const CollectiveCall& call) const;
  void run(const CollectiveCall& call);
  void wait(Work work);
  const Schedule& schedule_for(const ScheduleKey& key);
  bool use_two_level() const;
  /// Throws what broke the communicator, if anything did.
  void require_usable();
  void check_peer(int peer, std::string_view what) const;
  /// One turn of progress on everything; true if anything moved.
  bool turn();
  /// Turns and sleeps until `done`. `what` describes the operation, for errors.
  void wait_until(const std::function<bool()>& done, const std::function<std::string()>& what);
  void sleep(Duration most);
  /// Something failed here: tells the others, closes every connection, throws.
  [[noreturn]] void give_up(Cause cause, const std::string& text);
  [[noreturn]] void stop(Cause cause, const std::string& text);
  /// After a timeout: which ranks do not wait as well, for in a ring everybody waits for a neighbour.
  std::string name_absent() noexcept;
  void look_for_trouble(const std::function<std::string()>& what);
  /// Throws when another rank has given up, or the store has vanished.
  void heed_others(const std::function<std::string()>& what);
  void take_leave() noexcept;

  Options options;
  Rendezvous rendezvous;
  std::shared_ptr<transport::Router> router;  ///< shared with those made by split()
  std::shared_ptr<StoreServer> server;        ///< rank 0; shared with those made by split()
  std::vector<Member> members;
  Layout layout;
  std::unique_ptr<Mesh> mesh;  ///< null for a single rank
  std::unique_ptr<AbortSignal> signal;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<PointToPoint> messages;
  std::optional<Error> broken;
  std::list<std::pair<ScheduleKey, Schedule>> schedules;  ///< most recently used first
  std::vector<pollfd> handles;
  Duration spin{};  ///< before sleeping
  std::uint64_t operations = 0;
  std::uint64_t polls = 0;  ///< calls of progress()
  int splits = 0;
  std::string_view last_algorithm = "none";
};

}  // namespace tombolo::collectives
