#include "tests/simulation/plugin_run.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/units.h"
#include "net_plugin/entry_points.h"
#include "tests/simulation/allocations.h"
#include "tests/simulation/pattern.h"
#include "tests/simulation/simulated_host.h"

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using namespace transport;
using namespace net_plugin;

// Ends that cannot go on have as long as the protocol promises: ten idle timeouts where the peer's host
// lives.
constexpr Duration kPluginLimit = 16 * kIdleTimeout;
// An end whose peer is gone for good notices within this.
constexpr Duration kLongestPluginNotice = 3 * kIdleTimeout + kMostTaken + std::chrono::seconds(1);
// A close may give what it owes an idle timeout. Faults may hold the process up meanwhile.
constexpr Duration kLongestPluginClose = 2 * kIdleTimeout;

enum class Role : std::uint8_t { kSender, kReceiver };
enum class State : std::uint8_t { kConnecting, kOpen, kFinished, kClosed };

struct PostedRequest {
  void* request = nullptr;
  void* memory = nullptr;
  std::size_t index = 0;
  std::vector<std::byte> buffer;
};

/// One end of a connection of NCCL's.
struct End {
  const CommPlan* plan = nullptr;
  unsigned number = 0, host = 0;
  Role role = Role::kSender;
  State state = State::kConnecting;
  void* context = nullptr;
  void* listen_comm = nullptr;
  void* comm = nullptr;
  HandleBytes handle{};  // at the receiver: its listener's; at the sender: the memory that connect() gets
  unsigned handles = 0;  // that the receiver has made, and that the sender has taken
  bool made = false, aborted = false, aborting = false;
  std::size_t posted_count = 0, paused_for = 0, done = 0;
  std::vector<PostedRequest> posted;
  std::vector<void*> memories;              // of requests that are over
  std::deque<std::vector<std::byte>> over;  // buffers whose requests are over, all kOver
  std::string failed;                       // the call that failed first
  TimePoint failed_at{};
  std::optional<TimePoint> closing_since;

  bool complete() const noexcept { return done == plan->messages.size(); }
  bool over_by(State least) const noexcept { return state >= least; }
};

/// A process that has loaded the plugin.
struct Process {
  std::shared_ptr<bootstrap::ProcessHelpers> helpers;
  std::shared_ptr<const Node> node;
  std::vector<void*> contexts;
  std::size_t errors_logged = 0;
  std::string last_error;
};

class PluginRun {
 public:
  PluginRun(const PluginPlan& plan, const RunOptions& options)
      : plan_(plan), options_(options), world_(plan.network) {
    world_.kernel().set_loses_bytes(options.defect == Defect::kLostByte);
    for (unsigned number = 0; number < plan.comms.size(); ++number) {
      for (const Role role : {Role::kSender, Role::kReceiver}) {
        End end;
        end.plan = &plan.comms[number];
        end.number = number;
        end.role = role;
        end.host = role == Role::kSender ? end.plan->sender : 1 - end.plan->sender;
        ends_.push_back(std::move(end));
      }
    }
  }

  Verdict go() {
    const KernelInPlace kernel(world_.kernel());
    for (unsigned host = 0; host < 2; ++host) {
      world_.kernel().set_host(host);
      load(host);
      world_.add(host, [this, host] { live(host); });
    }
    for (End& end : ends_) {
      world_.add(end.host, [this, &end] { own(end); });
      if (aborts(end)) world_.add(end.host, [this, &end] { abort(end); });
    }
    if (std::string wrong = world_.run(kPluginLimit); !wrong.empty()) {
      for (const End& end : ends_) wrong += "; " + doing(end);
      note(wrong);
      abandon();
    } else {
      check_end();
    }
    return finish();
  }

