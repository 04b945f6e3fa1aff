// Plans as text: for people, and as JSON.
#include <array>
#include <nlohmann/json.hpp>

#include "tests/simulation/plans/plan_json.h"

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;

struct KindName {
  const char *name, *text;
};
// By Fault::Kind.
constexpr std::array<KindName, Fault::kKinds> kKindNames{{{"reset", "reset of stream"},
                                                          {"half-reset", "reset at one end of stream"},
                                                          {"silence", "silence of NIC"},
                                                          {"silent-host", "silence of all NICs"},
                                                          {"unreachable", "no answer to connects"},
                                                          {"slow", "slow path of NIC"},
                                                          {"stop", "process stopped"},
                                                          {"errno", "errno"},
                                                          {"pause", "time jumps"},
                                                          {"kill", "process killed"},
                                                          {"cut", "all paths cut for good"},
                                                          {"reset-all", "reset of all streams"},
                                                          {"give-up", "owner gives its connection up"}}};
constexpr std::array<const char*, kCalls.size()> kCallNames{
    "socket", "accept", "send", "receive", "epoll_ctl", "connect", "process_vm_readv", "share_memory"};
// By Over and by Fetch.
constexpr std::array<const char*, 2> kOverNames{"tcp", "shm"};
constexpr std::array<const char*, 3> kFetchNames{"never", "where-cheaper", "always"};

const KindName& name_of(Fault::Kind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}
const char* name_of(Call call) {
  return kCallNames[static_cast<std::size_t>(call)];
}

std::string subject(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::kReset:
    case Fault::Kind::kHalfReset:
      return fmt::format(" {} of host {}", fault.stream, fault.host);
    case Fault::Kind::kSilence:
    case Fault::Kind::kSlow:
      return fmt::format(" {}", fault.nic);
    case Fault::Kind::kErrno:
      return fmt::format(" {} of {} {} time(s) on host {}", fault.error, name_of(fault.call), fault.times,
                         fault.host);
    case Fault::Kind::kUnreachable:
    case Fault::Kind::kStop:
    case Fault::Kind::kKill:
    case Fault::Kind::kGiveUp:
      return fmt::format(" on host {}", fault.host);
    case Fault::Kind::kSilentHost:
    case Fault::Kind::kPause:
    case Fault::Kind::kCutForGood:
    case Fault::Kind::kResetAll:
      return {};
  }
  return {};
}

Fault decode_fault(const JsonCursor& from, unsigned hosts) {
  from.only(
      {"kind", "at_ns", "at_close", "host", "nic", "stream", "lasts_ns", "call", "errno", "times", "step"});
  std::array<const char*, Fault::kKinds> kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = kKindNames[i].name;
  Fault fault;
  fault.kind = static_cast<Fault::Kind>(choice(from.field("kind"), kinds));
  read_member(from, "at_ns", fault.at);
  if (const auto close = from.optional("at_close"); close && close->boolean())
    fault.from = Fault::From::kFirstClose;
  read_member(from, "step", fault.step, 0, INT64_MAX);
  read_member(from, "host", fault.host, 0, hosts - 1);
  read_member(from, "nic", fault.nic, 0, 7);
  read_member(from, "stream", fault.stream, 0, 63);
  read_member(from, "lasts_ns", fault.lasts);
  if (fault.kind == Fault::Kind::kErrno) {
    fault.call = kCalls[choice(from.field("call"), kCallNames)];
    fault.error = static_cast<int>(from.field("errno").integer(1, 200));
    fault.times = static_cast<int>(from.field("times").integer(1, 1000));
  }
  return fault;
}

Json encode(const Fault& fault) {
  Json json{{"kind", name_of(fault.kind).name}, {"at_ns", fault.at.count()}};
  if (fault.from == Fault::From::kFirstClose) json["at_close"] = true;
  const Fault usual;
  write_member(json, "step", fault.step, usual.step);
  write_member(json, "host", fault.host, usual.host);
  write_member(json, "nic", fault.nic, usual.nic);
  write_member(json, "stream", fault.stream, usual.stream);
  write_member(json, "lasts_ns", fault.lasts);
  if (fault.kind == Fault::Kind::kErrno) {
    json["call"] = name_of(fault.call);
    json["errno"] = fault.error;
    json["times"] = fault.times;
  }
  return json;
}

}  // namespace

std::string describe(const Plan& plan) {
  std::string text = fmt::format(
      "seed {}: {} NIC(s), {} stream(s){}{}, chunk {}, replay {}, short calls 1 in {}, delay {} us, {} MB/s, "
      "windows {} and {}, {}\n",
      plan.seed, plan.nics, plan.streams, plan.tls ? ", TLS" : "", plan.checksums ? ", checksums" : "",
      plan.chunk, plan.replay, plan.short_one_in, plan.delay / microseconds(1), plan.bytes_per_second / 1e6,
      plan.window[0], plan.window[1], plan.wait_before_close ? "closes together" : "closes when it has done");
  if (plan.over == Over::kShm)
    text += fmt::format(
        "  shared memory{}: receivers read {}, laps of {} bytes, others go on at 1 in {} steps, 1 in {} "
        "sleeps "
        "ends early\n",
        plan.or_tcp ? " or TCP" : "", kFetchNames[static_cast<std::size_t>(plan.fetch)], plan.lap,
        plan.yield_one_in, plan.early_one_in);
  for (const Message& message : plan.messages) {
    text += fmt::format("  host {} sends {} bytes", message.from, message.size);
    if (message.pause > Duration::zero())
      text += fmt::format(" after {} us", message.pause / microseconds(1));
    text += "\n";
  }
  for (const Fault& fault : plan.faults) {
    text += fault.step != 0 ? fmt::format("  at step {} of host {}: ", fault.step, fault.host)
                            : fmt::format("  {} us {}: ", fault.at / microseconds(1),
                                          fault.from == Fault::From::kStart ? "after the start"
                                                                            : "after the first close");
    text += name_of(fault.kind).text + subject(fault);
    if (fault.lasts > Duration::zero()) text += fmt::format(" for {} us", fault.lasts / microseconds(1));
    text += "\n";
  }
  return text;
}

