#include "collectives/schedule/tuning_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/json.h"

namespace tombolo::collectives {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;  // what every reader of JSON keeps exactly
constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;

Json way_json(const TunedWay& way) {
  Json json{{"algorithm", way.name()}};
  if (way.segment_bytes > 0) json["segment_bytes"] = way.segment_bytes;
  return json;
}

Json row_json(const TuningRow& row) {
  Json json = way_json(row.way);
  json["collective"] = collective_name(row.collective);
  json["from_bytes"] = row.from_bytes;
  json["to_bytes"] = row.to_bytes;
  if (row.measured.empty()) return json;
  for (const TimedWay& one : row.measured) {
    Json timed = way_json(one.way);
    timed["bytes"] = one.bytes;
    timed["seconds"] = one.seconds;
    json["measured"].push_back(std::move(timed));
  }
  return json;
}

std::size_t bytes_of(const JsonCursor& at, std::int64_t least) {
  return static_cast<std::size_t>(at.integer(least, kMostBytes));
}

TunedWay read_way(const JsonCursor& at, Collective collective, const JobShape& shape) {
  const JsonCursor field = at.field("algorithm");
  const std::string name = field.text();
  TunedWay way;
  if (name == kHostWay) {
    if (shape.hosts() != 1)
      field.reject(
          fmt::format("\"host\" is for ranks of one host, and the table's job has {}", shape.hosts()));
  } else {
    way.algorithm = find_algorithm(collective, name);
    if (way.algorithm == nullptr)
      field.reject(fmt::format("{} has no algorithm \"{}\"", collective_name(collective), name));
  }
  const auto segment = at.optional("segment_bytes");
  if (!segment) return way;
  if (way.algorithm == nullptr || !way.algorithm->in_pieces)
    segment->reject(fmt::format("{} by \"{}\" cuts nothing", collective_name(collective), name));
  way.segment_bytes = bytes_of(*segment, 1);
  return way;
}

TuningRow read_row(const JsonCursor& at, const JobShape& shape) {
  at.only({"collective", "from_bytes", "to_bytes", "algorithm", "segment_bytes", "measured"});
  TuningRow row;
  const JsonCursor name = at.field("collective");
  const auto collective = collective_from_name(name.text());
  if (!collective || *collective == Collective::kBarrier)
    name.reject(fmt::format("expected all_reduce, all_gather, ..., found \"{}\"", name.text()));
  row.collective = *collective;
  row.from_bytes = bytes_of(at.field("from_bytes"), 0);
  row.to_bytes = bytes_of(at.field("to_bytes"), 0);
  if (row.to_bytes < row.from_bytes)
    at.field("to_bytes").reject(fmt::format("{} is below from_bytes {}", row.to_bytes, row.from_bytes));
  row.way = read_way(at, row.collective, shape);
  if (const auto measured = at.optional("measured")) {
    for (const JsonCursor& one : measured->elements()) {
      one.only({"bytes", "seconds", "algorithm", "segment_bytes"});
      row.measured.push_back({bytes_of(one.field("bytes"), 0), read_way(one, row.collective, shape),
                              one.field("seconds").positive_number()});
    }
  }
  return row;
}

JobShape read_shape(const JsonCursor& at) {
  at.only({"clusters", "uniform_links"});
  JobShape shape;
  shape.uniform_links = at.field("uniform_links").boolean();
  for (const JsonCursor& cluster : at.field("clusters").elements()) {
    auto& hosts = shape.clusters.emplace_back();
    for (const JsonCursor& host : cluster.elements())
      hosts.push_back(static_cast<std::size_t>(host.integer(1, kMostRanks)));
    if (hosts.empty()) cluster.reject("expected the ranks of each host, found no host");
    std::ranges::sort(hosts, std::greater());
  }
  if (shape.clusters.empty()) at.field("clusters").reject("expected at least one cluster");
  std::ranges::sort(shape.clusters, std::greater());
  return shape;
}

auto place(const TuningRow& row) {
  return std::tuple(row.collective, row.from_bytes);
}

TuningTable read_table(const JsonCursor& root) {
  const JsonCursor version = root.field("tombolo_tuning");
  if (const auto found = version.integer(1, std::numeric_limits<int>::max()); found != TuningTable::kVersion)
    version.reject(fmt::format("this build reads version {} of the tuning table, found version {}",
                               TuningTable::kVersion, found));
  root.only({"tombolo_tuning", "shape", "rows"});
  TuningTable table;
  table.shape = read_shape(root.field("shape"));
  std::vector<std::pair<TuningRow, JsonCursor>> rows;
  for (const JsonCursor& at : root.field("rows").elements()) rows.emplace_back(read_row(at, table.shape), at);
  std::ranges::stable_sort(rows, {}, [](const auto& row) { return place(row.first); });
  for (auto& [row, at] : rows) {
    if (!table.rows.empty() && table.rows.back().collective == row.collective &&
        row.from_bytes <= table.rows.back().to_bytes)
      at.reject(fmt::format("another row of {} has {} to {} bytes already", collective_name(row.collective),
                            table.rows.back().from_bytes, table.rows.back().to_bytes));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

const TuningRow* TuningTable::find(Collective collective, std::size_t bytes) const noexcept {
  const auto after = std::ranges::upper_bound(rows, std::tuple(collective, bytes), {}, place);
  if (after == rows.begin()) return nullptr;
  const TuningRow& row = *std::prev(after);
  return row.collective == collective && bytes <= row.to_bytes ? &row : nullptr;
}

std::string TuningTable::encode() const {
  Json all = Json::array();
  for (const TuningRow& row : rows) all.push_back(row_json(row));
  return Json{{"tombolo_tuning", kVersion},
              {"shape", {{"clusters", shape.clusters}, {"uniform_links", shape.uniform_links}}},
              {"rows", all}}
             .dump(1) +
         "\n";
}

TuningTable TuningTable::decode(std::string_view text, const std::string& source) {
  return read_table(JsonDocument::parse(text, source).root());
}

TuningTable TuningTable::load(const std::string& path) {
  return read_table(JsonDocument::load(path).root());
}

std::vector<TimedWay> measured_near(const TuningRow& row, std::size_t bytes) {
  if (row.measured.empty()) return {};
  const auto distance = [bytes](const TimedWay& one) {
    return std::abs(std::log2(static_cast<double>(one.bytes) + 1) -
                    std::log2(static_cast<double>(bytes) + 1));
  };
  const std::size_t nearest = std::ranges::min_element(row.measured, {}, distance)->bytes;
  std::vector<TimedWay> found;
  for (const TimedWay& one : row.measured) {
    if (one.bytes == nearest) found.push_back(one);
  }
  std::ranges::stable_sort(
      found, {}, [&](const TimedWay& one) { return std::pair(one.way == row.way ? 0 : 1, one.seconds); });
  return found;
}

}  // namespace tombolo::collectives