 private:
  void note(const std::string& what) {
    if (verdict_.wrong.empty()) verdict_.wrong = what;
  }
  static std::string name(const End& end) {
    return fmt::format("comm {} at the {} on h{}", end.number,
                       end.role == Role::kSender ? "sender" : "receiver", end.host);
  }
  static std::string doing(const End& end) {
    static constexpr const char* kStates[] = {"connecting", "open", "finished", "closed"};
    return fmt::format("{}: {}, {} of {} done{}{}", name(end), kStates[static_cast<int>(end.state)], end.done,
                       end.plan->messages.size(), end.aborted ? ", aborted" : "",
                       end.failed.empty() ? "" : ", failed: " + end.failed);
  }
  End& other(const End& end) { return ends_[2 * end.number + (end.role == Role::kSender ? 1 : 0)]; }
  static bool aborts(const End& end) {
    return end.plan->ending == CommPlan::Ending::kAbort &&
           end.plan->receiver_aborts == (end.role == Role::kReceiver);
  }
  static bool gives_up(const End& end) { return end.plan->ending == CommPlan::Ending::kGiveUp; }
  /// Whether that end has begun an attempt that is kept, so that its peer has to learn the end by other
  /// means.
  bool gave_up_in_shared_context(const End& end) const {
    return gives_up(end) && end.role == Role::kSender && plan_.shared_context && !end.made &&
           end.over_by(State::kFinished);
  }
  bool dead(unsigned host) { return world_.kernel().killed(host); }
  void sleep(Duration how_long) { world_.sleep({}, world_.clock().now() + how_long); }

  void load(unsigned host) {
    Process& process = processes_[host];
    process.helpers =
        std::make_shared<bootstrap::ProcessHelpers>(bootstrap::ProcessHelpers::Simulated{}, world_.clock());
    Node node;
    node.router = router_options(plan_.network, host, world_, process.helpers, {});
    node.devices =
        make_devices(node.router.host, plan_.devices_per_nic ? DeviceMode::kPerNic : DeviceMode::kMerged);
    node.deadline = 4 * kIdleTimeout;
    process.node = std::make_shared<const Node>(std::move(node));
    for (End& end : ends_) {
      if (end.host != host) continue;
      if (process.contexts.empty() || !plan_.shared_context)
        process.contexts.push_back(new Context(process.node, log_with_errors(host)));
      end.context = process.contexts.back();
    }
  }

  /// The log that NCCL gave. It remembers errors, since every failure must be explained there.
  Log log_with_errors(unsigned host) {
    return Log(LogLevel::kTrace,
               [this, host, print = log_of(options_, world_, host)](LogLevel level, std::string_view text) {
                 if (level == LogLevel::kError) {
                   ++processes_[host].errors_logged;
                   processes_[host].last_error = text;
                 }
                 print.trace("{}", text);
               });
  }

  /// Makes one call of the plugin's. `most`: the virtual time that it may take.
  template <typename Call>
  abi::ncclResult_t call(End& end, const char* function, Duration most, const Call& make) {
    Process& process = processes_[end.host];
    const TimePoint before = world_.clock().now();
    const std::size_t errors = process.errors_logged;
    const abi::ncclResult_t result = make();
    if (const Duration took = world_.clock().now() - before; took > most && !dead(end.host))
      note(fmt::format("{}: {} took {}", name(end), function, format_seconds(to_seconds(took))));
    if (result != abi::ncclSuccess && end.failed.empty()) {
      end.failed = fmt::format("{} gave {}", function, static_cast<int>(result));
      end.failed_at = world_.clock().now();
      if (dead(end.host)) return result;
      // A failure that another thread's call has caused may have been logged by that.
      if (process.errors_logged == errors && !end.aborted)
        note(fmt::format("{}: {} failed without a word", name(end), function));
      end.failed += ": " + process.last_error;
      const bool fitting = result == abi::ncclRemoteError || result == abi::ncclSystemError;
      if (!fitting) note(fmt::format("{}: {}", name(end), end.failed));
    }
    return result;
  }

  /// NCCL's progress thread asks again and again; here more seldom the longer nothing has come.
  void pause_after(unsigned& fruitless) {
    const Duration most = std::min<Duration>(microseconds(10 << std::min(fruitless, 11U)), milliseconds(20));
    ++fruitless;
    sleep(Duration(1 +
                   static_cast<Duration::rep>(world_.random()() % static_cast<std::uint64_t>(most.count()))));
  }