Json to_json(const Plan& plan) {
  Json json{{"seed", plan.seed},
            {"nics", plan.nics},
            {"streams", plan.streams},
            {"tls", plan.tls},
            {"checksums", plan.checksums},
            {"chunk", plan.chunk},
            {"replay", plan.replay},
            {"short_one_in", plan.short_one_in},
            {"delay_ns", plan.delay.count()},
            {"bytes_per_second", plan.bytes_per_second},
            {"windows", plan.window},
            {"wait_before_close", plan.wait_before_close},
            {"messages", Json::array()},
            {"faults", Json::array()}};
  if (plan.over == Over::kShm) {
    json["over"] = name_of(plan.over);
    json["fetch"] = kFetchNames[static_cast<std::size_t>(plan.fetch)];
    json["or_tcp"] = plan.or_tcp;
    json["lap"] = plan.lap;
    json["yield_one_in"] = plan.yield_one_in;
    json["early_one_in"] = plan.early_one_in;
  }
  for (const Message& message : plan.messages) {
    Json one{{"from", message.from}, {"size", message.size}};
    write_member(one, "pause_ns", message.pause);
    json["messages"].push_back(std::move(one));
  }
  for (const Fault& fault : plan.faults) json["faults"].push_back(encode(fault));
  return json;
}

Plan plan_from(const JsonCursor& root, unsigned hosts) {
  root.only({"seed",         "nics",
             "streams",      "tls",
             "checksums",    "chunk",
             "replay",       "short_one_in",
             "delay_ns",     "bytes_per_second",
             "windows",      "wait_before_close",
             "messages",     "faults",
             "over",         "fetch",
             "or_tcp",       "lap",
             "yield_one_in", "early_one_in"});
  Plan plan;
  read_member(root, "seed", plan.seed, 0, INT64_MAX);
  if (const auto over = root.optional("over")) plan.over = static_cast<Over>(choice(*over, kOverNames));
  if (const auto fetch = root.optional("fetch"))
    plan.fetch = static_cast<transport::shm::Fetch>(choice(*fetch, kFetchNames));
  read_member(root, "or_tcp", plan.or_tcp);
  read_member(root, "lap", plan.lap, 1, INT64_MAX);
  read_member(root, "yield_one_in", plan.yield_one_in, 0, 1000);
  read_member(root, "early_one_in", plan.early_one_in, 0, 1000);
  read_member(root, "nics", plan.nics, 1, 8);
  read_member(root, "streams", plan.streams, 0, 64);
  read_member(root, "tls", plan.tls);
  read_member(root, "checksums", plan.checksums);
  read_member(root, "chunk", plan.chunk, 0, 1 << 30);
  read_member(root, "replay", plan.replay, 0, 1 << 30);
  read_member(root, "short_one_in", plan.short_one_in, 0, 1000);
  read_member(root, "delay_ns", plan.delay);
  if (const auto rate = root.optional("bytes_per_second")) plan.bytes_per_second = rate->positive_number();
  read_member(root, "windows", plan.window);
  read_member(root, "wait_before_close", plan.wait_before_close);
  if (const auto messages = root.optional("messages")) {
    for (const JsonCursor& from : messages->elements()) {
      from.only({"from", "size", "pause_ns"});
      Message message;
      message.from = static_cast<unsigned>(from.field("from").integer(0, 1));
      message.size =
          static_cast<std::size_t>(from.field("size").integer(0, static_cast<std::int64_t>(kLongestMessage)));
      read_member(from, "pause_ns", message.pause);
      plan.messages.push_back(message);
    }
  }
  for (const JsonCursor& one : root.field("faults").elements())
    plan.faults.push_back(decode_fault(one, hosts));
  return plan;
}

Json network_to_json(const Plan& network) {
  Json json = to_json(network);
  // Nobody asks for them there.
  for (const char* name : {"messages", "windows", "wait_before_close"}) json.erase(name);
  return json;
}

Plan network_from(const JsonCursor& root, unsigned hosts) {
  const JsonCursor network = root.field("network");
  for (const char* name : {"messages", "windows", "wait_before_close"})
    if (network.optional(name)) network.reject(fmt::format("a network has no {}", name));
  return plan_from(network, hosts);
}

std::string encode(const Plan& plan) {
  return to_json(plan).dump();
}

Plan decode_plan(std::string_view text, const std::string& source) {
  const JsonDocument document = JsonDocument::parse(text, source);
  document.root().field("messages");
  return plan_from(document.root(), 2);
}

}  // namespace tombolo::simulation
