// How ranks find each other. This folder owns the store, a small server of keys and values that one process
// of a job keeps, with its client and its protocol; the unique id that describes a store; and what a
// launcher's environment says of this process. It knows nothing of collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/parameter.h"
#include "collectives/rendezvous/store_id.h"
#include "collectives/rendezvous/store_limits.h"
#include "transport/sockets/secret.h"

namespace tombolo::collectives {

struct Identity {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string address = "127.0.0.1";  ///< of rank 0's store
  int port = 29400;
  std::string source;  ///< "torchrun", "slurm", "open mpi", "flags", "single", "unique id": where rank and
                       ///< size are from
  /// What the launcher's environment variables say: torchrun's (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
  /// MASTER_PORT), Slurm's (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, and the first host of
  /// SLURM_STEP_NODELIST or SLURM_JOB_NODELIST), Open MPI's (OMPI_COMM_WORLD_RANK, ...); without any, a
  /// single rank. Throws kInvalidUsage naming the variable that is missing or wrong.
  static Identity from_environment();
};

/// The server side, in its own thread inside rank 0, or another process that ranks meet at. Stops and joins
/// on destruction, after telling its clients that it closes. Clients that do not know the secret are refused;
/// what the others can make it keep has limits, and a client that goes wrong is dropped, and nothing else
/// with it.
class StoreServer {
 public:
  /// The addresses of a name, in digits; throws where there are none.
  using Resolve = std::function<std::vector<std::string>(const std::string& name)>;
  /// When it begins to serve. Of one on standby the port is taken, and whoever connects waits until serve()
  /// is called: it costs a descriptor and no thread, and once its process has died nobody listens there.
  enum class Begin { kNow, kOnDemand };

  /// `address` is the one that clients know: a loopback address in digits is the only one listened on, else
  /// every address of this host is (the log says which). port 0 = any. Throws kSystem naming address and port
  /// ("port in use") and what to do. `resolve`: the system's resolver where it is empty.
  StoreServer(const std::string& address, int port, const transport::Secret& secret, Log log,
              const Resolve& resolve = {}, const StoreLimits& limits = {}, Begin begin = Begin::kNow);
  ~StoreServer();
  /// Serves from here on, unless it does already. Any thread. Throws kSystem where there is no thread or
  /// descriptor left for it; it may then be called again.
  void serve();
  int port() const noexcept;
  const StoreId& id() const noexcept;
  /// Where a client in this process reaches it, in digits, also if `address` does not lead here.
  const std::string& own_address() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A client. One thread at a time. Keys are texts of at most 1 KiB, values at most 4 MiB. Every call is
/// bounded by its deadline, or else by the time that connect() was allowed; throws kRemote when the store is
/// gone, and when it is full (StoreLimits).
class Store {
 public:
  /// Retries until the deadline while no server listens yet, or throws kRemote where nobody listens. Throws
  /// kTimeout / kRemote (wrong secret) naming address and port.
  enum class IfNobodyListens { kRetry, kFail };
  static std::unique_ptr<Store> connect(const std::string& address, int port, const transport::Secret& secret,
                                        Deadline deadline, Log log,
                                        IfNobodyListens otherwise = IfNobodyListens::kRetry);
  virtual ~Store() = default;
  /// Sets the key, whatever it held.
  virtual void set(std::string_view key, std::span<const std::byte> value) = 0;
  /// Waits until the key is there. Throws kTimeout naming the key.
  virtual std::vector<std::byte> get(std::string_view key, Deadline deadline) = 0;
  /// The value if the key is there now.
  virtual std::optional<std::vector<std::byte>> try_get(std::string_view key) = 0;
  /// Sets the key unless it is there already; returns what it holds afterwards. Of several callers the first
  /// one sets it.
  virtual std::vector<std::byte> claim(std::string_view key, std::span<const std::byte> value) = 0;
  /// Sets the key for as long as this client's connection lasts; one key per client.
  virtual void hold(std::string_view key) = 0;
  /// Adds to a counter and returns the new value. Throws kRemote where the key holds something else.
  virtual std::int64_t add(std::string_view key, std::int64_t by) = 0;
};

/// Waits for one key of a store without blocking. One thread at a time.
class StoreWatch {
 public:
  enum class News { kNone, kValue, kStoreLeft, kStoreLost };
  virtual ~StoreWatch() = default;
  /// Looks for the key. kStoreLeft: the server closed on purpose. kStoreLost: the connection ended without
  /// that, so the server's process died. All but kNone are final.
  virtual News check() = 0;
  virtual const std::vector<std::byte>& value() const noexcept = 0;
  /// Asks whether another key is there, without blocking; one question at a time.
  virtual void ask(std::string_view key) = 0;
  /// The answer, once, when it has come: never where there are news before it.
  virtual std::optional<bool> answer() = 0;
  /// Whether the server's end of the connection has closed, also where the key had come before. Blocks until
  /// it has, or the deadline has passed.
  virtual bool has_ended(Deadline deadline) = 0;
  /// The descriptor to poll for POLLIN; -1 when there is nothing to wait for (any more).
  virtual int descriptor() const noexcept = 0;
};

/// The way to a job's store. It leads to one store for good, the first that it has reached: where another one
/// listens there later, as that of a job which was started again, all functions throw kRemote, and have set
/// nothing in that one. Any thread.
class StoreAccess {
 public:
  virtual ~StoreAccess() = default;
  /// As Store::connect().
  virtual std::unique_ptr<Store> connect(Deadline deadline, Log log) const = 0;
  /// To a store that was there before: where nobody listens any more it throws kRemote at once.
  virtual std::unique_ptr<Store> reconnect(Deadline deadline, Log log) const = 0;
  /// Of a store that was there before, as reconnect(). `presence` is another key, empty for none: the store
  /// keeps it for as long as the watch is there, and drops it when the process of the watch has died.
  virtual std::unique_ptr<StoreWatch> watch(std::string_view key, std::string_view presence,
                                            Deadline deadline) const = 0;
};

/// The way over the network to the store that listens there; to that one alone where it is known which.
std::shared_ptr<const StoreAccess> store_at(std::string address, int port, const transport::Secret& secret,
                                            const std::optional<StoreId>& id = {});

/// The environment parameters of this room: TOMBOLO_SECRET, TOMBOLO_DEADLINE, TOMBOLO_ROUTING, ...
const std::vector<const Parameter*>& collectives_parameters();

}  // namespace tombolo::collectives
