// tools/emulation/ owns clusters without the hardware: one network namespace per host, joined by bridges and
// shaped links. It needs no root (a user namespace is made where needed). Where namespaces are not permitted,
// each host becomes a set of loopback addresses, and the transport applies the rates.
//
// A holder process owns everything. It ends with the process that started it, however that one ends, and the
// namespaces end with the holder.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "tools/emulation/relay.h"
#include "tools/emulation/spec.h"
#include "topology/files/cluster_file.h"

namespace tombolo::emulation {

enum class Mode { kNamespaces, kLoopback };

/// "namespaces", "loopback".
std::string_view mode_name(Mode mode) noexcept;

struct StartOptions {
  /// Empty: namespaces where they are permitted, otherwise loopback.
  std::optional<Mode> mode;
  Log log;
};

/// Converts "auto", "namespaces" or "loopback" to StartOptions::mode. Throws kInvalidUsage.
std::optional<Mode> parse_mode(std::string_view text);

/// Why this process may not make network namespaces; empty where it may. It tries in a child, which takes
/// about 10 ms.
std::string why_no_namespaces();

/// A TCP port that is free on a numeric IPv4 address of this process's network, or -1. `seed` spreads
/// concurrent callers.
int find_free_port(const std::string& address, std::uint32_t seed);

/// The thread that starts an emulation must outlive it (the kernel ends the holder with that thread).
class Emulation {
 public:
  /// Throws kUnsupported where namespaces were asked for and are not permitted, or where the spec has links
  /// between segments, which loopback cannot shape; kSystem where ip or tc failed, with their messages.
  static std::unique_ptr<Emulation> start(const Spec& spec, const StartOptions& options);
  /// Ends the holder, and waits until it is gone.
  ~Emulation();
  Emulation(const Emulation&) = delete;
  Emulation& operator=(const Emulation&) = delete;

  Mode mode() const noexcept;
  const Spec& spec() const noexcept;
  /// One line that says what is emulated and how, and where loopback is used why.
  const std::string& description() const noexcept;
  /// The cluster file of the emulation: hosts, NICs with addresses, declared kinds and rates; no links, which
  /// the probe measures.
  const topology::ClusterFile& cluster() const noexcept;
  /// A private folder for files of this run. It is removed with the emulation, even when this process is
  /// killed.
  const std::string& directory() const noexcept;
  pid_t holder() const noexcept;
  /// A descriptor for poll(2) that becomes readable (end of file) when the holder has ended, which it does
  /// not do by itself.
  int holder_handle() const noexcept;

  /// Environment variables for a process on `host`, which is one of `ranks_on_host` processes that share its
  /// NICs: the rate limits on loopback, nothing in namespaces.
  std::vector<std::pair<std::string, std::string>> environment(std::string_view host,
                                                               int ranks_on_host) const;

  /// Moves the calling process into the host's namespaces; returns 0 or an errno. Call it in a forked child
  /// before exec: the process must have only one thread, and nothing is allocated.
  int enter(std::size_t host_index) const noexcept;

  /// Gives an order to the relay that carries a link (an index into spec().links), and returns what the relay
  /// has counted. Links with a round trip or loss have a relay. Called from one process at a time. Throws
  /// kInvalidUsage where there is no relay, kTimeout and kSystem where it does not answer.
  RelayReport order_relay(std::size_t link, RelayOrder order) const;

  /// A TCP port that is free now on the host's address on `fabric`. Throws kSystem.
  int free_port(std::string_view host, std::string_view fabric) const;
  /// The host's address on `fabric`. Throws kInvalidUsage.
  std::string address(std::string_view host, std::string_view fabric) const;

 private:
  struct State;
  explicit Emulation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tombolo::emulation
