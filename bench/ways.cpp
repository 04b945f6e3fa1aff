#include "bench/ways.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>

#include "base/error.h"

namespace tombolo::bench {
namespace {

/// About how long one measurement of the round trip takes.
constexpr double kTripSeconds = 0.1;

/// How often a message of `size` is sent in one throughput run.
std::size_t count_for(double bytes_per_run, std::size_t size) {
  return std::clamp<std::size_t>(static_cast<std::size_t>(bytes_per_run / static_cast<double>(size)),
                                 2 * kOutstanding, 50'000);
}

double seconds_of(const std::function<void()>& work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

double used_processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void PlainTcp::send(std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t sent = ::send(socket_, data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) fail_errno(errno, "plain send");
    if (sent > 0) data = data.subspan(static_cast<std::size_t>(sent));
  }
}

void PlainTcp::receive(std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    ssize_t got = recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) fail_errno(errno, "plain receive");
    if (got > 0) buffer = buffer.subspan(static_cast<std::size_t>(got));
  }
}

void PlainTcp::stream(bool sending, std::span<std::byte> slots, std::size_t size, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto slot = slots.subspan(i % kOutstanding * size, size);
    if (sending) {
      send(slot);
    } else {
      receive(slot);
    }
  }
}

/// A connected pair over loopback, by way of a listening socket.
std::pair<int, int> plain_pair() {
  int listening = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listening, generic, length) != 0 || listen(listening, 1) != 0 ||
      getsockname(listening, generic, &length) != 0 || connect(near, generic, length) != 0) {
    fail_errno(errno, "plain TCP over loopback");
  }
  int far = accept(listening, nullptr, nullptr);
  if (far < 0) fail_errno(errno, "accept");
  close(listening);
  int one = 1;
  for (int end : {near, far}) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return {near, far};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

void measure(Way& way, bool leading, double bytes_per_run, std::size_t size, std::span<std::byte> slots,
             Figure& into) {
  auto slot = slots.first(size);
  auto ping_pong = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
      if (leading) way.send(slot);
      way.receive(slot);
      if (!leading) way.send(slot);
    }
  };
  // A few round trips show how many fit into the time; the leading process tells the other.
  constexpr std::size_t kFirstTrips = 4;
  double warm_up = seconds_of([&] { ping_pong(kFirstTrips); });
  auto trips = static_cast<std::uint64_t>(kTripSeconds * kFirstTrips / std::max(warm_up, 1e-9));
  trips = std::clamp<std::uint64_t>(trips, 5, 5000);
  auto told = std::as_writable_bytes(std::span(&trips, 1));
  if (leading) {
    way.send(told);
  } else {
    way.receive(told);
  }
  into.half_round_trips.push_back(seconds_of([&] { ping_pong(trips); }) / static_cast<double>(trips) / 2);
  std::size_t count = count_for(bytes_per_run, size);
  std::byte token{};
  double before = used_processor_seconds();
  // The last token tells the sender that everything arrived.
  double elapsed = seconds_of([&] {
    way.stream(leading, slots, size, count);
    if (leading) {
      way.receive({&token, 1});
    } else {
      way.send({&token, 1});
    }
  });
  into.rates.push_back(static_cast<double>(size * count) / elapsed);
  into.processor.push_back((used_processor_seconds() - before) / (static_cast<double>(size * count) / 1e9));
}

}  // namespace tombolo::bench
