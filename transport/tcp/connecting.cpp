#include "transport/tcp/connecting.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "base/units.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Between two attempts: the peer may just be starting.
constexpr Duration kRetryAfter = milliseconds(50);

}  // namespace

TcpConnecting::TcpConnecting(std::shared_ptr<const Local> local, Offer from, Offer to, Route route,
                             ConnectOptions options)
    : local_(std::move(local)),
      from_(std::move(from)),
      to_(std::move(to)),
      address_(SocketAddress::parse(to_.address, to_.port)),
      route_(std::move(route)),
      options_(std::move(options)),
      deadline_(Deadline::after(options_.deadline, *local_->clock)) {
  description_ = fmt::format("connect to {}{}{} (NIC {} {} -> {} {})", options_.peer_name,
                             options_.peer_name.empty() ? "host " : " on host ",
                             route_.peer_host.empty() ? "?" : route_.peer_host, from_.nic, from_.address,
                             to_.nic.empty() ? "?" : to_.nic, to_text(address_));
  random_bytes(connection_);
  timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer_) fail_errno(errno, "timerfd_create");
  int streams = local_->options.streams;
  decided_ = streams > 0;
  // Where the path decides, the first stream goes ahead to measure it.
  streams_.resize(decided_ ? static_cast<std::size_t>(streams) : 1);
  for (std::size_t i = 0; i < streams_.size(); ++i) advance(streams_[i], i);
}

void TcpConnecting::give_up(Cause cause, std::string_view why) {
  fail(cause, "{}: {}", description_, why);
}

void TcpConnecting::retry(Stream& stream, std::string why) {
  last_trouble_ = std::move(why);
  TimePoint again = local_->clock->now() + kRetryAfter;
  stream = Stream{};
  stream.again = again;
}

void TcpConnecting::decide_streams(int socket) {
  decided_ = true;
  // Resized before any stream but the first has begun.
  if (round_trip_time(socket) >= kLongPath) streams_.resize(kStreamsOnLongPaths);
}

void TcpConnecting::check_reply(Stream& stream) {
  auto bytes = stream.reader.bytes();
  Reply reply = Reply::decode(bytes);
  Finish finish;
  switch (reply.status) {
    case HandshakeStatus::kOk:
      break;
    case HandshakeStatus::kRefused:
      give_up(Cause::kRemote, "the peer refused the handshake's values; do both ends run the same build?");
    default:
      give_up(Cause::kRemote,
              fmt::format("the peer refused the handshake (status {})", static_cast<int>(reply.status)));
  }
  if (!equal(reply.mac, reply_mac(local_->secret, stream.hello, bytes))) {
    // Tell the listener too, so that its log says more than that somebody went away.
    finish.status = HandshakeStatus::kOtherSecret;
    stream.writer.set(finish.encode());
    stream.writer.write(stream.socket.get());
    give_up(Cause::kRemote, "the two ends hold different secrets; TOMBOLO_SECRET must be the same on both");
  }
  if (route_.peer_host.empty()) route_.peer_host = reply.host;
  if (route_.peer_nic.empty()) route_.peer_nic = reply.nic;
  finish.mac = finish_mac(local_->secret, stream.hello, bytes);
  stream.writer.set(finish.encode());
  stream.state = Stream::State::kFinish;
}

