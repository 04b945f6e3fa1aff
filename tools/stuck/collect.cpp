#include "tools/stuck/collect.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/units.h"
#include "collectives/engine/rank_record.h"
#include "collectives/engine/stuck_reporter.h"
#include "collectives/options.h"

namespace tombolo::tools::stuck {
namespace {

using collectives::JobNote;
using collectives::RankRecord;
using collectives::RankReport;

/// The fields of /proc/PID/stat behind the name, which may hold anything: state, parent, ...
std::vector<std::string> stat_of(std::int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t end = text.rfind(')');
  std::vector<std::string> fields;
  if (end == std::string::npos) return fields;
  std::istringstream rest(text.substr(end + 1));
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

/// The processes of this machine, by number, with their parents.
std::map<std::int64_t, std::int64_t> processes() {
  std::map<std::int64_t, std::int64_t> parents;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator("/proc", error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const auto process = number_in(at->path().filename().string());
    if (!process) continue;
    const auto fields = stat_of(*process);
    if (fields.size() > 1) parents[*process] = number_in(fields[1]).value_or(0);
  }
  return parents;
}

bool same_job(const JobNote& a, const JobNote& b) {
  return a.port == b.port && a.size == b.size && a.prefix == b.prefix &&
         std::ranges::equal(a.secret.bytes(), b.secret.bytes());
}

Target target_of_process(std::int64_t process) {
  const auto parents = processes();
  if (!parents.contains(process)) fail(Cause::kInvalidUsage, "there is no process {}", process);
  const auto descends = [&](std::int64_t from) {
    for (int depth = 0; depth < 64 && from > 0; ++depth) {
      if (from == process) return true;
      const auto at = parents.find(from);
      from = at == parents.end() ? 0 : at->second;
    }
    return false;
  };
  std::optional<Target> lowest;
  for (const auto& [each, parent] : parents) {
    if (!descends(each)) continue;
    const auto notes = collectives::job_notes_of(each);
    if (notes.empty()) continue;
    if (!lowest || notes.front().rank < lowest->note.rank) lowest = Target{notes.front(), each};
  }
  if (!lowest) {
    fail(Cause::kInvalidUsage,
         "process {} and what it has started belong to no job of several ranks that this user may look at: "
         "TOMBOLO_STUCK_AFTER=0 turns that off, and ranks that only use the NCCL plugin say in NCCL's log "
         "what "
         "they wait for",
         process);
  }
  return *lowest;
}

Target target_of_store(const std::string& job) {
  const std::size_t colon = job.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : number_in(std::string_view(job).substr(colon + 1));
  if (colon == 0 || !port || *port > 65535) {
    fail(Cause::kInvalidUsage,
         "JOB '{}': expected the number of a process, or HOST:PORT of the store, such as 10.0.0.1:29400",
         job);
  }
  Target target;
  target.note.address = job.substr(0, colon);
  target.note.port = static_cast<int>(*port);
  target.note.prefix = "comm/0";
  target.note.size = 0;
  target.note.secret = collectives::secret_from_environment();
  return target;
}

bool same_namespace(std::int64_t process, const char* kind) {
  struct stat own {
  }, its{};
  if (::stat(fmt::format("/proc/self/ns/{}", kind).c_str(), &own) != 0) return true;
  if (::stat(fmt::format("/proc/{}/ns/{}", process, kind).c_str(), &its) != 0) return true;
  return own.st_ino == its.st_ino && own.st_dev == its.st_dev;
}

/// Emulated hosts have networks of their own.
void enter_network_of(std::int64_t process) {
  if (process == 0 || same_namespace(process, "net")) return;
  // Both are opened from outside: from within the user namespace the process may not be looked at.
  const auto opened = [&](const char* kind) {
    Descriptor file(::open(fmt::format("/proc/{}/ns/{}", process, kind).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) fail_errno(errno, fmt::format("open the {} namespace of process {}", kind, process));
    return file;
  };
  const auto enter = [&](const Descriptor& file, int kind) {
    if (::setns(file.get(), kind) != 0)
      fail_errno(errno, fmt::format("enter the network of process {}", process));
  };
  const Descriptor network = opened("net");
  if (!same_namespace(process, "user")) enter(opened("user"), CLONE_NEWUSER);
  enter(network, CLONE_NEWNET);
}

/// What local processes say of which rank they are.
void add_processes(const JobNote& note, JobView& view) {
  for (const auto& [process, parent] : processes()) {
    for (const JobNote& each : collectives::job_notes_of(process)) {
      if (!same_job(each, note) || each.rank < 0 || each.rank >= note.size) continue;
      RankView& rank = view.ranks[static_cast<std::size_t>(each.rank)];
      // A process that a rank has forked has the note too, and the higher number.
      if (rank.process != 0) continue;
      rank.process = process;
    }
  }
}

std::int64_t size_in(const RankRecord& record) {
  for (const auto& [name, value] : record.settings) {
    if (name == "number of ranks") return number_in(value).value_or(0);
  }
  return 0;
}

void ask_store(const Target& target, Duration patience, JobView& view) {
  const JobNote& note = target.note;
  const Deadline deadline = Deadline::after(patience);
  const auto store = collectives::Store::connect(note.address, note.port, note.secret, deadline, Log());
  const auto record_of = [&](std::int64_t rank) -> std::optional<RankRecord> {
    const auto bytes = store->try_get(fmt::format("{}/rank/{}", note.prefix, rank));
    if (!bytes) return std::nullopt;
    return RankRecord::decode(*bytes, static_cast<int>(rank));
  };
  if (view.ranks.empty()) {
    const auto first = record_of(0);
    if (!first) fail(Cause::kRemote, "the store holds no rank 0");
    const std::int64_t size = size_in(*first);
    if (size < 1 || size > (1 << 20)) fail(Cause::kRemote, "the store holds no number of ranks");
    for (std::int64_t rank = 0; rank < size; ++rank) view.ranks.push_back({rank, {}, 0, {}, {}});
  }
  for (RankView& one : view.ranks) {
    if (deadline.passed())
      fail(Cause::kTimeout, "its answers took more than {}", format_seconds(to_seconds(patience)));
    try {
      if (const auto record = record_of(one.rank)) one.host = record->host;
      if (const auto bytes = store->try_get(collectives::report_key(note.prefix, one.rank)))
        one.report = RankReport::decode(*bytes, one.rank);
    } catch (const Error& error) {
      if (deadline.passed() || error.cause() == Cause::kTimeout) throw;
      view.unreached.push_back(fmt::format("rank {}: {}", one.rank, error.what()));
    }
  }
}

/// A rank repeats its report for as long as it is stuck.
void add_overdue(JobView& view) {
  std::int64_t newest = 0;
  for (const RankView& one : view.ranks) newest = std::max(newest, one.report ? one.report->written_ns : 0);
  for (const RankView& one : view.ranks) {
    if (!one.stuck()) continue;
    const Duration behind(newest - one.report->written_ns);
    if (behind < 3 * collectives::StuckReporter::kRepeat) continue;
    view.unreached.push_back(fmt::format(
        "rank {} on host {} said that it waits {} before the newest report, and nothing since: it "
        "is stopped, or the clocks of the hosts differ",
        one.rank, one.host, format_seconds(to_seconds(behind))));
  }
}

}  // namespace

ProcessState process_state_of(std::int64_t process) {
  const auto fields = stat_of(process);
  if (fields.empty()) return ProcessState::kGone;
  switch (fields.front().front()) {
    case 'T':
    case 't':
      return ProcessState::kStopped;
    case 'Z':
    case 'X':
      return ProcessState::kGone;
    case 'D':
      return ProcessState::kBlocked;
    case 'R':
      return ProcessState::kRunning;
    default:
      return ProcessState::kSleeping;
  }
}

Target find_job(const std::string& job) {
  if (const auto process = number_in(job)) return target_of_process(*process);
  return target_of_store(job);
}

JobView collect(const Target& target, Duration patience) {
  JobView view;
  view.store = fmt::format("{}:{}", target.note.address, target.note.port);
  for (std::int64_t rank = 0; rank < target.note.size; ++rank) view.ranks.push_back({rank, {}, 0, {}, {}});
  add_processes(target.note, view);
  try {
    enter_network_of(target.process);
    ask_store(target, patience, view);
  } catch (const Error& error) {
    view.unreached.push_back(
        fmt::format("the store at {}, which rank 0's process keeps unless a unique id was made elsewhere: {}",
                    view.store, error.what()));
  }
  for (RankView& one : view.ranks) {
    if (one.process != 0) one.state = process_state_of(one.process);
    if (one.process == 0 && one.report) one.process = one.report->process;
    if (one.host.empty() && one.report) one.host = one.report->host;
  }
  add_overdue(view);
  return view;
}

}  // namespace tombolo::tools::stuck
