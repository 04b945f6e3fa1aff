// The private part of a communicator: what its functions share.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/abort/abort_signal.h"
#include "collectives/discovery/discover.h"
#include "collectives/discovery/network_facts.h"
#include "collectives/discovery/network_watch.h"
#include "collectives/engine/channels.h"
#include "collectives/engine/communicator.h"
#include "collectives/engine/mesh.h"
#include "collectives/engine/point_to_point.h"
#include "collectives/engine/progress_thread.h"
#include "collectives/engine/rank_record.h"
#include "collectives/engine/started_collective.h"
#include "collectives/engine/stuck_reporter.h"
#include "collectives/engine/work_table.h"
#include "collectives/host/host_collective.h"
#include "collectives/liveness/absent_ranks.h"
#include "collectives/schedule/choice.h"
#include "collectives/stuck/operation_ring.h"

namespace tombolo::collectives {

enum class Phase : std::uint8_t {
  kOpen,
  kFinalized,  ///< finalize() has ended: every operation is refused
  kFailed,     ///< State::failure says why; every operation throws it
};

/// Where a communicator with these options meets.
Rendezvous rendezvous_of(const Options& options);

/// This rank's store on standby.
struct OwnStandby {
  OwnStandby(const std::string& at, const transport::Secret& secret, const Log& log)
      : address(at), server(at, 0, secret, log, {}, {}, StoreServer::Begin::kOnDemand) {}
  std::string address;  ///< by which others know it
  StoreServer server;
};

struct Communicator::State {
  explicit State(Options given);
  ~State();

  /// Exchanges addresses and settings with the other ranks of `rendezvous` through the store; afterwards the
  /// communicator is ready. Throws naming the ranks that did not arrive, and sooner than after the deadline
  /// those that can come no more.
  void set_up(const MayCome& may_come = {});
  /// With Options::make_secret: the secret that rank 0 has made for the job's connections.
  transport::Secret agree_on_secret(Store& store, Deadline deadline);
  /// Where `standby` is for the others; makes it where there is none yet. With `router`.
  StandbyStore own_standby();
  /// The key of what the rank has published.
  std::string record_key(int rank) const;
  /// For errors: "rank 2 on host a", and where it had another number in the communicator that this one was
  /// shrunk from, "rank 2 (rank 5 before the shrink) on host a".
  std::string name_rank(int rank) const;
  /// For errors: that rank, or else what is known of the process.
  std::string name_store_keeper() const;
  /// With Routing::kShared: restricts the policy to the kind of NIC that all ranks share.
  void agree_on_kind(Store& store, Deadline deadline);

  /// Makes `discovery` where no host has a cluster, and the options want that.
  void discover(Store& store, Deadline deadline);

  /// Takes the tuning table that rank 0 has read, with Options::tuning_file, where it is for such a job.
  void agree_on_tuning(Store& store, Deadline deadline);
  /// What `of` sets in the store. Throws once another rank has given up, and naming that one and what it `did
  /// not` do after the deadline.
  std::vector<std::byte> await_rank(Store& store, const std::string& key, int of, Deadline deadline,
                                    std::string_view did_not);
  JobShape shape() const { return JobShape::of(locations(), options.routing == Routing::kShared); }

  /// What is known of the network. `locations()`, which must outlive the call.
  NetworkFacts facts_of(const std::vector<RankLocation>& where) const;
  /// Of what this rank knows of the links before it measures any; 0: nothing.
  std::uint64_t links_digest() const;
  /// Makes `rank_map`, and `costs` where enough is known: the same on every rank.
  void arrange_ranks();
  void weigh_network();

  /// Host and cluster of each rank; islands where clusters were not declared.
  std::vector<RankLocation> locations() const;

  /// Whether the settings, which are the same on every rank, allow HostCollective.
  bool may_use_host_memory() const;
  /// Whether this rank may read the buffers of others of its host, as the settings say.
  Reach reach_in_host() const;

  // --- what it does where the network is not as it was found
  /// Makes `watch` where this communicator has found islands.
  void begin_to_watch();
  /// Of a call that is about to begin, alike on all ranks. Returns what to note of it, where it can be noted:
  /// it `moves` from now on, and no other collective is under way.
  struct WatchedCall {
    std::size_t number = 0;
    TimePoint since{};
    std::vector<std::uint64_t> before;  ///< received_by_rank()
  };
  std::optional<WatchedCall> count_call(const ScheduleKey& key, bool moves);
  /// No collective is under way any more: notes what the watched one attained.
  void note_watched();
  /// Bytes that collectives have received from each rank.
  std::vector<std::uint64_t> received_by_rank() const;
  /// Where a check of the network is due, and no rank can go on from that blocking call before all have come
  /// to it: exchanges what all have seen, and where the network is not as it was found, lets the hosts
  /// measure.
  void check_network_before(const CollectiveCall& call);
  /// Null where this rank cannot reach it.
  std::unique_ptr<Store> store_for_renewal();
  /// `store`: null where this rank cannot reach it. `what` describes the call that waits.
  NetworkWatch::Judgement exchange_reports(const Store* store, const std::function<std::string()>& what);
  /// Collective: the hosts measure again, and later calls go by what they find; where they are too busy to
  /// find out in time, by what was known. Throws what discover() does.
  void renew_network(Store& store, std::string why);

