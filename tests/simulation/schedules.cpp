#include "tests/simulation/schedules.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"

namespace tombolo::simulation {
namespace {

using std::chrono::seconds;

// A schedule takes milliseconds, and under a sanitizer seconds.
constexpr Duration kLongestSchedule = seconds(60);

/// What a job shares with the process that waits for it.
struct Progress {
  std::atomic<std::uint64_t> seed{0};
  Totals totals;
  bool finished = false;
};

/// Memory that a job and its parent share.
class SharedProgress {
 public:
  SharedProgress() {
    void* memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail_errno(errno, "map what a job of the simulator shares");
    progress_ = new (memory) Progress;
  }
  ~SharedProgress() {
    if (progress_ != nullptr) munmap(progress_, sizeof(Progress));
  }
  SharedProgress(SharedProgress&& other) noexcept : progress_(std::exchange(other.progress_, nullptr)) {}
  SharedProgress& operator=(SharedProgress&&) = delete;
  Progress* operator->() const noexcept { return progress_; }

 private:
  Progress* progress_;
};

volatile std::sig_atomic_t stopped = 0;

void stop(int) {
  stopped = 1;
}

void say(const std::string& text) {
  // With one call, so that lines of several jobs do not mix.
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void report(const Schedules& schedules, std::uint64_t seed, const std::string& wrong) {
  say(fmt::format("seed {}: {}\n  {}\n", seed, wrong, how_to_repeat(schedules, seed)));
}

void add(Totals& totals, const Verdict& verdict) {
  ++totals.plans;
  totals.wrong += !verdict.ok();
  totals.connected += verdict.connected;
  totals.failed += verdict.failed;
  totals.tls += verdict.tls;
  totals.messages += verdict.messages;
  totals.breaks += verdict.breaks;
  totals.rejoins += verdict.rejoins;
  totals.replayed += verdict.replayed;
  totals.virtual_seconds += verdict.seconds;
}

void add(Totals& totals, const Totals& more) {
  for (const auto member : {&Totals::plans, &Totals::wrong, &Totals::connected, &Totals::failed, &Totals::tls,
                            &Totals::messages, &Totals::breaks, &Totals::rejoins, &Totals::replayed})
    totals.*member += more.*member;
  totals.virtual_seconds += more.virtual_seconds;
  totals.seconds += more.seconds;
}

void run_job(const Schedules& schedules, unsigned job, Progress& progress) {
  const std::clock_t begin = std::clock();
  const auto used = [begin] { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; };
  const std::uint64_t end = schedules.first + schedules.count;
  for (std::uint64_t seed = schedules.first + job; seed < end; seed += schedules.jobs) {
    progress.seed = seed;
    RunOptions options;
    options.defect = schedules.defect;
    const Verdict verdict = run_plan(draw_plan(schedules.under, seed, schedules.over), options);
    add(progress.totals, verdict);
    progress.totals.seconds = used();
    if (schedules.each)
      say(fmt::format("seed {}: {} turns, {:.6f} s of virtual time, {} messages, course {:016x}\n", seed,
                      verdict.turns, verdict.seconds, verdict.messages, verdict.course));
    if (!verdict.ok()) report(schedules, seed, verdict.wrong);
    if (stopped != 0 || progress.totals.wrong >= schedules.most_wrong) break;
    if (schedules.seconds > 0 && progress.totals.seconds >= schedules.seconds) break;
  }
  progress.finished = true;
}

/// Waits for a job, and ends it where one seed takes too long.
void await(pid_t process, Progress& progress, const Schedules& schedules) {
  const Clock& clock = Clock::steady();
  std::uint64_t seed = 0;
  TimePoint since = clock.now();
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process || (ended < 0 && errno != EINTR)) break;
    if (stopped != 0) kill(process, SIGTERM);
    if (const std::uint64_t now = progress.seed; now != seed) {
      seed = now;
      since = clock.now();
    }
    if (clock.now() - since > kLongestSchedule) {
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
      break;
    }
    poll(nullptr, 0, 10);
  }
  if (progress.finished) return;
  ++progress.totals.plans;
  ++progress.totals.wrong;
  report(schedules, progress.seed,
         WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
             ? "it was not over after 60 s of real time, or its process was killed"
             : fmt::format("its process ended (wait status {:#x})", status));
}

/// Options that a plan does not hold.
std::string layer_and_defect(const Schedules& of) {
  std::string with;
  if (of.under != Under::kConnection) with += fmt::format(" --under {}", name_of(of.under));
  if (of.defect != Defect::kNone) with += fmt::format(" --defect {}", name_of(of.defect));
  return with;
}

}  // namespace

std::string Totals::describe(const Schedules& of) const {
  return fmt::format(
      "{} plans from seed {} in {:.1f} s of processor time ({:.0f} per hour and core), {} with TLS: {} "
      "wrong; {} "
      "connected, {} with an end that failed, {} messages, {} breaks, {} rejoins, {} chunks sent again, "
      "{:.0f} s of "
      "virtual time\n",
      plans, of.first, seconds, per_core_hour(), tls, wrong, connected, failed, messages, breaks, rejoins,
      replayed, virtual_seconds);
}

std::string Totals::encode(const Schedules& of) const {
  return nlohmann::json{{"under", name_of(of.under)},
                        {"over", name_of(of.over)},
                        {"first", of.first},
                        {"jobs", of.jobs},
                        {"schedules", plans},
                        {"wrong", wrong},
                        {"tls", tls},
                        {"connected", connected},
                        {"with_an_end_that_failed", failed},
                        {"messages", messages},
                        {"streams_counted", true},
                        {"streams_broken", breaks},
                        {"streams_back", rejoins},
                        {"chunks_sent_again", replayed},
                        {"virtual_seconds", virtual_seconds},
                        {"processor_seconds", seconds},
                        {"schedules_per_core_hour", per_core_hour()}}
      .dump();
}

std::string how_to_repeat(const Schedules& of, std::uint64_t seed) {
  const std::string over = of.over == Over::kTcp ? "" : fmt::format(" --over {}", name_of(of.over));
  const std::string with = fmt::format("--seed {}{}{}", seed, over, layer_and_defect(of));
  return fmt::format("repeat: simulate {} --log   shorten: simulate {} --shrink", with, with);
}

std::string how_to_repeat(const Schedules& of, const AnyPlan& plan) {
  return fmt::format("repeat: simulate --plan - --log{} <<< '{}'", layer_and_defect(of), encode(plan));
}

Totals run_schedules(const Schedules& schedules) {
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  std::vector<SharedProgress> all(schedules.jobs);
  std::vector<pid_t> processes;
  std::fflush(stdout);
  for (unsigned job = 0; job < schedules.jobs; ++job) {
    const pid_t process = fork();
    if (process < 0) fail_errno(errno, "fork a job of the simulator");
    if (process == 0) {
      run_job(schedules, job, *all[job].operator->());
      std::fflush(stdout);
      _exit(0);
    }
    processes.push_back(process);
  }
  Totals totals;
  for (unsigned job = 0; job < schedules.jobs; ++job) {
    await(processes[job], *all[job].operator->(), schedules);
    add(totals, all[job]->totals);
  }
  return totals;
}

}  // namespace tombolo::simulation
