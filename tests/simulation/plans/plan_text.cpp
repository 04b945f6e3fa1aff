// Plans as text: for people, and as JSON.
#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/format.h"
#include "base/json.h"
#include "tests/simulation/plans/plan.h"

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

template <std::size_t N>
std::size_t choice(const JsonCursor& cursor, const std::array<const char*, N>& names) {
  const std::string given = cursor.text();
  for (std::size_t i = 0; i < N; ++i)
    if (given == names[i]) return i;
  cursor.reject(fmt::format("'{}' is none of those that there are", given));
}

std::int64_t optional_integer(const JsonCursor& object, const char* name, std::int64_t most) {
  const auto value = object.optional(name);
  return value ? value->integer(0, most) : 0;
}

constexpr std::int64_t kMostNanoseconds = 100'000'000'000;

Duration optional_duration(const JsonCursor& object, const char* name) {
  return Duration(optional_integer(object, name, kMostNanoseconds));
}

Fault decode_fault(const JsonCursor& from) {
  from.only(
      {"kind", "at_ns", "at_close", "host", "nic", "stream", "lasts_ns", "call", "errno", "times", "step"});
  std::array<const char*, Fault::kKinds> kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = kKindNames[i].name;
  Fault fault;
  fault.kind = static_cast<Fault::Kind>(choice(from.field("kind"), kinds));
  fault.at = optional_duration(from, "at_ns");
  if (const auto close = from.optional("at_close"); close && close->boolean())
    fault.from = Fault::From::kFirstClose;
  fault.step = static_cast<std::uint64_t>(optional_integer(from, "step", INT64_MAX));
  fault.host = static_cast<unsigned>(optional_integer(from, "host", 1));
  fault.nic = static_cast<unsigned>(optional_integer(from, "nic", 7));
  fault.stream = static_cast<unsigned>(optional_integer(from, "stream", 63));
  fault.lasts = optional_duration(from, "lasts_ns");
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
  if (fault.step != 0) json["step"] = fault.step;
  if (fault.host != 0) json["host"] = fault.host;
  if (fault.nic != 0) json["nic"] = fault.nic;
  if (fault.stream != 0) json["stream"] = fault.stream;
  if (fault.lasts != Duration::zero()) json["lasts_ns"] = fault.lasts.count();
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

std::string encode(const Plan& plan) {
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
            {"windows", {plan.window[0], plan.window[1]}},
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
    if (message.pause != Duration::zero()) one["pause_ns"] = message.pause.count();
    json["messages"].push_back(std::move(one));
  }
  for (const Fault& fault : plan.faults) json["faults"].push_back(encode(fault));
  return json.dump();
}

Plan decode_plan(std::string_view text, const std::string& source) {
  const JsonDocument document = JsonDocument::parse(text, source);
  const JsonCursor root = document.root();
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
  const auto number = [&](const char* name, auto& into, std::int64_t least, std::int64_t most) {
    if (const auto value = root.optional(name))
      into = static_cast<std::remove_cvref_t<decltype(into)>>(value->integer(least, most));
  };
  const auto flag = [&](const char* name, bool& into) {
    if (const auto value = root.optional(name)) into = value->boolean();
  };
  Plan plan;
  number("seed", plan.seed, 0, INT64_MAX);
  if (const auto over = root.optional("over")) plan.over = static_cast<Over>(choice(*over, kOverNames));
  if (const auto fetch = root.optional("fetch"))
    plan.fetch = static_cast<transport::shm::Fetch>(choice(*fetch, kFetchNames));
  flag("or_tcp", plan.or_tcp);
  number("lap", plan.lap, 1, INT64_MAX);
  number("yield_one_in", plan.yield_one_in, 0, 1000);
  number("early_one_in", plan.early_one_in, 0, 1000);
  number("nics", plan.nics, 1, 8);
  number("streams", plan.streams, 0, 64);
  flag("tls", plan.tls);
  flag("checksums", plan.checksums);
  number("chunk", plan.chunk, 0, 1 << 30);
  number("replay", plan.replay, 0, 1 << 30);
  number("short_one_in", plan.short_one_in, 0, 1000);
  if (const auto delay = root.optional("delay_ns"))
    plan.delay = Duration(delay->integer(0, kMostNanoseconds));
  if (const auto rate = root.optional("bytes_per_second")) plan.bytes_per_second = rate->positive_number();
  if (const auto given = root.optional("windows")) {
    const auto windows = given->elements();
    if (windows.size() != 2) given->reject("expected two numbers");
    for (std::size_t host = 0; host < 2; ++host)
      plan.window[host] = static_cast<unsigned>(windows[host].integer(1, 64));
  }
  flag("wait_before_close", plan.wait_before_close);
  for (const JsonCursor& one : root.field("messages").elements()) {
    one.only({"from", "size", "pause_ns"});
    plan.messages.push_back(
        {static_cast<unsigned>(one.field("from").integer(0, 1)),
         static_cast<std::size_t>(one.field("size").integer(0, static_cast<std::int64_t>(kLongestMessage))),
         optional_duration(one, "pause_ns")});
  }
  for (const JsonCursor& one : root.field("faults").elements()) plan.faults.push_back(decode_fault(one));
  return plan;
}

}  // namespace tombolo::simulation
