#include "net_plugin/rma/group.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "net_plugin/comms/lane_label.h"
#include "net_plugin/comms/listen_comm.h"
#include "net_plugin/rma/parameters.h"
#include "transport/memory/pair.h"

namespace tombolo::net_plugin::rma {
namespace {

/// What closing gives the answers that are still on their way.
constexpr Duration kAnswerTime = std::chrono::seconds(5);
/// Looking for new connections is a system call, and they are rare.
constexpr unsigned kPassesPerArrival = 64;

}  // namespace

Listening::Listening(std::shared_ptr<const Node> of, const NetDevice& at, Log to)
    : node(std::move(of)),
      device(at),
      log(std::move(to)),
      secret(transport::Secret::random()),
      door(std::make_shared<Door>(make_router(*node, device, secret, log, -1, nullptr))) {}

HandleBytes Listening::handle() const {
  return Handle{secret, door->endpoint(), node->groups, false}.encode();
}

Group::Group(const Listening& listening, std::span<const HandleBytes> handles, std::uint32_t rank)
    : node_(listening.node),
      device_(listening.device),
      log_(listening.log),
      door_(listening.door),
      rank_(rank),
      by_nic_(kRmaParameter.choice() == "auto"),
      pieces_(node_->gpu->staging()) {
  if (rank >= handles.size())
    fail(Cause::kInvalidUsage, "rank {} is none of the {} ranks of a group of one-sided operations", rank,
         handles.size());
  peers_.reserve(handles.size());
  for (const HandleBytes& bytes : handles) peers_.push_back(Handle::decode(bytes));
}

Group::~Group() {
  door_->close();
  const Deadline deadline = Deadline::after(kAnswerTime);
  const std::lock_guard guard(lock_);
  for (auto& target : targets_) target->stop();
  while (!deadline.passed()) {
    bool any = false;
    for (auto& target : targets_) {
      target->progress();
      any |= !target->over() && target->answering();
    }
    if (!any) break;
    std::this_thread::yield();
  }
  targets_.clear();
  initiators_.clear();
}

Window* Group::add_window(std::span<std::byte> memory, int type) {
  const std::lock_guard guard(lock_);
  auto made = std::make_unique<Window>();
  made->base = memory.data();
  made->bytes = memory.size();
  if (type == abi::NCCL_PTR_CUDA) {
    made->copier = &pieces_.staging().copier_of(memory.data());
    pieces_.provide();
  } else if (type != abi::NCCL_PTR_HOST) {
    fail(Cause::kUnsupported, "a window of memory type {}: host memory is {}, GPU memory {}", type,
         abi::NCCL_PTR_HOST, abi::NCCL_PTR_CUDA);
  }
  made->number = next_window_;
  Window* window = made.get();
  windows_.emplace(next_window_++, std::move(made));
  return window;
}

void Group::remove_window(const Window* window) {
  const std::lock_guard guard(lock_);
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const auto& one) { return one.second.get() == window; });
  if (found == windows_.end())
    fail(Cause::kInvalidUsage, "{} is no window of this group, or one that was deregistered already",
         static_cast<const void*>(window));
  const std::string why =
      fmt::format("window {} was deregistered while an operation used it", window->number);
  for (auto& [rank, initiator] : initiators_) {
    if (initiator->uses(*window)) {
      initiator->fail(why);
      failed_ = true;
    }
    if (initiator->error() != nullptr) initiator->stop_copies();
  }
  for (auto& target : targets_) {
    if (!target->uses(*window)) continue;
    target->abandon(why);
    failed_ = true;
  }
  for (auto& [rank, initiator] : initiators_) initiator->forget(*window);
  for (auto& target : targets_) target->forget(*window);
  std::erase_if(targets_, [](const auto& target) { return target->over(); });  // with the copies under way
  windows_.erase(found);
}

const Window* Group::find(std::uint32_t number) const noexcept {
  const auto found = windows_.find(number);
  return found != windows_.end() ? found->second.get() : nullptr;
}

void Group::note(const std::string& what) const noexcept {
  log_.info("one-sided operations: {}", what);
}

bool Group::take_turn(const void* owner) noexcept {
  if (turn_ == nullptr) turn_ = owner;
  return turn_ == owner;
}

void Group::end_turn(const void* owner) noexcept {
  if (turn_ == owner) turn_ = nullptr;
}

Initiator::Dial Group::dial(std::uint32_t rank) {
  return [this, rank] {
    const Handle& handle = peers_[rank];
    transport::ConnectOptions options;
    options.deadline = node_->deadline;
    options.label = LaneLabel{rank_, std::nullopt}.encode();
    options.peer_name = fmt::format("rank {}", rank);
    // The peer may have more NICs than its handle has room for; a connection of NCCL's net to it has asked.
    const auto known = handle.more_nics ? node_->peers->find(handle.endpoint) : std::nullopt;
    Initiator::Dialled dialled;
    dialled.router = make_router(*node_, device_, handle.secret, log_, traffic_class_, nullptr);
    dialled.connecting = dialled.router->connect(known ? *known : handle.endpoint, options);
    return dialled;
  };
}

Initiator& Group::initiator(std::uint32_t rank) {
  auto& found = initiators_[rank];
  if (found) return *found;
  if (rank != rank_) {
    found = std::make_unique<Initiator>(dial(rank), pieces_, by_nic_);
  } else {
    auto [asks, answers] = transport::memory::make_pair();
    found = std::make_unique<Initiator>(std::move(asks), pieces_, by_nic_);
    targets_.push_back(std::make_unique<Target>(rank, std::move(answers), windows(), pieces_));
  }
  return *found;
}

