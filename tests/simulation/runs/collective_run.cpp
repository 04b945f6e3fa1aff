#include "tests/simulation/runs/collective_run.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "collectives/engine/communicator.h"
#include "tests/simulation/checks/allocations.h"
#include "tests/simulation/checks/pattern.h"
#include "tests/simulation/checks/reference.h"
#include "tests/simulation/runs/simulated_host.h"
#include "tests/simulation/world/simulated_store.h"

namespace tombolo::simulation {
namespace {

using collectives::CollectiveCall;
using collectives::Communicator;
using collectives::Work;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// For set-up, and for waits in which nothing moves.
constexpr Duration kPatience = 4 * kIdleTimeout;
// Where a rank dies during set-up, the one that keeps the store waits a deadline for it, and the first call
// another. Then it asks for 5 s who else is stuck, and for 2 s whom it may tell; a rank that sleeps hears of
// it within another second, and waits one more for last words.
constexpr Duration kLongestFailure = 2 * kPatience + std::chrono::seconds(10) + kMostTaken;
// With closing, which takes 5 s of each, and the time until the faults strike.
constexpr Duration kCollectiveLimit = 20 * kIdleTimeout;
constexpr std::size_t kGuardBytes = 16;

enum class RankState : std::uint8_t { kWorking, kFinished, kClosed };

/// A collective that was started.
struct StartedCall {
  Work work;
  std::size_t number = 0;                      // of its step
  std::deque<std::vector<std::byte>> buffers;  // what it sends, and what it receives
};

struct RankProcess {
  unsigned rank = 0;
  RankState state = RankState::kWorking;
  std::shared_ptr<transport::bootstrap::ProcessHelpers> helpers;
  std::shared_ptr<transport::Meters> meters;
  std::unique_ptr<Communicator> all, half;
  bool made = false, aborting = false;
  std::size_t steps_done = 0;
  std::deque<StartedCall> started;            // all in one communicator
  std::deque<std::vector<std::byte>> in_use;  // buffers of the step that is under way
  std::deque<std::vector<std::byte>> over;    // those of earlier ones, all kOver
  std::string failed;
  TimePoint failed_at{};
  Cause cause = Cause::kInternal;
};

struct StartedTransfer {
  Work work;
  std::size_t number = 0;                            // of the step's transfers
  const std::vector<std::byte>* received = nullptr;  // null where this rank sends
};

class CollectiveRun {
 public:
  CollectiveRun(const CollectivePlan& plan, const RunOptions& options)
      : plan_(plan), options_(options), world_(plan.network), store_(world_), ranks_(plan.ranks()) {
    world_.kernel().set_loses_bytes(options.defect == Defect::kLostByte);
    for (unsigned rank = 0; rank < plan.ranks(); ++rank) {
      ranks_[rank].rank = rank;
      everybody_.push_back(rank);
      halves_[rank % 2].push_back(rank);
    }
  }

  Verdict go() {
    const transport::KernelInPlace kernel(world_.kernel());
    for (RankProcess& rank : ranks_) {
      rank.helpers = std::make_shared<transport::bootstrap::ProcessHelpers>(
          transport::bootstrap::ProcessHelpers::Simulated{}, world_.clock());
      world_.add(rank.rank, [this, &rank] { own(rank); });
      world_.add(rank.rank, [this, &rank] { live(rank); });
    }
    if (plan_.abort) world_.add(plan_.abort->rank, [this] { abort(ranks_[plan_.abort->rank]); });
    const std::string wrong = world_.run(kCollectiveLimit);
    for (const RankProcess& rank : ranks_)
      if (rank.meters) count_streams(*rank.meters, verdict_);
    if (!wrong.empty()) {
      note(wrong + doing());
      // What still lies on the actors' stacks is lost, and with it what it refers to.
      for (RankProcess& rank : ranks_) new RankProcess(std::move(rank));
    } else {
      check_end();
    }
    return finish();
  }

