// A group of ranks and what they do together. This folder owns communicators: how ranks set one up, its
// connections (Mesh), how it carries out schedules (Executor) and messages (PointToPoint), how it waits and
// fails, and the kernels that combine data. Which algorithm a collective takes is schedule/'s.
//
// Thread rule: one thread at a time per Communicator; different communicators (also those made by split())
// are independent and may be used by different threads at once. Every rank calls the collectives of one
// communicator in the same order. Every wait is bounded by Options::deadline; a failure names rank, host, NIC
// and operation, and leaves the communicator unusable. What a rank did before it failed or left still counts:
// others complete what needs no more than that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/data/data_type.h"
#include "collectives/engine/collective_call.h"
#include "collectives/engine/work.h"
#include "collectives/options.h"
#include "collectives/rendezvous/unique_id.h"

namespace tombolo::collectives {

/// Payload bytes this rank sent and received over one pair of NICs; with "memory" in their place, through the
/// memory that ranks of one host share.
struct LinkTraffic {
  std::string local_host, local_nic, peer_host, peer_nic;
  topology::NicKind kind;
  std::string transport;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
};

struct Member {
  int rank = 0;
  std::string host, cluster;
};

struct Rendezvous;

class Communicator {
 public:
  /// Collective over all ranks. Rank 0 runs the store. Throws, after the deadline, naming every rank that did
  /// not arrive; kInvalidUsage where ranks were started with different settings.
  static std::unique_ptr<Communicator> create(const Options& options);
  /// Calls finalize() where that has not been done. During the unwinding of an exception, or after a failure,
  /// it closes at once and the peers fail.
  ~Communicator();
  /// Tells the peers that this rank makes no more calls, and waits at most 5 s until they have said the same,
  /// so that nothing they still need is lost. Afterwards every operation throws kInvalidUsage, this one too.
  void finalize();
  /// Why the communicator is unusable; nothing while it is usable or finalized. Any thread. It looks at what
  /// this rank knows already, and does not ask the peers.
  std::optional<Cause> failure_cause() const noexcept;

  int rank() const noexcept;
  int size() const noexcept;
  /// The hosts and clusters of all ranks, by rank.
  const std::vector<Member>& members() const noexcept;

  /// Collective. Ranks of equal color form a communicator, ordered by (key, rank); color < 0 gives null. It
  /// returns once all of these communicators are made, or could not be. Where a rank cannot make one, no rank
  /// has that one: all of its ranks throw, naming the rank and what it met there. This communicator and the
  /// other parts stay usable then.
  std::unique_ptr<Communicator> split(int color, int key);

  /// Makes a communicator of the ranks that are left, in their order, also where this one has failed. With
  /// `excluded`, all other ranks call it with the same list. Without, those are left that come: it waits
  /// three seconds after the last one for those that seem to live, and a rank that comes later throws
  /// kRemote. Every rank that is left has called it equally often on this communicator before. They meet in
  /// the store; where that has gone, or the rank that keeps it is excluded, in one that the first of them has
  /// on standby (not with Options::store). Throws as create() does; kTimeout where the store does not answer,
  /// whose process may live; and kRemote where, without it, no more than half of those came that may live.
  std::unique_ptr<Communicator> shrink(const std::vector<int>& excluded);

  /// Collective over the members of this communicator, all of which name the same larger size; at least one
  /// gives the id, which was made with secret(). New ranks come by create() with options_to_join() on that
  /// id: those from size() on, while the members keep their ranks. The ranks meet in the id's store; that of
  /// this communicator may be gone. Throws as create() does, on all members or on none, naming the new ranks
  /// that have not come by the deadline; this communicator stays usable then, as it does otherwise.
  std::unique_ptr<Communicator> grow(int larger, const UniqueId* id);

  // Counts are elements. Buffers are host memory, or GPU memory (of which CollectiveCall::stream says when it
  // is ready), must not overlap, and are free again when the call returns.
  // In place is NCCL's: send == receive; for all_gather, and on the root of gather, send == receive + rank()
  // * count elements; for reduce_scatter, and on the root of scatter, receive == send + rank() * count
  // elements. All block until this rank's part is done.
  /// send and receive hold `count` elements.
  void all_reduce(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op);
  /// receive gets `count` elements; send holds size() * count.
  void reduce_scatter(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op);
  /// send holds `count` elements; receive gets size() * count.
  void all_gather(const void* send, void* receive, std::size_t count, DataType type);
  /// Both hold `count` elements; send is read on the root only.
  void broadcast(const void* send, void* receive, std::size_t count, DataType type, int root);
  /// Both hold `count` elements; receive is written on the root only.
  void reduce(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, int root);
  /// send holds `count` elements; receive gets size() * count on the root and is not used elsewhere.
  void gather(const void* send, void* receive, std::size_t count, DataType type, int root);
  /// receive gets `count` elements; send holds size() * count on the root and is not used elsewhere.
  void scatter(const void* send, void* receive, std::size_t count, DataType type, int root);
  /// Both hold size() * count elements; not in place.
  void all_to_all(const void* send, void* receive, std::size_t count, DataType type);
  /// Returns once every rank has called it.
  void barrier();
  /// Calls the member function of that collective. For calls that are recorded and made later.
  void run(const CollectiveCall& call);
  /// Throws kInvalidUsage where the arguments cannot be right: buffers missing or overlapping, a root that is
  /// no rank, a count beyond memory. Does nothing else.
  void check(const CollectiveCall& call) const;