void Group::check_here(const Window* window, std::uint64_t offset, std::uint64_t bytes,
                       const char* what) const {
  if (window == nullptr)
    fail(Cause::kInvalidUsage, "a {} of {} bytes without registered memory", what, bytes);
  if (!window->holds(offset, bytes)) {
    fail(Cause::kInvalidUsage, "a {} of {} bytes at offset {} of window {}, which has {} bytes on this rank",
         what, bytes, offset, window->number, window->bytes);
  }
}

Operation* Group::post(std::uint32_t rank, const RequestFrame& frame, const Window* local,
                       std::uint64_t local_offset) {
  if (rank >= peers_.size()) {
    fail(Cause::kInvalidUsage,
         "an operation on rank {} of a group of {} ranks, window {}, offset {}, {} bytes", rank,
         peers_.size(), frame.window, frame.offset, frame.bytes);
  }
  Initiator& to = initiator(rank);
  if (to.error() != nullptr) fail(Cause::kRemote, "rank {}: {}", rank, *to.error());
  if (free_.empty()) free_.push_back(&operations_.emplace_back());
  Operation* operation = free_.back();
  free_.pop_back();
  operation->begin(rank, frame, local, local_offset);
  to.add(*operation);
  to.progress();
  return operation;
}

Operation* Group::put(std::uint32_t rank, const Window* from, std::uint64_t from_offset, std::uint64_t bytes,
                      const Window* window, std::uint64_t offset, const Signal& signal) {
  const std::lock_guard guard(lock_);
  RequestFrame frame;
  frame.kind = OperationKind::kPut;
  if (bytes > 0) {
    check_here(from, from_offset, bytes, "put");
    if (window == nullptr)
      fail(Cause::kInvalidUsage, "a put of {} bytes to rank {} without its window", bytes, rank);
    frame.window = window->number;
    frame.offset = offset;
    frame.bytes = bytes;
  }
  if (signal.window != nullptr) {
    frame.signal_window = signal.window->number;
    frame.signal_offset = signal.offset;
    frame.signal_add = signal.add;
  }
  return post(rank, frame, bytes > 0 ? from : nullptr, from_offset);
}

Operation* Group::get(std::uint32_t rank, const Window* window, std::uint64_t offset, std::uint64_t bytes,
                      const Window* to, std::uint64_t to_offset) {
  const std::lock_guard guard(lock_);
  RequestFrame frame;
  frame.kind = OperationKind::kGet;
  if (bytes > 0) {
    check_here(to, to_offset, bytes, "get");
    if (window == nullptr)
      fail(Cause::kInvalidUsage, "a get of {} bytes from rank {} without its window", bytes, rank);
    frame.window = window->number;
    frame.offset = offset;
    frame.bytes = bytes;
  }
  return post(rank, frame, bytes > 0 ? to : nullptr, to_offset);
}

Operation* Group::flush(std::uint32_t rank) {
  const std::lock_guard guard(lock_);
  return post(rank, {}, nullptr, 0);
}

void Group::take_arrivals() {
  while (auto arrival = door_->accept()) {
    door_->forget(arrival->comm);
    if (arrival->comm >= peers_.size()) {
      log_.warning("a connection from {} is closed: it says it is rank {} of a group of {}",
                   arrival->connection->route().peer_host, arrival->comm, peers_.size());
      continue;
    }
    targets_.push_back(
        std::make_unique<Target>(arrival->comm, std::move(arrival->connection), windows(), pieces_));
  }
}

void Group::look_for_stalls() noexcept {
  if (!node_->stalls) return;
  StallReports& reports = *node_->stalls;
  const TimePoint now = node_->router.clock->now();
  try {
    for (auto& [rank, initiator] : initiators_) {
      const std::optional<OperationStall> found = initiator->look_for_stall(now, reports.limit());
      if (found && reports.may_tell(now)) log_.warning("{}", stall_text(reports, *found));
    }
  } catch (...) {
    // Telling ran out of memory, and the job may go on.
  }
}

void Group::progress_locked() {
  if (passes_++ % kPassesPerArrival == 0) take_arrivals();
  if (passes_ % StallWatch::kCalls == 0) look_for_stalls();
  for (auto& [rank, initiator] : initiators_) {
    initiator->progress();
    failed_ |= initiator->error() != nullptr;
  }
  for (auto at = targets_.begin(); at != targets_.end();) {
    Target& target = **at;
    target.progress();
    if (!target.over()) {
      ++at;
      continue;
    }
    if (!target.error().empty()) {
      failed_ = true;
      log_.warning("one-sided operations: {}", target.error());
    }
    at = targets_.erase(at);
  }
}

void Group::progress() {
  const std::lock_guard guard(lock_);
  progress_locked();
}

bool Group::test(Operation* operation) {
  const std::lock_guard guard(lock_);
  if (operation->state == Operation::State::kUnderWay) progress_locked();
  if (operation->state == Operation::State::kUnderWay) return false;
  const bool done = operation->state == Operation::State::kDone;
  operation->state = Operation::State::kFree;
  free_.push_back(operation);
  if (done) return true;
  failed_ = true;
  // The connection's error may be another operation's.
  const std::string what = describe(*operation), &why = *initiators_.at(operation->rank)->error();
  fail(Cause::kRemote, "{}", why.starts_with(what) ? why : fmt::format("{}: {}", what, why));
}

bool Group::failed() const {
  const std::lock_guard guard(lock_);
  return failed_;
}

void Group::set_traffic_class(int traffic_class) {
  const int checked = checked_traffic_class(traffic_class);
  const std::lock_guard guard(lock_);
  if (checked != abi::NCCL_NET_TRAFFIC_CLASS_UNDEF) traffic_class_ = checked;
}

}  // namespace tombolo::net_plugin::rma
