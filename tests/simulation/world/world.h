// Time and turns: two or more pretended processes on one pretended network, moved by one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/simulation/plans/plan.h"
#include "tests/simulation/pretended/fibers.h"
#include "tests/simulation/pretended/pretended_kernel.h"
#include "transport/shm/steps.h"

namespace tombolo::simulation {

/// Runs actors in a random order, and lets time pass where all of them sleep. Of actors that share memory
/// another one may go on at any step.
class World final : public transport::shm::Steps {
 public:
  explicit World(const Plan& plan);
  ~World() override;

  FakeClock& clock() noexcept { return clock_; }
  PretendedKernel& kernel() noexcept { return kernel_; }
  Network& network() noexcept { return network_; }
  std::mt19937_64& random() noexcept { return random_; }

  /// Prints which streams faults reset, with the virtual time.
  void set_log(bool log) noexcept { log_ = log; }
  /// Adds an actor that runs on that host.
  void add(unsigned host, std::function<void()> body);
  /// Called by an actor: lets others go on.
  void yield();
  /// Called by an actor: lets others go on until then, or until a handle is ready.
  void sleep(std::span<const pollfd> handles, TimePoint until);

  /// Runs until all actors have ended. Returns what is wrong: everybody sleeps for ever, or virtual time has
  /// passed `limit`; empty where nothing is.
  std::string run(Duration limit);
  /// Called by an owner that begins to close its connection: faults may wait for that.
  void closing_begins();
  /// When a fault struck after which the connection cannot go on.
  std::optional<TimePoint> terminal_fault() const noexcept {
    return terminal_ ? terminal_ : kernel_.read_failed();
  }
  /// Whether the owner on that host is to close its connection now.
  bool gives_up(unsigned host) const noexcept { return gives_up_[host]; }
  /// When a fault last cut a stream, or may have made an end give one up.
  TimePoint last_cut() const noexcept;
  /// Virtual time that has passed.
  double elapsed() const noexcept { return to_seconds(clock_.now() - kBegin); }
  std::uint64_t turns() const noexcept { return turns_; }
  /// A checksum of who ran at which time, and of which random numbers were drawn.
  std::uint64_t course() const noexcept { return course_; }

 private:
  static constexpr TimePoint kBegin{std::chrono::seconds(1000)};
  struct Actor {
    unsigned host = 0;
    std::span<const pollfd> handles;
    std::optional<TimePoint> until;  // asleep until then
    bool at_step = false;            // it stands between two accesses, and may hold a lock of its process
  };
  void between_accesses() noexcept override;
  void strike(const Fault& fault);
  void silence(unsigned nic, TimePoint until);
  void slow_down(unsigned nic, TimePoint until);
  void add_fault(Fault fault);
  void strike_due();
  bool can_run(std::size_t actor);
  std::optional<TimePoint> next_time();

  const Plan& plan_;
  FakeClock clock_;
  std::mt19937_64 random_;
  Network network_;
  PretendedKernel kernel_;
  Fibers fibers_;
  std::vector<Actor> actors_;
  std::vector<Fault> faults_;             // by time, the last first
  std::vector<Fault> faults_at_closing_;  // those that wait for it
  std::vector<Fault> faults_at_step_;     // those that wait for their host's step
  std::uint64_t steps_[16]{};             // of each host
  unsigned at_step_[16]{};                // actors of each host that stand at one
  std::optional<transport::shm::StepsInPlace> steps_in_place_;
  struct Ending {
    TimePoint at;
    std::function<void()> end;
    bool silence = false;
  };
  std::vector<Ending> endings_;
  TimePoint stopped_until_[16]{};
  std::optional<TimePoint> terminal_;
  bool cut_for_good_ = false, gives_up_[2]{};
  TimePoint last_silence_{};
  std::uint64_t turns_ = 0, course_ = 0;
  bool log_ = false;
};

}  // namespace tombolo::simulation
