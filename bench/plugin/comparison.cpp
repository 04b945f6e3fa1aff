#include "bench/plugin/comparison.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/units.h"
#include "bench/channels.h"

namespace tombolo::bench::plugin {

namespace {

/// The median over the rounds of the ratio of one candidate to another, because what slows a round slows
/// both.
double ratio(const std::map<std::string, std::vector<double>>& values, const std::string& of,
             const std::string& over) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < values.at(over).size(); ++i)
    ratios.push_back(values.at(of)[i] / values.at(over)[i]);
  return median(std::move(ratios));
}

}  // namespace

void Comparison::run() {
  for (const std::string& text : plan_.trips) trips_.push_back({parse_size(text, "--trips"), 1, {}, {}});
  for (std::size_t channels : plan_.channels) {
    for (const std::string& text : plan_.sizes) {
      const std::size_t size = parse_size(text, "--sizes");
      if (static_cast<double>(size * channels * kOutstanding) <= plan_.memory)
        streams_.push_back({size, channels, {}, {}});
    }
  }
  for (int round = 0; round < plan_.repeats; ++round) {
    pairs_.clear();
    pairs_ = start_();
    for (Row& row : trips_) measure_trips(row);
    for (Row& row : streams_) measure_stream(row);
  }
  header("half round trip, us");
  for (const Row& row : trips_) print(row, false);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const std::size_t channels = streams_[i].channels;
    if (i == 0 || streams_[i - 1].channels != channels) {
      header(fmt::format("{} comm{}: GB/s one way, CPU seconds per GB of both processes", channels,
                         channels == 1 ? "" : "s"));
    }
    print(streams_[i], true);
  }
}

Json Comparison::as_json() const {
  Json all{{"repeats", plan_.repeats}, {"outstanding", kOutstanding}};
  for (const auto& pair : pairs_) all["candidates"][pair->candidate().key] = pair->candidate().label;
  auto add = [&](const char* what, const std::vector<Row>& rows, bool rate) {
    for (const Row& row : rows) {
      Json entry{{"bytes", row.size}, {"comms", row.channels}};
      for (const auto& [key, values] : row.values) {
        entry[rate ? "bytes_per_second" : "half_round_trip_seconds"][key] = median(values);
        if (rate) entry["processor_seconds_per_gb"][key] = median(row.processor.at(key));
        if (!compared(key)) continue;
        entry["tombolo_over"][key] = ratio(row.values, base(), key);
        if (rate) entry["tombolo_processor_over"][key] = ratio(row.processor, base(), key);
      }
      all[what].push_back(std::move(entry));
    }
  };
  add("latency", trips_, false);
  add("throughput", streams_, true);
  return all;
}

void Comparison::measure_trips(Row& row) {
  for (Pair* pair : shuffled()) {
    pair->order({Task::kVerify, row.size, 1, 1});
    // Makes as many round trips as take about 50 ms, after a few for warm-up.
    pair->order({Task::kTrips, row.size, 1, 50});
    const double each = pair->order({Task::kTrips, row.size, 1, 50}).first;
    const auto count = static_cast<std::size_t>(std::clamp(0.05 / each, 20.0, 10000.0));
    auto [seconds, processor] = pair->order({Task::kTrips, row.size, 1, count});
    row.values[pair->candidate().key].push_back(seconds / 2);
    row.processor[pair->candidate().key].push_back(processor);
  }
}

void Comparison::measure_stream(Row& row) {
  const std::size_t size = row.size, channels = row.channels;
  const auto wanted = static_cast<std::size_t>(plan_.bytes_per_run / static_cast<double>(size * channels));
  const std::size_t count = std::clamp<std::size_t>(wanted, 2 * kOutstanding, 50'000);
  const double bytes = static_cast<double>(size * channels * count);
  for (Pair* pair : shuffled()) {
    pair->order({Task::kVerify, size, 1, 1});
    pair->order({Task::kStream, size, channels, 2 * kOutstanding});
    auto [seconds, processor] = pair->order({Task::kStream, size, channels, count});
    row.values[pair->candidate().key].push_back(bytes / seconds);
    row.processor[pair->candidate().key].push_back(processor / (bytes / 1e9));
    pair->order({Task::kVerify, 8, 1, 1});  // frees the memory of the stream
  }
}

std::vector<Pair*> Comparison::shuffled() {
  std::vector<Pair*> all;
  for (const auto& pair : pairs_) all.push_back(pair.get());
  std::ranges::shuffle(all, order_);
  return all;
}

void Comparison::header(const std::string& what) const {
  std::printf("\n%s\n%10s", what.c_str(), "size");
  for (const auto& pair : pairs_) std::printf(" | %15s", pair->candidate().key.c_str());
  for (const auto& pair : pairs_) {
    if (compared(pair->candidate().key))
      std::printf(" | %s/%s", base().c_str(), pair->candidate().key.c_str());
  }
  std::printf("\n");
}

void Comparison::print(const Row& row, bool with_processor) const {
  std::printf("%10s", format_size(row.size).c_str());
  auto value = [&](const std::string& key) { return median(row.values.at(key)); };
  auto cost = [&](const std::string& key) { return median(row.processor.at(key)); };
  for (const auto& pair : pairs_) {
    const std::string& key = pair->candidate().key;
    const std::string text = with_processor ? fmt::format("{:9.3f} {:5.2f}", value(key) / 1e9, cost(key))
                                            : fmt::format("{:9.2f}      ", value(key) * 1e6);
    std::printf(" | %s", text.c_str());
  }
  for (const auto& pair : pairs_) {
    const std::string& key = pair->candidate().key;
    if (!compared(key)) continue;
    std::string text = fmt::format("{:.2f}x", ratio(row.values, base(), key));
    if (with_processor) text += fmt::format(" {:.2f}x", ratio(row.processor, base(), key));
    std::printf(" | %*s", static_cast<int>(base().size() + 1 + key.size()), text.c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

std::string Comparison::base() const {
  const auto has = [&](std::string_view key) {
    return std::ranges::any_of(pairs_, [&](const auto& pair) { return pair->candidate().key == key; });
  };
  for (const char* key : {"tombolo", "tombolo-shm"})
    if (has(key)) return key;
  return {};
}

bool Comparison::compared(const std::string& key) const {
  const std::string ours = base();
  return key != ours && (ours == "tombolo-shm" || (!ours.empty() && !key.starts_with("tombolo")));
}

}  // namespace tombolo::bench::plugin