void TcpConnecting::advance(Stream& stream, std::size_t index) {
  using State = Stream::State;
  if (stream.state == State::kWaiting) {
    if (local_->clock->now() < stream.again) return;
    stream.socket = start_connect(from_.nic, from_.address, address_);
    stream.state = State::kConnecting;
  }
  int socket = stream.socket.get();
  if (stream.state == State::kConnecting) {
    pollfd writable{socket, POLLOUT, 0};
    if (::poll(&writable, 1, 0) == 0) return;
    if (int error = pending_error(socket); error != 0) {
      return retry(stream, fmt::format("{} (errno {})", errno_text(error), error));
    }
    if (peer_text(socket) == "?") return retry(stream, "the connection was lost at once");
    if (is_self_connected(socket)) return retry(stream, errno_text(ECONNREFUSED));
    if (!decided_) {
      // `stream` moves with the vector that it lives in.
      decide_streams(socket);
      return advance(streams_[index], index);
    }
    stream.state = State::kHello;
  }
  if (stream.state == State::kHello) {
    if (stream.hello.empty()) {
      Hello hello;
      hello.connection = connection_;
      random_bytes(hello.nonce);
      hello.stream = static_cast<std::uint16_t>(index);
      hello.streams = static_cast<std::uint16_t>(streams_.size());
      hello.label = options_.label;
      hello.kind = route_.kind;
      hello.emulated = route_.emulated;
      hello.host = local_->host;
      hello.nic = from_.nic;
      stream.hello = hello.encode();
      stream.writer.set(stream.hello);
      prepare_stream(socket, *local_, streams_.size());
    }
    Step step = stream.writer.write(socket);
    if (step == Step::kAgain) return;
    if (step != Step::kDone) return retry(stream, fmt::format("send: {}", errno_text(stream.writer.error())));
    stream.state = State::kReply;
  }
  if (stream.state == State::kReply) {
    Step step = stream.reader.read(socket, Preamble::kBytes);
    if (step == Step::kDone) {
      auto preamble = Preamble::decode(stream.reader.bytes().first<Preamble::kBytes>());
      if (!preamble)
        give_up(Cause::kRemote, "what answers there is not Tombolo; is the address another program's?");
      if (preamble->version != kProtocolVersion || preamble->size != Reply::kBytes) {
        give_up(Cause::kRemote,
                fmt::format("the peer speaks protocol version {}, this build {}; use one version "
                            "on every host",
                            preamble->version, kProtocolVersion));
      }
      step = stream.reader.read(socket, Reply::kBytes);
    }
    if (step == Step::kAgain) return;
    if (step == Step::kEnded) return retry(stream, "the peer closed it during the handshake");
    if (step == Step::kError)
      return retry(stream, fmt::format("receive: {}", errno_text(stream.reader.error())));
    check_reply(stream);
  }
  if (stream.state == State::kFinish) {
    Step step = stream.writer.write(socket);
    if (step == Step::kAgain) return;
    if (step != Step::kDone) return retry(stream, fmt::format("send: {}", errno_text(stream.writer.error())));
    stream.state = State::kReady;
  }
}

std::unique_ptr<Connection> TcpConnecting::poll() {
  // Not by reference: a stream that decides their number moves them all.
  for (std::size_t i = 0; i < streams_.size(); ++i) advance(streams_[i], i);
  if (!std::ranges::all_of(streams_, [](const Stream& one) { return one.state == Stream::State::kReady; })) {
    if (deadline_.passed()) {
      give_up(Cause::kTimeout, fmt::format("not connected within {}; last: {}",
                                           format_seconds(to_seconds(deadline_.allowed())),
                                           last_trouble_.empty() ? "no answer" : last_trouble_));
    }
    return nullptr;
  }
  Established made;
  for (Stream& stream : streams_) made.sockets.push_back(std::move(stream.socket));
  route_.peer_address = to_text(address_);
  made.route = route_;
  made.label = options_.label;
  made.peer_name = options_.peer_name;
  made.chunk_bytes = chunk_of(local_->options, streams_.size());
  made.idle_timeout = local_->options.idle_timeout;
  made.limit = local_->limit_of(from_.nic);
  made.clock = local_->clock;
  made.log = local_->log;
  return std::make_unique<TcpConnection>(std::move(made));
}

void TcpConnecting::append_wait_handles(std::vector<pollfd>& handles) const {
  TimePoint now = local_->clock->now();
  Duration wait = deadline_.remaining();
  for (const Stream& stream : streams_) {
    switch (stream.state) {
      case Stream::State::kWaiting:
        wait = std::min(wait, stream.again - now);
        break;
      case Stream::State::kReply:
        handles.push_back({stream.socket.get(), POLLIN, 0});
        break;
      case Stream::State::kConnecting:
      case Stream::State::kHello:
      case Stream::State::kFinish:
        handles.push_back({stream.socket.get(), POLLOUT, 0});
        break;
      case Stream::State::kReady:
        break;
    }
  }
  // Zero would disarm the timer.
  wait = std::max<Duration>(wait, std::chrono::microseconds(1));
  itimerspec at{};
  at.it_value.tv_sec = static_cast<time_t>(wait / seconds(1));
  at.it_value.tv_nsec = static_cast<long>((wait % seconds(1)).count());
  timerfd_settime(timer_.get(), 0, &at, nullptr);
  handles.push_back({timer_.get(), POLLIN, 0});
}

}  // namespace tombolo::transport::tcp
