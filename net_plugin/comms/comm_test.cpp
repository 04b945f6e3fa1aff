// A comm over the transport within a process; tests/process/net_conformance_*_test.cpp has it as NCCL drives
// it.
#include "net_plugin/comms/comm.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "transport/memory/pair.h"

namespace tombolo::net_plugin {
namespace {

std::array<Buffer, 1> one(std::span<std::byte> data, Registration* memory = nullptr) {
  return {Buffer{data, 0, memory}};
}

class NetComm : public testing::Test {
 protected:
  NetComm() {
    auto [near, far] = transport::memory::make_pair();
    send_ = std::make_unique<Comm>(Comm::Direction::kSend, nullptr,
                                   std::make_unique<OneLane>(std::move(near)), log());
    receive_ = std::make_unique<Comm>(Comm::Direction::kReceive, nullptr,
                                      std::make_unique<OneLane>(std::move(far)), log());
  }
  Log log() {
    return {LogLevel::kInfo, [this](LogLevel, std::string_view text) {
              ++lines_;
              log_ += fmt::format("{}\n", text);
            }};
  }
  Request* post(Comm& comm, std::span<std::byte> data, Registration* memory = nullptr) {
    Request* request = nullptr;
    EXPECT_EQ(comm.post(&comm == send_.get() ? Comm::Direction::kSend : Comm::Direction::kReceive,
                        one(data, memory), request),
              abi::ncclSuccess);
    return request;
  }
  void expect_done(Comm& comm, Request* request, std::size_t bytes) {
    ASSERT_NE(request, nullptr);
    bool done = false;
    int size = 0;
    EXPECT_EQ(comm.test(*request, done, &size), abi::ncclSuccess);
    EXPECT_TRUE(done);
    EXPECT_EQ(static_cast<std::size_t>(size), bytes);
  }
  void expect_in_log(std::string_view part) const {
    EXPECT_NE(log_.find(part), std::string::npos) << log_ << "lacks " << part;
  }

  std::string log_;
  int lines_ = 0;
  std::unique_ptr<Comm> send_, receive_;
  std::array<std::byte, 100> out_{}, in_{};
};

TEST_F(NetComm, CarriesAMessageAndGivesItsRealSize) {
  out_[59] = std::byte{7};
  Request* receive = post(*receive_, in_);
  ASSERT_NE(receive, nullptr);
  bool done = true;
  int size = 0;
  EXPECT_EQ(receive_->test(*receive, done, &size), abi::ncclSuccess);
  EXPECT_FALSE(done);
  Request* send = post(*send_, std::span(out_).first(60));
  EXPECT_EQ(send->comm, send_.get()) << "NCCL's test() gets the request alone";
  expect_done(*receive_, receive, 60);
  expect_done(*send_, send, 60);
  EXPECT_EQ(in_[59], std::byte{7});
}

TEST_F(NetComm, ARequestIsTestedOnceMoreInVain) {
  Request* receive = post(*receive_, in_);
  expect_done(*send_, post(*send_, out_), out_.size());
  expect_done(*receive_, receive, out_.size());
  bool done = true;
  int size = 0;
  EXPECT_EQ(receive_->test(*receive, done, &size), abi::ncclInvalidUsage);
  EXPECT_FALSE(done);
  expect_in_log("test: the request is not in flight");
}

TEST_F(NetComm, OfTheOtherDirectionTakesNothing) {
  Request* request = nullptr;
  EXPECT_EQ(send_->post(Comm::Direction::kReceive, one(in_), request), abi::ncclInvalidUsage);
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(receive_->post(Comm::Direction::kSend, one(out_), request), abi::ncclInvalidUsage);
  EXPECT_EQ(request, nullptr);
  expect_in_log("irecv: the connection is of the other direction");
  expect_in_log("isend: the connection is of the other direction");
}

TEST_F(NetComm, HasAsManyRequestsAsNcclKeepsInFlight) {
  std::vector<Request*> receives;
  while (Request* one = post(*receive_, in_)) receives.push_back(one);
  EXPECT_EQ(receives.size(), static_cast<std::size_t>(abi::NCCL_NET_MAX_REQUESTS));
  expect_done(*send_, post(*send_, out_), out_.size());
  expect_done(*receive_, receives.front(), out_.size());
  EXPECT_EQ(post(*receive_, in_), receives.front()) << "it is free again";
  EXPECT_EQ(post(*receive_, in_), nullptr);
}

TEST_F(NetComm, ADeadConnectionIsAnErrorAndNotTryAgainAndIsLoggedOnce) {
  Request* first = post(*receive_, in_);
  Request* second = post(*receive_, in_);
  send_.reset();
  bool done = true;
  int size = 0;
  for (Request* each : {first, second}) {
    EXPECT_EQ(receive_->test(*each, done, &size), abi::ncclRemoteError);
    EXPECT_FALSE(done);
  }
  EXPECT_EQ(lines_, 1) << log_;
  expect_in_log("receive: memory connection 0: the other end closed it");
  // Each fails, however many are posted: NCCL would ask for ever.
  for (int i = 0; i < 5000; ++i) {
    Request* request = nullptr;
    const auto result = receive_->post(Comm::Direction::kReceive, one(in_), request);
    if (request == nullptr) {
      EXPECT_EQ(result, abi::ncclRemoteError);
      break;
    }
    ASSERT_EQ(receive_->test(*request, done, &size), abi::ncclRemoteError);
  }
  EXPECT_EQ(lines_, 1) << log_;
}

template <typename Action>
std::string error_of(Cause cause, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), cause) << error.what();
    return error.what();
  }
  return "no error";
}

