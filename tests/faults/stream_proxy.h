// A proxy for TCP streams that breaks them on command. It runs in a process of its own and needs no privilege
// to do what a NIC, a cable, a firewall or a kernel may do to streams.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"

namespace tombolo::faults {

enum class ProxyAction : std::uint32_t {
  kReport,         ///< only counts
  kReset,          ///< both ends of a stream get a reset
  kHalfClose,      ///< one end reads an end of file; what it sends still arrives
  kFreeze,         ///< nothing passes, until kHeal
  kDelay,          ///< everything passes later by `delay`, until kHeal
  kStopAccepting,  ///< who connects is left waiting, until kHeal; streams live on
  kHeal
};

struct ProxyOrder {
  ProxyAction action = ProxyAction::kReport;
  bool all = false;  ///< every stream, instead of one at random
  Duration delay{};
};

struct ProxyReport {
  std::uint32_t streams = 0;   ///< open streams
  std::uint32_t affected = 0;  ///< streams that this order affected
};

/// An address at which the proxy listens on behalf of a listener.
struct ProxiedAddress {
  std::string address;
  std::uint16_t port = 0;    ///< where the proxy listens; chosen by the kernel
  std::uint16_t target = 0;  ///< where streams go, on the same address
};

class StreamProxy {
 public:
  /// Forks: make it before any thread. Streams wait until aim() says where they go. Throws kSystem.
  StreamProxy(const std::vector<std::string>& addresses, std::uint64_t seed);
  /// Ends the process.
  ~StreamProxy();
  StreamProxy(const StreamProxy&) = delete;
  StreamProxy& operator=(const StreamProxy&) = delete;

  const std::vector<ProxiedAddress>& addresses() const noexcept { return addresses_; }
  /// Sets the port to which the streams of each address go.
  void aim(const std::vector<std::uint16_t>& targets);
  /// Throws kSystem where the proxy has ended.
  ProxyReport order(const ProxyOrder& order);

 private:
  std::vector<ProxiedAddress> addresses_;
  Descriptor orders_;
  pid_t pid_ = -1;
};

}  // namespace tombolo::faults
