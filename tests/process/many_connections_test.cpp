// Makes a thousand connections between two processes: all carry checked data, and the cost of an idle one is
// printed.
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/sanitizer.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport {
namespace {

/// Connections that are made at the same time: fewer than a listener allows to be half-open.
constexpr std::size_t kBatch = 64;

std::vector<std::byte> message_of(std::size_t connection, bool answer) {
  std::mt19937_64 random(2 * connection + (answer ? 1 : 0));
  return test::random_data(random, connection * 7919 % 5000 + (connection % 10 == 0 ? 40'000 : 1));
}

/// Resident memory of this process in KiB; shared pages count by share (Pss).
double resident_kib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Pss:")) return std::stod(line.substr(4));
  }
  return 0;
}

double allocated_kib() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / 1024;
}

/// Waits a little for some of the connections; a thousand of them take turns.
template <typename Done>
bool until(Done done) {
  for (auto deadline = test::soon(); !deadline.passed();) {
    if (done()) return true;
  }
  return false;
}

/// Sends (or receives) one message on each connection, all at the same time, and checks what came.
bool exchange(std::vector<std::unique_ptr<Connection>>& all, bool sending, bool answer) {
  std::vector<std::vector<std::byte>> buffers;
  std::vector<Request*> requests;
  for (std::size_t i = 0; i < all.size(); ++i) {
    buffers.push_back(sending ? message_of(i, answer) : std::vector<std::byte>(50'000));
    requests.push_back(sending ? all[i]->post_send(buffers[i]) : all[i]->post_receive(buffers[i]));
    if (requests[i] == nullptr) return false;
  }
  std::size_t left = all.size();
  return until([&] {
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t bytes = 0;
      if (requests[i] == nullptr) continue;
      const Outcome outcome = all[i]->test(requests[i], bytes);
      if (outcome == Outcome::kPending) continue;
      requests[i] = nullptr;
      --left;
      if (outcome == Outcome::kFailed) {
        std::fprintf(stderr, "connection %zu: %s\n", i, all[i]->error()->what());
        return false;
      }
      buffers[i].resize(bytes);
      if (!sending && buffers[i] != message_of(i, answer)) {
        std::fprintf(stderr, "connection %zu: the message is damaged\n", i);
        return false;
      }
    }
    return left == 0;
  });
}

RouterOptions options_for(bool shm, const char* host) {
  TcpOptions tcp;
  tcp.streams = 1;
  RouterOptions options = test::router_options(shm ? "both" : host, tcp);
  options.meters = std::make_shared<Meters>();
  return options;
}

/// The forked process: connects `count` times, sends on all, receives on all, and stays until told.
int connect_many(bool shm, std::size_t count, int from_parent) {
  std::vector<std::byte> encoded(4096);
  const ssize_t got = ::read(from_parent, encoded.data(), encoded.size());
  if (got <= 0) return 2;
  encoded.resize(static_cast<std::size_t>(got));
  const Endpoint endpoint = Endpoint::decode(encoded);
  Router router(options_for(shm, "left"));
  // Closing is left to the end of the process: a connection that closes waits until its goodbye is
  // acknowledged, which takes 40 ms each, one after the other (delayed acknowledgements).
  auto& all = *new std::vector<std::unique_ptr<Connection>>;
  while (all.size() < count) {
    const std::size_t first = all.size(), batch = std::min(kBatch, count - first);
    std::vector<std::unique_ptr<Connecting>> connecting;
    for (std::size_t i = 0; i < batch; ++i) {
      ConnectOptions options;
      options.label = first + i;
      options.deadline = std::chrono::seconds(60);
      connecting.push_back(router.connect(endpoint, options));
    }
    all.resize(first + batch);
    std::size_t left = batch;
    if (!until([&] {
          for (std::size_t i = 0; i < batch; ++i) {
            if (!all[first + i] && (all[first + i] = connecting[i]->poll())) --left;
          }
          return left == 0;
        }))
      return 3;
  }
  if (!exchange(all, true, false) || !exchange(all, false, true)) return 4;
  char last = 0;
  return ::read(from_parent, &last, 1) == 1 ? 0 : 5;
}

class ManyConnections : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Over, ManyConnections, testing::Values(false, true),
                         [](const auto& shm) { return shm.param ? "shm" : "tcp"; });

TEST_P(ManyConnections, CarryCheckedDataAndCostLittleWhileIdle) {
  const bool shm = GetParam();
  // Through shared memory each takes half a MiB of address space, but only touched pages take memory.
  const std::size_t count = shm ? 200 : 1000;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t wanted = 3 * count + 200;
  if (files.rlim_cur < wanted) {
    files.rlim_cur = std::min(files.rlim_max, wanted);
    if (files.rlim_max < wanted || setrlimit(RLIMIT_NOFILE, &files) != 0)
      GTEST_SKIP() << "at most " << files.rlim_max << " files may be open here; " << wanted << " are needed";
  }
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(channel[1]);
    int status = 1;
    try {
      status = connect_many(shm, count, channel[0]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "connecting end: %s\n", error.what());
    }
    _exit(status);
  }
  ::close(channel[0]);
  std::vector<std::unique_ptr<Connection>> all(count);
  double idle_resident = 0, idle_allocated = 0;
  {
    Router router(options_for(shm, "right"));
    auto listener = router.listen();
    const auto encoded = listener->endpoint().encode();
    const double resident = resident_kib(), allocated = allocated_kib();
    ASSERT_EQ(::write(channel[1], encoded.data(), encoded.size()), static_cast<ssize_t>(encoded.size()));
    std::size_t left = count;
    EXPECT_TRUE(until([&] {
      if (auto one = listener->accept()) {
        auto& place = all.at(one->label());
        EXPECT_FALSE(place);
        place = std::move(one);
        --left;
      }
      return left == 0;
    })) << left
        << " connections did not come";
    idle_resident = (resident_kib() - resident) / static_cast<double>(count);
    idle_allocated = (allocated_kib() - allocated) / static_cast<double>(count);
    if (left == 0) {
      EXPECT_EQ(all[0]->route().transport, shm ? "shm" : "tcp");
      EXPECT_TRUE(exchange(all, false, false));
      EXPECT_TRUE(exchange(all, true, true));
    }
  }
  ASSERT_EQ(::write(channel[1], "x", 1), 1);
  ::close(channel[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::printf("an idle connection over %s: %.1f KiB allocated, %.1f KiB resident\n", shm ? "shm" : "tcp",
              idle_allocated, idle_resident);
  RecordProperty("idle_allocated_kib", std::to_string(idle_allocated));
  RecordProperty("idle_resident_kib", std::to_string(idle_resident));
  // The limit is far above the real cost: it finds leaks, and buffers of a megabyte per connection.
  if (!kSanitized) {
    EXPECT_LT(idle_allocated, 512);
  }
}

}  // namespace
}  // namespace tombolo::transport
