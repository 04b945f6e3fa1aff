#include "trainer/cuda/testing/pretended_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "trainer/cuda/reference.h"

namespace tombolo::trainer::cuda {
namespace {

// A NaN in every format, and no token.
constexpr int kPoison = 0xff;
constexpr std::size_t kPretendedAlignment = 256;

std::string_view stream_name(int stream) {
  constexpr std::array<std::string_view, kStreams> kNames{"compute", "to host", "from host", "reduce"};
  return kNames[static_cast<std::size_t>(stream)];
}

std::uintptr_t as_number(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at);
}

bool is_poison(const std::byte* at, std::size_t bytes) {
  return std::all_of(at, at + bytes, [](std::byte one) { return one == static_cast<std::byte>(kPoison); });
}

}  // namespace

/// A sum over devices, as this one takes part in it.
struct PretendedDevice::Sum {
  std::shared_ptr<PretendedGroupState> group;
  int rank = 0;
  std::size_t number = 0;
  bool contributed = false;
  std::optional<std::vector<float>> result = {};
};

struct PretendedDevice::Command {
  enum class Kind { kOperation, kCopy, kClear, kRecord, kWait, kSum };
  Kind kind = Kind::kOperation;
  std::optional<Operation> operation = {};
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  Event event = {};
  std::size_t recording = 0;           ///< of the event: which one it makes, or waits for
  std::vector<std::byte> source = {};  ///< of a copy from host memory: what was there
  bool poisoned = false;               ///< of a copy to host memory: the host finds poison until it is done
  double put_seconds = 0;              ///< when the host put it there
  std::shared_ptr<Sum> sum = nullptr;

  std::string_view name() const {
    switch (kind) {
      case Kind::kOperation:
        return operation_name(*operation);
      case Kind::kCopy:
        return "copy";
      case Kind::kClear:
        return "clear";
      case Kind::kRecord:
        return "record";
      case Kind::kWait:
        return "wait";
      case Kind::kSum:
        return "sum over devices";
    }
    return {};
  }

  std::vector<Access> touched() const {
    switch (kind) {
      case Kind::kOperation: {
        std::vector<Access> all = accesses(*operation);
        if (const auto* attention = std::get_if<AttentionBackward>(&*operation)) {
          Attention shape{};
          shape.rows = attention->rows;
          shape.context = attention->context;
          shape.heads = attention->heads;
          all.push_back({attention->scratch, reference_attention_scratch(shape), false, true});
        }
        return all;
      }
      case Kind::kCopy:
        return {{from, bytes, true, false}, {to, bytes, false, true}};
      case Kind::kClear:
        return {{to, bytes, false, true}};
      case Kind::kSum:
        return {{to, bytes, true, true}};
      case Kind::kRecord:
      case Kind::kWait:
        break;
    }
    return {};
  }
};

/// Which command touched some bytes last: the one of this number on its stream; 0 where none did.
struct PretendedDevice::Touch {
  std::uint64_t number = 0;
  std::string_view name = {};
};

/// Neighbouring bytes with one history.
struct PretendedDevice::Segment {
  std::uintptr_t end = 0;
  bool written = false;
  std::array<Touch, kStreams> reads{}, writes{};
};

struct PretendedDevice::Allocation {
  std::uintptr_t end = 0;
  std::string what = {};
  bool host = false;
  std::unique_ptr<std::byte[], decltype(&std::free)> memory{nullptr, &std::free};
};

struct PretendedDevice::EventState {
  struct Recording {
    int stream = 0;
    bool happened = false;
    double seconds = 0;  ///< when
  };
  std::vector<Recording> recordings = {};
  VectorClock clock{};  ///< of the latest
  bool timed = false;
};

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
    : options_(options), random_(options.seed) {}

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
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + kPretendedAlignment - 1) / kPretendedAlignment * kPretendedAlignment;
  Allocation allocation;
  allocation.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kPretendedAlignment, rounded)));
  if (!allocation.memory) fail(Cause::kSystem, "no memory for {}: {} bytes", what, bytes);
  std::byte* const begin = allocation.memory.get();
  std::memset(begin, kPoison, rounded);
  allocation.end = as_number(begin) + bytes;
  allocation.what = what;
  allocation.host = host;
  if (bytes > 0) {
    Segment whole;
    whole.end = allocation.end;
    whole.written = host;  // what the host writes is not seen
    segments_.emplace(as_number(begin), whole);
  }
  allocations_.emplace(as_number(begin), std::move(allocation));
  return begin;
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

