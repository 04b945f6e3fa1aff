#include "tools/launch/profile_ranks.h"

#include <algorithm>
#include <barrier>
#include <exception>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "base/median.h"
#include "collectives/engine/communicator.h"
#include "compute/cores.h"
#include "probe/bootstrap/rendezvous_group.h"
#include "topology/files/cluster_file.h"
#include "trainer/run/layer_times.h"

namespace tombolo::tools {
namespace {

using planner::Profile;

// How long a measurement may take in addition to its budget, for a model that fills the memory.
constexpr auto kPatience = std::chrono::minutes(10);
constexpr double kMostDifference = 1.25;

Profile::Measurement measurement(const char* kind, int rows, const trainer::PartTimes& part) {
  Profile::Measurement one;
  one.kind = kind;
  one.micro_batch = rows;
  one.times = {part.forward, part.backward, part.update, part.kept_bytes};
  return one;
}

std::vector<Profile::Measurement> measure_rows(const ProfileRequest& request,
                                               const trainer::BackEnd& back_end, int rows,
                                               std::function<void()> ready) {
  trainer::LayerTimesOptions options;
  options.shape = trainer::to_shape(request.model);
  options.rows = rows;
  options.budget = from_seconds(request.seconds);
  options.threads = request.threads;
  options.precision = request.precision;
  options.moments = request.moments;
  options.recompute = request.recompute;
  options.make_stage = back_end.make_stage;
  options.ready = std::move(ready);
  const trainer::LayerTimes times = trainer::time_layers(options);
  return {measurement("layer", rows, times.layer),
          measurement(Profile::kEmbedding.data(), rows, times.embedding),
          measurement(Profile::kHead.data(), rows, times.head)};
}

/// What computes on the rank of this number on its host.
trainer::BackEnd back_end_of(const ProfileRequest& request, int local) {
  return trainer::choose_back_end(request.device, request.gpu.value_or(local), false, request.open_gpu);
}

void describe_device(const ProfileRequest& request, const trainer::BackEnd& back_end, DeviceTimes& times) {
  times.kind = back_end.device;
  times.description = back_end.description;
  // Of a core it would have to be measured, and the others want it for themselves.
  if (back_end.device == trainer::DeviceChoice::kCuda) times.peak = back_end.peak(request.precision);
}

using Key = std::tuple<std::string, std::string, int>;  // device, kind, rows

/// Seconds of a layer at the largest micro-batch.
double pass_seconds(const DeviceTimes& times) {
  double seconds = 0;
  int rows = 0;
  for (const auto& one : times.measurements) {
    if (one.kind != "layer" || one.micro_batch < rows) continue;
    rows = one.micro_batch;
    seconds = one.times.forward + one.times.backward;
  }
  return seconds;
}

Json to_json(const DeviceTimes& times) {
  Profile profile;
  profile.measurements = times.measurements;
  return {{"host", times.host},
          {"device", times.device},
          {"kind", trainer::device_choice_name(times.kind)},
          {"description", times.description},
          {"peak", times.peak},
          {"profile", profile.to_json()}};
}

DeviceTimes parse_times(const std::string& text, int rank) {
  const JsonDocument document = JsonDocument::parse(text, fmt::format("rank {}'s times", rank));
  DeviceTimes times;
  times.host = document.root().field("host").text();
  times.device = document.root().field("device").text();
  times.kind = document.root().field("kind").choice({"cpu", "cuda"}) == 0 ? trainer::DeviceChoice::kCpu
                                                                          : trainer::DeviceChoice::kCuda;
  times.description = document.root().field("description").text();
  times.peak = document.root().field("peak").number_at_least(0);
  const std::string profile = document.root().field("profile").raw().dump();
  times.measurements =
      Profile::parse(JsonDocument::parse(profile, fmt::format("rank {}'s times", rank))).measurements;
  return times;
}

/// The name of this rank's device in the cluster file; `local` is the rank's number on its host. Detection
/// only lists GPUs; on a host without a list of devices a rank computes on a core, or on a GPU that is called
/// by its own name.
std::string device_name(const topology::Host& host, std::size_t local, const trainer::BackEnd& back_end) {
  if (local >= host.devices.size()) return back_end.name;
  const topology::Device& device = host.devices[local];
  const bool is_gpu = device.kind == topology::DeviceKind::kGpu;
  if (is_gpu != (back_end.device == trainer::DeviceChoice::kCuda))
    fail(Cause::kInvalidUsage,
         "device {} of host {} is a {} ({}) in the cluster file, but what would be measured is {}; --device "
         "{} "
         "measures the other, --name NAME names what was measured",
         local, host.name, is_gpu ? "GPU" : "CPU", device.name, back_end.name, is_gpu ? "cuda" : "cpu");
  return device.name;
}

bool shares_processor(const std::string& host) {
  const auto cluster = topology::cluster_file_from_environment();
  if (!cluster || !cluster->shared_processor) return false;
  const auto& hosts = cluster->shared_processor->hosts;
  return std::ranges::find(hosts, host) != hosts.end();
}

}  // namespace

DeviceTimes profile_here(const ProfileRequest& request, int ranks, const std::optional<std::string>& device) {
  if (request.gpu && ranks > 1)
    fail(Cause::kInvalidUsage,
         "GPU {} alone cannot be {} ranks' at once: leave out its number, or measure one rank", *request.gpu,
         ranks);
  std::vector<trainer::BackEnd> back_ends{back_end_of(request, 0)};
  const bool on_cpu = back_ends.front().device == trainer::DeviceChoice::kCpu;
  const unsigned cores = static_cast<unsigned>(compute::usable_processors());
  if (on_cpu && request.threads > static_cast<int>(cores) / ranks)
    fail(Cause::kInvalidUsage,
         "{} ranks of {} threads on {} processors would take each other's time; measure fewer at once. That "
         "hosts share a processor is said in the cluster file (shared_processor)",
         ranks, request.threads, cores);
  while (static_cast<int>(back_ends.size()) < ranks)
    back_ends.push_back(on_cpu ? back_ends.front()
                               : back_end_of(request, static_cast<int>(back_ends.size())));
  DeviceTimes result;
  result.device = device.value_or(back_ends.front().name);
  describe_device(request, back_ends.front(), result);
  std::vector<Profile::Measurement> all;
  int done = 0;
  for (const int rows : request.micro_batches) {
    if (request.progress) request.progress(done++, static_cast<int>(request.micro_batches.size()));
    std::barrier together(ranks);
    std::mutex mutex;
    std::exception_ptr failure;
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
          bool waited = false;
          try {
            auto measured = measure_rows(request, back_ends[static_cast<std::size_t>(rank)], rows, [&] {
              waited = true;
              together.arrive_and_wait();
            });
            const std::scoped_lock lock(mutex);
            all.insert(all.end(), measured.begin(), measured.end());
          } catch (...) {
            if (!waited) together.arrive_and_drop();
            const std::scoped_lock lock(mutex);
            failure = std::current_exception();
          }
        });
    }
    if (failure) std::rethrow_exception(failure);
  }
  if (request.progress) request.progress(done, done);
  for (auto& one : all) one.device = result.device;
  result.measurements = median_times(all);
  return result;
}

