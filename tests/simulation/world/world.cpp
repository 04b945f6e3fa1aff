#include "tests/simulation/world/world.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/format.h"
#include "base/units.h"
#include "transport/shm/ring.h"

namespace tombolo::simulation {

using std::chrono::microseconds;

World::World(const Plan& plan)
    : plan_(plan),
      random_(plan.seed),
      network_(clock_, random_),
      kernel_(clock_, network_, random_,
              [this](std::span<const pollfd> handles, TimePoint until) { sleep(handles, until); }) {
  clock_.advance(kBegin.time_since_epoch());
  kernel_.set_short_calls(plan.short_one_in);
  for (unsigned nic = 0; nic < plan.nics; ++nic) {
    network_.path(nic).delay = plan.delay;
    network_.path(nic).bytes_per_second = plan.bytes_per_second;
  }
  if (plan.over == Over::kShm) {
    kernel_.make_one_machine([this] { between_accesses(); });
    steps_in_place_.emplace(*this);
    transport::shm::area_traffic = 0;
    transport::shm::set_traffic_of_lap(plan.lap);
  }
  for (const Fault& fault : plan.faults) {
    if (fault.step != 0)
      faults_at_step_.push_back(fault);
    else if (fault.from == Fault::From::kStart)
      add_fault(fault);
    else
      faults_at_closing_.push_back(fault);
  }
}

World::~World() {
  if (steps_in_place_) transport::shm::set_traffic_of_lap(0);
}

void World::between_accesses() noexcept {
  if (fibers_.current() == Fibers::npos) return;  // the objects are being destroyed
  const unsigned host = actors_[fibers_.current()].host;
  const std::uint64_t step = ++steps_[host];
  bool struck = false;
  for (const Fault& fault : faults_at_step_) {
    if (fault.host != host || fault.step != step) continue;
    strike(fault);
    struck = true;
  }
  if (!struck && (plan_.yield_one_in == 0 || random_() % plan_.yield_one_in != 0)) return;
  const std::size_t actor = fibers_.current();
  actors_[actor].at_step = true;
  ++at_step_[host];
  fibers_.yield();
  --at_step_[host];
  actors_[actor].at_step = false;
}

/// From now on the fault's time is one of the clock's.
void World::add_fault(Fault fault) {
  fault.at += clock_.now().time_since_epoch();
  const auto later = std::ranges::find_if(faults_, [&](const Fault& one) { return one.at <= fault.at; });
  faults_.insert(later, fault);
}

void World::closing_begins() {
  for (const Fault& fault : std::exchange(faults_at_closing_, {})) add_fault(fault);
}

TimePoint World::last_cut() const noexcept {
  const bool silent = std::ranges::any_of(endings_, &Ending::silence) || cut_for_good_;
  return std::max({network_.last_cut(), silent ? clock_.now() : last_silence_});
}

void World::add(unsigned host, std::function<void()> body) {
  fibers_.add(std::move(body));
  actors_.push_back({host, {}, std::nullopt});
}

void World::yield() {
  fibers_.yield();
}

void World::sleep(std::span<const pollfd> handles, TimePoint until) {
  if (fibers_.current() == Fibers::npos) {
    // Nobody else is there: the objects are being destroyed.
    clock_.advance(std::max<Duration>(std::min(until - clock_.now(), Duration(std::chrono::milliseconds(1))),
                                      Duration(1)));
    network_.settle();
    return;
  }
  Actor& actor = actors_[fibers_.current()];
  if (plan_.early_one_in != 0 && random_() % plan_.early_one_in == 0)
    until = std::min(until, clock_.now() + microseconds(random_() % 200));
  actor.handles = handles;
  actor.until = until;
  fibers_.yield();
  kernel_.set_host(actor.host);
  Actor& again = actors_[fibers_.current()];
  again.handles = {};
  again.until.reset();
}

bool World::can_run(std::size_t index) {
  const Actor& actor = actors_[index];
  if (fibers_.ended(index) || stopped_until_[actor.host] > clock_.now()) return false;
  // All threads are one, so that another actor of the process would wait for its lock for ever.
  if (!actor.at_step && at_step_[actor.host] != 0) return false;
  return !actor.until || *actor.until <= clock_.now() || kernel_.ready(actor.handles);
}

std::optional<TimePoint> World::next_time() {
  std::optional<TimePoint> soonest;
  const TimePoint now = clock_.now();
  auto note = [&](std::optional<TimePoint> at) {
    if (at && *at > now) soonest = soonest ? std::min(*soonest, *at) : *at;
  };
  note(network_.next());
  note(kernel_.next_timer());
  for (std::size_t i = 0; i < actors_.size(); ++i)
    if (!fibers_.ended(i) && actors_[i].until && *actors_[i].until != TimePoint::max())
      note(actors_[i].until);
  for (const TimePoint until : stopped_until_) note(until);
  if (!faults_.empty()) note(TimePoint(faults_.back().at));
  for (const Ending& one : endings_) note(one.at);
  return soonest;
}

void World::strike_due() {
  const TimePoint now = clock_.now();
  for (std::size_t i = 0; i < endings_.size();) {
    if (endings_[i].at > now) {
      ++i;
      continue;
    }
    const auto end = std::move(endings_[i].end);
    endings_.erase(endings_.begin() + static_cast<std::ptrdiff_t>(i));
    end();
  }
  while (!faults_.empty() && TimePoint(faults_.back().at) <= now) {
    const Fault fault = faults_.back();
    faults_.pop_back();
    strike(fault);
  }
}

void World::silence(unsigned nic, TimePoint until) {
  network_.set_silent(nic, true);
  const auto end = [this, nic] {
    last_silence_ = clock_.now();
    if (!cut_for_good_) network_.set_silent(nic, false);
  };
  endings_.push_back({until, end, true});
}

void World::slow_down(unsigned nic, TimePoint until) {
  Path& path = network_.path(nic);
  path.delay = plan_.delay + std::chrono::milliseconds(20);
  path.bytes_per_second = plan_.bytes_per_second / 100;
  const auto end = [this, nic] {
    network_.path(nic).delay = plan_.delay;
    network_.path(nic).bytes_per_second = plan_.bytes_per_second;
  };
  endings_.push_back({until, end, false});
}

void World::strike(const Fault& fault) {
  const TimePoint end = clock_.now() + fault.lasts;
  if (fault.terminal() && !terminal_) terminal_ = clock_.now();
  switch (fault.kind) {
    case Fault::Kind::kReset:
    case Fault::Kind::kHalfReset: {
      const auto streams = kernel_.streams_of(fault.host);
      if (streams.empty()) return;
      network_.settle();
      Socket& socket = *streams[fault.stream % streams.size()];
      if (log_)
        fmt::print("{:10.6f} reset: port {} of host {} NIC {}, peer's port {}\n", elapsed(), socket.own.port,
                   fault.host, nic_of(socket.own.host), socket.peer.port);
      network_.reset(socket, true, fault.kind == Fault::Kind::kReset);
      return;
    }
    case Fault::Kind::kSilence:
      return silence(fault.nic, end);
    case Fault::Kind::kSilentHost:
      for (unsigned nic = 0; nic < plan_.nics; ++nic) silence(nic, end);
      return;
    case Fault::Kind::kUnreachable:
      network_.set_closed(fault.host, true);
      endings_.push_back({end, [this, host = fault.host] { network_.set_closed(host, false); }, false});
      return;
    case Fault::Kind::kSlow:
      return slow_down(fault.nic, end);
    case Fault::Kind::kStop:
      stopped_until_[fault.host] = std::max(stopped_until_[fault.host], end);
      return;
    case Fault::Kind::kErrno:
      kernel_.inject(fault.host, fault.call, fault.error, fault.times);
      return;
    case Fault::Kind::kPause:
      clock_.advance(fault.lasts);
      return;
    case Fault::Kind::kKill:
      kernel_.kill(fault.host);
      return;
    case Fault::Kind::kResetAll:
      network_.settle();
      for (const auto& stream : kernel_.streams_of(fault.host)) network_.reset(*stream, true, true);
      return;
    case Fault::Kind::kGiveUp:
      gives_up_[fault.host] = true;
      return;
    case Fault::Kind::kCutForGood:
      cut_for_good_ = true;
      for (unsigned nic = 0; nic < plan_.nics; ++nic) network_.set_silent(nic, true);
      return;
  }
}

std::string World::run(Duration limit) {
  const TimePoint end = clock_.now() + limit;
  std::vector<std::size_t> ready;
  for (;;) {
    strike_due();
    network_.settle();
    ready.clear();
    bool all_ended = true;
    for (std::size_t i = 0; i < actors_.size(); ++i) {
      all_ended = all_ended && fibers_.ended(i);
      if (can_run(i)) ready.push_back(i);
    }
    if (all_ended) return {};
    if (clock_.now() > end)
      return fmt::format("not over after {} of virtual time", format_seconds(to_seconds(limit)));
    if (ready.empty()) {
      const auto next = next_time();
      if (!next) return "everybody sleeps, and nothing will wake anybody";
      clock_.advance(*next - clock_.now());
      continue;
    }
    const std::size_t chosen = ready[random_() % ready.size()];
    kernel_.set_host(actors_[chosen].host);
    ++turns_;
    fibers_.run(chosen);
    const std::uint64_t drawn = random_();
    clock_.advance(microseconds(drawn % 20));
    const auto now = static_cast<std::uint64_t>(clock_.now().time_since_epoch().count());
    course_ = std::rotl(course_, 7) * 0x9e3779b97f4a7c15U + (drawn ^ chosen ^ now << 8);
  }
}

}  // namespace tombolo::simulation
