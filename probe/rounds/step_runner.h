// Runs the steps of a schedule: on every rank of the job at once, each rank running the measurements of the
// host that it leads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probe/measure/nic_routers.h"
#include "probe/probe.h"
#include "probe/rounds/schedule.h"
#include "transport/measure/exchange.h"

namespace tombolo::probe {

/// The results of the measurements, in the order of their steps.
struct StepResults {
  /// Three values for each measurement: bytes per second from the left to the right and back, and the latency
  /// in seconds.
  std::vector<double> values;
  std::vector<std::string> errors;  ///< empty where it was measured

  /// Bytes per second from the left to the right, and back; 0 where it was not measured.
  double forward(std::size_t measurement) const { return values[3 * measurement]; }
  double backward(std::size_t measurement) const { return values[3 * measurement + 1]; }
  double latency(std::size_t measurement) const { return values[3 * measurement + 2]; }
};

/// How long the measurements of a step load what they share. kOwn: each pair of hosts until it has measured.
/// kShared: until all of the step have, so that no pair is measured while others have finished.
enum class Load { kOwn, kShared };

/// All members except hosts() are collective, and give the same result to every rank.
class StepRunner {
 public:
  StepRunner(collectives::Communicator& communicator, const collectives::Options& options,
             const LinkProbeOptions& probe);

  /// The hosts of all ranks, each once.
  const std::vector<topology::Host>& hosts() const noexcept { return hosts_; }
  /// Announces further steps. Their number gives the progress its total and, unless the options state it,
  /// each measurement its duration.
  void expect(std::size_t steps);
  StepResults run(const std::vector<Step>& steps, Load load);
  /// To be called when no further steps come; completes the progress.
  void finish();

 private:
  void tell_progress() const;
  std::map<std::size_t, std::string> run_own(const Step& step, std::size_t first, Load load,
                                             StepResults& results);
  TimePoint keep_rounds_together(transport::measure::RoundBarrier& barrier);
  std::vector<double> rates_of_all(std::vector<transport::measure::Arrivals>& arrivals, TimePoint begin);
  bool any_rank(bool here);
  Duration patience() const;
  std::unique_ptr<transport::Connection> connect(const NicPair& pair, std::uint64_t label);
  void exchange_errors(const std::map<std::size_t, std::string>& errors, std::size_t first, const Step& step,
                       StepResults& results);

  collectives::Communicator& communicator_;
  const collectives::Options& options_;
  const LinkProbeOptions& probe_;
  std::vector<topology::Host> hosts_;
  std::vector<int> leaders_;         // rank, by host
  std::optional<std::size_t> mine_;  // the host that this rank leads
  std::vector<NicRouter> routers_;
  std::vector<std::vector<std::optional<transport::Endpoint>>> endpoints_;  // by rank, by NIC
  double seconds_ = 0;
  int done_ = 0, total_ = 0;  // steps
  std::uint64_t next_label_ = 0;
};

}  // namespace tombolo::probe