  /// What NCCL does with one end.
  void own(End& end) {
    const bool made = end.role == Role::kSender ? connect(end) : accept(end);
    if (made) {
      end.made = true;
      end.state = State::kOpen;
      unsigned fruitless = 0;
      while (!end.complete() && !dead(end.host)) {
        bool moved = post(end);
        moved |= test(end);
        if (!end.failed.empty() && end.posted.empty()) break;
        if (gave_up_in_shared_context(other(end))) break;
        if (moved) fruitless = 0;
        pause_after(fruitless);
      }
    }
    end.state = State::kFinished;
    while (made && end.plan->ending == CommPlan::Ending::kTogether && end.failed.empty() && !dead(end.host) &&
           !other(end).over_by(State::kFinished))
      sleep(milliseconds(1));
    while (end.aborting) sleep(milliseconds(1));
    close(end);
    end.state = State::kClosed;
  }

  bool listen(End& end, void** listen_comm) {
    const abi::ncclResult_t result = call(end, "listen", Duration::zero(), [&] {
      return entry::listen(end.context, device_of(end), end.handle.data(), listen_comm);
    });
    end.handles += result == abi::ncclSuccess;
    return result == abi::ncclSuccess;
  }

  bool accept(End& end) {
    sleep(Duration(static_cast<Duration::rep>(world_.random()() % 1'000'000)));
    if (end.plan->other_handle_first) {
      void* unused = nullptr;
      if (!listen(end, &unused)) return false;
      sleep(milliseconds(1 + world_.random()() % 3));
      close_listen(end, unused);
    }
    if (!listen(end, &end.listen_comm)) return false;
    unsigned fruitless = 0;
    while (end.comm == nullptr) {
      if (dead(end.host) || is_lost(other(end))) return false;
      if (call(end, "accept", Duration::zero(), [&] { return entry::accept(end.listen_comm, &end.comm); }) !=
          abi::ncclSuccess)
        return false;
      pause_after(fruitless);
    }
    if (end.plan->listener_closes_early) close_listen(end, std::exchange(end.listen_comm, nullptr));
    return true;
  }

  /// Whether a rank that waits for this end would be told by other means to stop.
  bool is_lost(const End& end) {
    return dead(end.host) || (end.over_by(State::kFinished) && (!end.made || !end.failed.empty()));
  }

  bool connect(End& end) {
    const End& peer = other(end);
    const unsigned last = end.plan->other_handle_first ? 2 : 1;
    unsigned asked = 0, fruitless = 0;
    for (;;) {
      if (dead(end.host) || is_lost(peer)) return false;
      if (peer.handles == 0) {
        sleep(microseconds(100));
        continue;
      }
      // Another handle in the same memory gives up the attempt that was begun with the first.
      end.handle = peer.handle;
      end.handles = peer.handles;
      const abi::ncclResult_t result = call(end, "connect", Duration::zero(), [&] {
        return entry::connect(end.context, device_of(end), end.handle.data(), &end.comm);
      });
      if (end.handles == last) {
        if (result != abi::ncclSuccess) return false;
        if (end.comm != nullptr) return true;
        if (gives_up(end) && ++asked == 5) {
          // The attempt ends with its context. Where others share that, the peer learns by other means.
          if (!plan_.shared_context) finalize(end);
          return false;
        }
      } else {
        end.failed.clear();  // the first listener may have gone
        if (end.comm != nullptr)
          call(end, "close", kLongestPluginClose,
               [&] { return entry::close_comm(std::exchange(end.comm, nullptr)); });
      }
      pause_after(fruitless);
    }
  }
  int device_of(const End& end) {
    return static_cast<int>(end.number % processes_[end.host].node->devices.size());
  }

