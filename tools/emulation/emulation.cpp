#include "tools/emulation/emulation.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <system_error>

#include "base/error.h"
#include "base/units.h"
#include "compute/cores.h"
#include "tools/emulation/holder.h"
#include "tools/emulation/network_script.h"

namespace tombolo::emulation {
namespace {

std::string make_directory() {
  std::error_code status;
  std::string pattern = (std::filesystem::temp_directory_path(status) / "tombolo-XXXXXX").string();
  if (status || ::mkdtemp(pattern.data()) == nullptr) {
    fail_errno(errno, fmt::format("making a private folder '{}' (TMPDIR says where)", pattern));
  }
  return pattern;
}

double machine_memory_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

topology::Nic make_nic(const Spec& spec, std::size_t h, std::size_t n, bool loopback) {
  const NicSpec& from = spec.hosts[h].nics[n];
  topology::Nic nic;
  nic.name = from.name;
  nic.kind = from.kind;
  nic.roce_v2 = from.kind == topology::NicKind::kRoce;
  nic.role = topology::NicRole::kVirtual;
  nic.state = topology::NicState::kUp;
  nic.rate_bits_per_second = static_cast<std::uint64_t>(from.bits_per_second);
  nic.mtu = loopback ? 65536 : 1500;
  nic.driver = loopback ? "lo" : "veth";
  nic.addresses = {spec.address(h, n, loopback)};
  nic.fabric = from.fabric;
  if (from.shaped && !loopback) nic.burst_bytes = burst_bytes(from.bits_per_second);
  nic.emulated = topology::is_rdma(from.kind);
  nic.reason = fmt::format("emulated: declared {}, carried by {}", topology::nic_kind_name(from.kind),
                           loopback ? "a loopback address" : "a veth pair");
  return nic;
}

topology::ClusterFile make_cluster(const Spec& spec, bool loopback) {
  topology::ClusterFile cluster;
  cluster.emulated = true;
  cluster.note =
      fmt::format("'{}', emulated on one machine {}; kinds of NICs are declared, not real", spec.name,
                  loopback ? "on loopback, rates applied in the transport" : "with network namespaces");
  topology::SharedProcessor shared;
  shared.cores = compute::usable_cores();
  for (std::size_t h = 0; h < spec.hosts.size(); ++h) {
    topology::Host host;
    host.name = spec.hosts[h].name;
    host.cluster = spec.hosts[h].cluster;
    for (std::size_t n = 0; n < spec.hosts[h].nics.size(); ++n)
      host.nics.push_back(make_nic(spec, h, n, loopback));
    std::stable_sort(
        host.nics.begin(), host.nics.end(),
        [](const topology::Nic& left, const topology::Nic& right) { return left.kind < right.kind; });
    for (int d = 0; d < spec.hosts[h].devices; ++d) {
      topology::Device device;
      device.name = "cpu";
      device.memory_bytes = machine_memory_bytes() / spec.devices();
      host.devices.push_back(device);
    }
    shared.hosts.push_back(host.name);
    cluster.hosts.push_back(std::move(host));
  }
  cluster.shared_processor = shared;

  // NICs of equal kinds but different fabrics look reachable and are not, so such pairs are declared.
  std::vector<std::pair<std::string, topology::NicKind>> seen;
  for (const topology::Host& host : cluster.hosts) {
    for (const topology::Nic& nic : host.nics) {
      std::pair<std::string, topology::NicKind> mine{nic.fabric, nic.kind};
      if (std::find(seen.begin(), seen.end(), mine) != seen.end()) continue;
      for (const auto& [fabric, kind] : seen) {
        if (kind == nic.kind && fabric != nic.fabric) cluster.unreachable.emplace_back(fabric, nic.fabric);
      }
      seen.push_back(mine);
    }
  }
  return cluster;
}

int bind_port(const std::string& address, int port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  if (!socket || ::inet_pton(AF_INET, address.c_str(), &at.sin_addr) != 1) return -1;
  return ::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 ? port : -1;
}

}  // namespace

int find_free_port(const std::string& address, std::uint32_t seed) {
  // The port is below Linux' range for outgoing connections (32768 up), so that none of these takes it before
  // the rank listens.
  std::minstd_rand random(seed);
  std::uniform_int_distribution<int> any(15000, 32000);
  for (int attempt = 0; attempt < 100; ++attempt) {
    int port = bind_port(address, any(random));
    if (port > 0) return port;
  }
  return -1;
}

std::string_view mode_name(Mode mode) noexcept {
  return mode == Mode::kNamespaces ? "namespaces" : "loopback";
}

std::optional<Mode> parse_mode(std::string_view text) {
  if (text == "auto") return std::nullopt;
  if (text == "namespaces") return Mode::kNamespaces;
  if (text == "loopback") return Mode::kLoopback;
  fail(Cause::kInvalidUsage, "emulation mode '{}' is none of auto, namespaces, loopback", text);
}

std::string why_no_namespaces() {
  try {
    Holder holder = start_holder(Spec::from_text("holmes:hosts=2"), true, "");
    stop_holder(holder);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

struct Emulation::State {
  Spec spec;
  Mode mode = Mode::kNamespaces;
  Holder holder;
  std::string description;
  std::string directory;
  topology::ClusterFile cluster;
  std::string user_namespace_path;              // empty where none was made
  std::vector<std::string> network_namespaces;  // by host

  ~State() {
    stop_holder(holder);
    std::error_code ignored;
    if (!directory.empty()) std::filesystem::remove_all(directory, ignored);
  }
};

Emulation::Emulation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Emulation::~Emulation() = default;

std::unique_ptr<Emulation> Emulation::start(const Spec& spec, const StartOptions& options) {
  auto state = std::make_unique<State>();
  state->spec = spec;
  state->directory = make_directory();
  std::string refused;
  if (options.mode != Mode::kLoopback) {
    try {
      state->holder = start_holder(spec, true, state->directory);
    } catch (const Error& error) {
      if (options.mode == Mode::kNamespaces || error.cause() != Cause::kUnsupported) throw;
      refused = error.what();
      state->directory = make_directory();  // the failed holder removed the first directory
    }
  }
  if (state->holder.pid > 0) {
    state->mode = Mode::kNamespaces;
    std::string proc = fmt::format("/proc/{}", state->holder.pid);
    if (state->holder.user_namespace) state->user_namespace_path = proc + "/ns/user";
    for (std::size_t h = 0; h < spec.hosts.size(); ++h) {
      state->network_namespaces.push_back(fmt::format("{}/fd/{}", proc, namespace_descriptor(h)));
    }
    state->description =
        fmt::format("emulating '{}': {} hosts, each a network namespace", spec.name, spec.hosts.size());
  } else {
    state->mode = Mode::kLoopback;
    const bool joint_ports = std::ranges::any_of(spec.hosts, [](const HostSpec& host) {
      return std::ranges::any_of(host.nics, [](const NicSpec& nic) { return !nic.behind.empty(); });
    });
    if (!spec.links.empty() || joint_ports) {
      fail(Cause::kUnsupported,
           "emulation '{}' has {}, which needs network namespaces; on loopback only NICs can be slowed{}{}",
           spec.name, joint_ports ? "NICs behind one port" : "shaped links between clusters",
           refused.empty() ? "" : ". Namespaces: ", refused);
    }
    state->holder = start_holder(spec, false, state->directory);
    state->description = fmt::format(
        "emulating '{}' WITHOUT network namespaces: {} hosts are loopback addresses, rates are applied in "
        "the transport{}{}",
        spec.name, spec.hosts.size(), refused.empty() ? " (as asked)" : "; ", refused);
  }
  state->cluster = make_cluster(spec, state->mode == Mode::kLoopback);
  options.log.info("{} (holder process {})", state->description, state->holder.pid);
  return std::unique_ptr<Emulation>(new Emulation(std::move(state)));
}

Mode Emulation::mode() const noexcept {
  return state_->mode;
}
const Spec& Emulation::spec() const noexcept {
  return state_->spec;
}
const std::string& Emulation::description() const noexcept {
  return state_->description;
}
const topology::ClusterFile& Emulation::cluster() const noexcept {
  return state_->cluster;
}
const std::string& Emulation::directory() const noexcept {
  return state_->directory;
}
pid_t Emulation::holder() const noexcept {
  return state_->holder.pid;
}
int Emulation::holder_handle() const noexcept {
  return state_->holder.alive.get();
}

std::vector<std::pair<std::string, std::string>> Emulation::environment(std::string_view host,
                                                                        int ranks_on_host) const {
  if (state_->mode == Mode::kNamespaces) return {};
  std::string limits;
  for (const NicSpec& nic : state_->spec.host(host).nics) {
    if (!nic.shaped) continue;
    // Each process limits itself, so the NIC's rate is divided equally among those of one host.
    limits += fmt::format("{}{}={:.0f}", limits.empty() ? "" : ",", nic.name,
                          nic.bits_per_second / std::max(1, ranks_on_host));
  }
  return {{"TOMBOLO_NIC_LIMITS", limits}};
}

int Emulation::enter(std::size_t host_index) const noexcept {
  if (state_->mode == Mode::kLoopback) return 0;
  if (host_index >= state_->network_namespaces.size()) return EINVAL;
  int user = -1;
  if (!state_->user_namespace_path.empty()) {
    user = ::open(state_->user_namespace_path.c_str(), O_RDONLY | O_CLOEXEC);
    if (user < 0) return errno;
  }
  int network = ::open(state_->network_namespaces[host_index].c_str(), O_RDONLY | O_CLOEXEC);
  int error = network < 0 ? errno : 0;
  // The user namespace is entered first, because it gives the right to enter the other.
  if (error == 0 && user >= 0 && ::setns(user, CLONE_NEWUSER) != 0) error = errno;
  if (error == 0 && ::setns(network, CLONE_NEWNET) != 0) error = errno;
  if (user >= 0) ::close(user);
  if (network >= 0) ::close(network);
  if (error != 0) return error;
  ::prctl(PR_SET_DUMPABLE, 1);
  // Mounts a /sys that shows this namespace's interfaces, as on a real host. Where that is refused (a masked
  // /sys in a container), detection shows the machine's interfaces, and the cluster file overrides them
  // anyway.
  if (::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0) {
    ::mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NOEXEC | MS_NODEV, nullptr);
  }
  return 0;
}

std::string Emulation::address(std::string_view host, std::string_view fabric) const {
  const Spec& spec = state_->spec;
  const HostSpec& found = spec.host(host);
  for (std::size_t n = 0; n < found.nics.size(); ++n) {
    if (found.nics[n].fabric == fabric) {
      return spec.address(static_cast<std::size_t>(&found - spec.hosts.data()), n,
                          state_->mode == Mode::kLoopback);
    }
  }
  fail(Cause::kInvalidUsage, "emulation '{}': host '{}' has no NIC on fabric '{}'", spec.name, host, fabric);
}

RelayReport Emulation::order_relay(std::size_t link, RelayOrder order) const {
  const auto& relays = state_->holder.relays;
  if (link >= relays.size() || !relays[link]) {
    fail(Cause::kInvalidUsage, "emulation '{}': no relay carries link {}", state_->spec.name, link);
  }
  RelayReport report;
  if (::send(relays[link].get(), &order, sizeof order, MSG_NOSIGNAL) != sizeof order) {
    fail_errno(errno,
               fmt::format("emulation '{}': an order to the relay of link {}", state_->spec.name, link));
  }
  pollfd answer{relays[link].get(), POLLIN, 0};
  Deadline deadline = Deadline::after(std::chrono::seconds(10));
  int ready = 0;
  while ((ready = ::poll(&answer, 1, deadline.poll_milliseconds())) < 0 && errno == EINTR) {
  }
  if (ready == 0) {
    fail(Cause::kTimeout, "emulation '{}': the relay of link {} has not answered for 10 s", state_->spec.name,
         link);
  }
  if (::recv(relays[link].get(), &report, sizeof report, 0) != sizeof report) {
    fail(Cause::kSystem, "emulation '{}': the relay of link {} has ended", state_->spec.name, link);
  }
  return report;
}

int Emulation::free_port(std::string_view host, std::string_view fabric) const {
  std::string where = address(host, fabric);
  std::size_t index = static_cast<std::size_t>(&state_->spec.host(host) - state_->spec.hosts.data());
  std::uint32_t seed = std::random_device{}();
  tools::Pipe answer = tools::make_pipe();
  pid_t child = ::fork();
  if (child < 0) fail_errno(errno, "fork");
  if (child == 0) {
    int port = enter(index) == 0 ? find_free_port(where, seed) : -1;
    [[maybe_unused]] ssize_t put = ::write(answer.write.get(), &port, sizeof port);
    ::_exit(0);
  }
  answer.write.reset();
  int port = -1;
  while (::read(answer.read.get(), &port, sizeof port) < 0 && errno == EINTR) {
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (port <= 0) fail(Cause::kSystem, "no free TCP port on {} ({} of host '{}')", where, fabric, host);
  return port;
}

}  // namespace tombolo::emulation
