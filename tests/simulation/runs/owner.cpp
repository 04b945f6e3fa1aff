#include "tests/simulation/runs/owner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "tests/simulation/checks/pattern.h"

namespace tombolo::simulation {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using namespace transport;

namespace {

constexpr std::array<std::byte, Secret::kBytes> kSecret{};
// An end that shares memory is woken for all that it waits for: one that is not sleeps for longer than a run
// may take.
constexpr Duration kForever = seconds(1000);

}  // namespace

Owner::Owner(unsigned host, const Plan& plan, const RunOptions& options, World& world,
             std::function<void(std::string)> wrong)
    : host_(host), plan_(plan), options_(options), world_(world), wrong_(std::move(wrong)) {
  for (const Message& message : plan.messages) {
    if (message.from == host)
      to_send_.push_back(message);
    else
      ++account_.to_receive;
  }
  account_.to_send = to_send_.size();
}

RouterOptions Owner::router_options() {
  RouterOptions made;
  const bool share = plan_.over == Over::kShm;
  made.host.name = host_name(host_);
  // Processes of one host need no NIC.
  for (unsigned nic = 0; nic < plan_.nics && !share; ++nic) {
    topology::Nic one;
    one.name = fmt::format("eth{}", nic);
    one.addresses = {fmt::format("10.0.{}.{}", nic, host_ + 1)};
    one.rate_bits_per_second = 10'000'000'000;
    made.host.nics.push_back(one);
  }
  made.secret = Secret::from_bytes(kSecret);
  made.policy.transports = {"tcp"};
  if (share)
    made.policy.transports =
        plan_.or_tcp ? std::vector<std::string>{"shm", "tcp"} : std::vector<std::string>{"shm"};
  made.shm_fetch = plan_.fetch;
  made.tcp.streams = plan_.streams;
  made.tcp.chunk_bytes = plan_.chunk;
  made.tcp.replay_bytes = plan_.replay;
  made.tcp.checksums = plan_.checksums;
  made.tcp.idle_timeout = kIdleTimeout;
  if (plan_.tls) made.tls.use = TlsUse::kOn;
  made.meters = std::make_shared<Meters>();
  made.clock = &world_.clock();
  made.helpers = helpers_;
  if (options_.log) {
    made.log = Log(LogLevel::kTrace, [this](LogLevel, std::string_view text) {
      fmt::print("{:10.6f} h{}: {}\n", world_.elapsed(), host_, text);
    });
  }
  return made;
}

void Owner::run() {
  try {
    helpers_ =
        std::make_shared<bootstrap::ProcessHelpers>(bootstrap::ProcessHelpers::Simulated{}, world_.clock());
    router_ = std::make_unique<Router>(router_options());
    if (plan_.over == Over::kShm) draw_copy_costs();
    account_.connecting_since = account_.connected_at = world_.clock().now();
    if (make()) {
      account_.made = true;
      account_.connected_at = world_.clock().now();
      connection_ = with_defect(std::move(connection_), options_.defect, world_);
      while (work()) {
      }
      finished_ = true;
      // The peer's owner may still have to take what this one has sent.
      while (plan_.wait_before_close && account_.error.empty() && !peer_->finished_ && !dead()) {
        if (!connection_->progress()) wait(*connection_, milliseconds(50));
        if (connection_->error() != nullptr) break;
        world_.yield();
      }
    }
  } catch (const Error& error) {
    account_.connected_at = world_.clock().now();
    fail(error.what());
  }
  finished_ = true;
  close();
}

std::string Owner::host_name(unsigned host) const {
  return plan_.over == Over::kShm ? "h" : fmt::format("h{}", host);
}

/// In virtual time a copy costs nothing; which way is the cheaper one is drawn, now and then anew.
void Owner::draw_copy_costs() {
  if (!copies_) copies_ = shm::CopyBook::of(world_.kernel().process_of(1 - host_));
  for (shm::CopyCost* cost :
       {&copies_->into_ring, &copies_->announcing, &copies_->out_of_ring, &copies_->reading})
    cost->add(microseconds(1 + world_.random()() % 100), shm::kLongestRecord);
  if (world_.random()() % 2 == 0) copies_->choice.try_now();
}

bool Owner::make() {
  const bool made = host_ == 1 ? accept() : connect();
  if (made && options_.defect == Defect::kSlowConnect) sleep(seconds(20));
  if (made && options_.defect == Defect::kInterrupted && world_.kernel().interrupted(host_))
    ::tombolo::fail(Cause::kRemote, "connection to host {}: it was interrupted", host_name(1 - host_));
  return made;
}

bool Owner::accept() {
  listener_ = router_->listen();
  endpoint_ = listener_->endpoint().encode();
  const auto deadline = Deadline::after(kConnectDeadline + kIdleTimeout, world_.clock());
  while (!(connection_ = listener_->accept())) {
    if (dead() || !peer_->account_.error.empty()) return false;
    if (deadline.passed()) {
      fail("nobody came");
      return false;
    }
    wait(*listener_, milliseconds(200));
  }
  return true;
}

bool Owner::connect() {
  while (peer_->endpoint_.empty()) {
    if (peer_->finished_) return false;
    sleep(milliseconds(1));
  }
  account_.connecting_since = world_.clock().now();
  ConnectOptions options;
  options.label = 42;
  options.deadline = kConnectDeadline;
  options.peer_name = "the other";
  connecting_ = router_->connect(Endpoint::decode(peer_->endpoint_), options);
  while (!(connection_ = connecting_->poll())) {
    if (dead()) return false;
    wait(*connecting_, milliseconds(200));
  }
  connecting_.reset();
  return true;
}

template <typename Waiting>
void Owner::wait(const Waiting& on, Duration most) {
  handles_.clear();
  on.append_wait_handles(handles_);
  if (spins_.woken_for_nothing(world_.clock().now(), world_.kernel().moved(host_)))
    wrong_(fmt::format("host {}: woken again and again for nothing; ready:{}", host_,
                       world_.kernel().describe_ready(handles_)));
  world_.sleep(handles_, world_.clock().now() + most);
}

void Owner::fail(std::string text) {
  if (!account_.error.empty()) return;
  account_.error = std::move(text);
  account_.failed_at = world_.clock().now();
}

void Owner::note_error() {
  if (const Error* error = connection_->error(); error != nullptr) fail(error->what());
}

std::uint64_t Owner::messages_completed() const {
  const Statistics statistics = connection_->statistics();
  return statistics.messages_sent + statistics.messages_received;
}

/// One turn of an owner: posts, tests, waits. False once it has nothing more to do.
bool Owner::work() {
  const auto [sends, receives] = posted_now();
  bool moved = post(sends, receives);
  const std::uint64_t completed = messages_completed();
  moved |= test_some();
  // A peer that closes afterwards is no failure of this end's.
  if (account_.all_done() || dead()) return false;
  if (world_.gives_up(host_)) {
    fail("its owner gave it up");
    return false;
  }
  note_error();
  if (posted_.empty() && !account_.error.empty()) return false;
  // All requests of a failed connection are over, so that tests move something, unless one is never done:
  // that would take millions of turns until the run's time is over.
  if (!moved && !account_.error.empty()) sleep(milliseconds(1));
  moved = moved || !account_.error.empty() || connection_->progress();
  // A test may complete a request that was tested before it.
  if (!moved && messages_completed() == completed)
    wait(*connection_, plan_.over == Over::kShm ? kForever : seconds(1));
  else
    world_.yield();
  return true;
}

/// Requests are tested in any order. True where another round may find more: one was done, or not all were
/// tested, and who sleeps without that may sleep on one that is done.
bool Owner::test_some() {
  bool moved = false;
  std::ranges::shuffle(posted_, world_.random());
  for (std::size_t i = 0; i < posted_.size();) {
    std::size_t bytes = 0;
    const Outcome outcome = connection_->test(posted_[i].request, bytes);
    if (outcome == Outcome::kPending) {
      if (++i < posted_.size() && world_.random()() % 4 == 0) return true;
      continue;
    }
    moved = true;
    take(posted_[i], outcome, bytes);
    posted_.erase(posted_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return moved;
}

std::pair<std::size_t, std::size_t> Owner::posted_now() const {
  const auto sends = static_cast<std::size_t>(std::ranges::count(posted_, true, &Posted::send));
  return {sends, posted_.size() - sends};
}

bool Owner::post(std::size_t sends, std::size_t receives) {
  if (!account_.error.empty()) return false;
  bool moved = false;
  for (; receives < plan_.window[host_] && posted_receives_ < account_.to_receive && post_receive();
       ++receives)
    moved = true;
  for (; sends < plan_.window[host_] && posted_sends_ < to_send_.size() && post_send(); ++sends) moved = true;
  return moved;
}

bool Owner::post_receive() {
  Posted one;
  one.index = posted_receives_;
  // A receive may be larger than its message.
  one.buffer.assign(size_of_receive(one.index) + world_.random()() % 2 * 100, kUntouched);
  register_some(one);
  one.request = connection_->post_receive(one.buffer, one.memory.get());
  if (one.request == nullptr) return false;
  posted_.push_back(std::move(one));
  ++posted_receives_;
  return true;
}

bool Owner::post_send() {
  const Message& message = to_send_[posted_sends_];
  if (message.pause > Duration::zero() && !paused_) {
    paused_ = true;
    sleep(message.pause);
  }
  Posted one;
  one.send = true;
  one.index = posted_sends_;
  const auto bytes = message_bytes(host_, one.index, message.size);
  one.buffer.assign(bytes.begin(), bytes.end());
  register_some(one);
  one.request = connection_->post_send(one.buffer, one.memory.get());
  if (one.request == nullptr) return false;
  paused_ = false;
  posted_.push_back(std::move(one));
  ++posted_sends_;
  return true;
}

void Owner::register_some(Posted& one) {
  if (one.index % 2 == 0) one.memory = connection_->register_memory(one.buffer, MemoryKind::kHost);
}

void Owner::take(Posted& one, Outcome outcome, std::size_t bytes) {
  std::string wrong;
  if (outcome == Outcome::kFailed) {
    wrong = check_failed(host_, one.index, connection_->error(), host_name(1 - host_));
  } else if (one.send) {
    ++account_.done_sends;
    wrong = check_send(host_, one.index, bytes, one.buffer);
  } else {
    ++account_.done_receives;
    wrong = check_receive(host_, one.index, bytes, one.buffer,
                          message_bytes(1 - host_, one.index, size_of_receive(one.index)));
  }
  // The owner of a process that was killed is the simulation's alone.
  if (!wrong.empty() && !dead()) wrong_(wrong);
  if (copies_ && world_.random()() % 8 == 0) draw_copy_costs();
  take_back(one);
}

/// From now on the buffer is its owner's, and deregistered.
void Owner::take_back(Posted& one) {
  one.memory.reset();
  std::ranges::fill(one.buffer, kOver);
  over_.push_back(std::move(one.buffer));
}

void Owner::close() {
  world_.closing_begins();
  account_.closing_since = world_.clock().now();
  if (connection_) {
    if (!account_.all_done()) note_error();
    statistics_ = connection_->statistics();
    account_.closed_alone = statistics_.live_streams == 0;
    account_.shared_memory = connection_->route().transport == "shm";
  }
  for (Posted& one : posted_) one.memory.reset();
  connection_.reset();
  connecting_.reset();
  listener_.reset();
  account_.closed_at = world_.clock().now();
  // Requests that were under way are over with their connection.
  for (Posted& one : posted_) take_back(one);
  posted_.clear();
}

void Owner::move_in_background() {
  while (!account_.closed_at || !peer_->account_.closed_at) {
    if (helpers_ && !dead()) helpers_->background_progress().round();
    sleep(milliseconds(1 + world_.random()() % 20));
  }
  router_.reset();
  helpers_.reset();
}

Account Owner::account() const {
  Account account = account_;
  account.killed = dead();
  return account;
}

void Owner::check_buffers() const {
  for (const auto& buffer : over_)
    if (const std::string wrong = check_over(host_, buffer); !wrong.empty()) wrong_(wrong);
}

void Owner::abandon() {
  // Within reach for good, so that a leak checker takes none of it for lost.
  struct Abandoned {
    std::shared_ptr<shm::CopyBook> copies;
    std::unique_ptr<Connection> connection;
    std::unique_ptr<Connecting> connecting;
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Router> router;
    std::shared_ptr<bootstrap::ProcessHelpers> helpers;
  };
  static auto* const all = new std::vector<Abandoned>;
  all->push_back({std::move(copies_), std::move(connection_), std::move(connecting_), std::move(listener_),
                  std::move(router_), std::move(helpers_)});
}

}  // namespace tombolo::simulation