 private:
  void note(const std::string& what) {
    if (verdict_.wrong.empty()) verdict_.wrong = what;
  }
  std::string doing() {
    static constexpr const char* kStates[] = {"working", "finished", "closed"};
    std::string text;
    for (const RankProcess& rank : ranks_) {
      text +=
          fmt::format("; rank {}: {}, {} of {} steps done{}{}", rank.rank,
                      kStates[static_cast<int>(rank.state)], rank.steps_done, plan_.steps.size(),
                      dead(rank) ? ", killed" : "", rank.failed.empty() ? "" : ", failed: " + rank.failed);
    }
    return text;
  }
  bool dead(const RankProcess& rank) { return world_.kernel().killed(rank.rank); }
  bool complete(const RankProcess& rank) const { return rank.steps_done == plan_.steps.size(); }
  void sleep(Duration how_long) { world_.sleep({}, world_.clock().now() + how_long); }

  collectives::Options options_of(RankProcess& rank) {
    collectives::Options made;
    made.identity.rank = static_cast<int>(rank.rank);
    made.identity.size = static_cast<int>(plan_.ranks());
    made.secret = transport::Secret::from_bytes(std::array<std::byte, transport::Secret::kBytes>{});
    made.log = log_of(options_, world_, rank.rank);
    made.router = router_options(plan_.network, rank.rank, world_, rank.helpers, made.log);
    rank.meters = made.router.meters;
    made.router.host.cluster = fmt::format("c{}", plan_.clusters[rank.rank]);
    made.algorithm = plan_.algorithm;
    made.tuning.segment_bytes = plan_.segment_bytes;
    made.tuning.small_bytes = plan_.small_bytes;
    made.deadline = kPatience;
    made.spin = Duration::zero();  // no virtual time passes while a process calculates
    made.store = store_.access(rank.rank);
    return made;
  }

  /// What the process of a rank does.
  void own(RankProcess& rank) {
    try {
      work(rank);
    } catch (const Error& error) {
      rank.failed = error.what();
      rank.cause = error.cause();
      rank.failed_at = world_.clock().now();
    }
    rank.state = RankState::kFinished;
    while (rank.aborting) sleep(milliseconds(1));
    world_.closing_begins();
    rank.half.reset();
    rank.all.reset();
    if (rank.rank == 0 && !dead(rank)) store_.leave();
    retire(rank);
    for (StartedCall& one : rank.started) retire(rank, one.buffers);
    rank.state = RankState::kClosed;
  }

  void work(RankProcess& rank) {
    sleep(Duration(static_cast<Duration::rep>(world_.random()() % 1'000'000)));
    rank.all = Communicator::create(options_of(rank));
    rank.made = true;
    if (plan_.halves)
      rank.half = rank.all->split(static_cast<int>(rank.rank % 2), static_cast<int>(rank.rank));
    for (std::size_t number = 0; number < plan_.steps.size() && !dead(rank); ++number) {
      if (world_.random()() % 8 == 0)
        sleep(Duration(static_cast<Duration::rep>(world_.random()() % 30'000'000)));
      carry_out(rank, number);
      ++rank.steps_done;
      retire(rank);
    }
    while (!rank.started.empty() && !dead(rank)) redeem(rank, world_.random()() % rank.started.size());
    if (plan_.finalizes && !dead(rank)) {
      if (rank.half) rank.half->finalize();
      rank.all->finalize();
    }
  }

  /// From now on the buffers of the last step are its owner's.
  static void retire(RankProcess& rank) { retire(rank, rank.in_use); }
  static void retire(RankProcess& rank, std::deque<std::vector<std::byte>>& buffers) {
    for (auto& buffer : buffers) {
      std::ranges::fill(buffer, kOver);
      rank.over.push_back(std::move(buffer));
    }
    buffers.clear();
  }

  Communicator& communicator_of(RankProcess& rank, std::size_t number) const {
    return plan_.steps[number].in_half ? *rank.half : *rank.all;
  }

  /// Waits for it, or polls first.
  void await(Communicator& communicator, Work work) {
    // test() has no deadline; who polls has to have one.
    const TimePoint patience =
        world_.clock().now() + Duration(static_cast<Duration::rep>(world_.random()() % 400'000'000));
    const bool polls = world_.random()() % 2 == 0;
    bool done = false;
    while (polls && !done && world_.clock().now() < patience) {
      done = communicator.test(work);
      if (!done) sleep(microseconds(1 + world_.random()() % 300));
    }
    if (!done) communicator.wait(work);
  }

  void redeem(RankProcess& rank, std::size_t which) {
    const auto at = rank.started.begin() + static_cast<std::ptrdiff_t>(which);
    await(communicator_of(rank, at->number), at->work);
    check_result(rank, at->number, at->buffers.back());
    retire(rank, at->buffers);
    rank.started.erase(at);
  }