  bool post(End& end) {
    bool moved = false;
    const CommPlan& plan = *end.plan;
    while (end.failed.empty() && end.posted_count < plan.messages.size() &&
           end.posted.size() < plan.window[static_cast<int>(end.role)]) {
      const std::size_t size = plan.messages[end.posted_count];
      if (end.role == Role::kSender && plan.pauses[end.posted_count] > Duration::zero() &&
          end.paused_for != end.posted_count + 1) {
        end.paused_for = end.posted_count + 1;
        sleep(plan.pauses[end.posted_count]);
      }
      PostedRequest one;
      one.index = end.posted_count;
      if (end.role == Role::kSender) {
        const auto bytes = message_bytes(end.number, one.index, size);
        one.buffer.assign(bytes.begin(), bytes.end());
      } else {
        // A receive may be larger than its message.
        one.buffer.assign(size + world_.random()() % 2 * 100, kUntouched);
      }
      if (plan.registered && !one.buffer.empty() && call(end, "regMr", Duration::zero(), [&] {
                                                      return entry::register_memory(
                                                          end.comm, one.buffer.data(), one.buffer.size(),
                                                          abi::NCCL_PTR_HOST, &one.memory);
                                                    }) != abi::ncclSuccess)
        break;
      void* data = one.buffer.data();
      const std::size_t bytes = one.buffer.size();
      const int tag = 0;
      call(end, end.role == Role::kSender ? "isend" : "irecv", Duration::zero(), [&] {
        return end.role == Role::kSender
                   ? entry::send(end.comm, one.buffer.data(), one.buffer.size(), 0, one.memory, &one.request)
                   : entry::receive(end.comm, 1, &data, &bytes, &tag, &one.memory, &one.request);
      });
      if (one.request == nullptr) {
        if (one.memory != nullptr) deregister(end, one.memory);
        break;
      }
      end.posted.push_back(std::move(one));
      ++end.posted_count;
      moved = true;
    }
    return moved;
  }

  /// Requests are tested in any order.
  bool test(End& end) {
    bool moved = false;
    std::ranges::shuffle(end.posted, world_.random());
    for (std::size_t i = 0; i < end.posted.size();) {
      int done = 0, size = -1;
      const abi::ncclResult_t result = call(end, "test", Duration::zero(),
                                            [&] { return entry::test(end.posted[i].request, &done, &size); });
      if (result == abi::ncclSuccess && done == 0) {
        ++i;
        if (world_.random()() % 4 == 0) break;
        continue;
      }
      moved = true;
      PostedRequest one = std::move(end.posted[i]);
      end.posted.erase(end.posted.begin() + static_cast<std::ptrdiff_t>(i));
      if (result == abi::ncclSuccess) take(end, one, size);
      if (one.memory != nullptr) end.memories.push_back(one.memory);
      // From now on the buffer is NCCL's.
      std::ranges::fill(one.buffer, kOver);
      end.over.push_back(std::move(one.buffer));
    }
    return moved;
  }

  void take(End& end, PostedRequest& one, int reported) {
    ++end.done;
    const std::size_t size = end.plan->messages[one.index];
    if (reported < 0 || static_cast<std::size_t>(reported) != size)
      note(fmt::format("{}: message {} of {} bytes is reported with {}", name(end), one.index, size,
                       reported));
    if (end.role == Role::kSender) return;
    const auto expected = message_bytes(end.number, one.index, size);
    if (!std::equal(expected.begin(), expected.end(), one.buffer.begin()))
      note(fmt::format("{}: message {} holds other bytes than were sent", name(end), one.index));
    if (!std::all_of(one.buffer.begin() + static_cast<std::ptrdiff_t>(size), one.buffer.end(),
                     [](std::byte b) { return b == kUntouched; }))
      note(fmt::format("{}: message {} was written beyond its end", name(end), one.index));
    void* request = this;
    void* data = one.buffer.data();
    int bytes = reported;
    call(end, "iflush", Duration::zero(),
         [&] { return entry::flush(end.comm, 1, &data, &bytes, &one.memory, &request); });
    if (request != nullptr) note(fmt::format("{}: iflush gave a request for host memory", name(end)));
  }

