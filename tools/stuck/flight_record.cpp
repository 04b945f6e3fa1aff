#include "tools/stuck/flight_record.h"

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace tombolo::tools::stuck {
namespace {

using collectives::OperationState;
using collectives::ReportedCommunicator;
using collectives::ReportedOperation;

/// The names that PyTorch's analyzer knows.
std::string profiling_name(const std::string& collective) {
  if (collective == "all_gather") return "nccl:_all_gather_base";
  if (collective == "reduce_scatter") return "nccl:_reduce_scatter_base";
  return "nccl:" + collective;
}

std::string scalar_type(const std::string& type) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kNames{{{"int8", "Char"},
                                                                                  {"uint8", "Byte"},
                                                                                  {"int16", "Short"},
                                                                                  {"uint16", "UInt16"},
                                                                                  {"int32", "Int"},
                                                                                  {"uint32", "UInt32"},
                                                                                  {"int64", "Long"},
                                                                                  {"uint64", "UInt64"},
                                                                                  {"half", "Half"},
                                                                                  {"bfloat16", "BFloat16"},
                                                                                  {"float", "Float"},
                                                                                  {"double", "Double"},
                                                                                  {"f8e4m3", "Float8_e4m3fn"},
                                                                                  {"f8e5m2", "Float8_e5m2"}}};
  for (const auto& [ours, theirs] : kNames) {
    if (type == ours) return std::string(theirs);
  }
  return "Byte";  // of a barrier, which has no data
}

/// Elements of the send and of the receive buffer.
std::pair<std::uint64_t, std::uint64_t> elements_of(const ReportedOperation& one, std::uint64_t ranks) {
  const std::uint64_t part = one.count, whole = one.count * ranks;
  if (one.collective == "barrier") return {1, 1};
  if (one.collective == "reduce_scatter" || one.collective == "scatter") return {whole, part};
  if (one.collective == "all_gather" || one.collective == "gather") return {part, whole};
  if (one.collective == "all_to_all") return {whole, whole};
  return {part, part};
}

Json entry_of(const ReportedOperation& one, const ReportedCommunicator& communicator, std::size_t group,
              std::size_t record) {
  const auto [sent, received] = elements_of(one, communicator.ranks.size());
  const std::string type = scalar_type(one.type);
  const bool started = one.state != OperationState::kScheduled;
  return {{"record_id", record},
          {"pg_id", group},
          {"process_group", {communicator.name, communicator.name}},
          {"collective_seq_id", one.number},
          {"p2p_seq_id", 0},
          {"op_id", one.number},
          {"profiling_name", profiling_name(one.collective)},
          {"time_created_ns", one.started_ns},
          {"time_discovered_started_ns", started ? Json(one.started_ns) : Json()},
          {"time_discovered_completed_ns", nullptr},
          {"input_sizes", {{sent}}},
          {"input_dtypes", {type}},
          {"output_sizes", {{received}}},
          {"output_dtypes", {type}},
          {"state", operation_state_name(one.state)},
          {"retired", one.state == OperationState::kCompleted},
          {"timeout_ms", 0},
          {"is_p2p", false},
          {"frames", Json::array()}};
}

void append_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void append(std::string& out, std::string_view text) {
  out += 'X';  // BINUNICODE
  append_number(out, text.size(), 4);
  out += text;
}

void append(std::string& out, const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      out += "}(";  // an empty dictionary, and a mark for what follows
      for (const auto& [name, member] : value.items()) {
        append(out, std::string_view(name));
        append(out, member);
      }
      out += 'u';  // SETITEMS
      break;
    case Json::value_t::array:
      out += "](";
      for (const Json& element : value) append(out, element);
      out += 'e';  // APPENDS
      break;
    case Json::value_t::string:
      append(out, std::string_view(value.get_ref<const std::string&>()));
      break;
    case Json::value_t::boolean:
      out += value.get<bool>() ? '\x88' : '\x89';
      break;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      out += "\x8a\x09";  // LONG1 of nine bytes, the ninth for the sign
      append_number(out, value.get<std::uint64_t>(), 8);
      out += value.is_number_unsigned() || value.get<std::int64_t>() >= 0 ? '\0' : '\xff';
      break;
    case Json::value_t::number_float: {
      const auto bits = std::bit_cast<std::uint64_t>(value.get<double>());
      out += 'G';  // BINFLOAT, the highest byte first
      for (int i = 7; i >= 0; --i) out += static_cast<char>(bits >> (8 * i) & 0xff);
      break;
    }
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      out += 'N';
      break;
  }
}

}  // namespace

Json flight_record_of(const RankView& rank) {
  if (!rank.report) fail(Cause::kInvalidUsage, "rank {} has no report", rank.rank);
  Json groups = Json::object(), status = Json::object(), entries = Json::array();
  std::size_t group = 0;
  for (const ReportedCommunicator& one : rank.report->communicators) {
    groups[one.name] = {{"name", one.name}, {"desc", one.name}, {"ranks", Json(one.ranks).dump()}};
    std::uint64_t started = 0, completed = 0;
    for (const ReportedOperation& operation : one.operations) {
      entries.push_back(entry_of(operation, one, group, entries.size()));
      if (operation.state != OperationState::kScheduled) started = operation.number;
      if (operation.state == OperationState::kCompleted) completed = operation.number;
    }
    const std::uint64_t enqueued = one.operations.empty() ? 0 : one.operations.back().number;
    status[std::to_string(group)] = {{"last_enqueued_collective", std::to_string(enqueued)},
                                     {"last_started_collective", std::to_string(started)},
                                     {"last_completed_collective", std::to_string(completed)}};
    ++group;
  }
  return {{"version", "2.10"},
          {"comm_lib_version", "tombolo " TOMBOLO_VERSION},
          {"rank", rank.rank},
          {"pg_config", std::move(groups)},
          {"pg_status", std::move(status)},
          {"entries", std::move(entries)}};
}

std::string pickled(const Json& value) {
  std::string out = "\x80\x02";  // PROTO 2
  append(out, value);
  return out + '.';
}

}  // namespace tombolo::tools::stuck
