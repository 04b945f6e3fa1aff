#include "transport/measure/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "transport/memory/pair.h"

namespace tombolo::transport::measure {
namespace {

using transport::Connection;
using transport::Request;

constexpr Duration kPatience = std::chrono::seconds(60);

/// A connection that tells other threads what is posted on it.
class Watched final : public Connection {
 public:
  explicit Watched(std::unique_ptr<Connection> watched) : watched_(std::move(watched)) {}

  std::atomic<std::size_t> sends{0};
  const void* last_receive = nullptr;  // of the thread that uses the connection

  std::unique_ptr<transport::Memory> register_memory(std::span<std::byte> buffer,
                                                     transport::MemoryKind kind) override {
    return watched_->register_memory(buffer, kind);
  }
  std::unique_ptr<transport::Memory> register_dma_buf(std::span<std::byte> range, int file,
                                                      std::uint64_t offset) override {
    return watched_->register_dma_buf(range, file, offset);
  }
  Request* post_send(std::span<const std::byte> data, transport::Memory* memory) noexcept override {
    Request* request = watched_->post_send(data, memory);
    if (request != nullptr) ++sends;
    return request;
  }
  Request* post_receive(std::span<std::byte> buffer, transport::Memory* memory) noexcept override {
    last_receive = buffer.data();
    return watched_->post_receive(buffer, memory);
  }
  transport::Outcome test(Request* request, std::size_t& bytes) noexcept override {
    return watched_->test(request, bytes);
  }
  bool progress() noexcept override { return watched_->progress(); }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    watched_->append_wait_handles(handles);
  }
  const Error* error() const noexcept override { return watched_->error(); }
  std::uint64_t label() const noexcept override { return watched_->label(); }
  const transport::Route& route() const noexcept override { return watched_->route(); }
  transport::Statistics statistics() const noexcept override { return watched_->statistics(); }

