#include "trainer/cuda/testing/pretended_streams.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "trainer/cuda/operations/reference.h"

namespace tombolo::trainer::cuda {

PretendedStreams::PretendedStreams(unsigned seed, const std::array<Eagerness, kStreams>& eagerness,
                                   double operation_seconds, PretendedMemory& memory)
    : eagerness_(eagerness), operation_seconds_(operation_seconds), memory_(memory), random_(seed) {}

const PretendedStreams::EventState& PretendedStreams::state_of(Event event, std::string_view use) const {
  if (event.index < 0 || static_cast<std::size_t>(event.index) >= events_.size())
    fail(Cause::kInternal, "{}: there is no event {}", use, event.index);
  return events_[static_cast<std::size_t>(event.index)];
}

PretendedStreams::EventState& PretendedStreams::state_of(Event event, std::string_view use) {
  return const_cast<EventState&>(std::as_const(*this).state_of(event, use));
}

void PretendedStreams::put(Stream stream, PretendedCommand command) {
  const auto own = static_cast<std::size_t>(stream);
  VectorClock& clock = clocks_[own];
  for (std::size_t other = 0; other < kStreams; ++other)
    clock[other] = std::max(clock[other], host_clock_[other]);
  if (command.kind == PretendedCommand::Kind::kRecord) {
    EventState& state = state_of(command.event, "record");
    command.recording = state.recordings.size();
    state.recordings.push_back({static_cast<int>(own), false});
    state.clock = clock;
  } else if (command.kind == PretendedCommand::Kind::kWait) {
    const EventState& state = state_of(command.event, "wait");
    if (state.recordings.empty())
      fail(Cause::kInternal, "stream \"{}\" waits for event {}, which was never recorded",
           stream_name(static_cast<int>(own)), command.event.index);
    command.recording = state.recordings.size() - 1;
    for (std::size_t other = 0; other < kStreams; ++other)
      clock[other] = std::max(clock[other], state.clock[other]);
  } else {
    ++clock[own];
    memory_.access(stream, command, clock);
    if (command.kind == PretendedCommand::Kind::kCopy) prepare_copy(command);
  }
  command.put_seconds = host_seconds_;
  queues_[own].push_back(std::move(command));
  carry_out_eagerly();
  roll_dice();
}

bool PretendedStreams::touches_queued(const void* at, std::size_t bytes) const {
  for (const auto& queue : queues_)
    for (const PretendedCommand& command : queue)
      for (const Access& access : command.touched())
        if (as_number(access.at) < as_number(at) + bytes &&
            as_number(at) < as_number(access.at) + access.bytes)
          return true;
  return false;
}

/// Remembers what is in the host's memory, and hides what will be.
void PretendedStreams::prepare_copy(PretendedCommand& command) {
  if (memory_.is_host("copy", command.from, command.bytes)) {
    // Bytes that a queued copy will still bring are not the host's to change.
    if (touches_queued(command.from, command.bytes)) return;
    const auto* from = static_cast<const std::byte*>(command.from);
    command.source.assign(from, from + command.bytes);
  }
  if (memory_.is_host("copy", command.to, command.bytes) && !touches_queued(command.to, command.bytes)) {
    std::memset(command.to, kPoison, command.bytes);
    command.poisoned = true;
  }
}

Event PretendedStreams::make_event(bool timed) {
  events_.emplace_back().timed = timed;
  return {static_cast<int>(events_.size()) - 1};
}

double PretendedStreams::seconds_between(Event begin, Event end) const {
  return latest_seconds(end) - latest_seconds(begin);
}

std::size_t PretendedStreams::last_recording(Event event) const {
  const EventState& state = state_of(event, "wait by the host");
  if (state.recordings.empty())
    fail(Cause::kInternal, "the host waits for event {}, which was never recorded", event.index);
  return state.recordings.size() - 1;
}

bool PretendedStreams::happened(Event event, std::size_t recording) const {
  return state_of(event, "wait by the host").recordings[recording].happened;
}

bool PretendedStreams::advance(Event event, std::size_t recording) {
  roll_dice();
  return happened(event, recording) || step_towards(event, recording);
}

std::size_t PretendedStreams::pending() const {
  std::size_t count = 0;
  for (const auto& queue : queues_) count += queue.size();
  return count;
}

double PretendedStreams::latest_seconds(Event event) const {
  const EventState& state = state_of(event, "time");
  if (!state.timed) fail(Cause::kInternal, "event {} keeps no time", event.index);
  if (state.recordings.empty() || !state.recordings.back().happened)
    fail(Cause::kInternal, "the time of event {}, which has not happened", event.index);
  return state.recordings.back().seconds;
}

void PretendedStreams::learn(Event event) {
  const EventState& state = state_of(event, "learn");
  for (std::size_t stream = 0; stream < kStreams; ++stream)
    host_clock_[stream] = std::max(host_clock_[stream], state.clock[stream]);
  host_seconds_ = std::max(host_seconds_, state.recordings.back().seconds);
}

bool PretendedStreams::runnable(int stream) const {
  const auto& queue = queues_[static_cast<std::size_t>(stream)];
  if (queue.empty()) return false;
  const PretendedCommand& head = queue.front();
  if (head.kind == PretendedCommand::Kind::kSum) {
    PretendedSum& sum = *head.sum;
    if (!sum.contributed || sum.group->given_up(sum.rank)) return true;
    if (!sum.result) sum.result = sum.group->result(sum.number);
    return sum.result.has_value();
  }
  if (head.kind != PretendedCommand::Kind::kWait) return true;
  return events_[static_cast<std::size_t>(head.event.index)].recordings[head.recording].happened;
}

void PretendedStreams::carry_out_head(int stream) {
  auto& queue = queues_[static_cast<std::size_t>(stream)];
  if (const auto& sum = queue.front().sum; sum && !std::exchange(sum->contributed, true)) {
    // Until the others have come to it too, whoever looks finds poison.
    const PretendedCommand& head = queue.front();
    sum->group->contribute(sum->rank, sum->number,
                           {static_cast<const float*>(head.to), head.bytes / sizeof(float)});
    std::memset(head.to, kPoison, head.bytes);
    return;
  }
  PretendedCommand command = std::move(queue.front());
  queue.pop_front();
  carry_out(command);
  advance_clock(stream, command);
  if (command.kind != PretendedCommand::Kind::kRecord && command.kind != PretendedCommand::Kind::kWait)
    history_.push_back(static_cast<Stream>(stream));
}

void PretendedStreams::advance_clock(int stream, const PretendedCommand& command) {
  double& seconds = stream_seconds_[static_cast<std::size_t>(stream)];
  seconds = std::max(seconds, command.put_seconds);
  if (command.kind == PretendedCommand::Kind::kOperation) seconds += operation_seconds_;
  if (command.kind != PretendedCommand::Kind::kRecord && command.kind != PretendedCommand::Kind::kWait)
    return;
  auto& recording = events_[static_cast<std::size_t>(command.event.index)].recordings[command.recording];
  if (command.kind == PretendedCommand::Kind::kRecord)
    recording.seconds = seconds;
  else
    seconds = std::max(seconds, recording.seconds);
}

void PretendedStreams::carry_out(PretendedCommand& command) {
  switch (command.kind) {
    case PretendedCommand::Kind::kOperation:
      run_reference(*command.operation);
      return;
    case PretendedCommand::Kind::kCopy:
      if (!command.source.empty() &&
          std::memcmp(command.source.data(), command.from, command.source.size()) != 0)
        fail(Cause::kInternal, "the host changed {} while a copy from there was under way",
             memory_.place(command.from));
      if (command.poisoned && !is_poison(command.to, command.bytes))
        fail(Cause::kInternal, "the host wrote {} while a copy to there was under way",
             memory_.place(command.to));
      std::memmove(command.to, command.from, command.bytes);
      return;
    case PretendedCommand::Kind::kClear:
      std::memset(command.to, 0, command.bytes);
      return;
    case PretendedCommand::Kind::kSum:
      finish_sum(command);
      return;
    case PretendedCommand::Kind::kRecord:
      events_[static_cast<std::size_t>(command.event.index)].recordings[command.recording].happened = true;
      return;
    case PretendedCommand::Kind::kWait:
      return;
  }
}

void PretendedStreams::finish_sum(const PretendedCommand& command) {
  if (!is_poison(command.to, command.bytes))
    fail(Cause::kInternal, "{} was written while its sum over devices was under way",
         memory_.place(command.to));
  if (command.sum->result) std::memcpy(command.to, command.sum->result->data(), command.bytes);
}

bool PretendedStreams::step_towards(Event event, std::size_t recording) {
  int stream = events_[static_cast<std::size_t>(event.index)].recordings[recording].stream;
  // A wait's recording was put on its stream before the wait was, so this ends.
  while (!runnable(stream)) {
    const PretendedCommand& head = queues_[static_cast<std::size_t>(stream)].front();
    if (head.kind == PretendedCommand::Kind::kSum) return false;
    stream = events_[static_cast<std::size_t>(head.event.index)].recordings[head.recording].stream;
  }
  carry_out_head(stream);
  carry_out_eagerly();
  return true;
}

void PretendedStreams::carry_out_eagerly() {
  for (bool again = true; again;) {
    again = false;
    for (int stream = 0; stream < kStreams; ++stream)
      while (eagerness_[static_cast<std::size_t>(stream)] == Eagerness::kEarly && runnable(stream)) {
        carry_out_head(stream);
        again = true;
      }
  }
}

void PretendedStreams::roll_dice() {
  // One in two goes on, so that now nothing and now a good many commands are carried out.
  while (random_() % 2 == 0) {
    const int stream = static_cast<int>(random_() % kStreams);
    if (eagerness_[static_cast<std::size_t>(stream)] != Eagerness::kRandom || !runnable(stream)) continue;
    carry_out_head(stream);
    carry_out_eagerly();
  }
}

}  // namespace tombolo::trainer::cuda
