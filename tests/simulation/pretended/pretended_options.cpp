// Options of pretended sockets.
#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/simulation/pretended/pretended_kernel.h"

namespace tombolo::simulation {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

int PretendedKernel::setsockopt(int descriptor, int level, int name, const void* value,
                                socklen_t length) noexcept {
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(EBADF);
  int number = 0;
  std::memcpy(&number, value, std::min<std::size_t>(length, sizeof number));
  socket->note_change();
  if (level == SOL_SOCKET && name == SO_LINGER) {
    ::linger given{};
    std::memcpy(&given, value, std::min<std::size_t>(length, sizeof given));
    socket->reset_on_close = given.l_onoff != 0 && given.l_linger == 0;
  } else if (level == SOL_SOCKET && name == SO_SNDBUF) {
    if (socket->out)
      socket->out->send_room = std::min<std::size_t>(64 * 1024, static_cast<std::size_t>(number));
  } else if (level == IPPROTO_TCP && name == TCP_KEEPIDLE) {
    socket->keepalive_idle = seconds(number);
  } else if (level == IPPROTO_TCP && name == TCP_KEEPINTVL) {
    socket->keepalive_interval = seconds(number);
  } else if (level == IPPROTO_TCP && name == TCP_KEEPCNT) {
    socket->keepalive_probes = number;
  }
  return 0;
}

int PretendedKernel::getsockopt(int descriptor, int level, int name, void* value,
                                socklen_t* length) noexcept {
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(EBADF);
  network_.settle();
  if (level == SOL_SOCKET && name == SO_ERROR) {
    const int error = network_.take_error(*socket);
    std::memcpy(value, &error, std::min<std::size_t>(*length, sizeof error));
    return 0;
  }
  if (level == IPPROTO_TCP && name == TCP_INFO) {
    const Path& path = network_.path(nic_of(socket->own.host));
    tcp_info info{};
    const bool over = socket->state != Socket::State::kConnected ||
                      (socket->write_ended && socket->in->ended && socket->out->ended);
    info.tcpi_state = over ? 7 : 1;
    info.tcpi_rtt = info.tcpi_min_rtt = static_cast<std::uint32_t>(2 * path.delay / microseconds(1));
    info.tcpi_snd_cwnd = 10;
    info.tcpi_snd_mss = 1448;
    if (const Duration unanswered = network_.unanswered(*socket); unanswered > Duration::zero()) {
      info.tcpi_retransmits = 1;
      info.tcpi_last_ack_recv = static_cast<std::uint32_t>(unanswered / milliseconds(1));
    }
    std::memcpy(value, &info, std::min<std::size_t>(*length, sizeof info));
    *length = std::min<socklen_t>(*length, sizeof info);
    return 0;
  }
  if (level == IPPROTO_TCP && name == TCP_CONGESTION) {
    constexpr char kName[] = "cubic";
    std::memcpy(value, kName, std::min<std::size_t>(*length, sizeof kName));
    return 0;
  }
  return failed_with(ENOPROTOOPT);
}

}  // namespace tombolo::simulation
