#include "trainer/cuda/testing/pretended_device.h"

#include <thread>
#include <utility>

#include "base/error.h"
#include "trainer/cuda/operations/reference.h"

namespace tombolo::trainer::cuda {

/// Says that this thread puts work on a stream.
class PretendedDevice::StreamUse {
 public:
  StreamUse(PretendedDevice& device, Stream stream)
      : in_use_(device.in_use_[static_cast<std::size_t>(stream)]) {
    if (in_use_.exchange(true))
      fail(Cause::kInternal, "two threads put work on stream \"{}\" at once",
           stream_name(static_cast<int>(stream)));
  }
  ~StreamUse() { in_use_ = false; }
  StreamUse(const StreamUse&) = delete;
  StreamUse& operator=(const StreamUse&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

PretendedDevice::PretendedDevice(const PretendedOptions& options)
    : options_(options), streams_(options.seed, options.streams, options.operation_seconds, memory_) {}

PretendedDevice::~PretendedDevice() = default;

std::string PretendedDevice::name() const {
  return "pretended device";
}

std::string PretendedDevice::describe() const {
  return "pretended device";
}

double PretendedDevice::peak(Element /*element*/) const {
  return 0;
}

std::byte* PretendedDevice::add_allocation(std::size_t bytes, std::string_view what, bool host) {
  const std::scoped_lock lock(mutex_);
  if (started_) fail(Cause::kInternal, "{}: {} bytes are allocated after work has begun", what, bytes);
  return memory_.allocate(bytes, what, host);
}

std::byte* PretendedDevice::allocate(std::size_t bytes, std::string_view what) {
  return add_allocation(bytes, what, false);
}

std::byte* PretendedDevice::allocate_host(std::size_t bytes, std::string_view what) {
  return add_allocation(bytes, what, true);
}

std::size_t PretendedDevice::attention_scratch(const Attention& attention) const {
  return reference_attention_scratch(attention);
}

void PretendedDevice::put(Stream stream, PretendedCommand command) {
  const StreamUse use(*this, stream);
  const std::scoped_lock lock(mutex_);
  started_ = true;
  if (auto& capture = captures_[static_cast<std::size_t>(stream)])
    capture->push_back(std::move(command));
  else
    streams_.put(stream, std::move(command));
}

std::size_t PretendedDevice::workspace(const Attention& /*attention*/) const {
  return options_.workspace;
}

void PretendedDevice::lend_workspace(Stream stream, std::span<std::byte> memory) {
  const std::scoped_lock lock(mutex_);
  if (memory_.is_host("workspace", memory.data(), memory.size()))
    fail(Cause::kInternal, "the workspace of stream {} is the host's", stream_name(static_cast<int>(stream)));
  workspaces_[static_cast<std::size_t>(stream)] = memory;
}

void PretendedDevice::run(Stream stream, const Operation& operation) {
  PretendedCommand command{.kind = PretendedCommand::Kind::kOperation, .operation = operation};
  if (std::holds_alternative<Product>(operation) || std::holds_alternative<Attention>(operation)) {
    const std::span<std::byte> lent = workspaces_[static_cast<std::size_t>(stream)];
    if (lent.size() < options_.workspace)
      fail(Cause::kInternal, "{} on stream {}: {} bytes of workspace are lent, but {} needed", command.name(),
           stream_name(static_cast<int>(stream)), lent.size(), options_.workspace);
    command.workspace = lent;
  }
  put(stream, std::move(command));
}

void PretendedDevice::copy(Stream stream, void* to, const void* from, std::size_t bytes) {
  put(stream, {.kind = PretendedCommand::Kind::kCopy, .to = to, .from = from, .bytes = bytes});
}

void PretendedDevice::clear(Stream stream, void* at, std::size_t bytes) {
  put(stream, {.kind = PretendedCommand::Kind::kClear, .to = at, .bytes = bytes});
}

Event PretendedDevice::make_event() {
  const std::scoped_lock lock(mutex_);
  return streams_.make_event(false);
}

Event PretendedDevice::make_timed_event() {
  const std::scoped_lock lock(mutex_);
  return streams_.make_event(true);
}

double PretendedDevice::seconds_between(Event begin, Event end) {
  const std::scoped_lock lock(mutex_);
  return streams_.seconds_between(begin, end);
}

void PretendedDevice::record(Stream stream, Event event) {
  put(stream, {.kind = PretendedCommand::Kind::kRecord, .event = event});
}

void PretendedDevice::wait(Stream stream, Event event) {
  put(stream, {.kind = PretendedCommand::Kind::kWait, .event = event});
}

bool PretendedDevice::done(Event event) {
  const std::scoped_lock lock(mutex_);
  const std::size_t recording = streams_.last_recording(event);
  streams_.advance(event, recording);
  if (!streams_.happened(event, recording)) return false;
  streams_.learn(event);
  return true;
}

void PretendedDevice::synchronize(Event event) {
  std::unique_lock lock(mutex_);
  const std::size_t recording = streams_.last_recording(event);
  const Deadline deadline = Deadline::after(kDeviceDeadline);
  while (!streams_.happened(event, recording)) {
    if (streams_.advance(event, recording)) continue;
    if (deadline.passed()) fail(Cause::kTimeout, "the pretended device waits for another one");
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  streams_.learn(event);
}

void PretendedDevice::begin_graph(Stream stream) {
  const StreamUse use(*this, stream);
  const std::scoped_lock lock(mutex_);
  auto& capture = captures_[static_cast<std::size_t>(stream)];
  if (capture)
    fail(Cause::kInternal, "a graph of stream \"{}\" is under way already",
         stream_name(static_cast<int>(stream)));
  capture.emplace();
}

Graph PretendedDevice::end_graph(Stream stream) {
  const StreamUse use(*this, stream);
  const std::scoped_lock lock(mutex_);
  auto& capture = captures_[static_cast<std::size_t>(stream)];
  if (!capture)
    fail(Cause::kInternal, "no graph of stream \"{}\" is under way", stream_name(static_cast<int>(stream)));
  graphs_.push_back(std::move(*capture));
  capture.reset();
  return {static_cast<int>(graphs_.size()) - 1};
}

void PretendedDevice::launch(Stream stream, Graph graph) {
  const StreamUse use(*this, stream);
  const std::scoped_lock lock(mutex_);
  if (captures_[static_cast<std::size_t>(stream)])
    fail(Cause::kInternal, "a graph is launched while another of stream \"{}\" is under way",
         stream_name(static_cast<int>(stream)));
  if (graph.index < 0 || static_cast<std::size_t>(graph.index) >= graphs_.size())
    fail(Cause::kInternal, "there is no graph {}", graph.index);
  ++launches_;
  for (const PretendedCommand& command : graphs_[static_cast<std::size_t>(graph.index)])
    streams_.put(stream, command);
}

/// One rank's end of a group.
class PretendedDevice::Group final : public DeviceGroup {
 public:
  Group(PretendedDevice& device, std::shared_ptr<PretendedGroupState> state, const GroupMember& member)
      : device_(device), state_(std::move(state)), rank_(member.rank) {
    state_->join(member);
  }

  void all_reduce(float* at, std::size_t count) override {
    check();
    PretendedCommand command{.kind = PretendedCommand::Kind::kSum, .to = at, .bytes = count * sizeof(float)};
    command.sum = std::make_shared<PretendedSum>(PretendedSum{state_, rank_, state_->announce(rank_, count)});
    device_.put(Stream::kReduce, std::move(command));
  }
  void check() override {
    if (abort_wanted_) {
      give_up("an abort");
      fail(Cause::kAborted, "rank {}: sums of gradients: aborted", rank_);
    }
    state_->check(rank_);
  }
  void give_up(const std::string& reason) noexcept override { state_->give_up(rank_, reason); }
  void abort(const std::string& /*reason*/) noexcept override { abort_wanted_ = true; }

 private:
  PretendedDevice& device_;
  const std::shared_ptr<PretendedGroupState> state_;
  const int rank_;
  std::atomic<bool> abort_wanted_{false};
};

PretendedNccl& PretendedDevice::nccl() const {
  if (!options_.nccl) fail(Cause::kUnsupported, "the pretended device has no NCCL");
  return *options_.nccl;
}

std::string PretendedDevice::group_library() {
  static_cast<void>(nccl());
  return "pretended NCCL";
}

GroupId PretendedDevice::make_group_id() {
  return nccl().make_id();
}

std::unique_ptr<DeviceGroup> PretendedDevice::join_group(const GroupId& id, const GroupMember& member) {
  return std::make_unique<Group>(*this, nccl().group(id, member.size), member);
}

void PretendedDevice::host_reads(const void* at, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  memory_.host_access(at, bytes, false, streams_.host_clock());
}

void PretendedDevice::host_writes(const void* at, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  memory_.host_access(at, bytes, true, streams_.host_clock());
}

std::vector<Stream> PretendedDevice::history() const {
  const std::scoped_lock lock(mutex_);
  return streams_.history();
}

std::size_t PretendedDevice::pending() const {
  const std::scoped_lock lock(mutex_);
  return streams_.pending();
}

std::size_t PretendedDevice::allocated() const {
  const std::scoped_lock lock(mutex_);
  return memory_.allocated();
}

std::size_t PretendedDevice::launches() const {
  const std::scoped_lock lock(mutex_);
  return launches_;
}

}  // namespace tombolo::trainer::cuda
