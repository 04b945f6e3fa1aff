#include "transport/rdma/device.h"

#include <fcntl.h>

#include <cerrno>

#include "base/error.h"
#include "base/units.h"
#include "topology/system/rdma.h"
#include "topology/system/sys_tree.h"

namespace tombolo::transport::rdma {

Device::Device(std::shared_ptr<const Verbs> verbs, const std::string& name, Log log)
    : verbs_(std::move(verbs)),
      name_(name),
      log_(std::move(log)),
      shared_([this](std::span<std::byte> range) { return add(range, Access::kByPeer); },
              [this](ibv_mr* registration) { remove(registration); }),
      windows_([this](std::span<std::byte> range) { return add(range, Access::kWindow); },
               [this](ibv_mr* registration) { remove(registration); }) {
  int count = 0;
  ibv_device** list = verbs_->get_device_list(&count);
  if (list == nullptr) fail_errno(errno, "list the RDMA devices");
  int error = 0;
  bool found = false;
  for (int i = 0; i < count && !found; ++i) {
    if (name_ != verbs_->get_device_name(list[i])) continue;
    found = true;
    errno = 0;
    context_ = verbs_->open_device(list[i]);
    error = errno;
  }
  verbs_->free_device_list(list);
  if (!found) {
    fail(Cause::kUnsupported,
         "libibverbs lists no device {} ({} others): is its user-space driver there (ibverbs-providers)?",
         name_, count);
  }
  if (context_ == nullptr) {
    fail(Cause::kSystem, "open RDMA device {}: {}; may this user read and write /dev/infiniband/uverbs*?",
         name_, error != 0 ? errno_text(error) : "no reason given");
  }
  const int flags = ::fcntl(context_->async_fd, F_GETFL);
  ::fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK);
  domain_ = verbs_->alloc_pd(context_);
  if (domain_ == nullptr) {
    error = errno;
    verbs_->close_device(context_);
    fail_errno(error, fmt::format("allocate a protection domain on RDMA device {}", name_));
  }
}

Device::~Device() {
  if (is_copy()) return;
  verbs_->dealloc_pd(domain_);
  verbs_->close_device(context_);
}

ibv_port_attr Device::query_port(int port) const {
  ibv_port_attr facts{};
  if (const int error = verbs_->query_port(context_, static_cast<std::uint8_t>(port), &facts); error != 0)
    fail_errno(error, fmt::format("query port {} of RDMA device {}", port, name_));
  return facts;
}