std::string PretendedDevice::place(const void* at) const {
  auto after = allocations_.upper_bound(as_number(at));
  if (after == allocations_.begin()) return fmt::format("{}", at);
  const auto& [begin, allocation] = *std::prev(after);
  return fmt::format("{} (\"{}\" + {})", at, allocation.what, as_number(at) - begin);
}

const PretendedDevice::Allocation& PretendedDevice::allocation_of(std::string_view operation, const void* at,
                                                                  std::size_t bytes) const {
  auto after = allocations_.upper_bound(as_number(at));
  if (after != allocations_.begin()) {
    const auto& allocation = std::prev(after)->second;
    if (as_number(at) + bytes <= allocation.end) return allocation;
  }
  fail(Cause::kInternal, "{}: {} bytes at {} are not inside an allocation", operation, bytes, place(at));
}

template <typename Visit>
void PretendedDevice::for_segments(std::uintptr_t begin, std::uintptr_t end, const Visit& visit) {
  const auto cut = [&](std::uintptr_t where) {
    auto segment = std::prev(segments_.upper_bound(where));
    if (segment->first == where || where >= segment->second.end) return;
    Segment rest = segment->second;
    segment->second.end = where;
    segments_.emplace_hint(std::next(segment), where, rest);
  };
  cut(begin);
  cut(end);
  for (auto segment = segments_.lower_bound(begin); segment != segments_.end() && segment->first < end;
       ++segment)
    visit(segment->first, segment->second);
}

void PretendedDevice::touch(Stream stream, std::string_view name, const Access& access) {
  const auto own = static_cast<std::size_t>(stream);
  const VectorClock& clock = clocks_[own];
  const auto check = [&](const std::array<Touch, kStreams>& before, std::uintptr_t at, std::string_view did,
                         std::string_view does) {
    for (std::size_t other = 0; other < kStreams; ++other)
      if (other != own && before[other].number > clock[other])
        fail(Cause::kInternal,
             "{} on stream \"{}\" {} {}, which {} on stream \"{}\" {}, and no event orders the two", name,
             stream_name(static_cast<int>(own)), does, place(reinterpret_cast<const void*>(at)),
             before[other].name, stream_name(static_cast<int>(other)), did);
  };
  const std::uintptr_t begin = as_number(access.at);
  for_segments(begin, begin + access.bytes, [&](std::uintptr_t at, Segment& segment) {
    if (access.reads && !segment.written)
      fail(Cause::kInternal, "{} on stream \"{}\" reads {}, which nothing has written", name,
           stream_name(static_cast<int>(own)), place(reinterpret_cast<const void*>(at)));
    check(segment.writes, at, "writes", access.writes ? "writes" : "reads");
    if (access.writes) check(segment.reads, at, "reads", "writes");
    if (access.reads) segment.reads[own] = {clock[own], name};
    if (!access.writes) return;
    segment.writes[own] = {clock[own], name};
    segment.written = true;
  });
}

void PretendedDevice::check_accesses(Stream stream, const Command& command) {
  const std::vector<Access> all = command.touched();
  for (const Access& access : all) {
    const Allocation& allocation = allocation_of(command.name(), access.at, access.bytes);
    if (allocation.host && command.kind != Command::Kind::kCopy)
      fail(Cause::kInternal, "{} on stream \"{}\" takes {}, which is memory of the host", command.name(),
           stream_name(static_cast<int>(stream)), place(access.at));
  }
  // Reads first: what an operation both reads and writes must have been written before it.
  for (const bool writes : {false, true})
    for (const Access& access : all)
      if (access.writes == writes) touch(stream, command.name(), access);
}

bool PretendedDevice::touches_queued(const void* at, std::size_t bytes) const {
  for (const auto& queue : queues_)
    for (const Command& command : queue)
      for (const Access& access : command.touched())
        if (as_number(access.at) < as_number(at) + bytes &&
            as_number(at) < as_number(access.at) + access.bytes)
          return true;
  return false;
}