  // --- what calls do
  /// Whether the call is in place; throws kInvalidUsage where its arguments cannot be right.
  bool check_arguments(const CollectiveCall& call) const;
  /// The schedule that the call wants; throws kInvalidUsage where its arguments cannot be right.
  ScheduleKey check(const CollectiveCall& call) const;
  void run(const CollectiveCall& call);
  /// Whether the call differs from the last collective in its buffers at most, and that one went through the
  /// host's memory. This one goes there, too.
  bool repeats_last(const CollectiveCall& call) const noexcept;
  /// Runs such a call: small ones take less time than it takes to choose a way for them.
  void run_again(const CollectiveCall& call);
  /// Waits for what run() has started.
  void wait_for(const StartedCollective& started);
  // --- calls on GPU memory
  /// Whether a buffer of the call may be GPU memory. Where the process has no CUDA it costs next to nothing.
  bool may_be_on_gpu(const CollectiveCall& call) noexcept;
  std::array<const void*, 3> looked_at{this, this,
                                       this};  ///< the last call's buffers, in a process without CUDA
  unsigned unseen = 0;                         ///< calls since then for which nothing was looked at
  /// Begins to stage those buffers of the call that are GPU memory, and replaces them in `call`. Null where
  /// none is. Throws kInvalidUsage where they are on different GPUs or the stream is none of theirs; other
  /// errors end the communicator.
  std::shared_ptr<gpu::Staged> stage(CollectiveCall& call, bool in_place);
  /// The same of a message.
  std::shared_ptr<gpu::Staged> stage(std::string_view what, const void*& data, std::size_t bytes,
                                     bool sending, void* stream);
  std::shared_ptr<gpu::Staged> stage(std::string_view what, const std::vector<gpu::Buffer>& buffers,
                                     void* stream, std::optional<std::size_t> reduce_from);
  /// Of a call whose steps its GPU carries out: makes what it takes beside its buffers.
  void prepare_reduction(gpu::Staged& staged, const ScheduleKey& key, const Choice& choice);
  /// Carries out a blocking call on GPU memory, or behind such as have not begun.
  void run_deferred(const CollectiveCall& call);
  Work start_message(bool sending, const void* data, std::size_t bytes, int peer, void* stream);
  /// Copies what can be copied, and begins what is ready; true if anything moved. Sets `gpu_failure`.
  bool progress_staged();
  /// Ends all of it; no buffer is in use afterwards.
  void end_staged() noexcept;
  /// The call's number in `host_calls`.
  std::uint64_t start_in_host_memory(const CollectiveCall& call, const ScheduleKey& key);
  /// `staged`: whose memory the call is on; null: on none of a GPU's.
  Channels::Ticket start_by_messages(const CollectiveCall& call, const ScheduleKey& key, const Choice& choice,
                                     std::size_t channel, gpu::Staged* staged = nullptr);
  /// Of a communicator of one rank: it is done then.
  void run_alone(const CollectiveCall& call, const ScheduleKey& key);
  /// Starts it: in the host's memory where the call can go there, else on that channel.
  StartedCollective start(const CollectiveCall& call, std::size_t channel);
  /// Begins it as it was chosen; nothing is chosen for a rank alone. `staged` as start_by_messages().
  CarriedOut begin(const CollectiveCall& call, const ScheduleKey& key, const std::optional<Choice>& choice,
                   std::size_t channel, gpu::Staged* staged = nullptr);
  bool done(const CarriedOut& by) const;
  bool done(const StartedCollective& started) const;
  bool done(Work work) const;
  void redeem(Work work);
  /// Makes progress on calls in the host's memory for as long as their other ranks may be about to come;
  /// whether that one is done then.
  bool spin_in_host_memory(std::uint64_t number);
  /// For errors: the call, and whom it waits for.
  std::string describe_wait(const StartedCollective& started) const;
  // --- what it says of itself where it waits in vain
  void note_start(std::uint64_t number, const CollectiveCall& call) noexcept;
  /// Has this rank tell of them, where that is asked for. `rendezvous` is set.
  void begin_to_report();
  /// The same in a store that this process reaches at that address, by that secret.
  void begin_to_report(const std::string& address, const transport::Secret& secret);
  /// The rank of the job that is `rank` here.
  std::int64_t job_rank(int rank) const;
  std::vector<ReportedOperation> reported_operations(TimePoint now);
  /// Marks those of `told` that wait behind another.
  std::vector<ReportedWait> reported_waits(std::vector<ReportedOperation>& told);
  std::vector<ReportedLink> reported_links() const;
  /// Tells it where something was started and nothing has moved since `idle_since` for as long as the
  /// options say.
  void tell_if_stuck(TimePoint idle_since, const std::function<std::string()>& what);
  void no_longer_stuck() noexcept;
  /// Calls those callbacks that are due. `failure` where the communicator has failed: all are then.
  void call_back(const Error* failure) noexcept;
  /// Whether all ranks see memory of the host. Waits until that is clear; with `host`.
  bool sees_host_memory();
  /// "all_reduce #7 (4 KiB float sum)"
  static std::string describe(const StartedCollective& started);
  void wait(Work work);
  /// What the choice of an algorithm depends on.
  Situation situation() const;
  /// Which way the call goes, remembered as that of the last call. May wait as sees_host_memory() does.
  Choice choose(const ScheduleKey& key);
  /// Of a choice that goes by messages.
  std::shared_ptr<const Schedule> schedule_for(const ScheduleKey& key, const Choice& choice);
  /// Throws where no operation is possible any more, saying why.
  void require_usable();
  void check_peer(int peer, std::string_view what) const;
  /// One turn of progress on everything; true if anything moved.
  bool turn();
  /// The same, where what is thrown ends the communicator.
  void turn_or_fail(const std::function<std::string()>& what);
  /// Called while `error` is handled, which ends the communicator unless it has failed already.
  [[noreturn]] void fail_for(const std::exception& error, const std::function<std::string()>& what);
  /// One turn, after which it throws what has failed unless `done` returns true.
  void poll(const std::function<bool()>& done);
  /// Makes progress, and sleeps where there is none, until `done` returns true. `what` describes the
  /// operation, for errors.
  void wait_until(const std::function<bool()>& done, const std::function<std::string()>& what);
  void sleep(Duration most);
  /// What is done before a sleep of a wait in which nothing has moved since `idle_since`: bytes of unfinished
  /// messages count as progress, and other ranks may have given up. Returns how long to sleep at most;
  /// nothing where something has moved. Throws what has failed.
  std::optional<Duration> look_before_sleeping(TimePoint idle_since,
                                               const std::function<std::string()>& what);
  /// Whether something was started that is not done.
  bool busy() const noexcept;
  /// Progress::kThread's job, of that name.
  ProgressThread::Outcome work(ProgressThread& by) noexcept;
  Deadline within(Duration duration) const { return Deadline::after(duration, *options.router.clock); }
  /// For a failure that this rank notices: publishes it to the other ranks, closes every connection, and
  /// throws.
  [[noreturn]] void fail_all_ranks(Cause cause, const std::string& text);
  /// The same, also of a communicator of one rank.
  [[noreturn]] void end_with(Cause cause, const std::string& text);
  [[noreturn]] void fail_this_rank(Cause cause, const std::string& text);
  /// After a timeout: names the ranks that are not waiting themselves. In a ring every rank waits for its
  /// neighbour, which need not be the one that is absent.
  std::string name_ranks_not_waiting() noexcept;
  /// The same where even the store does not answer, or is gone.
  std::string describe_store_failure(const Error& error) const noexcept;
  /// Throws where a rank of the host has made another call, or has left or ended (a system call) before its
  /// part of this one was done.
  void check_host(const std::function<std::string()>& what);
  void check_failures(const std::function<std::string()>& what);
  /// Throws where another rank has given up, the store has vanished, or a rank of this host is gone that was
  /// to connect: once nothing has moved since then, and since `idle_since`, for as long as what those ranks
  /// did before may be on its way. Returns how long that is from now at least.
  Duration check_other_ranks(TimePoint idle_since, const std::function<std::string()>& what);
  /// A rank that has left or ended, with which there is no connection though one is wanted: it is of this
  /// host, or `absentees` have it.
  std::optional<int> gone_before_connecting();
  /// Whether the rank's communicator may be there, and its process live.
  bool is_present(Store& store, int rank) const;
  /// Sends each peer a closing message and waits a bounded time for theirs.
  void close_with_peers() noexcept;
  /// Makes every further operation throw this error.
  void record_failure(Cause cause, const std::string& text);

