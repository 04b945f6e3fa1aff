// What all tuners of a process share, and the mark by which two ranks find out that theirs would choose
// differently, which hangs a job.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/log.h"
#include "net_plugin/tuner/knowledge.h"
#include "net_plugin/tuner/tuner.h"

namespace tombolo::net_plugin {

/// What fits into a handle of what a rank's tuner goes by.
struct TunerMark {
  TunerMode mode = TunerMode::kOff;  ///< kOff also where there is no cluster file
  std::uint8_t hash = 0;             ///< low byte of the file's
  bool active = false;               ///< whether it has chosen for a communicator of its process

  friend bool operator==(const TunerMark&, const TunerMark&) = default;
};

struct TunerSettings {
  TunerMode mode = TunerMode::kOff;
  std::optional<TunerFile> file;
  ChoiceSink choices;
  /// Set when the first tuner that chooses is made. Any thread.
  std::atomic<bool> active{false};

  TunerMark mark() const noexcept;
  /// "tuner: auto, by /etc/cluster.json, content 00112233aabbccdd"; empty where no tuner can choose.
  std::string describe() const;
};

/// Reads TOMBOLO_TUNER, TOMBOLO_TUNER_LOG, and TOMBOLO_TUNER_LINK or the cluster file, at the first call,
/// once in a process, so that a file which is rewritten while the job runs does not part communicators made
/// before from ones made after. What is wrong with them is logged, and leaves the tuner off.
TunerSettings& tuner_settings_of_process(const Log& log);

/// Throws kInvalidUsage where the tuner of this rank or of the peer chooses, and they go by different files
/// or modes: NCCL would wait for ever in a collective. Names what either goes by. As long as neither has
/// chosen, nothing is wrong.
void check_tuners_alike(const TunerSettings& own, const TunerMark& peer);

}  // namespace tombolo::net_plugin