/// Remembers what is in the host's memory, and hides what will be.
void PretendedDevice::prepare_copy(Command& command) {
  if (allocation_of("copy", command.from, command.bytes).host) {
    // Bytes that a queued copy will still bring are not the host's to change.
    if (touches_queued(command.from, command.bytes)) return;
    const auto* from = static_cast<const std::byte*>(command.from);
    command.source.assign(from, from + command.bytes);
  }
  if (allocation_of("copy", command.to, command.bytes).host && !touches_queued(command.to, command.bytes)) {
    std::memset(command.to, kPoison, command.bytes);
    command.poisoned = true;
  }
}

void PretendedDevice::put(Stream stream, Command command) {
  const StreamUse use(*this, stream);
  const std::scoped_lock lock(mutex_);
  started_ = true;
  if (auto& capture = captures_[static_cast<std::size_t>(stream)]) {
    capture->push_back(std::move(command));
    return;
  }
  put_now(stream, std::move(command));
  carry_out_eagerly();
  roll_dice();
}

void PretendedDevice::put_now(Stream stream, Command command) {
  const auto own = static_cast<std::size_t>(stream);
  VectorClock& clock = clocks_[own];
  for (std::size_t other = 0; other < kStreams; ++other)
    clock[other] = std::max(clock[other], host_clock_[other]);
  if (command.kind == Command::Kind::kRecord) {
    EventState& state = state_of(command.event, "record");
    command.recording = state.recordings.size();
    state.recordings.push_back({static_cast<int>(own), false});
    state.clock = clock;
  } else if (command.kind == Command::Kind::kWait) {
    const EventState& state = state_of(command.event, "wait");
    if (state.recordings.empty())
      fail(Cause::kInternal, "stream \"{}\" waits for event {}, which was never recorded",
           stream_name(static_cast<int>(own)), command.event.index);
    command.recording = state.recordings.size() - 1;
    for (std::size_t other = 0; other < kStreams; ++other)
      clock[other] = std::max(clock[other], state.clock[other]);
  } else {
    ++clock[own];
    check_accesses(stream, command);
    if (command.kind == Command::Kind::kCopy) prepare_copy(command);
  }
  command.put_seconds = host_seconds_;
  queues_[own].push_back(std::move(command));
}

void PretendedDevice::run(Stream stream, const Operation& operation) {
  put(stream, {.kind = Command::Kind::kOperation, .operation = operation});
}

void PretendedDevice::copy(Stream stream, void* to, const void* from, std::size_t bytes) {
  put(stream, {.kind = Command::Kind::kCopy, .to = to, .from = from, .bytes = bytes});
}

void PretendedDevice::clear(Stream stream, void* at, std::size_t bytes) {
  put(stream, {.kind = Command::Kind::kClear, .to = at, .bytes = bytes});
}

Event PretendedDevice::make_event() {
  const std::scoped_lock lock(mutex_);
  events_.emplace_back();
  return {static_cast<int>(events_.size()) - 1};
}

Event PretendedDevice::make_timed_event() {
  const Event event = make_event();
  const std::scoped_lock lock(mutex_);
  state_of(event, "make").timed = true;
  return event;
}

double PretendedDevice::latest_seconds(Event event) {
  const EventState& state = state_of(event, "time");
  if (!state.timed) fail(Cause::kInternal, "event {} keeps no time", event.index);
  if (state.recordings.empty() || !state.recordings.back().happened)
    fail(Cause::kInternal, "the time of event {}, which has not happened", event.index);
  return state.recordings.back().seconds;
}

double PretendedDevice::seconds_between(Event begin, Event end) {
  const std::scoped_lock lock(mutex_);
  return latest_seconds(end) - latest_seconds(begin);
}

void PretendedDevice::record(Stream stream, Event event) {
  put(stream, {.kind = Command::Kind::kRecord, .event = event});
}

void PretendedDevice::wait(Stream stream, Event event) {
  put(stream, {.kind = Command::Kind::kWait, .event = event});
}

PretendedDevice::EventState& PretendedDevice::state_of(Event event, std::string_view use) {
  if (event.index < 0 || static_cast<std::size_t>(event.index) >= events_.size())
    fail(Cause::kInternal, "{}: there is no event {}", use, event.index);
  return events_[static_cast<std::size_t>(event.index)];
}