TEST_F(NetComm, RegistersHostMemoryAloneAndForgetsItOnce) {
  Registration* memory = send_->register_memory(out_, abi::NCCL_PTR_HOST);
  ASSERT_NE(memory, nullptr);
  EXPECT_NE(error_of(Cause::kUnsupported, [&] { send_->register_memory(out_, abi::NCCL_PTR_CUDA); })
                .find("carries host memory only"),
            std::string::npos);
  EXPECT_NE(error_of(Cause::kInvalidUsage, [&] { receive_->deregister_memory(memory); })
                .find("was not registered with this connection"),
            std::string::npos);
  send_->deregister_memory(memory);
  EXPECT_NE(
      error_of(Cause::kInvalidUsage, [&] { send_->deregister_memory(memory); }).find("twice deregistered"),
      std::string::npos);
  Request* receive = post(*receive_, in_);
  expect_done(*send_, post(*send_, out_), out_.size());
  expect_done(*receive_, receive, out_.size());
}

TEST_F(NetComm, MemoryThatIsNotInUseIsDeregisteredWithoutHarm) {
  Registration* used = receive_->register_memory(in_, abi::NCCL_PTR_HOST);
  Registration* idle = receive_->register_memory(in_, abi::NCCL_PTR_HOST);
  Request* receive = post(*receive_, in_, used);
  receive_->deregister_memory(idle);
  expect_done(*send_, post(*send_, out_), out_.size());
  expect_done(*receive_, receive, out_.size());
  receive_->deregister_memory(used);  // nothing is under way in it any more
  EXPECT_NE(post(*receive_, in_), nullptr);
}

// As NCCL does when it aborts: its buffer is gone once this returns.
TEST_F(NetComm, MemoryInUseIsDeregisteredWithItsConnection) {
  Registration* memory = receive_->register_memory(in_, abi::NCCL_PTR_HOST);
  Registration* other = receive_->register_memory(out_, abi::NCCL_PTR_HOST);
  Request* receive = post(*receive_, in_, memory);
  receive_->deregister_memory(memory);
  Request* send = post(*send_, out_);
  bool done = true;
  int size = 0;
  EXPECT_EQ(send_->test(*send, done, &size), abi::ncclRemoteError) << "the peer learns of it";
  EXPECT_EQ(in_, (std::array<std::byte, 100>{}));
  EXPECT_EQ(receive_->test(*receive, done, &size), abi::ncclRemoteError);
  expect_in_log("memory was deregistered while a receive was under way in it");
  Request* late = nullptr;
  EXPECT_EQ(receive_->post(Comm::Direction::kReceive, one(in_), late), abi::ncclRemoteError);
  EXPECT_EQ(late, nullptr);
  EXPECT_NE(error_of(Cause::kAborted, [&] { receive_->register_memory(in_, abi::NCCL_PTR_HOST); })
                .find("was closed"),
            std::string::npos);
  receive_->deregister_memory(other);  // NCCL gives back all that it registered
  EXPECT_THROW(receive_->deregister_memory(memory), Error);
}

