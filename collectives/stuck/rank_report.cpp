#include "collectives/stuck/rank_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"

namespace tombolo::collectives {
namespace {

constexpr int kVersion = 1;
constexpr std::array<std::string_view, 3> kStates{"scheduled", "started", "completed"};
constexpr std::array<std::string_view, 4> kWaits{"receive", "send", "connect", "memory"};

template <std::size_t N>
std::size_t index_of(const std::array<std::string_view, N>& names, const std::string& name) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end()) fail(Cause::kRemote, "'{}' is none of its words", name);
  return static_cast<std::size_t>(at - names.begin());
}

Json json_of(const ReportedOperation& one) {
  return {{"number", one.number}, {"collective", one.collective}, {"type", one.type},
          {"op", one.op},         {"count", one.count},           {"root", one.root},
          {"uneven", one.uneven}, {"started", one.started_ns},    {"state", operation_state_name(one.state)}};
}

Json json_of(const ReportedWait& one) {
  return {{"number", one.number},   {"peer", one.peer},          {"kind", wait_kind_name(one.kind)},
          {"channel", one.channel}, {"done", one.messages_done}, {"messages", one.messages},
          {"bytes", one.bytes}};
}

Json json_of(const ReportedLink& one) {
  return {{"peer", one.peer},           {"channel", one.channel},
          {"transport", one.transport}, {"nic", one.nic},
          {"peer_nic", one.peer_nic},   {"address", one.peer_address},
          {"sent", one.messages_sent},  {"received", one.messages_received},
          {"streams", one.streams},     {"retransmitted", one.retransmitted}};
}

template <typename Each>
Json list_of(const std::vector<Each>& all) {
  Json list = Json::array();
  for (const Each& one : all) list.push_back(json_of(one));
  return list;
}

Json json_of(const ReportedCommunicator& one) {
  return {{"name", one.name},
          {"ranks", one.ranks},
          {"doing", one.doing},
          {"stuck", one.stuck_seconds},
          {"operations", list_of(one.operations)},
          {"waits", list_of(one.waits)},
          {"links", list_of(one.links)}};
}

/// Throws what nlohmann's library does where the field is missing or of another type.
template <typename To>
void take(const Json& from, const char* name, To& to) {
  from.at(name).get_to(to);
}

ReportedOperation operation_from(const Json& json) {
  ReportedOperation one;
  take(json, "number", one.number);
  take(json, "collective", one.collective);
  take(json, "type", one.type);
  take(json, "op", one.op);
  take(json, "count", one.count);
  take(json, "root", one.root);
  take(json, "uneven", one.uneven);
  take(json, "started", one.started_ns);
  one.state = static_cast<OperationState>(index_of(kStates, json.at("state").get<std::string>()));
  return one;
}

ReportedWait wait_from(const Json& json) {
  ReportedWait one;
  take(json, "number", one.number);
  take(json, "peer", one.peer);
  one.kind = static_cast<WaitKind>(index_of(kWaits, json.at("kind").get<std::string>()));
  take(json, "channel", one.channel);
  take(json, "done", one.messages_done);
  take(json, "messages", one.messages);
  take(json, "bytes", one.bytes);
  return one;
}

ReportedLink link_from(const Json& json) {
  ReportedLink one;
  take(json, "peer", one.peer);
  take(json, "channel", one.channel);
  take(json, "transport", one.transport);
  take(json, "nic", one.nic);
  take(json, "peer_nic", one.peer_nic);
  take(json, "address", one.peer_address);
  take(json, "sent", one.messages_sent);
  take(json, "received", one.messages_received);
  take(json, "streams", one.streams);
  take(json, "retransmitted", one.retransmitted);
  return one;
}

ReportedCommunicator communicator_from(const Json& json) {
  ReportedCommunicator one;
  take(json, "name", one.name);
  take(json, "ranks", one.ranks);
  take(json, "doing", one.doing);
  take(json, "stuck", one.stuck_seconds);
  for (const Json& each : json.at("operations")) one.operations.push_back(operation_from(each));
  for (const Json& each : json.at("waits")) one.waits.push_back(wait_from(each));
  for (const Json& each : json.at("links")) one.links.push_back(link_from(each));
  return one;
}

}  // namespace

std::string_view operation_state_name(OperationState state) noexcept {
  return kStates[static_cast<std::size_t>(state)];
}

std::string_view wait_kind_name(WaitKind kind) noexcept {
  return kWaits[static_cast<std::size_t>(kind)];
}

std::string ReportedOperation::text() const {
  if (type.empty()) return fmt::format("{} #{}", collective, number);
  return fmt::format("{} #{} ({} {}{}{}{})", collective, number, count, type, op.empty() ? "" : " ", op,
                     root < 0 ? std::string() : fmt::format(", root {}", root));
}

std::string ReportedLink::text() const {
  return fmt::format("{} {} -> {} ({})", transport, nic, peer_nic, peer_address);
}

const ReportedOperation* ReportedCommunicator::current() const noexcept {
  const auto at = std::ranges::find_if(
      operations, [](const ReportedOperation& one) { return one.state != OperationState::kCompleted; });
  return at == operations.end() ? nullptr : &*at;
}

std::vector<std::byte> RankReport::encode() const {
  Json all = Json::array();
  for (const ReportedCommunicator& one : communicators) all.push_back(json_of(one));
  const Json json{{"tombolo_stuck", kVersion}, {"rank", rank},          {"host", host},
                  {"process", process},        {"written", written_ns}, {"communicators", std::move(all)}};
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

RankReport RankReport::decode(std::span<const std::byte> bytes, std::int64_t rank) {
  const std::string source = fmt::format("rank {}'s report", rank);
  const Json json = parse_peer_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, source);
  try {
    if (json.at("tombolo_stuck") != kVersion)
      fail(Cause::kRemote, "{} is not of this version: use the `tombolo` of the job's own build", source);
    RankReport report;
    take(json, "rank", report.rank);
    if (report.rank != rank) fail(Cause::kRemote, "{} is of rank {}", source, report.rank);
    take(json, "host", report.host);
    take(json, "process", report.process);
    take(json, "written", report.written_ns);
    for (const Json& each : json.at("communicators")) report.communicators.push_back(communicator_from(each));
    return report;
  } catch (const Json::exception& error) {
    fail(Cause::kRemote, "{} cannot be read: {}", source, error.what());
  }
}

std::string report_key(std::string_view prefix, std::int64_t rank) {
  return fmt::format("{}/report/{}", prefix, rank);
}

}  // namespace tombolo::collectives
