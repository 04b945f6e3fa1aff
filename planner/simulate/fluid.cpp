#include "planner/simulate/fluid.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tombolo::planner {

FluidEngine::Resource FluidEngine::add_resource(double capacity, double burst) {
  TOMBOLO_CHECK(capacity > 0 && burst >= 0, "capacity={} burst={}", capacity, burst);
  Pool added;
  added.capacity = capacity;
  added.burst = added.tokens = burst;
  has_bursts_ |= burst > 0;
  resources_.push_back(std::move(added));
  return static_cast<Resource>(resources_.size() - 1);
}

FluidEngine::Activity FluidEngine::add(double work, double limit, std::span<const Resource> resources) {
  const std::size_t first_use = uses_.size();
  for (const Resource resource : resources)
    if (resource != kNone) uses_.push_back({resource, 1});
  return add_item(work, limit, first_use);
}

FluidEngine::Activity FluidEngine::add_alike(double work, double limit, std::span<const Use> uses) {
  const std::size_t first_use = uses_.size();
  for (const Use& use : uses) {
    TOMBOLO_CHECK(use.count > 0 && pool(use.resource).burst <= 0, "count={} burst={}", use.count,
                  pool(use.resource).burst);
    uses_.push_back(use);
  }
  return add_item(work, limit, first_use);
}

FluidEngine::Activity FluidEngine::add_item(double work, double limit, std::size_t first_use) {
  TOMBOLO_CHECK(work >= 0 && limit > 0, "work={} limit={}", work, limit);
  Item added;
  added.remaining = work;
  added.limit = limit;
  added.first_use = static_cast<std::uint32_t>(first_use);
  added.uses = static_cast<std::uint32_t>(uses_.size() - first_use);
  activities_.push_back(added);
  return static_cast<Activity>(activities_.size() - 1);
}

void FluidEngine::clear() {
  activities_.clear();
  uses_.clear();
  resources_.clear();
  edges_.clear();
  events_ = {};
  ready_.clear();
  dirty_.clear();
  now_ = 0;
  has_bursts_ = false;
}

void FluidEngine::reserve(std::size_t activities, std::size_t orders) {
  activities_.reserve(activities);
  edges_.reserve(orders);
}

void FluidEngine::link_successors() {
  successor_begin_.assign(activities_.size() + 1, 0);
  waiting_for_.assign(activities_.size(), 0);
  for (const Edge& edge : edges_) {
    ++successor_begin_[index(edge.earlier) + 1];
    ++waiting_for_[index(edge.later)];
  }
  for (std::size_t i = 1; i < successor_begin_.size(); ++i) successor_begin_[i] += successor_begin_[i - 1];
  successors_.resize(edges_.size());
  links_left_.assign(successor_begin_.begin(), successor_begin_.end() - 1);
  for (const Edge& edge : edges_)
    successors_[static_cast<std::size_t>(links_left_[index(edge.earlier)]++)] = edge.later;
}

double FluidEngine::least_seconds(const Item& item) const {
  double rate = item.limit, tokens = item.uses > 0 ? item.remaining : 0;
  for (const auto& [resource, count] : uses_of(item)) {
    const Pool& shared = resources_[index(resource)];
    rate = std::min(rate, shared.capacity);
    tokens = std::min(tokens, shared.burst);
  }
  return (item.remaining - tokens) / rate;
}

// Of a graph with a cycle, which run() finds, only what comes before it has tails.
void FluidEngine::find_tails() {
  std::vector<int>& waiting = links_left_;
  std::vector<Activity>& order = in_order_;
  waiting = waiting_for_;
  order.clear();
  order.reserve(activities_.size());
  for (std::size_t i = 0; i < activities_.size(); ++i)
    if (waiting[i] == 0) order.push_back(static_cast<Activity>(i));
  const auto successors = [&](Activity id) {
    return std::span(successors_)
        .subspan(static_cast<std::size_t>(successor_begin_[index(id)]),
                 static_cast<std::size_t>(successor_begin_[index(id) + 1] - successor_begin_[index(id)]));
  };
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const Activity next : successors(order[i]))
      if (--waiting[index(next)] == 0) order.push_back(next);
  tails_.assign(activities_.size(), 0);
  for (std::size_t i = order.size(); i-- > 0;) {
    double& tail = tails_[index(order[i])];
    for (const Activity next : successors(order[i])) tail = std::max(tail, tails_[index(next)]);
    tail += least_seconds(item(order[i]));
  }
}

double FluidEngine::least_finish() {
  link_successors();
  find_tails();
  return tails_.empty() ? 0 : *std::ranges::max_element(tails_);
}

// The part of the work for which every bucket on its path has tokens takes no time.
void FluidEngine::spend_tokens(Item& started) {
  double tokens = started.remaining;
  for (const auto& [resource, count] : uses_of(started)) {
    Pool& bucket = pool(resource);
    if (bucket.active.empty()) {
      bucket.tokens = std::min(bucket.burst, bucket.tokens + bucket.capacity * (now_ - bucket.idle_since));
      bucket.idle_since = now_;
    }
    tokens = std::min(tokens, bucket.tokens);
  }
  if (tokens <= 0) return;
  started.remaining -= tokens;
  for (const auto& [resource, count] : uses_of(started)) pool(resource).tokens -= tokens;
}

void FluidEngine::start(Activity id) {
  Item& started = item(id);
  started.begin = started.updated = now_;
  if (started.uses > 0) spend_tokens(started);
  if (started.remaining <= 0 || started.uses == 0) {
    set_rate(id, started.limit);
    return;
  }
  for (const auto& [resource, count] : uses_of(started)) {
    pool(resource).active.push_back(id);
    dirty_.push_back(resource);
  }
}