 private:
  std::unique_ptr<Connection> watched_;
};

/// What `action` throws; empty where it throws nothing.
std::optional<Error> error_from(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void expect_probe_error(const std::optional<Error>& error, Cause cause, std::string_view part) {
  ASSERT_TRUE(error) << "nothing was thrown, wanted: " << part;
  EXPECT_EQ(error->cause(), cause) << error->what();
  EXPECT_NE(std::string(error->what()).find(part), std::string::npos) << error->what();
  EXPECT_TRUE(std::string(error->what()).starts_with("probe of ")) << error->what();
}

/// The two ends of a connection, of which one leads.
class Ends : public ::testing::Test {
 protected:
  static ExchangeOptions options(bool leads, std::size_t bytes = 0) {
    ExchangeOptions made;
    made.leads = leads;
    made.bytes = bytes;
    made.seconds = 0.01;
    made.deadline = kPatience;
    return made;
  }

  /// Runs the following end in a thread while `lead` runs in this one.
  void with_follower(const std::function<void()>& lead) {
    std::jthread follower([this] {
      follower_error = error_from([this] {
        Exchange exchange(*right, options(false));
        exchange.prepare();
        RoundBarrier none(0);
        followed = exchange.count(none);
      });
    });
    lead();
  }

  /// Plays the leading end by hand: each returns when its bytes have moved.
  template <typename Value>
  void say(Value value) {
    end(left->post_send(std::as_bytes(std::span(&value, 1)), nullptr));
  }
  template <typename Value>
  Value hear() {
    Value value{};
    end(left->post_receive(std::as_writable_bytes(std::span(&value, 1)), nullptr));
    return value;
  }
  void end(Request* request) {
    ASSERT_NE(request, nullptr);
    std::size_t bytes = 0;
    const Deadline deadline = Deadline::after(kPatience);
    while (left->test(request, bytes) == transport::Outcome::kPending) {
      ASSERT_FALSE(deadline.passed()) << "the other end does not answer";
      std::this_thread::yield();
    }
  }
  /// Round trips as a leading end makes them.
  void make_round_trips() {
    for (int trip = 0; trip < 20; ++trip) {
      say(std::uint64_t{trip == 19 ? 1U : 0U});
      hear<std::uint64_t>();
    }
  }

  Ends() { connect_anew(); }
  void connect_anew() {
    auto pair = transport::memory::make_pair();
    left = std::make_unique<Watched>(std::move(pair.first));
    right = std::move(pair.second);
    follower_error.reset();
  }

  std::unique_ptr<Watched> left;
  std::unique_ptr<Connection> right;
  Measured followed;
  std::optional<Error> follower_error;
};

TEST_F(Ends, MeasureTheSameLatencyAndEachItsOwnRate) {
  Measured led;
  with_follower([&] {
    Exchange exchange(*left, options(true));
    exchange.prepare();
    RoundBarrier barrier(1);
    led = exchange.count(barrier);
  });
  ASSERT_FALSE(follower_error) << follower_error->what();
  EXPECT_GT(led.latency_seconds, 0);
  EXPECT_EQ(followed.latency_seconds, led.latency_seconds);
  for (const Measured& one : {led, followed}) {
    EXPECT_GT(one.received_bytes_per_second, 0);
    EXPECT_GE(one.arrivals.seconds.size(), 2U);
    EXPECT_TRUE(std::ranges::is_sorted(one.arrivals.seconds));
    EXPECT_EQ(one.received_bytes_per_second, one.arrivals.message_bytes * arrival_rate(one.arrivals.seconds));
  }
}

TEST_F(Ends, GlanceAtTheirRatesAndEndTogether) {
  for (const bool in_time : {true, false}) {
    const Deadline until = Deadline::after(in_time ? Duration(kPatience) : Duration::zero());
    double followed_rate = -1;
    std::jthread follower([&] {
      follower_error = error_from([&] {
        Exchange exchange(*right, options(false));
        followed_rate = exchange.glance(Deadline::after(kPatience), kPatience);
      });
    });
    ExchangeOptions leading = options(true);
    leading.seconds = 0.001;
    Exchange exchange(*left, leading);
    const double rate = exchange.glance(until, kPatience);
    follower.join();
    ASSERT_FALSE(follower_error) << follower_error->what();
    EXPECT_EQ(rate > 0, in_time) << rate;
    EXPECT_EQ(followed_rate > 0, in_time) << followed_rate;
  }
}

TEST_F(Ends, DoNotFollowForEver) {
  std::jthread follower([&] {
    follower_error = error_from([&] {
      Exchange exchange(*right, options(false));
      exchange.glance(Deadline::after(kPatience), kPatience);
      ADD_FAILURE() << "the leading end never ends";
    });
    right.reset();
  });
  say(std::uint64_t{1});
  hear<std::uint64_t>();
  struct Burst {
    std::uint64_t message_bytes = 8, messages = 2, more = 0;
  };
  for (int burst = 0; left->error() == nullptr && burst < 10'000; ++burst) {
    std::size_t bytes = 0;
    const Burst asked;
    std::uint64_t in[2];
    Request* const requests[] = {left->post_send(std::as_bytes(std::span(&asked, 1)), nullptr),
                                 left->post_send(std::as_bytes(std::span(&in[0], 1)), nullptr),
                                 left->post_send(std::as_bytes(std::span(&in[0], 1)), nullptr),
                                 left->post_receive(std::as_writable_bytes(std::span(&in[0], 1)), nullptr),
                                 left->post_receive(std::as_writable_bytes(std::span(&in[1], 1)), nullptr)};
    for (Request* request : requests) {
      while (request != nullptr && left->test(request, bytes) == transport::Outcome::kPending)
        std::this_thread::yield();
    }
  }
  follower.join();
  ASSERT_TRUE(follower_error);
  EXPECT_NE(std::string(follower_error->what()).find("more than 200 bursts"), std::string::npos)
      << follower_error->what();
}

TEST_F(Ends, TransferTheBytesThatWereAskedFor) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20, std::size_t{10'000'019}}) {
    connect_anew();
    Measured led;
    with_follower([&] {
      Exchange exchange(*left, options(true, bytes));
      exchange.prepare();
      RoundBarrier barrier(1);
      led = exchange.count(barrier);
    });
    ASSERT_FALSE(follower_error) << follower_error->what();
    for (const Measured& one : {led, followed}) {
      const double moved = one.arrivals.message_bytes * static_cast<double>(one.arrivals.seconds.size());
      EXPECT_GE(moved, static_cast<double>(bytes));
      EXPECT_LE(moved, static_cast<double>(bytes) + one.arrivals.message_bytes) << "a message more at most";
    }
  }
}

