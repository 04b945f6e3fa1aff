// For tests: libibverbs without hardware. Its devices reach each other within the process; the work of all
// queue pairs is done in random order, though in order on each, as a network may do it; and it checks what a
// real NIC would silently do wrong: keys, ranges, depths of queues, receives that are not posted.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "topology/system/verbs_functions.h"
#include "transport/testing/pretended_nics.h"

namespace tombolo::transport::test {

/// One for the process, since verbs are plain functions. Threads: any.
class PretendedVerbs : private PretendedNics {
 public:
  static PretendedVerbs& instance() {
    static PretendedVerbs one;
    return one;
  }

  std::shared_ptr<const topology::VerbsFunctions> functions() {
    auto made = std::make_shared<topology::VerbsFunctions>(std::move(*DynamicLibrary::open({"libc.so.6"})));
    made->get_device_list = [](int* count) {
      *count = kDevices;
      return instance().list_;
    };
    made->free_device_list = [](ibv_device**) {};
    made->get_device_name = [](ibv_device* device) -> const char* { return device->name; };
    made->open_device = open_device;
    made->close_device = [](ibv_context* context) {
      ::close(context->async_fd);
      return instance().close(static_cast<Context*>(context));
    };
    made->query_device = [](ibv_context*, ibv_device_attr*) { return 0; };
    made->query_port = query_port;
    made->query_gid = [](ibv_context*, std::uint8_t, int, ibv_gid*) { return 0; };
    made->query_gid_table = query_gid_table;
    made->get_async_event = get_async_event;
    made->ack_async_event = [](ibv_async_event*) {};
    made->event_type_str = [](ibv_event_type) -> const char* { return "a pretended event"; };
    made->wc_status_str = [](ibv_wc_status) -> const char* { return "a pretended failure"; };
    made->alloc_pd = [](ibv_context* context) -> ibv_pd* {
      return instance().refused("alloc_pd") ? nullptr : instance().make<Domain>(ibv_pd{context, 0});
    };
    made->dealloc_pd = [](ibv_pd* domain) { return instance().forget(static_cast<Domain*>(domain)); };
    made->reg_mr = [](ibv_pd* domain, void* address, std::size_t length, int access) -> ibv_mr* {
      return instance().refused("reg_mr") ? nullptr : instance().add(domain, address, length, access);
    };
    made->reg_dmabuf_mr = [](ibv_pd* domain, std::uint64_t, std::size_t length, std::uint64_t address,
                             int file, int access) -> ibv_mr* {
      if (::fcntl(file, F_GETFD) < 0) return nullptr;  // EBADF
      return instance().refused("reg_dmabuf_mr")
                 ? nullptr
                 : instance().add(domain, reinterpret_cast<void*>(address), length, access);
    };
    made->dereg_mr = [](ibv_mr* memory) {
      {
        const std::lock_guard lock(instance().lock_);
        instance().memories_.erase(memory->lkey);
      }
      return instance().forget(static_cast<Registration*>(memory));
    };
    made->create_comp_channel = [](ibv_context* context) -> ibv_comp_channel* {
      if (instance().refused("create_comp_channel")) return nullptr;
      return instance().make<Channel>(
          ibv_comp_channel{context, ::eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK), 0});
    };
    made->destroy_comp_channel = [](ibv_comp_channel* channel) {
      ::close(channel->fd);
      return instance().forget(static_cast<Channel*>(channel));
    };
    made->create_cq = create_cq;
    made->destroy_cq = destroy_cq;
    made->get_cq_event = get_cq_event;
    made->ack_cq_events = [](ibv_cq* queue, unsigned count) {
      static_cast<Completions*>(queue)->acknowledged += count;
    };
    made->create_qp = create_qp;
    made->modify_qp = modify_qp;
    made->destroy_qp = destroy_qp;
    made->fork_init = [] { return 0; };
    return made;
  }

  /// "pretended0", ...
  static std::string name(std::size_t device) { return "pretended" + std::to_string(device); }

