#include "net_plugin/profiler/profile.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/units.h"

namespace tombolo::net_plugin {
namespace {

/// NCCL has some fifteen.
constexpr std::size_t kMostCollectives = 64;

std::string describe(const transport::Route& route) {
  return fmt::format("{} {} - {}", route.transport, route.local_nic, route.peer_nic);
}

/// "tcp eth0 - eth1: 3 messages, 2.93 KiB, 300 us in flight; "
std::string messages_of(const ProfileWay& way) {
  const ProfileCounts& counts = way.counts;
  return fmt::format(
      "{}: {} messages, {}, {} in flight; ",
      way.transport.empty() ? "route unknown"
                            : fmt::format("{} {} - {}", way.transport, way.local_nic, way.peer_nic),
      counts.messages, format_size(counts.bytes), format_seconds(to_seconds(counts.in_flight)));
}

/// Adds rows to sums over channels.
void sum_up(const Profile::Rows& rows, Profile::Rows& sums) {
  for (const auto& [key, row] : rows) {
    ProfileKey of_all = key;
    of_all.channel = 0;
    sums[of_all] += row;
  }
}

std::string_view arrow(bool send) {
  return send ? "->" : "<-";
}

/// "rank 0 -> 1, channel 2, AllReduce"
std::string ends_of(const ProfileKey& key) {
  return fmt::format("rank {} {} {}, channel {}{}{}", key.rank, arrow(key.send), key.peer, key.channel,
                     key.collective.empty() ? "" : ", ", key.collective);
}

/// "15 us for the GPU, 21 us for the peer, 300 us for the network"
std::string waits_of(const ProfileRow& row) {
  const auto waited = [&](StepWait wait) {
    return format_seconds(to_seconds(row.waited[static_cast<std::size_t>(wait)]));
  };
  return fmt::format("{} for the GPU, {} for the peer, {} for the network", waited(StepWait::kGpu),
                     waited(StepWait::kPeer), waited(StepWait::kNetwork));
}

/// What the trace shows of a wait; null for waits that are not shown: a message under way shows that for the
/// network.
const char* shown_wait(StepWait wait) {
  switch (wait) {
    case StepWait::kGpu:
      return "waits for the GPU";
    case StepWait::kPeer:
      return "waits for the peer";
    case StepWait::kFlush:
      return "waits for the flush";
    case StepWait::kNetwork:
    case StepWait::kNothing:
      break;
  }
  return nullptr;
}

}  // namespace

StepWait wait_of(abi::ncclProfilerEventState_t state) {
  switch (state) {
    case abi::ncclProfilerProxyStepSendGPUWait:
    case abi::ncclProfilerProxyStepRecvGPUWait:
      return StepWait::kGpu;
    case abi::ncclProfilerProxyStepSendPeerWait_v4:
      return StepWait::kPeer;
    case abi::ncclProfilerProxyStepSendWait:
    case abi::ncclProfilerProxyStepRecvWait:
      return StepWait::kNetwork;
    case abi::ncclProfilerProxyStepRecvFlushWait:
      return StepWait::kFlush;
    case abi::ncclProfilerNetPluginUpdate:
      break;
  }
  return StepWait::kNothing;
}

std::string describe(const ProfileKey& key, const ProfileRow& row) {
  std::string messages;
  for (const ProfileWay& way : row.ways) messages += messages_of(way);
  if (row.ways.empty()) messages = messages_of({});
  return fmt::format("{}, {}steps waited {}", ends_of(key), messages, waits_of(row));
}

std::vector<std::string> describe_collectives(const Profile::Rows& rows) {
  std::map<std::string_view, ProfileRow> sums;
  for (const auto& [key, row] : rows)
    if (!key.collective.empty()) sums[key.collective] += row;
  std::vector<std::string> lines;
  for (const auto& [name, row] : sums) {
    const ProfileCounts total = row.total();
    lines.push_back(fmt::format("{}: {} messages, {}; steps waited {}", name, total.messages,
                                format_size(total.bytes), waits_of(row)));
  }
  return lines;
}

ProfileCounts& ProfileCounts::operator+=(const ProfileCounts& other) {
  messages += other.messages;
  bytes += other.bytes;
  in_flight += other.in_flight;
  return *this;
}

std::size_t ProfileRow::way_of(std::string_view transport, std::string_view local_nic,
                               std::string_view peer_nic) {
  const auto found = std::ranges::find_if(ways, [&](const ProfileWay& way) {
    return way.transport == transport && way.local_nic == local_nic && way.peer_nic == peer_nic;
  });
  const auto index = static_cast<std::size_t>(found - ways.begin());
  if (found == ways.end())
    ways.push_back({std::string(transport), std::string(local_nic), std::string(peer_nic), {}});
  return index;
}

ProfileCounts ProfileRow::total() const {
  ProfileCounts all;
  for (const ProfileWay& way : ways) all += way.counts;
  return all;
}

ProfileRow& ProfileRow::operator+=(const ProfileRow& other) {
  for (const ProfileWay& way : other.ways)
    ways[way_of(way.transport, way.local_nic, way.peer_nic)].counts += way.counts;
  for (std::size_t i = 0; i < waited.size(); ++i) waited[i] += other.waited[i];
  return *this;
}

std::vector<transport::SeriesFamily> series_of(const Profile::Rows& sums) {
  using transport::SeriesFamily;
  SeriesFamily messages{"tombolo_nccl_messages_total", "Messages of NCCL's proxy that are done.", {}};
  SeriesFamily bytes{"tombolo_nccl_bytes_total", "Bytes of these messages.", {}};
  SeriesFamily in_flight{"tombolo_nccl_in_flight_seconds_total",
                         "Time of these messages from posted to seen to be done, added up.",
                         {}};
  SeriesFamily waited{"tombolo_nccl_step_wait_seconds_total",
                      "Time that steps of NCCL's proxy waited, by what for: gpu, peer, network, flush.",
                      {}};
  constexpr std::array<std::string_view, kStepWaits> kNames{"", "gpu", "peer", "network", "flush"};
  for (const auto& [key, row] : sums) {
    const auto labels_of = [&key = key](const ProfileWay& way) {
      return std::vector<std::pair<std::string, std::string>>{{"rank", std::to_string(key.rank)},
                                                              {"peer_rank", std::to_string(key.peer)},
                                                              {"direction", key.send ? "send" : "receive"},
                                                              {"collective", std::string(key.collective)},
                                                              {"transport", way.transport},
                                                              {"nic", way.local_nic},
                                                              {"peer_nic", way.peer_nic}};
    };
    for (const ProfileWay& way : row.ways) {
      messages.series.push_back({labels_of(way), static_cast<double>(way.counts.messages)});
      bytes.series.push_back({labels_of(way), static_cast<double>(way.counts.bytes)});
      in_flight.series.push_back({labels_of(way), to_seconds(way.counts.in_flight)});
    }
    // A step is none of a way's.
    const auto labels = labels_of(row.ways.empty() ? ProfileWay{} : row.ways.front());
    for (std::size_t i = 1; i < kStepWaits; ++i) {
      auto with_cause = labels;
      with_cause.emplace_back("on", kNames[i]);
      waited.series.push_back({std::move(with_cause), to_seconds(row.waited[i])});
    }
  }
  return {std::move(messages), std::move(bytes), std::move(in_flight), std::move(waited)};
}

Profile::Profile(transport::Tracer* tracer, const Clock& clock) : tracer_(tracer), clock_(clock) {}

std::uint64_t Profile::open(std::string name) {
  std::lock_guard guard(lock_);
  communicators_[++last_communicator_].name = std::move(name);
  return last_communicator_;
}

Profile::Rows Profile::close(std::uint64_t communicator) {
  std::lock_guard guard(lock_);
  const auto found = communicators_.find(communicator);
  if (found == communicators_.end()) return {};
  if (tracer_ != nullptr) {
    for (const auto& [key, lane] : found->second.lanes) tracer_->closed(lane);
  }
  Rows rows = std::move(found->second.rows);
  sum_up(rows, ended_);
  communicators_.erase(found);
  return rows;
}

Profile::Rows Profile::sums() const {
  std::lock_guard guard(lock_);
  Rows all = ended_;
  for (const auto& [number, communicator] : communicators_) sum_up(communicator.rows, all);
  return all;
}

std::size_t Profile::communicators() const {
  std::lock_guard guard(lock_);
  return communicators_.size();
}

ProfileEvent* Profile::take(ProfileEvent::Kind kind, std::uint64_t communicator, const ProfileKey& key) {
  ProfileEvent* event = free_;
  if (event != nullptr)
    free_ = event->next_free;
  else
    event = &events_.emplace_back();
  *event = ProfileEvent{};
  event->kind = kind;
  event->communicator = communicator;
  event->key = key;
  return event;
}

Profile::Communicator* Profile::find(std::uint64_t communicator) {
  const auto found = communicators_.find(communicator);
  return found != communicators_.end() ? &found->second : nullptr;
}

ProfileEvent* Profile::start_collective(std::string_view name) {
  std::lock_guard guard(lock_);
  auto found = collectives_.find(name);
  if (found == collectives_.end()) {
    if (collectives_.size() >= kMostCollectives) return nullptr;
    found = collectives_.try_emplace(std::string(name)).first;
    found->second.kind = ProfileEvent::Kind::kCollective;
    found->second.key.collective = found->first;
  }
  return &found->second;
}

ProfileEvent* Profile::start_operation(std::uint64_t communicator, const ProfileKey& key,
                                       const void* collective) {
  std::lock_guard guard(lock_);
  ProfileEvent* operation = take(ProfileEvent::Kind::kOperation, communicator, key);
  for (const auto& [name, event] : collectives_)
    if (&event == collective) operation->key.collective = name;
  return operation;
}

ProfileEvent* Profile::start_step(ProfileEvent* operation) {
  if (operation == nullptr) return nullptr;
  std::lock_guard guard(lock_);
  return take(ProfileEvent::Kind::kStep, operation->communicator, operation->key);
}

ProfileEvent* Profile::start_message(ProfileEvent* step, const NetEvent& described) {
  if (step == nullptr) return nullptr;
  std::lock_guard guard(lock_);
  Communicator* communicator = find(step->communicator);
  if (communicator == nullptr) return nullptr;
  ProfileEvent* message = take(ProfileEvent::Kind::kMessage, step->communicator, step->key);
  message->since = clock_.now();
  message->bytes = described.bytes;
  takes(*communicator, *message, described);
  return message;
}

void Profile::takes(Communicator& communicator, ProfileEvent& message, const NetEvent& described) {
  const transport::Route& route = *described.route;
  message.connection = described.connection;
  message.way = communicator.rows[message.key].way_of(route.transport, route.local_nic, route.peer_nic);
  if (tracer_ != nullptr) message.lane = lane_of(communicator, message, described.route);
}

std::uint64_t Profile::lane_of(Communicator& communicator, const ProfileEvent& event,
                               const transport::Route* route) {
  std::uint64_t& lane = communicator.lanes[{event.key, event.connection, event.way}];
  if (lane != 0) return lane;
  lane = ++last_lane_;
  tracer_->opened(lane, fmt::format("{}{}, {}", communicator.name, ends_of(event.key),
                                    route != nullptr ? describe(*route) : "steps"));
  return lane;
}

void Profile::waits(ProfileEvent* step, StepWait wait) {
  if (step == nullptr || wait == StepWait::kNothing) return;
  std::lock_guard guard(lock_);
  if (step->kind != ProfileEvent::Kind::kStep) return;
  const TimePoint now = clock_.now();
  end_wait(*step, now);
  step->waits = wait;
  step->since = now;
}

void Profile::end_wait(ProfileEvent& step, TimePoint now) {
  if (step.waits == StepWait::kNothing) return;
  Communicator* communicator = find(step.communicator);
  if (communicator == nullptr) return;
  communicator->rows[step.key].waited[static_cast<std::size_t>(step.waits)] += now - step.since;
  const char* shown = tracer_ != nullptr ? shown_wait(step.waits) : nullptr;
  if (shown == nullptr) return;
  const std::uint64_t lane = lane_of(*communicator, step, nullptr);
  tracer_->add({transport::TraceKind::kWait, false, 0, lane, 0, step.since, now, shown});
}

void Profile::update(ProfileEvent* message, const NetEvent& described) {
  if (message == nullptr) return;
  std::lock_guard guard(lock_);
  if (message->kind != ProfileEvent::Kind::kMessage) return;
  message->bytes = described.bytes;
  // It may have gone on over another way since it was posted.
  Communicator* communicator = described.route != nullptr ? find(message->communicator) : nullptr;
  if (communicator != nullptr) takes(*communicator, *message, described);
}

void Profile::stop(ProfileEvent* event) {
  if (event == nullptr) return;
  std::lock_guard guard(lock_);
  const TimePoint now = clock_.now();
  switch (event->kind) {
    case ProfileEvent::Kind::kFree:
      return;  // it was stopped before
    case ProfileEvent::Kind::kCollective:
      return;  // which stays
    case ProfileEvent::Kind::kOperation:
      break;
    case ProfileEvent::Kind::kStep:
      end_wait(*event, now);
      break;
    case ProfileEvent::Kind::kMessage:
      finish(*event, now);
      break;
  }
  event->kind = ProfileEvent::Kind::kFree;
  event->next_free = free_;
  free_ = event;
}

void Profile::finish(const ProfileEvent& message, TimePoint now) {
  Communicator* communicator = find(message.communicator);
  if (communicator == nullptr) return;
  communicator->rows[message.key].ways[message.way].counts += {1, message.bytes, now - message.since};
  if (tracer_ == nullptr) return;
  const auto kind = message.key.send ? transport::TraceKind::kSend : transport::TraceKind::kReceive;
  tracer_->add({kind, false, 0, message.lane, message.bytes, message.since, now});
}

}  // namespace tombolo::net_plugin
