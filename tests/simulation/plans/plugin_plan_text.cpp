// Plans of the plugin as text: for people, and as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/simulation/plans/plan_json.h"
#include "tests/simulation/plans/plugin_plan.h"

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;

struct EndingName {
  const char *name, *text;
};
// By CommPlan::Ending.
constexpr std::array<EndingName, 5> kEndings{{{"together", "closes together"},
                                              {"when-done", "closes when done"},
                                              {"abort", "aborts"},
                                              {"give-up", "gives up connecting"},
                                              {"in-flight", "closes with requests in flight"}}};
constexpr std::int64_t kMostGroup = 8;

void decode_message(const JsonCursor& from, CommPlan& comm) {
  from.only({"size", "tag", "pause_ns"});
  comm.messages.push_back(
      static_cast<std::size_t>(from.field("size").integer(0, static_cast<std::int64_t>(kLongestMessage))));
  if (const auto tag = from.optional("tag"))
    comm.tags.push_back(static_cast<int>(tag->integer(0, INT32_MAX)));
  comm.pauses.emplace_back();
  read_member(from, "pause_ns", comm.pauses.back());
}

/// Which messages are received together, and in which order they are sent.
void decode_order(const JsonCursor& from, CommPlan& comm) {
  const std::size_t messages = comm.messages.size();
  if (const auto groups = from.optional("groups")) {
    for (const JsonCursor& one : groups->elements())
      comm.groups.push_back(static_cast<unsigned>(one.integer(1, kMostGroup)));
    if (std::accumulate(comm.groups.begin(), comm.groups.end(), std::size_t{0}) != messages)
      groups->reject(fmt::format("expected groups of all {} messages", messages));
  }
  if (const auto order = from.optional("send_order")) {
    for (const JsonCursor& one : order->elements())
      comm.send_order.push_back(static_cast<std::size_t>(one.integer(0, INT32_MAX)));
    std::vector<std::size_t> sorted = comm.send_order, all(messages);
    std::ranges::sort(sorted);
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (sorted != all) order->reject(fmt::format("expected each of the {} messages once", messages));
    for (std::size_t i = 0; i < messages; ++i)
      for (std::size_t before = 0; before < i; ++before)
        if (comm.send_order[before] > comm.send_order[i] &&
            comm.tag_of(comm.send_order[before]) == comm.tag_of(comm.send_order[i]))
          order->reject("messages of one tag are sent in their order");
  }
}

CommPlan decode_comm(const JsonCursor& from) {
  from.only({"sender", "messages", "groups", "send_order", "windows", "registered", "other_handle_first",
             "listener_closes_early", "ending", "tells_attributes", "receiver_aborts", "abort_after"});
  CommPlan comm;
  read_member(from, "sender", comm.sender, 0, 1);
  for (const JsonCursor& one : from.field("messages").elements()) decode_message(one, comm);
  if (!comm.tags.empty() && comm.tags.size() != comm.messages.size())
    from.reject("either all messages have a tag, or none");
  decode_order(from, comm);
  read_member(from, "windows", comm.window);
  read_member(from, "registered", comm.registered);
  read_member(from, "other_handle_first", comm.other_handle_first);
  read_member(from, "listener_closes_early", comm.listener_closes_early);
  if (const auto ending = from.optional("ending")) {
    std::array<const char*, kEndings.size()> names{};
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kEndings[i].name;
    comm.ending = static_cast<CommPlan::Ending>(choice(*ending, names));
  }
  read_member(from, "tells_attributes", comm.tells_attributes);
  read_member(from, "receiver_aborts", comm.receiver_aborts);
  read_member(from, "abort_after", comm.abort_after, 0, INT32_MAX);
  return comm;
}