  StepView view_of(const RankProcess& rank, std::size_t number) const {
    const CollectiveStep& step = plan_.steps[number];
    const std::vector<unsigned>& members = step.in_half ? halves_[rank.rank % 2] : everybody_;
    return {step, number, members,
            static_cast<std::size_t>(std::ranges::find(members, rank.rank) - members.begin())};
  }

  void check_result(RankProcess& rank, std::size_t number, const std::vector<std::byte>& receive) {
    ++messages_;
    std::vector<std::byte> expected = expected_of(view_of(rank, number));
    expected.resize(receive.size(), kUntouched);
    if (receive == expected) return;
    note(fmt::format("rank {}: step {} ({}{}) gave a wrong result", rank.rank, number,
                     collective_name(plan_.steps[number].collective),
                     plan_.steps[number].started ? ", started" : " by " + rank.all->last_algorithm()));
  }

  void carry_out(RankProcess& rank, std::size_t number) {
    const CollectiveStep& step = plan_.steps[number];
    // What was started on one communicator stands still while a rank waits on another, as for this step's
    // messages: so every rank waits for it first.
    const auto elsewhere = [&] {
      const bool in_half = plan_.steps[rank.started.front().number].in_half;
      return in_half != step.in_half || (in_half && !step.transfers.empty());
    };
    while (!rank.started.empty() && elsewhere()) redeem(rank, world_.random()() % rank.started.size());
    std::vector<StartedTransfer> started = start(rank, number);
    call(rank, number);
    std::ranges::shuffle(started, world_.random());
    for (const StartedTransfer& one : started) {
      await(*rank.all, one.work);
      if (one.received != nullptr && *one.received != guarded(message_of(step, number, one.number)))
        note(fmt::format("rank {}: message {} of step {} holds other bytes than were sent", rank.rank,
                         one.number, number));
      ++messages_;
    }
    // Not before the messages, which may be on another communicator than the collective.
    if (!rank.started.empty() && world_.random()() % 3 == 0)
      redeem(rank, world_.random()() % rank.started.size());
  }

  static std::vector<std::byte> guarded(std::vector<std::byte> bytes) {
    bytes.insert(bytes.end(), kGuardBytes, kUntouched);
    return bytes;
  }

  std::vector<StartedTransfer> start(RankProcess& rank, std::size_t number) {
    const CollectiveStep& step = plan_.steps[number];
    std::vector<StartedTransfer> started;
    for (std::size_t i = 0; i < step.transfers.size(); ++i) {
      const Transfer& one = step.transfers[i];
      if (one.from == rank.rank) {
        rank.in_use.push_back(message_of(step, number, i));
        started.push_back(
            {rank.all->start_send(rank.in_use.back().data(), one.bytes, static_cast<int>(one.to)), i,
             nullptr});
      }
      if (one.to == rank.rank) {
        rank.in_use.emplace_back(one.bytes + kGuardBytes, kUntouched);
        started.push_back(
            {rank.all->start_receive(rank.in_use.back().data(), one.bytes, static_cast<int>(one.from)), i,
             &rank.in_use.back()});
      }
    }
    return started;
  }

  void call(RankProcess& rank, std::size_t number) {
    const CollectiveStep& step = plan_.steps[number];
    const StepView view = view_of(rank, number);
    if (step.started) rank.started.push_back({{}, number, {}});
    std::deque<std::vector<std::byte>>& buffers = step.started ? rank.started.back().buffers : rank.in_use;
    buffers.push_back(input_of(view));
    const std::vector<std::byte>& send = buffers.back();
    buffers.emplace_back(output_bytes(view) + kGuardBytes, kUntouched);
    std::vector<std::byte>& receive = buffers.back();
    CollectiveCall made;
    made.collective = step.collective;
    made.send = send.data();
    made.receive = receive.data();
    made.count = step.count;
    made.type = step.type;
    made.op = step.op;
    made.root = static_cast<int>(view.root());
    const bool gathers = step.collective == collectives::Collective::kAllGather;
    if (step.in_place && (gathers || step.collective == collectives::Collective::kAllReduce)) {
      std::byte* own_part = receive.data() + (gathers ? view.me * send.size() : 0);
      std::ranges::copy(send, own_part);
      made.send = own_part;
    }
    Communicator& communicator = communicator_of(rank, number);
    if (step.started) {
      rank.started.back().work = communicator.start(made);
      return;
    }
    communicator.run(made);
    check_result(rank, number, receive);
  }