std::vector<DeviceTimes> profile_job(const ProfileRequest& request,
                                     const std::optional<std::string>& device) {
  const auto engine = collectives::Options::from_environment();
  probe::RendezvousGroup group(engine);
  return profile_job(request, device, engine, group);
}

std::vector<DeviceTimes> profile_job(const ProfileRequest& request, const std::optional<std::string>& device,
                                     const collectives::Options& engine, probe::RendezvousGroup& group) {
  const topology::Host& host = engine.router.host;
  const int rank = engine.identity.rank, size = engine.identity.size;
  const bool turns = shares_processor(host.name);
  const auto all = group.gather("profiled hosts", host.name, kPatience);
  const auto local = std::count(all.begin(), all.begin() + rank, host.name);
  const trainer::BackEnd back_end = back_end_of(request, static_cast<int>(local));
  const std::string name = device ? *device : device_name(host, static_cast<std::size_t>(local), back_end);

  DeviceTimes mine{host.name, name, {}};
  describe_device(request, back_end, mine);
  int done = 0;
  const int total = static_cast<int>(request.micro_batches.size()) * (turns ? size : 1);
  for (const int rows : request.micro_batches) {
    for (int turn = 0; turn < (turns ? size : 1); ++turn) {
      if (request.progress) request.progress(done++, total);
      group.gather(fmt::format("rows {} turn {}", rows, turn), "ready", kPatience);
      if (turns && turn != rank) continue;
      for (auto& one : measure_rows(request, back_end, rows, {})) {
        one.device = name;
        mine.measurements.push_back(std::move(one));
      }
    }
  }
  const auto texts = group.gather("times", to_json(mine).dump(), kPatience);
  if (request.progress) request.progress(total, total);
  std::vector<DeviceTimes> result;
  for (int other = 0; other < size; ++other)
    result.push_back(parse_times(texts[static_cast<std::size_t>(other)], other));
  return result;
}