  Options options;
  Rendezvous rendezvous;
  std::shared_ptr<transport::Router> router;  ///< shared with those made by split()
  std::shared_ptr<StoreServer> server;        ///< rank 0; shared with those made by split()
  /// Shared as `router`: for ranks that go on where the store has gone. Null with Options::store.
  std::shared_ptr<OwnStandby> standby;
  std::vector<StandbyStore> standbys;  ///< by rank; empty for one rank
  std::optional<int> store_keeper;  ///< whose process keeps the store; nothing where none of the ranks does
  std::vector<Member> members;
  std::vector<int> ranks_before_shrink;  ///< by rank; empty where it was not made by shrink()
  std::vector<std::string> addresses;    ///< of the NICs of each rank's host; empty for one rank
  bool same_links = true;                ///< all ranks knew the same of them: links_digest()
  Discovery discovery;                   ///< its islands in place of clusters that nobody declared
  std::optional<NetworkWatch> watch;     ///< nothing where it found none itself
  std::optional<WatchedCall> watched;    ///< under way, and no other one
  std::size_t networks = 0;              ///< how often the network was measured while calls were made
  RankMap rank_map;
  std::optional<JobCosts> costs;  ///< nothing where too little is known of the network, and rules choose
  std::unique_ptr<Mesh> mesh;     ///< null for a single rank
  std::unique_ptr<AbortSignal> signal;
  std::optional<AbsentRanks> absentees;  ///< with `mesh`
  std::unique_ptr<Channels> channels;    ///< with `mesh`
  std::unique_ptr<HostGroup> host;       ///< null where the ranks are on several hosts, or it may not be used
  std::unique_ptr<HostCollective> host_collective;                ///< with `host`
  std::optional<TaskQueue<HostCollective, HostCall>> host_calls;  ///< with `host`
  WorkTable<PendingCollective> collectives{WorkKind::kCollective};
  std::size_t collectives_started = 0;       ///< by Communicator::start()
  std::atomic<bool> has_called_back{false};  ///< a callback has begun
  std::size_t callbacks = 0;                 ///< that are still to be called
  std::unique_ptr<PointToPoint> messages;
  std::deque<std::shared_ptr<DeferredCollective>> deferred;  ///< that have not begun, in their order
  struct StagedCall {
    std::shared_ptr<gpu::Staged> staged;
    std::function<bool()> carried_out;  ///< whether what it has written can be copied back
  };
  std::vector<StagedCall> staged;  ///< whose buffers are in use
  std::string gpu_failure;         ///< of the first of them that failed
  /// Kept from the first call on GPU memory to the communicator's end.
  std::shared_ptr<gpu::Staging> staging;
  std::atomic<Phase> phase{Phase::kOpen};
  std::optional<Error> failure;  ///< written once, before `phase` becomes kFailed
  std::list<std::pair<ScheduleKey, std::shared_ptr<const Schedule>>> schedules;  ///< most recently used first
  std::vector<pollfd> handles;
  Duration spin{};           ///< before sleeping
  Duration idle_patience{};  ///< of a wait in which nothing moves; options.deadline but in split()
  std::uint64_t operations = 0;
  std::uint64_t polls = 0;           ///< calls of poll()
  bool polls_moved = false;          ///< or something was started, since one of them last looked at the clock
  TimePoint polls_idle_since{};      ///< when one last found that
  std::optional<TimePoint> told_at;  ///< when check_other_ranks() first saw that there is something to throw
  int splits = 0, shrinks = 0;
  bool may_discover = true;  ///< not where ranks are those of another communicator, which has, or could not
  /// The last collective; nothing before the first.
  struct LastCall {
    Collective collective;
    Problem problem;
    Choice choice;
    /// Whether it was a call of run() that went through the host's memory since nothing said otherwise, and
    /// that these two and `problem` describe in full.
    bool plain = false;
    DataType type{};
    ReduceOp op{};
  };
  std::optional<LastCall> last;
  std::shared_ptr<const TuningTable> table;  ///< for a job of this shape; null: none
  std::unique_ptr<ProgressThread> thread;    ///< with Progress::kThread and `mesh`

  OperationRing operations_kept;
  const StartedCollective* waited_for = nullptr;  ///< by run()
  std::shared_ptr<StuckReporter> stuck_reporter;  ///< shared as `router`; null: nothing is told
  std::optional<TimePoint> stuck_told_at;         ///< of the present wait
  std::vector<std::int64_t> ranks_of_job;         ///< by rank; empty: the same
};

/// A call on a communicator, from its beginning to its end.
class Communicator::Call {
 public:
  /// Throws kInvalidUsage in a callback of that communicator.
  explicit Call(State& state);
  ~Call() {
    if (state_.thread) state_.thread->leave();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  State& state_;
};

}  // namespace tombolo::collectives
