#include "bench/perf/tune.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "bench/perf/explanation.h"

namespace tombolo::bench {
namespace {

/// An odd number, so that one of them is the median; what disturbs the machine for a moment is in few of
/// them.
constexpr std::size_t kRounds = 5;
/// Bytes of a piece that are tried beside TOMBOLO_SEGMENT.
constexpr std::size_t kSegments[] = {128 * kKiB, 512 * kKiB, 2 * kMiB, 8 * kMiB};

std::string name_of(const Way& way) {
  return way.segment_bytes == 0 ? way.algorithm
                                : fmt::format("{} in {}", way.algorithm, format_size(way.segment_bytes));
}

Json way_json(const Way& way) {
  Json json{{"algorithm", way.algorithm}};
  if (way.segment_bytes > 0) json["segment_bytes"] = way.segment_bytes;
  return json;
}

Json row_json(std::string_view collective, const Way& way, std::size_t from, std::size_t to) {
  Json row = way_json(way);
  row["collective"] = collective;
  row["from_bytes"] = from;
  row["to_bytes"] = to;
  return row;
}

void add_measured(Json& row, const TunedSize& size) {
  for (const TimedWay& one : size.ways) {
    Json timed = way_json(one.way);
    timed["bytes"] = size.bytes;
    timed["seconds"] = one.seconds;
    row["measured"].push_back(std::move(timed));
  }
}

}  // namespace

Way TunedSize::chosen() const {
  const auto own = std::ranges::find(ways, automatic, &TimedWay::way);
  const bool own_will_do = own != ways.end() && own->seconds <= ways.front().seconds * (1 + kWorthIt);
  return own_will_do ? automatic : ways.front().way;
}

Json rows_of(std::string_view collective, const std::vector<TunedSize>& sizes) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const TunedSize& size = sizes[i];
    if (i == 0 || size.chosen() != sizes[i - 1].chosen()) {
      std::size_t from = size.bytes;
      if (i > 0) {
        const std::size_t below = sizes[i - 1].bytes;
        const double mean = std::sqrt(static_cast<double>(below) * static_cast<double>(size.bytes));
        const std::size_t border = std::max(below, static_cast<std::size_t>(mean));
        rows.back()["to_bytes"] = border;
        from = border + 1;
      }
      rows.push_back(row_json(collective, size.chosen(), from, size.bytes));
    }
    rows.back()["to_bytes"] = size.bytes;
    add_measured(rows.back(), size);
  }
  return rows;
}

Json table_with(const Json& before, const Json& shape, std::string_view collective, const Json& rows) {
  Json all = Json::array();
  if (!before.is_null()) {
    for (const Json& row : before.at("rows")) {
      if (row.at("collective") != collective) all.push_back(row);
    }
  }
  all.insert(all.end(), rows.begin(), rows.end());
  return {{"tombolo_tuning", 1}, {"shape", shape}, {"rows", all}};
}

std::string line_of(const TunedSize& size) {
  std::string text = fmt::format("# {:>10}  ", size.bytes);
  for (std::size_t i = 0; i < size.ways.size(); ++i) {
    text +=
        fmt::format("{}{} {:.1f}", i > 0 ? ", " : "", name_of(size.ways[i].way), size.ways[i].seconds * 1e6);
  }
  const Way chosen = size.chosen();
  return text +
         fmt::format(" -> {}{}\n", name_of(chosen), chosen == size.automatic ? "" : " (by the table only)");
}

Tuner::Tuner(const Flags& flags, const api::Communicator& communicator, Measurer& measurer)
    : flags_(flags), communicator_(communicator), measurer_(measurer) {}

void Tuner::read_file() {
  if (communicator_.rank() == 0 && std::filesystem::exists(flags_.tuning_file)) {
    std::ostringstream text;
    text << std::ifstream(flags_.tuning_file).rdbuf();
    before_ = text.str();
    if (before_.empty()) before_ = " ";  // no table either, and not none
  }
  try {
    communicator_.set_tuning(before_);  // the engine looks at it, on every rank
  } catch (const api::Error& error) {
    if (error.result() != tomboloInvalidUsage) throw;
    fail(Cause::kInvalidUsage,
         "--tune {}: that file is there already, and stays as it is: {}. Name another file",
         flags_.tuning_file, error.what());
  }
}

