#include "bench/perf/explanation.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/format.h"
#include "base/json.h"
#include "base/units.h"

namespace tombolo::bench {
namespace {

/// "inside hosts" of "inside-hosts".
std::string in_words(std::string name) {
  std::ranges::replace(name, '-', ' ');
  return name;
}

std::string level_line(const Json& level) {
  const Json &rate = level.at("bytes_per_second"), &latency = level.at("latency_seconds");
  std::string figures;
  if (!rate.is_null()) figures = format_bit_rate(rate);
  if (!latency.is_null()) figures += (figures.empty() ? "" : ", ") + format_seconds(latency);
  return fmt::format("#   {}: {}\n", in_words(level.at("level")),
                     figures.empty() ? "rate and latency are not known" : figures);
}

std::string network_lines(const Json& network) {
  std::string text =
      fmt::format("#\n# The engine knows of the network: {}.\n", network.at("text").get<std::string>());
  for (const Json& level : network.at("levels")) text += level_line(level);
  return text;
}

std::string size_line(const ExplainedSize& size) {
  const Json call = call_json(size.text);
  if (call.is_null())
    return fmt::format("# {:>10}  {:>14}  {:>9}  {:>8}  sends and receives, of which none is to be chosen\n",
                       size.bytes, "point-to-point", "-", "-");
  const Json& segment = call.at("segment_bytes");
  return fmt::format("# {:>10}  {:>14}  {:>9}  {:>8}  {}\n", size.bytes,
                     call.at("algorithm").get<std::string>(), segment.is_null() ? "-" : segment.dump(),
                     call.at("channels").dump(), call.at("why").get<std::string>());
}

/// "2 between clusters by tcp (eth0 -> eth0), 1 to 4 streams each"
std::string connection_lines(const Json& connections) {
  struct Kind {
    int count = 0;
    std::set<int> streams;
  };
  std::map<std::string, Kind> kinds;  // by what they have in common
  for (const Json& one : connections) {
    Kind& kind = kinds[fmt::format(
        "{} by {} ({} -> {})", in_words(one.at("level")), one.at("transport").get<std::string>(),
        one.at("local_nic").get<std::string>(), one.at("peer_nic").get<std::string>())];
    ++kind.count;
    if (!one.at("streams").is_null()) kind.streams.insert(one.at("streams").get<int>());
  }
  std::string text = fmt::format("# Rank 0 has {} connection{} for collectives{}\n", connections.size(),
                                 connections.size() == 1 ? "" : "s", kinds.empty() ? "." : ":");
  for (const auto& [name, kind] : kinds) {
    std::string streams;
    if (!kind.streams.empty()) {
      const int least = *kind.streams.begin(), most = *kind.streams.rbegin();
      streams = least == most ? fmt::format(", streams of each: {}", most)
                              : fmt::format(", streams of each: {} to {}", least, most);
    }
    text += fmt::format("#   {} {}{}\n", kind.count, name, streams);
  }
  return text;
}

}  // namespace

Json network_json(const std::string& text) {
  Json all = Json::parse(text);
  all.erase("last_call");
  return all;
}

Json call_json(const std::string& text) {
  return text.empty() ? Json() : Json::parse(text).at("last_call");
}

std::string explained(const std::vector<ExplainedSize>& sizes, const std::string& now) {
  const Json all = network_json(now);
  std::string text = network_lines(all.at("network"));
  text += fmt::format("# Which way each size took, and why:\n# {:>10}  {:>14}  {:>9}  {:>8}  {}\n", "size",
                      "algorithm", "segment", "channels", "why");
  for (const ExplainedSize& size : sizes) text += size_line(size);
  text += connection_lines(all.at("connections"));
  return text + "#\n";
}

}  // namespace tombolo::bench