  /// What another thread of a rank does where its user aborts.
  void abort(RankProcess& rank) {
    sleep(plan_.abort->at);
    while (!rank.made && rank.state == RankState::kWorking && !dead(rank)) sleep(milliseconds(1));
    if (rank.state != RankState::kWorking || dead(rank)) return;
    rank.aborting = aborted_ = true;
    rank.all->abort("the simulation says so");
    rank.aborting = false;
  }

  /// The rest of a process: its background thread, and its end.
  void live(RankProcess& rank) {
    while (!std::ranges::all_of(ranks_,
                                [](const RankProcess& one) { return one.state == RankState::kClosed; })) {
      if (!dead(rank)) rank.helpers->background_progress().round();
      sleep(milliseconds(1 + world_.random()() % 20));
    }
    if (rank.helpers.use_count() != 1)
      note(fmt::format("rank {}: something still holds the process's helpers", rank.rank));
    rank.helpers.reset();
  }

  void check_end() {
    for (const RankProcess& rank : ranks_) {
      for (const auto& buffer : rank.over)
        if (!holds_only(kOver, buffer))
          note(fmt::format("rank {}: memory was written after its operation was over", rank.rank));
      if (dead(rank)) continue;
      if (const auto terminal = world_.terminal_fault();
          terminal && !rank.failed.empty() && rank.failed_at - *terminal > kLongestFailure)
        note(fmt::format("rank {} failed {} after what it had to notice", rank.rank,
                         format_seconds(to_seconds(rank.failed_at - *terminal))) +
             doing());
      if (!complete(rank) && rank.failed.empty())
        note(fmt::format("rank {} stopped without an error", rank.rank) + doing());
      const bool fitting = rank.cause == Cause::kRemote || rank.cause == Cause::kTimeout ||
                           rank.cause == Cause::kSystem || (rank.cause == Cause::kAborted && aborted_) ||
                           (rank.cause == Cause::kUnsupported && plan_.network.may_lack_a_way());
      if (!rank.failed.empty() && !fitting) note("a cause does not fit" + doing());
    }
    const bool survived = std::ranges::all_of(
        ranks_, [this](const RankProcess& rank) { return complete(rank) && rank.failed.empty(); });
    if (!survived && !world_.terminal_fault() && !aborted_ && !refused_by_system())
      note("what can be survived was not" + doing());
    if (const std::size_t left = world_.kernel().open_descriptors(); left != 0)
      note(fmt::format("{} descriptors are left:{}", left, world_.kernel().describe_open()));
  }

  /// Some errors of system calls may keep a rank or a connection from being made, which is then said.
  bool refused_by_system() const {
    return std::ranges::any_of(plan_.network.faults, &Fault::may_refuse) &&
           std::ranges::any_of(ranks_, [](const RankProcess& rank) {
             return !rank.failed.empty() &&
                    (!rank.made || rank.cause == Cause::kSystem || rank.cause == Cause::kUnsupported);
           });
  }

  Verdict finish() {
    verdict_.connected = std::ranges::all_of(ranks_, &RankProcess::made);
    verdict_.failed =
        std::ranges::any_of(ranks_, [](const RankProcess& rank) { return !rank.failed.empty(); });
    verdict_.messages = messages_;
    verdict_.tls = plan_.network.tls;
    verdict_.turns = world_.turns();
    verdict_.course = world_.course();
    verdict_.seconds = world_.elapsed();
    return verdict_;
  }

  const CollectivePlan& plan_;
  RunOptions options_;
  World world_;
  SimulatedStore store_;
  std::vector<RankProcess> ranks_;
  std::vector<unsigned> everybody_, halves_[2];
  bool aborted_ = false;
  std::uint64_t messages_ = 0;
  Verdict verdict_;
};

}  // namespace

Verdict run_collectives(const CollectivePlan& plan, const RunOptions& options) {
  return with_allocations_checked(options,
                                  [&](const RunOptions& one) { return CollectiveRun(plan, one).go(); });
}

}  // namespace tombolo::simulation
