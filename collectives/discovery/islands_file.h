// The file that keeps what a set of hosts found out, so that the next job of these hosts need not measure.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "collectives/discovery/islands.h"

namespace tombolo::collectives {

/// A host as others know it.
struct HostIdentity {
  std::string name;
  std::string addresses;  ///< of its NICs
};

/// One file per set of hosts. What is in it counts for kIslandsLifetime; a file that cannot be read or
/// written costs a measurement, and a line in the log. Any process.
class IslandsFile {
 public:
  /// `path`: empty for a file of these hosts' own in the user's cache folder ($XDG_CACHE_HOME/tombolo, or
  /// ~/.cache/tombolo), from which those that are too old are removed. The hosts' names and addresses, and
  /// this machine's network namespace and boot, tell sets of hosts apart.
  IslandsFile(std::string path, std::span<const HostIdentity> hosts, Log log);

  /// Empty where there is no home to keep it in, or the kernel does not tell network namespaces apart.
  const std::string& path() const noexcept { return path_; }
  /// What was found of these hosts and is not too old.
  std::optional<Islands> load() const;
  void save(const Islands& islands) const;
  /// What was kept counts no longer.
  void remove() const noexcept;

 private:
  static void remove_old(const std::filesystem::path& in);

  std::string path_, identity_;
  std::size_t hosts_;
  Log log_;
};

inline constexpr Duration kIslandsLifetime = std::chrono::hours(24);

}  // namespace tombolo::collectives