  void deregister(End& end, void* memory, Duration most = Duration::zero()) {
    call(end, "deregMr", most, [&] { return entry::deregister_memory(end.comm, memory); });
  }

  /// What another thread does where NCCL aborts, while the end's own goes on.
  void abort(End& end) {
    for (;;) {
      if (end.over_by(State::kFinished) || dead(end.host)) return;
      if (end.made && end.done >= end.plan->abort_after) {
        const auto one =
            std::ranges::find_if(end.posted, [](const PostedRequest& p) { return p.memory != nullptr; });
        if (one != end.posted.end()) {
          void* memory = std::exchange(one->memory, nullptr);
          const std::size_t index = one->index;
          end.aborting = end.aborted = true;
          deregister(end, memory, kLongestPluginClose);  // closes the connection
          for (PostedRequest& same : end.posted)
            if (same.index == index) std::ranges::fill(same.buffer, kOver);
          end.aborting = false;
          return;
        }
      }
      sleep(microseconds(1 + world_.random()() % 200));
    }
  }

  void close_listen(End& end, void* listen_comm) {
    call(end, "closeListen", Duration::zero(), [&] { return entry::close_listen(listen_comm); });
  }

  void close(End& end) {
    world_.closing_begins();
    end.closing_since = world_.clock().now();
    const bool listener_first = world_.random()() % 2 == 0;
    if (end.listen_comm != nullptr && listener_first)
      close_listen(end, std::exchange(end.listen_comm, nullptr));
    if (end.comm != nullptr) {
      // NCCL may close a connection with requests under way, and with memory that is still registered.
      std::ranges::shuffle(end.memories, world_.random());
      if (world_.random()() % 2 == 0)
        for (void* memory : end.memories) deregister(end, memory);
      call(end, "close", kLongestPluginClose, [&] { return entry::close_comm(end.comm); });
    }
    if (end.listen_comm != nullptr) close_listen(end, std::exchange(end.listen_comm, nullptr));
    for (PostedRequest& one : end.posted) {
      std::ranges::fill(one.buffer, kOver);
      end.over.push_back(std::move(one.buffer));
    }
    end.posted.clear();
  }

  /// The rest of a process: its background thread, and the end of its contexts.
  void live(unsigned host) {
    Process& process = processes_[host];
    const auto all = [&](auto&& is) {
      return std::ranges::all_of(ends_, [&](const End& end) { return end.host != host || is(end); });
    };
    for (;;) {
      if (plan_.finalized_early && all([](const End& end) { return end.over_by(State::kOpen); }))
        finalize(process);
      if (std::ranges::all_of(ends_, [](const End& end) { return end.state == State::kClosed; })) break;
      if (!dead(host)) process.helpers->background_progress().round();
      sleep(milliseconds(1 + world_.random()() % 20));
    }
    finalize(process);
    if (process.node.use_count() != 1) note(fmt::format("h{}: something still holds the node", host));
    process.node.reset();
    if (process.helpers.use_count() != 1)
      note(fmt::format("h{}: something still holds the process's helpers", host));
    const TimePoint before = world_.clock().now();
    process.helpers.reset();
    if (const Duration took = world_.clock().now() - before; took > kLongestPluginClose && !dead(host))
      note(fmt::format("h{}: unloading took {}", host, format_seconds(to_seconds(took))));
  }
  void finalize(Process& process) {
    for (void* context : std::exchange(process.contexts, {}))
      if (entry::finalize(context) != abi::ncclSuccess) note("finalize failed");
  }
  void finalize(End& end) {
    std::erase(processes_[end.host].contexts, end.context);
    call(end, "finalize", kLongestPluginClose, [&] { return entry::finalize(end.context); });
  }

