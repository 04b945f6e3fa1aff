// Which hosts are near each other, where no cluster file says it. This folder owns how a job finds that out:
// what hosts measure with each other, in which order, what follows from it, and the file that keeps it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tombolo::collectives {

/// What hosts attained with each other, by host; 0: not tried, kNotAttained: tried in vain.
/// `bytes_per_second[i][j]` is what j received from i while i received from j.
struct LinkMatrix {
  static constexpr double kNotAttained = -1;

  explicit LinkMatrix(std::size_t hosts)
      : bytes_per_second(hosts, std::vector<double>(hosts)), latency_seconds(bytes_per_second) {}

  /// Keep the better of what was known and what was measured now: who is held up looks farther than it is.
  void learn_rate(std::size_t from, std::size_t to, double rate);
  /// In both directions. 0: it was not measured now.
  void learn_latency(std::size_t one, std::size_t other, double seconds);

  std::vector<std::vector<double>> bytes_per_second, latency_seconds;
};

/// Hosts by islands: links between islands are at least kMuchNearer times as long as most inside.
struct Islands {
  std::vector<int> of_host;  ///< by host: its island's number; islands are numbered by their first hosts
  int count = 0;
  /// Medians of what was measured; 0 where nothing was.
  double inside_bytes_per_second = 0, between_bytes_per_second = 0;
  double inside_latency_seconds = 0, between_latency_seconds = 0;
  /// Of three or more islands, what a pair of hosts attains alone from one to another, in bytes per second,
  /// by their numbers; 0: not measured. Empty where nobody measured it.
  std::vector<std::vector<double>> between = {};

  /// Texts for a store and for a file. decode() throws kRemote naming `where` unless the text tells of so
  /// many hosts.
  std::string encode() const;
  static Islands decode(const std::string& text, std::size_t hosts, const std::string& where);

  friend bool operator==(const Islands&, const Islands&) = default;
};

/// Links of one network differ by less than this when they are measured briefly and on busy hosts.
inline constexpr double kMuchNearer = 3;

/// The distance of two hosts is the time that 1 MiB takes, latency included. Those that were not tried are as
/// far as the farthest that were measured, and at least as their latency says; those that were tried in vain
/// are farther. One island where all are about equally far, as two hosts always are.
Islands find_islands(const LinkMatrix& links);

/// Whether latencies alone show these islands too.
bool seen_by_latency(const Islands& islands, const LinkMatrix& links);

/// Whether links inside an island are so unlike that they would be islands' borders if there were more of the
/// short ones: some of the hosts were held up while they measured, or there are more levels than islands
/// tell.
bool unlike_inside(const Islands& islands, const LinkMatrix& links);

/// Rounds of pairs of hosts that are to measure their rates at the same time, each host in one pair of a
/// round, by the latencies that all hosts know. Where these already show groups, each two of a group, and of
/// each two groups one pair. Of more than kMostRounds rounds some are left out.
std::vector<std::vector<std::pair<int, int>>> survey_rounds(
    const std::vector<std::vector<double>>& latency_seconds);
inline constexpr std::size_t kMostRounds = 64;

/// Rounds of pairs of hosts, one for each two islands, of which no island has two in a round: so their rates
/// are those of the links between islands. Each `look` takes other hosts of an island, as far as it has them.
std::vector<std::vector<std::pair<int, int>>> rounds_between(const Islands& islands, int look = 0);

}  // namespace tombolo::collectives