  /// Starts a collective and returns; its buffers belong to it until its Work is redeemed. Several may be
  /// under way: they overlap, and end in any order. Every rank starts the same ones in the same order, also
  /// relative to the calls above.
  Work start(const CollectiveCall& call);

  // Point to point, in order per pair and direction. Both ends must name the same number of bytes; zero bytes
  // are no message at all. Buffers belong to the operation until its Work is redeemed.
  /// These two block until the buffer is free again, and until the message is in it.
  void send(const void* data, std::size_t bytes, int peer, void* stream = nullptr);
  void receive(void* data, std::size_t bytes, int peer, void* stream = nullptr);
  /// These two only start the operation.
  Work start_send(const void* data, std::size_t bytes, int peer, void* stream = nullptr);
  Work start_receive(void* data, std::size_t bytes, int peer, void* stream = nullptr);

  // What was started makes progress inside any call on this communicator, and with Progress::kThread also
  // between calls; otherwise call progress() between pieces of long computations. Every Work must be
  // redeemed.
  /// Blocks until the operation is done, and redeems it.
  void wait(Work work);
  /// Whether the operation is done; redeems it if so. Never blocks. Fails as wait() does where another rank
  /// has failed, and where there is no connection with the peer within the deadline since the operation was
  /// started. Of a peer that is connected and lives it waits for ever.
  bool test(Work work);
  /// Has `callback` called once, when the collective is done (null) or has failed: at once where it is done
  /// already, else by whoever makes progress then, which may be Progress::kThread's thread. It must not
  /// throw, and calls on this communicator are refused in it. The Work is still to be redeemed. Throws
  /// kInvalidUsage for a message's Work and where there is a callback already.
  void when_done(Work work, std::function<void(const Error*)> callback);
  /// Whether the calling thread is in a callback of this communicator.
  bool calling_back() const noexcept;
  /// Moves what can be moved without blocking.
  void progress();

  /// Opens the connections to `peer` of blocking collectives and of messages now instead of at first use.
  /// Both ends must do so (or use it).
  void connect_to(int peer);
  /// How the connection to `peer` was routed; nothing where none has been opened so far.
  std::optional<transport::Route> route_to(int peer) const;
  /// Payload by pair of NICs, over all connections opened so far.
  std::vector<LinkTraffic> traffic() const;
  /// The algorithm that the last collective used: "ring", "two-level", ...
  std::string last_algorithm() const;
  /// What it knows of its network, and why its last collective went the way it went, as JSON (docs/api.md).
  std::string explain() const;
  /// Collective. From here on calls choose by the TuningTable that rank 0 gives as JSON, or by none where
  /// that is empty; what the others give does not count. Throws kInvalidUsage on every rank, and changes
  /// nothing, where it is no table, or one for a job of another shape.
  void set_tuning(const std::string& text);
  /// How long any wait on this rank may go without progress, from the next call on, that for a Work included;
  /// and the set-up of communicators that are made of this one. Not collective.
  void set_deadline(Duration deadline);
  /// The secret that authenticates the connections between the job's ranks; for connections that are made
  /// outside of this communicator.
  const transport::Secret& secret() const noexcept;
  /// What admits new ranks to grow(): secret(), which a rank that has always been alone has none of.
  transport::Secret secret_for_new_ranks() const;
  /// Makes every operation, now and later, fail with kAborted; may be called from another thread.
  void abort(const std::string& reason) noexcept;

  struct State;
  /// Whether a rank that is awaited may still come, as far as its process is known to live; empty: unknown.
  using MayCome = std::function<bool(int rank)>;
  class Call;
  class Shrinking;
  explicit Communicator(std::unique_ptr<State> state);

 private:
  /// This process's part of what split() makes of those ranks, by its own order, which meet `at` there.
  /// `may_come`, which shrink() gives, is asked for ranks of this communicator.
  std::unique_ptr<State> make_child(const Rendezvous& at, const std::vector<int>& ranks,
                                    const MayCome& may_come = {}) const;
  /// What `make` makes, once all ranks of this communicator have called it and those of `ranks`, this one's
  /// own, have made theirs `at` that place; else it throws on all of `ranks`. `what` and `part` are for
  /// errors.
  std::unique_ptr<State> make_together(const Rendezvous& at, const std::vector<int>& ranks,
                                       const std::string& what, const std::string& part,
                                       const std::function<std::unique_ptr<State>()>& make);

  std::unique_ptr<State> state_;
};

}  // namespace tombolo::collectives