  /// Forgets faults; the order of work follows from the seed.
  void reset(unsigned seed) {
    const std::lock_guard lock(lock_);
    random_.seed(seed);
    faults_ = {};
    late_.clear();
    longest_message = 1U << 30;
    speeds_.fill(32);
  }
  /// What its port says of its speed, by verbs' code: 4 is 10, 32 is 25 Gbit/s a lane. It works as fast as
  /// any.
  void set_speed(std::size_t device, std::uint8_t code) {
    const std::lock_guard lock(lock_);
    speeds_.at(device) = code;
  }
  /// The call of that function after so many others fails with this errno. "post_send", "poll_cq", ... too.
  void refuse(const std::string& function, int error, int after = 0) {
    const std::lock_guard lock(lock_);
    faults_.refuse(function, error, after);
  }
  /// How the NICs read and write memory that the processor does not reach; null: there is none. Called with a
  /// lock held.
  void set_bus(std::function<void(std::byte* to, const std::byte* from, std::size_t bytes)> bus) {
    const std::lock_guard lock(lock_);
    bus_ = std::move(bus);
  }
  /// Whether all refusals have come to pass.
  bool refused_all() {
    const std::lock_guard lock(lock_);
    return faults_.refused_all();
  }
  /// Nothing gets through any more: what is posted fails as after the NIC's last retry.
  void silence() {
    const std::lock_guard lock(lock_);
    faults_.silent = true;
  }
  /// After so many further pieces of work, at least one, the network is cut for all queue pairs that there
  /// are then, and `for_good` for those of the future too. Of what is under way it may have lost all, or a
  /// part, or nothing but the acknowledgement; and some of it is only delayed, and arrives when its sender
  /// has given up, as long as the receiving queue pair takes it.
  void cut_after(std::size_t pieces, bool for_good = false) {
    const std::lock_guard lock(lock_);
    faults_.cut_after(pieces, for_good);
  }
  /// Whether that has come to pass.
  bool is_cut() {
    const std::lock_guard lock(lock_);
    return faults_.is_cut();
  }
  /// All devices forget what they have completed and nobody has looked at, as one does that dies.
  void lose_completions() {
    const std::lock_guard lock(lock_);
    for (const auto& [number, pair] : pairs_) {
      static_cast<Completions*>(pair->send_cq)->all.clear();
      static_cast<Completions*>(pair->recv_cq)->all.clear();
    }
  }
  void take_port_down(bool down) {
    const std::lock_guard lock(lock_);
    faults_.down.fill(down);
  }
  /// The device's port goes down or comes back: what it says of itself, its event, and what gets through.
  void set_link(std::size_t device, bool up) {
    {
      const std::lock_guard lock(lock_);
      faults_.down.at(device) = !up;
    }
    raise(name(device), up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
  }
  /// The network swallows what the device sends and what is for it, though its port stays active.
  void swallow(std::size_t device, bool on) {
    const std::lock_guard lock(lock_);
    faults_.swallowed.at(device) = on;
  }
  /// An asynchronous event on all open devices of that name; about each of its queue pairs, if it is of that
  /// kind.
  void raise(const std::string& device, ibv_event_type type) {
    const std::lock_guard lock(lock_);
    for (Context* context : contexts_) {
      if (context->device->name != device) continue;
      ibv_async_event event{};
      event.event_type = type;
      event.element.port_num = 1;
      if (type == IBV_EVENT_QP_FATAL) {
        for (const auto& [number, pair] : pairs_) {
          if (pair->context != context) continue;
          event.element.qp = pair;
          context->events.push_back(event);
        }
      } else {
        context->events.push_back(event);
      }
      eventfd_write(context->async_fd, 1);
    }
  }
  /// As fork(2), while no thread of the NICs has the lock: the child would wait for that in vain.
  pid_t fork() {
    const std::lock_guard lock(lock_);
    return ::fork();
  }
  /// Objects that were made and not given back.
  std::size_t live() {
    const std::lock_guard lock(lock_);
    return live_;
  }
  std::size_t registered() {
    const std::lock_guard lock(lock_);
    return memories_.size();
  }
  /// Of every queue pair that has a peer, by the name of its device.
  std::multiset<std::pair<std::string, int>> traffic_classes() {
    const std::lock_guard lock(lock_);
    std::multiset<std::pair<std::string, int>> all;
    for (const auto& [number, pair] : pairs_)
      if (pair->traffic_class != -1) all.emplace(pair->context->device->name, pair->traffic_class);
    return all;
  }
  /// RDMA READs that were carried out.
  std::size_t reads() {
    const std::lock_guard lock(lock_);
    return reads_;
  }
  std::uint32_t longest_message = 1U << 30;

 private:
  PretendedVerbs() {
    for (int i = 0; i < kDevices; ++i) {
      std::strncpy(devices_[i].name, name(static_cast<std::size_t>(i)).c_str(), sizeof devices_[i].name - 1);
      list_[i] = &devices_[i];
    }
  }

  /// The errno, or 0 where the call goes through.
  int error_for(const std::string& function) { return faults_.error_for(function); }
  bool refused(const std::string& function) {
    const std::lock_guard lock(lock_);
    errno = error_for(function);
    return errno != 0;
  }
  template <typename Object, typename... From>
  Object* make(const From&... from) {
    const std::lock_guard lock(lock_);
    ++live_;
    return new Object(from...);
  }
  template <typename Object>
  int forget(Object* object) {
    const std::lock_guard lock(lock_);
    --live_;
    delete object;
    return 0;
  }
  /// With the last device that is open the NICs' own thread ends.
  int close(Context* context) {
    std::thread over;
    {
      const std::lock_guard lock(lock_);
      contexts_.erase(context);
      if (contexts_.empty()) over = std::move(nics_);
    }
    changed_.notify_all();
    if (over.joinable()) over.join();
    return forget(context);
  }
  /// NICs work though nobody looks. What those who look have not done within a millisecond is done here.
  void work_alone() {
    std::unique_lock lock(lock_);
    while (!contexts_.empty()) {
      changed_.wait(lock, [this] { return contexts_.empty() || posted_; });
      posted_ = false;
      changed_.wait_for(lock, std::chrono::milliseconds(1), [this] { return contexts_.empty(); });
      while (work(1000)) {
      }
    }
  }
  Registration* add(ibv_pd* domain, void* address, std::size_t length, int access) {
    ibv_mr plain{};
    plain.context = domain->context;
    plain.pd = domain;
    plain.addr = address;
    plain.length = length;
    auto* made = make<Registration>(plain);
    const std::lock_guard lock(lock_);
    made->lkey = made->rkey = next_key_ += 1 + static_cast<std::uint32_t>(random_() % 1000);
    made->access = access;
    memories_[made->lkey] = made;
    return made;
  }

  static ibv_context* open_device(ibv_device* device) {
    if (instance().refused("open_device")) return nullptr;
    auto* made = instance().make<Context>();
    made->device = device;
    made->async_fd = ::eventfd(0, EFD_NONBLOCK);
    made->ops.post_send = post_send;
    made->ops.post_recv = post_receive;
    made->ops.poll_cq = poll_cq;
    made->ops.req_notify_cq = arm;
    const std::lock_guard lock(instance().lock_);
    instance().contexts_.insert(made);
    if (!instance().nics_.joinable()) instance().nics_ = std::thread([] { instance().work_alone(); });
    return made;
  }
  static int query_port(ibv_context* context, std::uint8_t, ibv_port_attr* facts) {
    const std::lock_guard lock(instance().lock_);
    if (const int error = instance().error_for("query_port"); error != 0) return error;
    *facts = {};
    facts->state =
        instance().faults_.down.at(instance().number_of(context)) ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    facts->link_layer = IBV_LINK_LAYER_ETHERNET;
    facts->active_mtu = IBV_MTU_1024;
    facts->max_msg_sz = instance().longest_message;
    facts->active_width = 2;  // four lanes
    facts->active_speed = instance().speeds_[instance().number_of(context)];
    return 0;
  }
  /// One for each of two ports.
  static ssize_t query_gid_table(ibv_context*, ibv_gid_entry* entries, std::size_t most, std::uint32_t,
                                 std::size_t) {
    EXPECT_GE(most, 2u);
    for (std::uint32_t port = 1; port <= 2; ++port) {
      ibv_gid_entry& one = entries[port - 1];
      one = {};
      one.gid.raw[15] = static_cast<std::uint8_t>(port);
      one.gid.raw[10] = one.gid.raw[11] = 0xff;
      one.gid.raw[12] = 10;
      one.gid_index = port + 4;
      one.port_num = port;
      one.gid_type = port == 1 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
    }
    return 2;
  }
  static int get_async_event(ibv_context* plain, ibv_async_event* event) {
    const std::lock_guard lock(instance().lock_);
    auto* context = static_cast<Context*>(plain);
    if (context->events.empty()) return -1;
    *event = context->events.front();
    context->events.pop_front();
    eventfd_t ignored = 0;
    if (context->events.empty()) eventfd_read(context->async_fd, &ignored);
    return 0;
  }

  static ibv_cq* create_cq(ibv_context* context, int depth, void*, ibv_comp_channel* channel, int) {
    if (instance().refused("create_cq")) return nullptr;
    auto* made = instance().make<Completions>();
    made->context = context;
    made->channel = channel;
    made->cqe = depth;
    return made;
  }
  static int destroy_cq(ibv_cq* queue) {
    auto* all = static_cast<Completions*>(queue);
    EXPECT_EQ(all->acknowledged, all->told) << "the library would wait here for ever";
    {
      const std::lock_guard lock(instance().lock_);
      if (all->channel != nullptr) std::erase(static_cast<Channel*>(all->channel)->events, queue);
      for (const auto& [number, pair] : instance().pairs_)
        EXPECT_TRUE(pair->send_cq != queue) << "a queue pair still uses it";
    }
    return instance().forget(all);
  }
  static int get_cq_event(ibv_comp_channel* plain, ibv_cq** queue, void** context) {
    const std::lock_guard lock(instance().lock_);
    auto* channel = static_cast<Channel*>(plain);
    if (channel->events.empty()) return -1;
    *queue = channel->events.front();
    *context = nullptr;
    channel->events.pop_front();
    ++static_cast<Completions*>(*queue)->told;
    eventfd_t ignored = 0;
    eventfd_read(channel->fd, &ignored);
    return 0;
  }

  static ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
    if (instance().refused("create_qp")) return nullptr;
    auto* made = instance().make<Pair>();
    made->context = domain->context;
    made->qp_context = wanted->qp_context;
    made->pd = domain;
    made->send_cq = wanted->send_cq;
    made->recv_cq = wanted->recv_cq;
    made->room = wanted->cap;
    const std::lock_guard lock(instance().lock_);
    made->qp_num = ++instance().next_pair_;
    instance().pairs_[made->qp_num] = made;
    return made;
  }
  static int modify_qp(ibv_qp* plain, ibv_qp_attr* attributes, int mask) {
    const std::lock_guard lock(instance().lock_);
    if (const int error = instance().error_for("modify_qp"); error != 0) return error;
    auto* pair = static_cast<Pair*>(plain);
    if (mask == IBV_QP_ACCESS_FLAGS) {
      EXPECT_EQ(pair->state, IBV_QPS_RTS);
      pair->access = attributes->qp_access_flags;
      return 0;
    }
    EXPECT_TRUE(mask & IBV_QP_STATE);
    if (attributes->qp_state == IBV_QPS_ERR) {
      pair->state = IBV_QPS_ERR;
      instance().flush(*pair);
      instance().posted_ = true;
      instance().changed_.notify_all();
      return 0;
    }
    EXPECT_EQ(attributes->qp_state, static_cast<int>(pair->state) + 1) << "one state after the other";
    pair->state = attributes->qp_state;
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0) pair->access = attributes->qp_access_flags;
    if ((mask & IBV_QP_DEST_QPN) != 0) pair->peer = attributes->dest_qp_num;
    if ((mask & IBV_QP_AV) != 0) pair->traffic_class = attributes->ah_attr.grh.traffic_class;
    return 0;
  }
  static int destroy_qp(ibv_qp* plain) {
    auto* pair = static_cast<Pair*>(plain);
    {
      const std::lock_guard lock(instance().lock_);
      instance().pairs_.erase(pair->qp_num);
    }
    return instance().forget(pair);
  }

  static int post_send(ibv_qp* plain, ibv_send_wr* first, ibv_send_wr** refused_at) {
    PretendedVerbs& self = instance();
    const std::lock_guard lock(self.lock_);
    auto* pair = static_cast<Pair*>(plain);
    for (ibv_send_wr* one = first; one != nullptr; one = one->next) {
      *refused_at = one;
      if (const int error = self.error_for("post_send"); error != 0) return error;
      if (pair->state != IBV_QPS_RTS && pair->state != IBV_QPS_ERR) return EINVAL;
      if (pair->used == pair->room.max_send_wr) return ENOMEM;
      ++pair->used;
      Send send;
      send.what = *one;
      if (one->num_sge == 1) send.piece = one->sg_list[0];
      EXPECT_LE(one->num_sge, 1);
      if ((one->send_flags & IBV_SEND_SIGNALED) == 0) {
        ++pair->unsignaled;
      } else {
        send.entries = 1 + pair->unsignaled;
        pair->unsignaled = 0;
      }
      pair->sends.push_back(send);
    }
    self.posted_ = true;
    self.changed_.notify_all();
    return 0;
  }
  static int post_receive(ibv_qp* plain, ibv_recv_wr* one, ibv_recv_wr** refused_at) {
    PretendedVerbs& self = instance();
    const std::lock_guard lock(self.lock_);
    auto* pair = static_cast<Pair*>(plain);
    *refused_at = one;
    if (const int error = self.error_for("post_recv"); error != 0) return error;
    if (pair->receives.size() == pair->room.max_recv_wr) return ENOMEM;
    Receive receive;
    receive.id = one->wr_id;
    receive.has_piece = one->num_sge == 1;
    if (receive.has_piece) receive.piece = one->sg_list[0];
    if (pair->state == IBV_QPS_ERR) {
      self.complete(pair->recv_cq, receive.id, IBV_WC_WR_FLUSH_ERR, {}, 0, 0, pair->qp_num, 0);
    } else {
      pair->receives.push_back(receive);
    }
    return 0;
  }
  static int poll_cq(ibv_cq* plain, int most, ibv_wc* to) {
    PretendedVerbs& self = instance();
    const std::lock_guard lock(self.lock_);
    if (self.error_for("poll_cq") != 0) return -1;
    self.work(self.random_() % 8);
    auto& all = static_cast<Completions*>(plain)->all;
    int count = 0;
    for (; count < most && !all.empty(); ++count) {
      const Completion& one = all.front();
      to[count] = one.what;
      if (const auto pair = self.pairs_.find(one.pair); pair != self.pairs_.end())
        pair->second->used -= one.frees;
      all.pop_front();
    }
    return count;
  }
  /// Nobody may look for long: all that is under way is done now.
  static int arm(ibv_cq* queue, int) {
    PretendedVerbs& self = instance();
    const std::lock_guard lock(self.lock_);
    static_cast<Completions*>(queue)->armed = true;
    while (self.work(1000)) {
    }
    return 0;
  }

  std::mutex lock_;
  std::condition_variable changed_;
  std::thread nics_;
  bool posted_ = false;
  std::array<std::uint8_t, kDevices> speeds_{32, 32, 32, 32};
  ibv_device* list_[kDevices + 1]{};
  std::set<Context*> contexts_;
  std::uint32_t next_key_ = 100;
  std::size_t live_ = 0;
};

}  // namespace tombolo::transport::test
