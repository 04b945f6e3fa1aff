// From what the ranks of a job say of themselves to who keeps it from going on. Pure functions.
//
// tools/stuck/ owns `tombolo stuck`: how a job and its ranks' reports are found (collect.h), what follows
// from them (this file), and how that is shown (page.h, flight_record.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/stuck/rank_report.h"

namespace tombolo::tools::stuck {

/// What the kernel says of a rank's process, where it runs on this machine.
enum class ProcessState : std::uint8_t {
  kUnknown,  ///< on another machine, or another user's
  kRunning,
  kSleeping,
  kBlocked,  ///< in the kernel, and no signal wakes it
  kStopped,  ///< by SIGSTOP or a debugger
  kGone,
};
/// "running", ...
std::string_view process_state_name(ProcessState state) noexcept;

struct RankView {
  std::int64_t rank = 0;
  std::string host;          ///< empty: unknown
  std::int64_t process = 0;  ///< 0: unknown
  ProcessState state = ProcessState::kUnknown;
  std::optional<collectives::RankReport> report;

  /// It says that it waits in vain.
  bool stuck() const noexcept { return report && !report->communicators.empty(); }
};

struct JobView {
  std::string store;            ///< "127.0.0.1:29400"
  std::vector<RankView> ranks;  ///< by rank
  /// Why parts of the job could not be asked, for people; empty where all could.
  std::vector<std::string> unreached;
};

/// Ranks that do the same.
struct Group {
  std::vector<std::int64_t> ranks;
  std::string doing;
};

struct Edge {
  std::int64_t from = 0, to = 0;
  std::string doing;  ///< "all_reduce #7 (1024 float sum) of comm/0"
  std::string what;   ///< "for message 3 of 12 (512 B)"
  std::string link;
};

enum class CulpritKind : std::uint8_t {
  kGone,      ///< its process has ended
  kStopped,   ///< its process is stopped
  kMismatch,  ///< it has called another collective than the others
  kAbsent,    ///< it is waited for, and is in no call
  kBehind,    ///< it is in an earlier collective than the others
  kOrder,     ///< it is in another communicator than those who wait for it
  kLink,      ///< what was sent over a link has not come
};
/// "gone", "stopped", ...
std::string_view culprit_kind_name(CulpritKind kind) noexcept;

struct Culprit {
  CulpritKind kind = CulpritKind::kAbsent;
  std::vector<std::int64_t> ranks;  ///< of a link: its sending and its receiving end
  std::string text;                 ///< what is wrong
  std::string next;                 ///< what to look at
};

struct Findings {
  std::vector<Group> groups;  ///< of all ranks
  std::vector<Edge> waits;
  std::vector<Culprit> culprits;  ///< the most certain first; empty: nothing points at anyone
};

Findings find(const JobView& job);

/// "rank 3", "ranks 0-2, 5"
std::string list_of_ranks(const std::vector<std::int64_t>& ranks);

}  // namespace tombolo::tools::stuck
