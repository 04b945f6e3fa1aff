// The harness of the conformance tests: two processes, this one and a forked peer, drive the net plugin as
// NCCL does, with a channel between them.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/sanitizer.h"
#include "net_plugin/client.h"

namespace tombolo::net_plugin::test {

/// The deadline of every wait. It is generous, since the tests share a small machine, and one that is
/// emulated on it: there hundreds of messages over soft-RoCE took 14 s, and more than 30 while others used
/// the machine.
inline constexpr Duration kPatience = std::chrono::seconds(100);

/// Every version of the ABI; the oldest, the middle and the newest where a sanitizer makes each take many
/// times as long.
inline auto abi_versions() {
  return testing::Range(kOldestAbi, kNewestAbi + 1, kSanitized ? (kNewestAbi - kOldestAbi) / 2 : 1);
}

/// Throws std::runtime_error with file and line; usable in the peer too, where googletest's macros are not.
#define REQUIRE(condition) ::tombolo::net_plugin::test::require((condition), #condition, __FILE__, __LINE__)
void require(bool condition, const char* text, const char* file, int line);

/// Throws naming what only one of two sets of texts has.
#define REQUIRE_EQ(seen, wanted) \
  ::tombolo::net_plugin::test::require_equal((seen), (wanted), #seen " == " #wanted, __FILE__, __LINE__)
void require_equal(const std::set<std::string>& seen, const std::set<std::string>& wanted, const char* text,
                   const char* file, int line);

/// Stands in for NCCL's bootstrap: carries handles, and lets the processes wait for each other.
class Channel {
 public:
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void send(const void* data, std::size_t size);
  /// Throws when nothing comes within kPatience.
  void receive(void* data, std::size_t size);
  void signal();
  void wait();

 private:
  int descriptor_;
};

/// A forked process that runs `body` and must succeed. The constructor forks, so make it before any thread.
/// TOMBOLO_TEST_PEER_HOST gives it another TOMBOLO_HOST.
class Peer {
 public:
  using Body = std::function<void(Channel&)>;
  explicit Peer(const Body& body);
  /// Kills the peer if it still runs.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Channel& channel() { return *channel_; }
  /// Waits for the end of the peer; throws unless it succeeded.
  void join();
  /// Ends the peer with SIGKILL and reaps it.
  void kill();

 private:
  pid_t pid_ = -1;
  std::unique_ptr<Channel> channel_;
};

using HandleMemory = std::array<std::byte, abi::NCCL_NET_HANDLE_MAXSIZE>;

/// The plugin in one process: loaded, initialised, and finalised at the end. Its calls throw unless they
/// succeed.
class Side {
 public:
  explicit Side(int abi_version);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  Client& plugin() { return *plugin_; }
  void* context() { return context_; }

  void* listen(HandleMemory& handle, int device = 0);
  /// Calls again until the connection is there, as NCCL does.
  void* connect(HandleMemory& handle, int device = 0);
  void* accept(void* listen_comm);
  void* register_memory(void* comm, std::vector<std::byte>& buffer);

  /// Both post again until the plugin accepts the request.
  void* send(void* comm, const std::vector<std::byte>& data, void* memory = nullptr);
  void* receive(void* comm, std::vector<std::byte>& buffer, void* memory = nullptr);
  /// The same with a tag, and for a group of receives: one buffer and tag for each.
  void* send_with(int tag, void* comm, const std::vector<std::byte>& data);
  void* receive_group(void* comm, std::span<std::vector<std::byte>> buffers, std::span<const int> tags);
  /// One test; true when done, and then `sizes` has one for each receive of the group.
  bool poll_group(void* request, std::span<std::size_t> sizes);
  std::vector<std::size_t> finish_group(void* request, std::size_t count);
  /// Tests until done; the size that test() reports.
  std::size_t finish(void* request);
  /// One test; true when done.
  bool poll(void* request, std::size_t& size);
  /// Tests until it fails; the result code.
  abi::ncclResult_t finish_badly(void* request);

 private:
  std::unique_ptr<Client> plugin_;
  void* context_ = nullptr;
};

/// Lines that the plugin gave to its logger since the last call, "<level> <text>".
std::vector<std::string> take_log();
/// A logger like NCCL's, which keeps the lines, and shows those that hold the text in TOMBOLO_TEST_SHOW.
void keep_log(abi::ncclDebugLogLevel level, unsigned long subsystems, const char* file, int line,
              const char* format, ...) __attribute__((format(printf, 5, 6)));

/// Bytes that depend on `seed` and position.
std::vector<std::byte> pattern(std::size_t size, unsigned seed);

/// The usual shape of a test: the peer sends on one connection, this process receives on it.
/// Both bodies get their Side and comm; memory is not registered, comms are closed afterwards.
struct Pair {
  using Body = std::function<void(Side&, void* comm, Channel&)>;
  static void run(int abi_version, const Body& sender, const Body& receiver);
};

/// Whether this run is limited to RDMA or to UCX, which cut no message to its receive.
bool overlong_is_always_an_error();

/// TOMBOLO_TEST_TIMES: how many times as many messages as usual are exchanged where the number is free, and
/// how many times as long random traffic may take, in runs in which something happens meanwhile.
std::size_t times_as_many();

/// Path of the plugin under test.
const std::string& plugin_path();

}  // namespace tombolo::net_plugin::test