  void check_end() {
    for (const End& end : ends_) {
      for (const auto& buffer : end.over)
        if (!std::ranges::all_of(buffer, [](std::byte b) { return b == kOver; }))
          note(fmt::format("{}: memory was written after its request was over", name(end)));
    }
    for (std::size_t i = 0; i < ends_.size(); i += 2) check_comm(ends_[i], ends_[i + 1]);
    if (const std::size_t left = world_.kernel().open_descriptors(); left != 0)
      note(fmt::format("{} descriptors are left:{}", left, world_.kernel().describe_open()));
  }

  void check_comm(const End& sender, const End& receiver) {
    const std::string both = doing(sender) + "; " + doing(receiver);
    const bool given_up = (gives_up(sender) && !sender.made) || sender.aborted || receiver.aborted;
    if (!world_.terminal_fault() && !given_up && !may_lose_at_close(sender, receiver) &&
        !errno_at_set_up(sender, receiver) &&
        !(sender.complete() && receiver.complete() && sender.failed.empty() && receiver.failed.empty()))
      note("what can be survived was not: " + both);
    if (sender.done > receiver.done && receiver.made && receiver.failed.empty() && !receiver.aborted &&
        !dead(receiver.host))
      note("sends were reported as done that nobody received, and the receiver got no error: " + both);
    for (const End* end : {&sender, &receiver}) {
      if (end->made && !end->complete() && end->failed.empty() && !dead(end->host) &&
          !gave_up_in_shared_context(sender))
        note("one end stopped without an error: " + both);
      if (const auto terminal = world_.terminal_fault(); terminal && end->made && !end->failed.empty() &&
                                                         !dead(end->host) &&
                                                         end->failed_at - *terminal > kLongestPluginNotice)
        note(fmt::format("a peer that was gone was noticed after {}: {}",
                         format_seconds(to_seconds(end->failed_at - *terminal)), both));
      if (end->aborted && end->failed.empty() && !dead(end->host))
        note("an end went on after its memory was deregistered: " + both);
    }
  }

  /// An end that has closed sends nothing again. Where a stream breaks before the peer's kernel has all, and
  /// the end has not learnt it when it closes, the other end misses messages or acknowledgements, and fails.
  bool may_lose_at_close(const End& sender, const End& receiver) const {
    if (sender.plan->ending == CommPlan::Ending::kTogether) return false;
    const auto cut_after = [this](const End& end) {
      return end.closing_since && world_.last_cut() >= *end.closing_since;
    };
    return cut_after(sender) || cut_after(receiver) ||
           std::ranges::any_of(plan_.network.faults, [](const Fault& one) {
             return one.kind == Fault::Kind::kReset || one.kind == Fault::Kind::kHalfReset ||
                    one.kind == Fault::Kind::kErrno;
           });
  }
  /// Errors of system calls may make the set-up fail, which is then said.
  bool errno_at_set_up(const End& sender, const End& receiver) const {
    const bool any = std::ranges::any_of(plan_.network.faults,
                                         [](const Fault& one) { return one.kind == Fault::Kind::kErrno; });
    return any && !(sender.made && receiver.made) && !(sender.failed.empty() && receiver.failed.empty());
  }

  /// What still lies on the actors' stacks is lost, and with it what it refers to.
  void abandon() {
    for (Process& process : processes_) new Process(std::move(process));
  }

  Verdict finish() {
    bool connected = true;
    for (const End& end : ends_) {
      if (end.role == Role::kReceiver) verdict_.messages += end.done;
      verdict_.failed |= !end.failed.empty();
      connected = connected && end.made;
    }
    verdict_.connected = connected;
    verdict_.turns = world_.turns();
    verdict_.seconds = world_.elapsed();
    return verdict_;
  }

  const PluginPlan& plan_;
  RunOptions options_;
  World world_;
  Process processes_[2];
  std::vector<End> ends_;
  Verdict verdict_;
};

}  // namespace

Verdict run_plugin(const PluginPlan& plan, const RunOptions& options) {
  return with_allocations_checked(options, [&](const RunOptions& one) { return PluginRun(plan, one).go(); });
}

}  // namespace tombolo::simulation