void FluidEngine::finish_activity(Activity id) {
  Item& ended = item(id);
  ended.end = now_;
  ++ended.version;
  for (const auto& [resource, count] : uses_of(ended)) {
    auto& active = pool(resource).active;
    const auto place = std::find(active.begin(), active.end(), id);
    if (place == active.end()) continue;  // without work it never joined
    active.erase(place);
    if (active.empty()) pool(resource).idle_since = now_;
    dirty_.push_back(resource);
  }
  for (int i = successor_begin_[index(id)]; i < successor_begin_[index(id) + 1]; ++i) {
    const Activity next = successors_[static_cast<std::size_t>(i)];
    if (--waiting_for_[index(next)] == 0) ready_.push_back(next);
  }
}

void FluidEngine::set_rate(Activity id, double rate) {
  Item& changed = item(id);
  if (changed.rate == rate && changed.version != 0) return;  // the event in the queue is still right
  changed.remaining = std::max(0.0, changed.remaining - changed.rate * (now_ - changed.updated));
  changed.updated = now_;
  changed.rate = rate;
  ++changed.version;
  events_.push({now_ + changed.remaining / rate, id, changed.version});
}

void FluidEngine::collect_component(Resource from) {
  component_.clear();
  members_.clear();
  pool(from).visited = true;
  component_.push_back(from);
  for (std::size_t next = 0; next < component_.size(); ++next) {
    for (const Activity id : pool(component_[next]).active) {
      Item& member = item(id);
      if (member.visited) continue;
      member.visited = true;
      members_.push_back(id);
      for (const auto& [resource, count] : uses_of(member)) {
        if (pool(resource).visited) continue;
        pool(resource).visited = true;
        component_.push_back(resource);
      }
    }
  }
}

// This is progressive filling: all rates grow together until a resource is full or an activity has reached
// its limit. The activities that this stops are frozen, and the others grow on.
void FluidEngine::fill_component() {
  for (const Resource resource : component_) {
    Pool& shared = pool(resource);
    shared.left = shared.capacity;
    shared.sharers = 0;
  }
  for (const Activity id : members_)
    for (const auto& [resource, count] : uses_of(item(id))) pool(resource).sharers += count;
  std::size_t unfrozen = members_.size();
  while (unfrozen > 0) {
    double level = std::numeric_limits<double>::infinity();
    for (const Resource resource : component_)
      if (pool(resource).sharers > 0) level = std::min(level, pool(resource).left / pool(resource).sharers);
    for (const Activity id : members_)
      if (!item(id).frozen) level = std::min(level, item(id).limit);
    std::size_t frozen_now = 0;
    for (const Activity id : members_) {
      Item& member = item(id);
      if (member.frozen) continue;
      bool stop = member.limit <= level;
      for (const auto& [resource, count] : uses_of(member)) {
        if (stop) break;
        const Pool& shared = pool(resource);
        stop = shared.left <= level * shared.sharers * (1 + 1e-12);
      }
      if (!stop) continue;
      member.frozen = true;
      members_frozen_now_.push_back(id);
      ++frozen_now;
    }
    TOMBOLO_CHECK(frozen_now > 0, "level={} unfrozen={}", level, unfrozen);
    for (const Activity id : members_frozen_now_) {
      for (const auto& [resource, count] : uses_of(item(id))) {
        pool(resource).left = std::max(0.0, pool(resource).left - count * level);
        pool(resource).sharers -= count;
      }
      set_rate(id, level);
    }
    members_frozen_now_.clear();
    unfrozen -= frozen_now;
  }
}

void FluidEngine::share(std::vector<Resource>& dirty) {
  touched_.clear();
  for (const Resource resource : dirty) {
    if (pool(resource).visited || pool(resource).active.empty()) continue;
    collect_component(resource);
    fill_component();
    touched_.insert(touched_.end(), component_.begin(), component_.end());
    for (const Activity id : members_) item(id).visited = item(id).frozen = false;
  }
  for (const Resource resource : touched_) pool(resource).visited = false;
  dirty.clear();
}

void FluidEngine::run(double limit_seconds) {
  link_successors();
  for (std::size_t i = 0; i < activities_.size(); ++i)
    if (waiting_for_[i] == 0) ready_.push_back(static_cast<Activity>(i));
  const bool limited = limit_seconds < std::numeric_limits<double>::infinity();
  if (limited) find_tails();
  std::size_t ended = 0;
  while (true) {
    std::sort(ready_.begin(), ready_.end());
    for (const Activity id : ready_) {
      if (limited && certainly_beyond(now_ + tails_[index(id)], limit_seconds)) {
        now_ += tails_[index(id)];
        return;
      }
      start(id);
    }
    ready_.clear();
    share(dirty_);
    while (!events_.empty() && events_.top().version != item(events_.top().activity).version) events_.pop();
    if (events_.empty()) break;
    now_ = events_.top().time;
    if (now_ > limit_seconds) return;
    // Everything that ends now ends together, so that the rates are computed only once. Equal work that
    // started together ends at the same time up to rounding; without the tolerance each such tie would cost
    // an event.
    const double until = now_ * (1 + 1e-13);
    while (!events_.empty() && events_.top().time <= until) {
      const Event event = events_.top();
      events_.pop();
      if (event.version != item(event.activity).version) continue;
      finish_activity(event.activity);
      ++ended;
    }
  }
  TOMBOLO_CHECK(ended == activities_.size(), "{} of {} activities ended: the graph has a cycle", ended,
                activities_.size());
}

}  // namespace tombolo::planner
