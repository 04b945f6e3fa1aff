// Plays meetings: every rank of the job at once, each the meetings of the host that it leads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probe/exchange.h"
#include "probe/meetings.h"
#include "probe/ports.h"
#include "probe/probe.h"

namespace tombolo::probe {

/// What came of meetings, in the order of their steps.
struct Played {
  std::vector<double> results;        ///< left to right and right to left rate and latency, three each
  std::vector<std::string> troubles;  ///< empty = measured

  /// Bytes per second from the left to the right, and back; 0 where it was not measured.
  double there(std::size_t meeting) const { return results[3 * meeting]; }
  double back(std::size_t meeting) const { return results[3 * meeting + 1]; }
  double latency(std::size_t meeting) const { return results[3 * meeting + 2]; }
};

/// How long the meetings of a step load what they share: until each has measured, or until all have, so that
/// none is measured while others are through already.
enum class Load { kOwn, kShared };

/// Its members are collective, and give the same to every rank.
class Player {
 public:
  Player(collectives::Communicator& communicator, const collectives::Options& options,
         const LinkProbeOptions& probe);

  /// Of all ranks, each once.
  const std::vector<topology::Host>& hosts() const noexcept { return hosts_; }
  /// So many more steps are to come: for the progress, and for how long a measurement lasts where nobody
  /// said.
  void expect(std::size_t steps);
  Played play(const std::vector<Step>& steps, Load load);
  /// Nothing more is to come.
  void finish();

 private:
  void tell_progress() const;
  std::map<std::size_t, std::string> play_mine(const Step& step, std::size_t first, Load load,
                                               Played& played);
  TimePoint keep_rounds_together(Company& company);
  std::vector<double> rates_of_all(std::vector<Arrivals>& arrivals, TimePoint begin);
  bool any_rank(bool here);
  Duration patience() const;
  std::unique_ptr<transport::Connection> connect(const Meeting& meeting, std::uint64_t label);
  void spread(const std::map<std::size_t, std::string>& troubles, std::size_t first, const Step& step,
              Played& played);

  collectives::Communicator& communicator_;
  const collectives::Options& options_;
  const LinkProbeOptions& probe_;
  std::vector<topology::Host> hosts_;
  std::vector<int> leaders_;         // by host, a rank
  std::optional<std::size_t> mine_;  // the host that this rank leads
  std::vector<Port> ports_;
  std::vector<std::vector<std::optional<transport::Endpoint>>> endpoints_;  // by rank, by NIC
  double seconds_ = 0;
  int done_ = 0, total_ = 0;  // steps
  std::uint64_t next_label_ = 0;
};

}  // namespace tombolo::probe