Json encode(const CommPlan& comm) {
  const CommPlan usual;
  Json json{{"sender", comm.sender}, {"messages", Json::array()}};
  for (std::size_t i = 0; i < comm.messages.size(); ++i) {
    Json one{{"size", comm.messages[i]}};
    if (!comm.tags.empty()) one["tag"] = comm.tags[i];
    write_member(one, "pause_ns", comm.pauses[i]);
    json["messages"].push_back(std::move(one));
  }
  write_member(json, "groups", comm.groups, usual.groups);
  write_member(json, "send_order", comm.send_order, usual.send_order);
  write_member(json, "windows", comm.window, usual.window);
  write_member(json, "registered", comm.registered, usual.registered);
  write_member(json, "other_handle_first", comm.other_handle_first, usual.other_handle_first);
  write_member(json, "listener_closes_early", comm.listener_closes_early, usual.listener_closes_early);
  if (comm.ending != usual.ending) json["ending"] = kEndings[static_cast<std::size_t>(comm.ending)].name;
  write_member(json, "tells_attributes", comm.tells_attributes, usual.tells_attributes);
  write_member(json, "receiver_aborts", comm.receiver_aborts, usual.receiver_aborts);
  write_member(json, "abort_after", comm.abort_after, usual.abort_after);
  return json;
}

}  // namespace

std::string describe(const PluginPlan& plan) {
  std::string text = describe(plan.network);
  text += fmt::format("  {}, {}, ended {}\n", plan.devices_per_nic ? "a device per NIC" : "one device",
                      plan.shared_context ? "one context for all" : "a context per connection",
                      plan.finalized_early ? "once connected" : "last");
  for (std::size_t i = 0; i < plan.comms.size(); ++i) {
    const CommPlan& comm = plan.comms[i];
    text += fmt::format("  comm {}: host {} sends, windows {} and {}{}{}{}, {}", i, comm.sender,
                        comm.window[0], comm.window[1], comm.registered ? ", registered" : "",
                        comm.other_handle_first ? ", after another handle" : "",
                        comm.listener_closes_early ? ", listener closes early" : "",
                        kEndings[static_cast<std::size_t>(comm.ending)].text);
    if (comm.tells_attributes) text += ", attributes told";
    if (comm.ends_early())
      text +=
          fmt::format(" at the {} after {}", comm.receiver_aborts ? "receiver" : "sender", comm.abort_after);
    text += "; bytes:";
    for (std::size_t at = 0; at < comm.messages.size(); ++at) {
      text += fmt::format(" {}", comm.messages[at]);
      if (!comm.tags.empty()) text += fmt::format(" tag {}", comm.tags[at]);
      if (comm.pauses[at] > Duration::zero())
        text += fmt::format(" (after {} us)", comm.pauses[at] / microseconds(1));
    }
    if (!comm.groups.empty())
      text += fmt::format("; groups of {}; sent as {}", fmt::join(comm.groups, " "),
                          fmt::join(comm.send_order, " "));
    text += "\n";
  }
  return text;
}

std::string encode(const PluginPlan& plan) {
  const PluginPlan usual;
  Json json{{"network", network_to_json(plan.network)}, {"comms", Json::array()}};
  write_member(json, "devices_per_nic", plan.devices_per_nic, usual.devices_per_nic);
  write_member(json, "shared_context", plan.shared_context, usual.shared_context);
  write_member(json, "finalized_early", plan.finalized_early, usual.finalized_early);
  for (const CommPlan& comm : plan.comms) json["comms"].push_back(encode(comm));
  return json.dump();
}

PluginPlan decode_plugin_plan(std::string_view text, const std::string& source) {
  const JsonDocument document = JsonDocument::parse(text, source);
  const JsonCursor root = document.root();
  root.only({"network", "devices_per_nic", "shared_context", "finalized_early", "comms"});
  PluginPlan plan;
  plan.network = network_from(root, 2);
  read_member(root, "devices_per_nic", plan.devices_per_nic);
  read_member(root, "shared_context", plan.shared_context);
  read_member(root, "finalized_early", plan.finalized_early);
  for (const JsonCursor& one : root.field("comms").elements()) plan.comms.push_back(decode_comm(one));
  return plan;
}

}  // namespace tombolo::simulation
