// Activities that share resources, in continuous time: computing on processors, transfers on NICs. Every
// activity progresses at the max-min fair rate that its resources allow, up to its own limit. Rates change
// only when something starts or ends, so the engine jumps from event to event.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <queue>
#include <span>
#include <vector>

namespace tombolo::planner {

/// Whether a lower bound of a run's seconds is beyond a limit, by more than sums of activities' seconds are
/// rounded otherwise than the times that the run would find.
constexpr bool certainly_beyond(double least_seconds, double limit_seconds) noexcept {
  return least_seconds > limit_seconds * (1 + 1e-9);
}

/// A directed acyclic graph of activities. Deterministic: events of equal time are taken in the order of ids.
/// Not thread-safe.
class FluidEngine {
 public:
  using Resource = int;
  using Activity = int;
  static constexpr Resource kNone = -1;
  /// One of the resources of an activity, which counts there as so many: where activities that are alike are
  /// added once, as all of those that use the resource.
  struct Use {
    Resource resource = kNone;
    int count = 1;
  };

  /// Adds a resource with a `capacity` > 0 in units of work per second. With `burst` it is a token bucket:
  /// after a pause it passes up to `burst` units at once, which it has gathered at `capacity` while nothing
  /// used it. The bucket is full at the beginning.
  Resource add_resource(double capacity, double burst = 0);
  /// Adds an activity of `work` >= 0 units, of which at most `limit` > 0 are done per second. Resources that
  /// are kNone are skipped; each resource may occur once.
  Activity add(double work, double limit, std::span<const Resource> resources);
  Activity add(double work, double limit, std::initializer_list<Resource> resources) {
    return add(work, limit, std::span<const Resource>(resources.begin(), resources.size()));
  }
  /// The same where it counts as several. Its resources must not be token buckets, of which the first of
  /// several activities would find more than the others.
  Activity add_alike(double work, double limit, std::span<const Use> uses);
  /// Forgets everything, and keeps the memory for what is added next.
  void clear();
  /// Whether a resource is a token bucket.
  bool has_bursts() const noexcept { return has_bursts_; }
  std::size_t resources() const noexcept { return resources_.size(); }
  double capacity(Resource resource) const { return resources_[index(resource)].capacity; }
  /// Makes room for so many activities and orders; it may be too little or too much.
  void reserve(std::size_t activities, std::size_t orders);
  /// Adds an activity that only takes time.
  Activity add_delay(double seconds) { return add(seconds, 1.0, {}); }
  /// `later` starts no sooner than `earlier` ends.
  void order(Activity earlier, Activity later) { edges_.push_back({earlier, later}); }

  /// The least seconds that run() can take: those of the longest chain of activities, each as if it had its
  /// resources alone. Does not run anything.
  double least_finish();

  /// Runs everything once, or until it is certain to take longer than `limit_seconds`, since some activity
  /// that is to start has as much to come after it, even if nothing else used its resources: finish() is then
  /// beyond that, and begins and ends have no meaning. Throws kInternal when the graph has a cycle.
  void run(double limit_seconds = std::numeric_limits<double>::infinity());

  double begin(Activity activity) const { return activities_[index(activity)].begin; }
  double end(Activity activity) const { return activities_[index(activity)].end; }
  /// When the last activity ended, of those that were run.
  double finish() const noexcept { return now_; }
  std::size_t size() const noexcept { return activities_.size(); }

 private:
  struct Item {
    double remaining = 0, limit = 0, rate = 0, updated = 0, begin = -1, end = -1;
    std::uint32_t first_use = 0, uses = 0;  // in uses_
    std::uint32_t version = 0;              // version of its valid entry in the queue
    bool frozen = false, visited = false;
  };
  struct Pool {
    double capacity = 0, burst = 0;
    double tokens = 0, idle_since = 0;
    std::vector<Activity> active;
    double left = 0;  // capacity that is not given out yet, while rates are computed
    int sharers = 0;  // of it, as the activities count
    bool visited = false;
  };
  struct Event {
    double time;
    Activity activity;
    std::uint32_t version;
    bool operator<(const Event& other) const {  // std::priority_queue has the greatest first
      return time != other.time ? time > other.time : activity > other.activity;
    }
  };
  struct Edge {
    Activity earlier, later;
  };

  static std::size_t index(int id) { return static_cast<std::size_t>(id); }
  std::span<const Use> uses_of(const Item& item) const { return {uses_.data() + item.first_use, item.uses}; }
  Item& item(Activity id) { return activities_[index(id)]; }
  Pool& pool(Resource id) { return resources_[index(id)]; }
  Activity add_item(double work, double limit, std::size_t first_use);
  void link_successors();
  double least_seconds(const Item& item) const;
  void find_tails();
  void start(Activity id);
  void spend_tokens(Item& started);
  void finish_activity(Activity id);
  void share(std::vector<Resource>& dirty);
  void collect_component(Resource from);
  void fill_component();
  void set_rate(Activity id, double rate);

  std::vector<Item> activities_;
  std::vector<Use> uses_;  // of all activities, those of each in a row
  std::vector<Pool> resources_;
  std::vector<Edge> edges_;
  std::vector<int> successor_begin_;
  std::vector<Activity> successors_;
  std::vector<int> waiting_for_;  // by activity; apart from the others, since most accesses need no more
  std::vector<double> tails_;     // by activity: the least seconds of it and of all that must come after it
  std::vector<int> links_left_;   // while successors and tails are found
  std::vector<Activity> in_order_;
  std::priority_queue<Event> events_;
  std::vector<Activity> ready_;
  std::vector<Resource> dirty_;
  std::vector<Resource> component_;
  std::vector<Activity> members_;
  std::vector<Activity> members_frozen_now_;
  std::vector<Resource> touched_;
  double now_ = 0;
  bool has_bursts_ = false;
};

}  // namespace tombolo::planner