TEST_F(Ends, GoOnLoadingUntilTheLastOfTheRoundHasMeasured) {
  RoundBarrier barrier(2);
  with_follower([&] {
    std::jthread leader([&] {
      const auto error = error_from([&] {
        Exchange exchange(*left, options(true, 1 << 20));
        exchange.prepare();
        exchange.count(barrier);
      });
      EXPECT_FALSE(error) << error->what();
    });
    RoundBarrier::Member other(barrier);
    bool another = other.arrive_and_wait(true);
    for (int round = 0; another; ++round) {
      other.wait_until_others_finish();
      const std::size_t before = left->sends;
      const Deadline deadline = Deadline::after(kPatience);
      while (left->sends < before + 50 && !deadline.passed()) std::this_thread::yield();
      EXPECT_GE(left->sends, before + 50) << "idle in round " << round << ", in which another measures";
      other.finish();
      another = other.arrive_and_wait(false);
    }
  });
  ASSERT_FALSE(follower_error) << follower_error->what();
}

TEST_F(Ends, NameTheConnectionWhoseOtherEndIsGone) {
  right.reset();
  const auto error = error_from([&] { Exchange(*left, options(true)).prepare(); });
  expect_probe_error(error, Cause::kRemote, "the other end closed it");
}

TEST_F(Ends, GiveUpWhereNothingMovesAndLeaveNoRequestOnTheStack) {
  ExchangeOptions impatient = options(false);
  impatient.deadline = std::chrono::milliseconds(20);
  Exchange exchange(*left, impatient);
  const auto error = error_from([&] { exchange.prepare(); });
  expect_probe_error(error, Cause::kTimeout, "nothing moved for 0.02 s");
  // The request is still posted: what it points to has to be there as long as the exchange is.
  const auto* at = static_cast<const std::byte*>(left->last_receive);
  const auto* begin = reinterpret_cast<const std::byte*>(&exchange);
  EXPECT_TRUE(at >= begin && at < begin + sizeof exchange);
  left.reset();
}

TEST_F(Ends, RefuseALeaderThatEndsTheRoundTripsTooEarlyOrNever) {
  with_follower([&] { say(std::uint64_t{1}); });
  expect_probe_error(follower_error, Cause::kRemote, "the peer wants too few round trips");
  connect_anew();
  with_follower([&] {
    // Five to warm up, and 41.
    for (int trip = 1; trip < 5 + 41; ++trip) {
      say(std::uint64_t{0});
      hear<std::uint64_t>();
    }
    say(std::uint64_t{0});
  });
  expect_probe_error(follower_error, Cause::kRemote, "the peer wants too many round trips");
}

TEST_F(Ends, RefuseALatencyThatIsNone) {
  for (const double latency :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    connect_anew();
    with_follower([&] {
      make_round_trips();
      say(latency);
    });
    expect_probe_error(follower_error, Cause::kRemote, "the peer measured a latency of");
  }
}

TEST_F(Ends, RefuseBurstsThatNoLeaderAsksFor) {
  struct Asked {
    std::uint64_t message_bytes, messages, more;
  };
  for (const Asked& asked : {Asked{0, 2, 0}, Asked{(1 << 19) + 1, 2, 0}, Asked{1 << 19, 1 << 20, 0},
                             Asked{1, std::numeric_limits<std::uint64_t>::max(), 1}}) {
    connect_anew();
    with_follower([&] {
      make_round_trips();
      say(0.001);
      // The first exchange is of one size on both ends.
      std::vector<std::byte> out(32 * 1024), in(2 * out.size());
      Request* sent[2] = {left->post_send(out, nullptr), left->post_send(out, nullptr)};
      for (std::size_t i = 0; i < 2; ++i)
        end(left->post_receive(std::span(in).subspan(i * out.size(), out.size()), nullptr));
      for (Request* one : sent) end(one);
      say(asked);
    });
    expect_probe_error(
        follower_error, Cause::kRemote,
        fmt::format("the peer asked for {} messages of {} bytes", asked.messages, asked.message_bytes));
  }
}

}  // namespace
}  // namespace tombolo::transport::measure