std::vector<topology::Gid> Device::gids(int port) const {
  // The kernel takes a buffer of at most 64 KiB, and reports only entries in use.
  std::vector<ibv_gid_entry> entries(2000);
  const ssize_t count =
      verbs_->query_gid_table == nullptr
          ? -EOPNOTSUPP
          : verbs_->query_gid_table(context_, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  std::vector<topology::Gid> all;
  if (count < 0) {
    // An older library lacks that function. The table in /sys has a thousand files, and takes many
    // milliseconds to read.
    for (topology::RdmaPort& one : topology::read_rdma_ports(topology::SysTree("/"), false))
      if (one.nic.rdma_device == name_ && one.nic.rdma_port == port) all = std::move(one.nic.gids);
    return all;
  }
  for (const ibv_gid_entry& entry : std::span(entries).first(static_cast<std::size_t>(count))) {
    if (entry.port_num != static_cast<std::uint32_t>(port)) continue;
    std::string text;
    for (std::size_t i = 0; i < sizeof entry.gid.raw; i += 2)
      text += fmt::format("{}{:02x}{:02x}", i > 0 ? ":" : "", entry.gid.raw[i], entry.gid.raw[i + 1]);
    all.push_back({static_cast<int>(entry.gid_index), std::move(text),
                   entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1"});
  }
  return all;
}

namespace {

int flags_of(Access access) {
  switch (access) {
    case Access::kNone:
      return 0;
    case Access::kByNic:
      return IBV_ACCESS_LOCAL_WRITE;
    case Access::kByPeer:
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    case Access::kWindow:
    case Access::kGpu:
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  }
  return 0;
}

}  // namespace

ibv_mr* Device::add(std::span<std::byte> range, Access access) const {
  const int flags = flags_of(access);
  ibv_mr* made = verbs_->reg_mr(domain_, range.data(), range.size(), flags);
  if (made != nullptr) return made;
  const int error = errno;
  fail(Cause::kSystem, "register {} at {} with RDMA device {}: {}{}", format_size(range.size()),
       static_cast<const void*>(range.data()), name_, errno_text(error),
       error == ENOMEM ? "; raise the limit of locked memory (ulimit -l)"
       : access == Access::kGpu
           ? "; GPU memory is taken by its address where the module nvidia_peermem is loaded"
           : "");
}

ibv_mr* Device::add_dma_buf(int file, std::uint64_t offset, std::span<std::byte> range) const {
  if (verbs_->reg_dmabuf_mr == nullptr) {
    fail(Cause::kUnsupported,
         "libibverbs has no ibv_reg_dmabuf_mr: GPU memory needs rdma-core 34 or later, and a kernel of 5.12 "
         "or later");
  }
  ibv_mr* made =
      verbs_->reg_dmabuf_mr(domain_, offset, range.size(), reinterpret_cast<std::uint64_t>(range.data()),
                            file, flags_of(Access::kGpu));
  if (made != nullptr) return made;
  const int error = errno;
  fail(error == EOPNOTSUPP || error == EPROTONOSUPPORT ? Cause::kUnsupported : Cause::kSystem,
       "register {} of a DMA-BUF with RDMA device {}: {}", format_size(range.size()), name_,
       errno_text(error));
}

void Device::remove(ibv_mr* registration) const noexcept {
  if (!is_copy()) verbs_->dereg_mr(registration);
}

Devices& Devices::of_process() {
  static Devices devices;
  return devices;
}

std::shared_ptr<Device> Devices::open(const std::string& name, const Log& log) {
  std::lock_guard guard(lock_);
  if (!verbs_) {
    std::string problem;
    verbs_ = Verbs::load(&problem);
    if (!verbs_) fail(Cause::kUnsupported, "libibverbs cannot be loaded ({})", problem);
    // On kernels before 5.12 a process that forks would lose its registered pages without this. On later ones
    // nothing is needed, which the library knows.
    if (verbs_->fork_init != nullptr) verbs_->fork_init();
  }
  auto device = open_[name].lock();
  if (!device || device->lost() || device->is_copy())
    open_[name] = device = std::make_shared<Device>(verbs_, name, log);
  return device;
}

void Device::look() noexcept {
  std::lock_guard guard(lock_);
  ibv_async_event event{};
  while (verbs_->get_async_event(context_, &event) == 0) {
    note(event);
    // A queue pair cannot be destroyed before its events are acknowledged.
    verbs_->ack_async_event(&event);
  }
}

/// What it cannot put into words for a lack of memory, or because the log's sink throws, is left out: a NIC
/// that lost its port also says so when it has tried in vain.
void Device::note(const ibv_async_event& event) noexcept {
  try {
    const char* what = verbs_->event_type_str(event.event_type);
    switch (event.event_type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
        // This comes before the acknowledgement, until which the queue pair cannot be destroyed.
        static_cast<QueuePairEvents*>(event.element.qp->qp_context)->fatal = event.event_type;
        break;
      case IBV_EVENT_PORT_ACTIVE:
        trouble_.erase(event.element.port_num);
        break;
      case IBV_EVENT_PORT_ERR:
        trouble_[event.element.port_num] =
            fmt::format("; port {} of {} went down before that", event.element.port_num, name_);
        break;
      case IBV_EVENT_DEVICE_FATAL:
        lost_ = true;
        trouble_[0] = fmt::format("; device {} reported a fatal error", name_);
        break;
      default:
        break;
    }
    log_.trace("RDMA device {}: event: {}", name_, what);
  } catch (...) {
  }
}

bool Device::down(int port) const {
  std::lock_guard guard(lock_);
  return trouble_.contains(port);
}

std::string Device::trouble(int port) const {
  std::lock_guard guard(lock_);
  std::string text;
  for (const auto& [at, what] : trouble_)
    if (at == 0 || at == port) text += what;
  return text;
}

}  // namespace tombolo::transport::rdma