std::vector<Profile::Measurement> median_times(const std::vector<Profile::Measurement>& all) {
  std::vector<Key> order;
  std::map<Key, std::vector<planner::LayerTimes>> times;
  for (const auto& one : all) {
    const Key key{one.device, one.kind, one.micro_batch};
    if (!times.contains(key)) order.push_back(key);
    times[key].push_back(one.times);
  }
  std::vector<Profile::Measurement> result;
  for (const Key& key : order) {
    const auto& samples = times[key];
    const auto of = [&](double planner::LayerTimes::*member) {
      std::vector<double> values;
      for (const auto& sample : samples) values.push_back(sample.*member);
      return median(std::move(values));
    };
    Profile::Measurement one;
    std::tie(one.device, one.kind, one.micro_batch) = key;
    one.times = {of(&planner::LayerTimes::forward), of(&planner::LayerTimes::backward),
                 of(&planner::LayerTimes::update), samples.front().kept_bytes};
    result.push_back(std::move(one));
  }
  return result;
}

planner::Profile merge_times(const ProfileRequest& request, const std::vector<DeviceTimes>& all,
                             std::vector<std::string>& warnings) {
  planner::Model model = request.model;
  if (request.precision == compute::Precision::kBfloat16) {
    const auto on_gpu = [](const DeviceTimes& one) { return one.kind == trainer::DeviceChoice::kCuda; };
    if (std::ranges::any_of(all, on_gpu)) {
      if (!std::ranges::all_of(all, on_gpu))
        fail(Cause::kInvalidUsage,
             "some ranks computed in bf16 on GPUs and some on CPUs, which pass boundaries of other sizes; "
             "measure in fp32, or on one kind");
      model.bytes_per_value = 2;
    }
  }
  std::map<std::string, std::vector<const DeviceTimes*>> by_device;
  for (const DeviceTimes& one : all) by_device[one.device].push_back(&one);
  Profile profile;
  profile.model = model;
  profile.recompute = request.recompute;
  for (const auto& [name, ranks] : by_device) {
    const auto [fastest, slowest] =
        std::ranges::minmax_element(ranks, {}, [](const DeviceTimes* times) { return pass_seconds(*times); });
    const double times = pass_seconds(**slowest) / pass_seconds(**fastest);
    std::vector<Profile::Measurement> measurements;
    if (times > kMostDifference) {
      warnings.push_back(
          fmt::format("device \"{}\" takes {:.2f} times as long on host {} as on host {}; the slower one is "
                      "written. Give them names of their own in the cluster file, and measure again",
                      name, times, (*slowest)->host, (*fastest)->host));
      measurements = (*slowest)->measurements;
    } else {
      for (const DeviceTimes* one : ranks)
        measurements.insert(measurements.end(), one->measurements.begin(), one->measurements.end());
      measurements = median_times(measurements);
    }
    profile.measurements.insert(profile.measurements.end(), measurements.begin(), measurements.end());
    if (const DeviceTimes& one = *ranks.front(); !one.description.empty())
      profile.devices.push_back({name, one.description, one.peak});
  }
  return profile;
}

}  // namespace tombolo::tools
