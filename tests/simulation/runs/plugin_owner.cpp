#include "tests/simulation/runs/plugin_owner.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/format.h"
#include "net_plugin/entry_points.h"
#include "net_plugin/limits.h"
#include "tests/simulation/checks/pattern.h"

namespace tombolo::simulation {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using namespace net_plugin;

PluginOwner::PluginOwner(PluginEnd& end, const PluginEnd& peer, PluginProcess& process,
                         const PluginPlan& plan, World& world, std::function<void(const std::string&)> wrong)
    : end_(end), peer_(peer), process_(process), plan_(plan), world_(world), wrong_(std::move(wrong)) {}

void PluginOwner::run() {
  const bool made = end_.role == Role::kSender ? connect() : accept();
  if (made) {
    end_.made = true;
    end_.state = State::kOpen;
    unsigned fruitless = 0;
    while (!end_.complete() && !process_.dead()) {
      if (world_.random()() % 8 == 0) tell_attributes();
      bool moved = post();
      if (end_.stops_in_flight()) {
        end_.stopped_in_flight = true;
        break;
      }
      moved |= test();
      if (!end_.failed.empty() && end_.posted.empty()) break;
      if (peer_.gave_up_in_shared_context(plan_)) break;
      if (moved) fruitless = 0;
      pause_after(fruitless);
    }
  }
  end_.state = State::kFinished;
  while (made && end_.plan->ending == CommPlan::Ending::kTogether && end_.failed.empty() &&
         !process_.dead() && !peer_.over_by(State::kFinished))
    sleep(milliseconds(1));
  while (end_.aborting) sleep(milliseconds(1));
  close();
  end_.state = State::kClosed;
}

/// NCCL's progress thread asks again and again; here more seldom the longer nothing has come.
void PluginOwner::pause_after(unsigned& fruitless) {
  const Duration most = std::min<Duration>(microseconds(10 << std::min(fruitless, 11U)), milliseconds(20));
  ++fruitless;
  sleep(
      Duration(1 + static_cast<Duration::rep>(world_.random()() % static_cast<std::uint64_t>(most.count()))));
}

bool PluginOwner::listen(void** listen_comm) {
  const abi::ncclResult_t result = call("listen", Duration::zero(), [&] {
    return entry::listen(end_.context, device(), end_.handle.data(), listen_comm);
  });
  end_.handles += result == abi::ncclSuccess;
  return result == abi::ncclSuccess;
}

bool PluginOwner::accept() {
  sleep(Duration(static_cast<Duration::rep>(world_.random()() % 1'000'000)));
  if (end_.plan->other_handle_first) {
    void* unused = nullptr;
    if (!listen(&unused)) return false;
    sleep(milliseconds(1 + world_.random()() % 3));
    close_listen(unused);
  }
  if (!listen(&end_.listen_comm)) return false;
  unsigned fruitless = 0;
  tell_attributes();
  while (end_.comm == nullptr) {
    if (process_.dead() || peer_is_lost()) return false;
    if (call("accept", Duration::zero(), [&] { return entry::accept(end_.listen_comm, &end_.comm); }) !=
        abi::ncclSuccess)
      return false;
    pause_after(fruitless);
  }
  if (end_.plan->listener_closes_early) close_listen(std::exchange(end_.listen_comm, nullptr));
  return true;
}

/// Whether a rank that waits for the peer would be told by other means to stop.
bool PluginOwner::peer_is_lost() const {
  return world_.kernel().killed(peer_.host) ||
         (peer_.over_by(State::kFinished) && (!peer_.made || !peer_.failed.empty()));
}

bool PluginOwner::connect() {
  const unsigned last = end_.plan->other_handle_first ? 2 : 1;
  unsigned asked = 0, fruitless = 0;
  tell_attributes();
  for (;;) {
    if (process_.dead() || peer_is_lost()) return false;
    if (peer_.handles == 0) {
      sleep(microseconds(100));
      continue;
    }
    // Another handle in the same memory gives up the attempt that was begun with the first.
    end_.handle = peer_.handle;
    end_.handles = peer_.handles;
    const abi::ncclResult_t result = call("connect", Duration::zero(), [&] {
      return entry::connect(end_.context, device(), nullptr, end_.handle.data(), &end_.comm);
    });
    if (end_.handles == last) {
      if (result != abi::ncclSuccess) return false;
      if (end_.comm != nullptr && process_.makes_no_connection()) {
        end_.failed = "connect was interrupted";
        end_.failed_at = world_.clock().now();
        return false;
      }
      if (end_.comm != nullptr) return true;
      if (end_.gives_up() && ++asked == 5) {
        // The attempt ends with its context. Where others share that, the peer learns by other means.
        if (!plan_.shared_context) process_.finalize(end_);
        return false;
      }
    } else {
      end_.failed.clear();  // the first listener may have gone
      if (end_.comm != nullptr)
        call("close", kLongestPluginClose,
             [&] { return entry::close_comm(std::exchange(end_.comm, nullptr)); });
    }
    pause_after(fruitless);
  }
}

/// As NCCL does from its threads: on a context that others share, before connections and between messages.
void PluginOwner::tell_attributes() {
  if (!end_.plan->tells_attributes || plan_.finalized_early || end_.gives_up()) return;
  abi::ncclNetAttr_v11_t attributes{};
  attributes.op = world_.random()() % 16;
  attributes.sendCommAttr.maxConcurrentPeers = static_cast<int>(1 + world_.random()() % 8);
  call("setNetAttr", Duration::zero(), [&] { return entry::set_attributes(end_.context, &attributes); });
}

bool PluginOwner::post() {
  bool moved = false;
  const CommPlan& plan = *end_.plan;
  const bool sends = end_.role == Role::kSender;
  while (end_.failed.empty() && end_.posted_count < plan.messages.size() &&
         end_.posted.size() < plan.window[static_cast<int>(end_.role)]) {
    const std::size_t first =
        sends && !plan.send_order.empty() ? plan.send_order[end_.posted_count] : end_.posted_count;
    if (sends && plan.pauses[first] > Duration::zero() && end_.paused_for != end_.posted_count + 1) {
      end_.paused_for = end_.posted_count + 1;
      sleep(plan.pauses[first]);
    }
    const std::size_t count = sends || plan.groups.empty() ? 1 : plan.groups[end_.groups_posted];
    PluginRequest one;
    for (std::size_t i = 0; i < count; ++i) one.parts.push_back({first + i, nullptr, {}});
    if (!make_request(one)) break;
    end_.posted.push_back(std::move(one));
    end_.posted_count += count;
    ++end_.groups_posted;
    moved = true;
  }
  return moved;
}

/// Fills in the buffer and what the plugin gives for it.
bool PluginOwner::prepare(PluginRequest::Part& part) {
  const std::size_t size = end_.plan->messages[part.index];
  if (end_.role == Role::kSender) {
    const auto bytes = message_bytes(end_.number, part.index, size);
    part.buffer.assign(bytes.begin(), bytes.end());
  } else {
    // A receive may be larger than its message.
    part.buffer.assign(size + world_.random()() % 2 * 100, kUntouched);
  }
  if (!end_.plan->registered || part.buffer.empty()) return true;
  return call("regMr", Duration::zero(), [&] {
           return entry::register_memory(end_.comm, part.buffer.data(), part.buffer.size(),
                                         abi::NCCL_PTR_HOST, &part.memory);
         }) == abi::ncclSuccess;
}

/// False where the plugin takes no request now.
bool PluginOwner::make_request(PluginRequest& one) {
  std::vector<void*> data, memories;
  std::vector<std::size_t> sizes;
  std::vector<int> tags;
  bool prepared = true;
  for (PluginRequest::Part& part : one.parts) {
    prepared = prepared && prepare(part);
    data.push_back(part.buffer.data());
    sizes.push_back(part.buffer.size());
    tags.push_back(end_.plan->tag_of(part.index));
    memories.push_back(part.memory);
  }
  if (prepared) {
    call(end_.role == Role::kSender ? "isend" : "irecv", Duration::zero(), [&] {
      return end_.role == Role::kSender
                 ? entry::send(end_.comm, data[0], sizes[0], tags[0], memories[0], nullptr, &one.request)
                 : entry::receive(end_.comm, static_cast<int>(data.size()), data.data(), sizes.data(),
                                  tags.data(), memories.data(), nullptr, &one.request);
    });
  }
  if (one.request == nullptr) {
    for (void* memory : memories)
      if (memory != nullptr) deregister(memory);
  }
  return one.request != nullptr;
}

/// Requests are tested in any order.
bool PluginOwner::test() {
  bool moved = false;
  std::ranges::shuffle(end_.posted, world_.random());
  for (std::size_t i = 0; i < end_.posted.size();) {
    int done = 0;
    std::array<int, kMaxReceives> sizes;
    sizes.fill(-1);
    const abi::ncclResult_t result = call(
        "test", Duration::zero(), [&] { return entry::test(end_.posted[i].request, &done, sizes.data()); });
    if (result == abi::ncclSuccess && done == 0) {
      ++i;
      if (world_.random()() % 4 == 0) break;
      continue;
    }
    moved = true;
    PluginRequest one = std::move(end_.posted[i]);
    end_.posted.erase(end_.posted.begin() + static_cast<std::ptrdiff_t>(i));
    if (result == abi::ncclSuccess) {
      take(one, sizes);
    } else if (!end_.plan->tags.empty()) {
      // Another tag's connection has failed, and this one's may go on until the comm is closed.
      end_.broken.push_back(std::move(one));
      continue;
    }
    for (PluginRequest::Part& part : one.parts) {
      if (part.memory != nullptr) end_.memories.push_back(part.memory);
      // From now on the buffer is NCCL's.
      std::ranges::fill(part.buffer, kOver);
      end_.over.push_back(std::move(part.buffer));
    }
  }
  return moved;
}

void PluginOwner::take(PluginRequest& one, std::span<const int> reported) {
  end_.done += one.parts.size();
  std::vector<void*> data, memories;
  std::vector<int> sizes;
  for (std::size_t i = 0; i < one.parts.size(); ++i) {
    check(one.parts[i], reported[i]);
    data.push_back(one.parts[i].buffer.data());
    memories.push_back(one.parts[i].memory);
    sizes.push_back(reported[i]);
  }
  if (end_.role == Role::kSender) return;
  void* request = this;
  call("iflush", Duration::zero(), [&] {
    return entry::flush(end_.comm, static_cast<int>(data.size()), data.data(), sizes.data(), memories.data(),
                        &request);
  });
  if (request != nullptr) wrong_(fmt::format("{}: iflush gave a request for host memory", end_.name()));
}

void PluginOwner::check(const PluginRequest::Part& part, int reported) {
  if (process_.dead()) return;  // it dies in the middle of a call, whose rest is the simulation's alone
  const std::size_t size = end_.plan->messages[part.index];
  if (reported < 0 || static_cast<std::size_t>(reported) != size)
    return wrong_(fmt::format("{}: message {} of {} bytes is reported with {}", end_.name(), part.index, size,
                              reported));
  if (end_.role == Role::kSender) return;
  const auto expected = message_bytes(end_.number, part.index, size);
  if (!std::equal(expected.begin(), expected.end(), part.buffer.begin()))
    wrong_(fmt::format("{}: message {} holds other bytes than were sent", end_.name(), part.index));
  if (!std::all_of(part.buffer.begin() + static_cast<std::ptrdiff_t>(size), part.buffer.end(),
                   [](std::byte b) { return b == kUntouched; }))
    wrong_(fmt::format("{}: message {} was written beyond its end", end_.name(), part.index));
}

void PluginOwner::deregister(void* memory, Duration most) {
  call("deregMr", most, [&] { return entry::deregister_memory(end_.comm, memory); });
}

void PluginOwner::abort() {
  for (;;) {
    if (end_.over_by(State::kFinished) || process_.dead()) return;
    if (end_.made && end_.done >= end_.plan->abort_after) {
      // All memory of a request of which nothing was reported yet, so that a message is under way in some.
      const auto one = std::ranges::find_if(end_.posted, [](const PluginRequest& request) {
        return std::ranges::all_of(request.parts, [](const auto& part) { return part.memory != nullptr; });
      });
      if (one != end_.posted.end()) {
        std::vector<void*> memories;
        const std::size_t first = one->parts.front().index;
        for (PluginRequest::Part& part : one->parts) memories.push_back(std::exchange(part.memory, nullptr));
        end_.aborting = end_.aborted = true;
        for (void* memory : memories) deregister(memory, kLongestPluginClose);  // closes the connection
        for (PluginRequest& request : end_.posted) {
          if (request.parts.front().index != first) continue;
          for (PluginRequest::Part& part : request.parts) std::ranges::fill(part.buffer, kOver);
        }
        end_.aborting = false;
        return;
      }
    }
    sleep(microseconds(1 + world_.random()() % 200));
  }
}

void PluginOwner::close_listen(void* listen_comm) {
  call("closeListen", Duration::zero(), [&] { return entry::close_listen(listen_comm); });
}

void PluginOwner::close() {
  world_.closing_begins();
  end_.closing_since = world_.clock().now();
  const bool listener_first = world_.random()() % 2 == 0;
  if (end_.listen_comm != nullptr && listener_first) close_listen(std::exchange(end_.listen_comm, nullptr));
  if (end_.comm != nullptr) {
    // NCCL may close a connection with requests under way, and with memory that is still registered.
    for (const PluginRequest& one : end_.broken)
      for (const PluginRequest::Part& part : one.parts)
        if (part.memory != nullptr) end_.memories.push_back(part.memory);
    std::ranges::shuffle(end_.memories, world_.random());
    // A message of a comm that has failed may be under way still, which closes it.
    const Duration most = end_.failed.empty() ? Duration::zero() : kLongestPluginClose;
    if (world_.random()() % 2 == 0)
      for (void* memory : end_.memories) deregister(memory, most);
    call("close", kLongestPluginClose, [&] { return entry::close_comm(end_.comm); });
  }
  if (end_.listen_comm != nullptr) close_listen(std::exchange(end_.listen_comm, nullptr));
  for (PluginRequest& one : end_.broken) end_.posted.push_back(std::move(one));
  for (PluginRequest& one : end_.posted) {
    for (PluginRequest::Part& part : one.parts) {
      std::ranges::fill(part.buffer, kOver);
      end_.over.push_back(std::move(part.buffer));
    }
  }
  end_.posted.clear();
}

}  // namespace tombolo::simulation