std::vector<Way> Tuner::ways_of(const std::string& explanation, std::size_t bytes) const {
  std::vector<Way> ways;
  const Json call = call_json(explanation);
  for (const Json& one : call.at("possible_ways")) {
    const std::string name = one.at("algorithm");
    if (name == "host" && !one.at("applies").get<bool>()) continue;  // beyond TOMBOLO_HOST_LIMIT
    ways.push_back({name, 0});
    if (!one.at("in_pieces").get<bool>()) continue;
    for (const std::size_t segment : kSegments) {
      if (segment < bytes && segment != one.at("segment_bytes")) ways.push_back({name, segment});
    }
  }
  return ways;
}

void Tuner::take(const Way& way, std::size_t bytes) const {
  const Json shape = network_json(communicator_.explain()).at("shape");
  const Json rows = Json::array({row_json(collective_, way, bytes, bytes)});
  communicator_.set_tuning(table_with({}, shape, collective_, rows).dump());
}

TunedSize Tuner::measure(const Point& point, std::size_t bytes, int& failed_checks) {
  communicator_.set_tuning("");
  measurer_.seconds_of(point, 1);
  const std::string explanation = communicator_.explain();
  const Json call = call_json(explanation);
  collective_ = call.at("collective");
  TunedSize size{bytes, {call.at("algorithm"), 0}, {}};
  const std::vector<Way> ways = ways_of(explanation, bytes);
  const int calls =
      std::max(1, (flags_.iterations + static_cast<int>(kRounds) - 1) / static_cast<int>(kRounds));
  std::vector<double> seconds(ways.size() * kRounds);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t turn = 0; turn < ways.size(); ++turn) {
      const std::size_t at = (turn + round) % ways.size();
      take(ways[at], bytes);
      measurer_.seconds_of(point, 1);  // connections and schedules are made
      if (communicator_.last_algorithm() != ways[at].algorithm) {
        fail(Cause::kInvalidUsage,
             "--tune asked for {} and got {}: unset TOMBOLO_ALGORITHM and TOMBOLO_COMPRESSION, whose calls "
             "no table "
             "changes",
             ways[at].algorithm, communicator_.last_algorithm());
      }
      if (round == 0) failed_checks += measurer_.check_of(point);
      communicator_.barrier();
      seconds[at * kRounds + round] = measurer_.seconds_of(point, calls);
    }
  }
  communicator_.set_tuning("");
  communicator_.all_reduce(seconds.data(), seconds.data(), seconds.size(), tomboloFloat64, tomboloMax);
  for (std::size_t at = 0; at < ways.size(); ++at) {
    const auto begin = seconds.begin() + static_cast<std::ptrdiff_t>(at * kRounds);
    const auto middle = begin + kRounds / 2;
    std::nth_element(begin, middle, begin + kRounds);
    size.ways.push_back({ways[at], *middle});
  }
  std::ranges::stable_sort(size.ways, {}, &TimedWay::seconds);
  return size;
}

std::string Tuner::write(const std::vector<TunedSize>& sizes) {
  if (communicator_.rank() != 0) {
    communicator_.set_tuning("");  // rank 0's counts
    return {};
  }
  const Json rows = rows_of(collective_, sizes);
  const Json before = before_.empty() ? Json() : Json::parse(before_);
  const Json table = table_with(before, network_json(communicator_.explain()).at("shape"), collective_, rows);
  write_json_file(flags_.tuning_file, table);
  communicator_.set_tuning(table.dump());
  return fmt::format("# {} has {} rows of {} now, and {} in all. TOMBOLO_TUNING={} uses them\n",
                     flags_.tuning_file, rows.size(), collective_, table.at("rows").size(),
                     flags_.tuning_file);
}

}  // namespace tombolo::bench