/// The host knows now that the event has happened.
void PretendedDevice::learn(const EventState& state) {
  for (std::size_t stream = 0; stream < kStreams; ++stream)
    host_clock_[stream] = std::max(host_clock_[stream], state.clock[stream]);
  host_seconds_ = std::max(host_seconds_, state.recordings.back().seconds);
}

bool PretendedDevice::done(Event event) {
  const std::scoped_lock lock(mutex_);
  const EventState& state = state_of(event, "done");
  if (state.recordings.empty())
    fail(Cause::kInternal, "the host asks for event {}, which was never recorded", event.index);
  const std::size_t recording = state.recordings.size() - 1;
  if (!state.recordings[recording].happened) step_towards(event, recording);
  roll_dice();
  if (!state.recordings[recording].happened) return false;
  learn(state);
  return true;
}

void PretendedDevice::synchronize(Event event) {
  std::unique_lock lock(mutex_);
  const std::size_t recordings = state_of(event, "synchronize").recordings.size();
  if (recordings == 0)
    fail(Cause::kInternal, "the host waits for event {}, which was never recorded", event.index);
  const auto happened = [&] { return state_of(event, "synchronize").recordings[recordings - 1].happened; };
  const Deadline deadline = Deadline::after(kDeviceDeadline);
  while (!happened()) {
    roll_dice();
    if (happened() || step_towards(event, recordings - 1)) continue;
    if (deadline.passed()) fail(Cause::kTimeout, "the pretended device waits for another one");
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  learn(state_of(event, "synchronize"));
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
  for (const Command& command : graphs_[static_cast<std::size_t>(graph.index)]) {
    put_now(stream, command);
    carry_out_eagerly();
    roll_dice();
  }
}

bool PretendedDevice::runnable(int stream) const {
  const auto& queue = queues_[static_cast<std::size_t>(stream)];
  if (queue.empty()) return false;
  const Command& head = queue.front();
  if (head.kind == Command::Kind::kSum) {
    Sum& sum = *head.sum;
    if (!sum.contributed || sum.group->given_up(sum.rank)) return true;
    if (!sum.result) sum.result = sum.group->result(sum.number);
    return sum.result.has_value();
  }
  if (head.kind != Command::Kind::kWait) return true;
  return events_[static_cast<std::size_t>(head.event.index)].recordings[head.recording].happened;
}

void PretendedDevice::carry_out_head(int stream) {
  auto& queue = queues_[static_cast<std::size_t>(stream)];
  if (const auto& sum = queue.front().sum; sum && !std::exchange(sum->contributed, true)) {
    // Until the others have come to it too, whoever looks finds poison.
    const Command& head = queue.front();
    sum->group->contribute(sum->rank, sum->number,
                           {static_cast<const float*>(head.to), head.bytes / sizeof(float)});
    std::memset(head.to, kPoison, head.bytes);
    return;
  }
  Command command = std::move(queue.front());
  queue.pop_front();
  carry_out(command);
  advance_clock(stream, command);
  if (command.kind != Command::Kind::kRecord && command.kind != Command::Kind::kWait)
    history_.push_back(static_cast<Stream>(stream));
}

void PretendedDevice::advance_clock(int stream, const Command& command) {
  double& seconds = stream_seconds_[static_cast<std::size_t>(stream)];
  seconds = std::max(seconds, command.put_seconds);
  if (command.kind == Command::Kind::kOperation) seconds += options_.operation_seconds;
  if (command.kind != Command::Kind::kRecord && command.kind != Command::Kind::kWait) return;
  auto& recording = events_[static_cast<std::size_t>(command.event.index)].recordings[command.recording];
  if (command.kind == Command::Kind::kRecord)
    recording.seconds = seconds;
  else
    seconds = std::max(seconds, recording.seconds);
}

void PretendedDevice::carry_out(Command& command) {
  switch (command.kind) {
    case Command::Kind::kOperation:
      run_reference(*command.operation);
      return;
    case Command::Kind::kCopy:
      if (!command.source.empty() &&
          std::memcmp(command.source.data(), command.from, command.source.size()) != 0)
        fail(Cause::kInternal, "the host changed {} while a copy from there was under way",
             place(command.from));
      if (command.poisoned && !is_poison(static_cast<const std::byte*>(command.to), command.bytes))
        fail(Cause::kInternal, "the host wrote {} while a copy to there was under way", place(command.to));
      std::memmove(command.to, command.from, command.bytes);
      return;
    case Command::Kind::kClear:
      std::memset(command.to, 0, command.bytes);
      return;
    case Command::Kind::kSum:
      finish_sum(command);
      return;
    case Command::Kind::kRecord:
      events_[static_cast<std::size_t>(command.event.index)].recordings[command.recording].happened = true;
      return;
    case Command::Kind::kWait:
      return;
  }
}

void PretendedDevice::finish_sum(const Command& command) {
  if (!is_poison(static_cast<const std::byte*>(command.to), command.bytes))
    fail(Cause::kInternal, "{} was written while its sum over devices was under way", place(command.to));
  if (command.sum->result) std::memcpy(command.to, command.sum->result->data(), command.bytes);
}

bool PretendedDevice::step_towards(const Event& event, std::size_t recording) {
  int stream = events_[static_cast<std::size_t>(event.index)].recordings[recording].stream;
  // A wait's recording was put on its stream before the wait was, so this ends.
  while (!runnable(stream)) {
    const Command& head = queues_[static_cast<std::size_t>(stream)].front();
    if (head.kind == Command::Kind::kSum) return false;
    stream = events_[static_cast<std::size_t>(head.event.index)].recordings[head.recording].stream;
  }
  carry_out_head(stream);
  carry_out_eagerly();
  return true;
}

void PretendedDevice::carry_out_eagerly() {
  for (bool again = true; again;) {
    again = false;
    for (int stream = 0; stream < kStreams; ++stream)
      while (options_.streams[static_cast<std::size_t>(stream)] == Eagerness::kEarly && runnable(stream)) {
        carry_out_head(stream);
        again = true;
      }
  }
}

void PretendedDevice::roll_dice() {
  // One in two goes on, so that now nothing and now a good many commands are carried out.
  while (random_() % 2 == 0) {
    const int stream = static_cast<int>(random_() % kStreams);
    if (options_.streams[static_cast<std::size_t>(stream)] != Eagerness::kRandom || !runnable(stream))
      continue;
    carry_out_head(stream);
    carry_out_eagerly();
  }
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
    Command command{.kind = Command::Kind::kSum, .to = at, .bytes = count * sizeof(float)};
    command.sum = std::make_shared<Sum>(Sum{state_, rank_, state_->announce(rank_, count)});
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

void PretendedDevice::host_touches(const void* at, std::size_t bytes, bool writes) {
  const std::scoped_lock lock(mutex_);
  allocation_of("the host", at, bytes);
  const auto check = [&](const std::array<Touch, kStreams>& before, std::string_view did) {
    for (std::size_t stream = 0; stream < kStreams; ++stream)
      if (before[stream].number > host_clock_[stream])
        fail(Cause::kInternal,
             "the host {} {}, which {} on stream \"{}\" {}, and the host has not waited for it",
             writes ? "writes" : "reads", place(at), before[stream].name,
             stream_name(static_cast<int>(stream)), did);
  };
  for_segments(as_number(at), as_number(at) + bytes, [&](std::uintptr_t, const Segment& segment) {
    check(segment.writes, "writes");
    if (writes) check(segment.reads, "reads");
  });
}

void PretendedDevice::host_reads(const void* at, std::size_t bytes) {
  host_touches(at, bytes, false);
}

void PretendedDevice::host_writes(const void* at, std::size_t bytes) {
  host_touches(at, bytes, true);
}

std::vector<Stream> PretendedDevice::history() const {
  const std::scoped_lock lock(mutex_);
  return history_;
}

std::size_t PretendedDevice::pending() const {
  const std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& queue : queues_) count += queue.size();
  return count;
}

std::size_t PretendedDevice::allocated() const {
  const std::scoped_lock lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [begin, allocation] : allocations_)
    if (!allocation.host) bytes += allocation.end - begin;
  return bytes;
}

std::size_t PretendedDevice::launches() const {
  const std::scoped_lock lock(mutex_);
  return launches_;
}

}  // namespace tombolo::trainer::cuda