/// A connection that takes its time to close.
class SlowToClose final : public transport::HostMemoryConnection {
 public:
  SlowToClose(std::unique_ptr<Connection> real, std::function<void()> while_closing)
      : real_(std::move(real)), while_closing_(std::move(while_closing)) {}
  ~SlowToClose() override { while_closing_(); }
  transport::Request* post_send(std::span<const std::byte> data, transport::Memory*) noexcept override {
    return real_->post_send(data);
  }
  transport::Request* post_receive(std::span<std::byte> buffer, transport::Memory*) noexcept override {
    return real_->post_receive(buffer);
  }
  transport::Outcome test(transport::Request* request, std::size_t& bytes) noexcept override {
    return real_->test(request, bytes);
  }
  bool progress() noexcept override { return real_->progress(); }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    real_->append_wait_handles(handles);
  }
  const Error* error() const noexcept override { return real_->error(); }
  std::uint64_t label() const noexcept override { return real_->label(); }
  const transport::Route& route() const noexcept override { return real_->route(); }
  transport::Statistics statistics() const noexcept override { return real_->statistics(); }

 private:
  std::unique_ptr<Connection> real_;
  std::function<void()> while_closing_;
};

// The thread that makes a comm's progress serves others too; the one that aborts closes the connection.
TEST_F(NetComm, PostsAndTestsDoNotWaitForADeregistrationThatCloses) {
  auto [near, far] = transport::memory::make_pair();
  Request* receive = nullptr;
  bool asked = false;
  std::unique_ptr<Comm> comm;
  comm = std::make_unique<Comm>(
      Comm::Direction::kReceive, nullptr,
      std::make_unique<OneLane>(std::make_unique<SlowToClose>(
          std::move(near),
          [&] {
            auto meanwhile = std::async(std::launch::async, [&] {
              bool done = true;
              int size = 0;
              EXPECT_EQ(comm->test(*receive, done, &size), abi::ncclSuccess);
              EXPECT_FALSE(done) << "its memory may still be written";
              Request* further = receive;
              EXPECT_EQ(comm->post(Comm::Direction::kReceive, one(in_), further), abi::ncclSuccess);
              EXPECT_EQ(further, nullptr) << "try again";
            });
            asked = meanwhile.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
            // Without this the destructor of the future would wait for ever.
            if (!asked) std::abort();
          })),
      log());
  Registration* memory = comm->register_memory(in_, abi::NCCL_PTR_HOST);
  receive = post(*comm, in_, memory);
  ASSERT_NE(receive, nullptr);
  comm->deregister_memory(memory);
  EXPECT_TRUE(asked);
  bool done = true;
  int size = 0;
  EXPECT_EQ(comm->test(*receive, done, &size), abi::ncclRemoteError);
  EXPECT_FALSE(done);
  Request* late = nullptr;
  EXPECT_EQ(comm->post(Comm::Direction::kReceive, one(in_), late), abi::ncclRemoteError);
}

TEST_F(NetComm, NoDeregistrationOfMemoryInUseReturnsBeforeTheConnectionIsClosed) {
  auto [near, far] = transport::memory::make_pair();
  std::unique_ptr<Comm> comm;
  std::future<void> second;
  std::array<Registration*, 2> memories{};
  comm = std::make_unique<Comm>(
      Comm::Direction::kReceive, nullptr,
      std::make_unique<OneLane>(std::make_unique<SlowToClose>(
          std::move(near),
          [&] {
            second = std::async(std::launch::async, [&] { comm->deregister_memory(memories[1]); });
            EXPECT_EQ(second.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
          })),
      log());
  for (Registration*& memory : memories) {
    memory = comm->register_memory(in_, abi::NCCL_PTR_HOST);
    ASSERT_NE(post(*comm, in_, memory), nullptr);
  }
  comm->deregister_memory(memories[0]);
  second.get();
}

}  // namespace
}  // namespace tombolo::net_plugin
