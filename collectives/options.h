// What a communicator is made with: which rank this process is, and how its connections are to be made. The
// folder's parts, from the ground up: rendezvous/ (how ranks meet), schedule/ (algorithms as data), engine/
// (communicators that carry them out); c_api/ is the public C interface in their terms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "collectives/data/compression.h"
#include "collectives/rendezvous/bootstrap.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/tuning.h"
#include "collectives/schedule/tuning_table.h"
#include "transport/routing/router.h"

namespace tombolo::collectives {

/// How the transport to each peer is chosen. (TOMBOLO_ROUTING)
enum class Routing {
  kPerPeer,  ///< the best that the two ends share
  kShared,   ///< only the NIC kind that all ranks share: what one NCCL communicator does
};

/// "per-peer", "shared"
std::string_view routing_name(Routing routing) noexcept;
/// Throws kInvalidUsage naming `setting`, where the name came from.
Routing routing_from_name(std::string_view name, std::string_view setting);
/// Throws kInvalidUsage naming `setting` where these are not seconds that a deadline can have.
Duration deadline_from(double seconds, std::string_view setting);
/// The same, where 0 stands for never.
Duration stuck_after_from(double seconds, std::string_view setting);

/// Who makes progress with what was started. (TOMBOLO_PROGRESS)
enum class Progress {
  kCaller,  ///< the caller, within its calls on the communicator
  kThread,  ///< a thread of the communicator's, between them too
};

/// Throws kInvalidUsage naming `setting`, where the name came from.
Progress progress_from_name(std::string_view name, std::string_view setting);

/// What opens the store of a job whose ranks have this environment. (TOMBOLO_SECRET)
transport::Secret secret_from_environment();

struct Options {
  Identity identity;
  transport::Secret secret;
  transport::RouterOptions router;  ///< host, policy, limits, clock; its secret is overwritten
  Routing routing = Routing::kPerPeer;
  Progress progress = Progress::kCaller;
  /// How long nothing may move in a wait before the rank says in the log and in the store what it waits for;
  /// 0: never. (TOMBOLO_STUCK_AFTER)
  Duration stuck_after{};
  std::string algorithm{kAutomatic};             ///< one of algorithm_choices()
  Duration deadline = std::chrono::seconds(60);  ///< for set-up and for any wait without progress
  Tuning tuning;                                 ///< its host_bytes are set by the communicator
  /// Tuning::host_bytes; by the number of processors where nothing is given. (TOMBOLO_HOST_LIMIT)
  std::optional<std::size_t> host_limit;
  std::string tuning_file;  ///< of a TuningTable, read on rank 0; empty: none (TOMBOLO_TUNING)
  /// What is in it, where a communicator has read it, of which this one is a part.
  std::shared_ptr<const TuningTable> tuning_table;
  /// How sums and averages of float travel between clusters where a call does not say it.
  /// (TOMBOLO_COMPRESSION)
  Compression compression = Compression::kNone;
  /// Of a call on GPU memory, steps of its reduction of so many bytes and more are carried out by that GPU;
  /// nothing: by the processor, all of them. (TOMBOLO_GPU_REDUCE)
  std::optional<std::size_t> gpu_reduce_from;
  /// Whether hosts without a cluster find out which of them are near each other (discovery/).
  /// (TOMBOLO_DISCOVER)
  bool discover = false;
  std::string islands_file;  ///< where rank 0 keeps what they found; empty: in the user's cache folder
  /// TOMBOLO_CLUSTER's; null: none. What it says of links, for explanations.
  std::shared_ptr<const topology::ClusterFile> cluster_file;
  std::uint64_t cluster_file_digest = 0;  ///< digest_of() it
  /// How long a wait spins before it sleeps; by the number of processors where nothing is given.
  std::optional<Duration> spin;
  /// Set where another process, or another part of this one, keeps the store (the C API's unique id): rank 0
  /// starts none.
  bool store_elsewhere = false;
  std::string store_prefix = "comm/0";  ///< of the keys by which the communicator's ranks meet in the store
  /// Where this process reaches the store, if not at identity.address.
  std::string store_reach;
  /// Set where the store is reached in another way than over the network: rank 0 starts none then.
  std::shared_ptr<const StoreAccess> store;
  /// Set where the user chose no secret: the one above then only opens the store, in which rank 0 publishes a
  /// random one for the job's connections.
  bool make_secret = false;
  Log log;
  /// All from the environment: who this process is, the secret, and settings_from_environment().
  static Options from_environment();
  /// Host, policy and the rest, but neither identity nor secret: for callers that have those from elsewhere.
  /// No launcher's variables are read.
  static Options settings_from_environment();
};

}  // namespace tombolo::collectives
