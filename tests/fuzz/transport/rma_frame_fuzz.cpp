// What a rank does with one-sided operations of another one that sends what it likes: frames with any fields,
// of any length, and parts where frames are due.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "net_plugin/rma/target.h"
#include "tests/fuzz/fuzz.h"
#include "transport/memory/pair.h"

using namespace tombolo;
using namespace tombolo::net_plugin;
using namespace tombolo::net_plugin::rma;

namespace {

// In an input each message has its length before it, two bytes. These stand for messages of another kind.
constexpr std::size_t kWholePart = 0xffff, kLastPart = 0xfffe, kBeyondAFrame = 0xfffd;
constexpr std::size_t kLastBytes = 77;

/// Memory of which each byte beyond its end is an error that AddressSanitizer finds.
class SomeWindows final : public Windows {
 public:
  explicit SomeWindows(bool waits) : waits_(waits) {
    for (std::uint32_t number = 0; number < memory_.size(); ++number) {
      std::vector<std::byte>& memory = memory_[number];
      memory.resize(
          std::array<std::size_t, 3>{256, 4 * sizeof(std::uint64_t), kPartBytes + kLastBytes}[number]);
      windows_[number] = {number, memory.data(), memory.size(), nullptr};
    }
  }
  const Window* find(std::uint32_t number) const noexcept override {
    const auto found = windows_.find(number);
    return found != windows_.end() ? &found->second : nullptr;
  }
  bool is_to_come(std::uint32_t number) const noexcept override { return number >= memory_.size(); }
  Duration patience() const noexcept override { return waits_ ? std::chrono::seconds(60) : Duration::zero(); }
  bool by_nic() const noexcept override { return true; }
  void note(const std::string&) const noexcept override {}
  bool take_turn(const void* owner) noexcept override {
    FUZZ_CHECK(turn_ == nullptr || turn_ == owner);
    turn_ = owner;
    return true;
  }
  void end_turn(const void* owner) noexcept override {
    if (turn_ == owner) turn_ = nullptr;
  }
  bool has_turn() const noexcept { return turn_ != nullptr; }

 private:
  bool waits_;
  std::array<std::vector<std::byte>, 3> memory_;
  std::map<std::uint32_t, Window> windows_;
  const void* turn_ = nullptr;
};

/// The rank that asks.
class Asking {
 public:
  explicit Asking(std::unique_ptr<transport::Connection> connection) : connection_(std::move(connection)) {}

  void send(std::vector<std::byte> message) {
    const auto& kept = sent_.emplace_back(std::move(message));
    if (transport::Request* request = connection_->post_send(kept)) sends_.push_back(request);
  }
  /// Whatever was asked, an answer is whole, and one of those that are known; parts of a get follow some.
  void take_answers() {
    std::size_t bytes = 0;
    std::erase_if(sends_, [&](transport::Request* one) {
      return connection_->test(one, bytes) != transport::Outcome::kPending;
    });
    for (;;) {
      if (receive_ == nullptr) receive_ = connection_->post_receive(answer_);
      if (receive_ == nullptr) return;
      const transport::Outcome outcome = connection_->test(receive_, bytes);
      if (outcome == transport::Outcome::kPending) return;
      receive_ = nullptr;
      if (outcome == transport::Outcome::kFailed) return;
      if (parts_ > 0) {
        FUZZ_CHECK(bytes <= kPartBytes && bytes <= parts_);
        parts_ -= bytes;
        continue;
      }
      ReplyFrame reply;
      FUZZ_CHECK(bytes >= sizeof(reply) && bytes <= kFrameBytes);
      std::memcpy(&reply, answer_.data(), sizeof(reply));
      FUZZ_CHECK(reply.answer <= Answer::kNotUnderstood);
      FUZZ_CHECK(!refused_);
      refused_ = reply.answer != Answer::kDone;
      if (!refused_ && !gets_.empty()) parts_ = gets_.front();
      if (!gets_.empty()) gets_.pop_front();
    }
  }
  /// Each frame is answered with so many bytes in parts, where it is answered with success.
  void expect_parts(std::uint64_t bytes) { gets_.push_back(bytes); }
  bool refused() const noexcept { return refused_; }

 private:
  std::deque<std::vector<std::byte>> sent_;
  std::vector<std::byte> answer_ = std::vector<std::byte>(kPartBytes);
  std::vector<transport::Request*> sends_;
  transport::Request* receive_ = nullptr;
  std::deque<std::uint64_t> gets_;
  std::uint64_t parts_ = 0;
  bool refused_ = false;
  std::unique_ptr<transport::Connection> connection_;  // ends first
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  auto input = fuzz::bytes_of(data, size);
  SomeWindows windows((data[0] & 1) != 0);
  input = input.subspan(1);
  CopyPieces pieces(std::make_shared<gpu::Staging>(nullptr, std::size_t{1} << 20, 1));
  auto [asks, answers] = transport::memory::make_pair();
  Asking asking(std::move(asks));
  {
    Target target(5, std::move(answers), windows, pieces);
    std::uint64_t parts_due = 0;  // of a put that may have been believed
    for (int messages = 0; input.size() >= 2 && messages < 64; ++messages) {
      const std::size_t length =
          std::to_integer<std::size_t>(input[0]) | std::to_integer<std::size_t>(input[1]) << 8U;
      input = input.subspan(2);
      if (length >= kBeyondAFrame) {
        const std::size_t bytes = length == kWholePart  ? kPartBytes
                                  : length == kLastPart ? kLastBytes
                                                        : kFrameBytes + 1;
        parts_due -= std::min<std::uint64_t>(parts_due, bytes);
        asking.send(std::vector<std::byte>(bytes, std::byte{0x33}));
      } else {
        const auto frame = input.first(std::min(length, input.size()));
        input = input.subspan(frame.size());
        RequestFrame request;
        if (frame.size() >= sizeof(request)) std::memcpy(&request, frame.data(), sizeof(request));
        if (parts_due == 0) {
          asking.expect_parts(
              request.kind == OperationKind::kGet && request.bytes > kInlineBytes ? request.bytes : 0);
          if (request.kind == OperationKind::kPut && request.bytes > kInlineBytes) parts_due = request.bytes;
        } else {
          parts_due -= std::min<std::uint64_t>(parts_due, frame.size());
        }
        asking.send({frame.begin(), frame.end()});
      }
      for (int turn = 0; turn < 8; ++turn) {
        target.progress();
        asking.take_answers();
      }
    }
    FUZZ_CHECK(!asking.refused() || !target.error().empty());
  }
  FUZZ_CHECK(!windows.has_turn());
  return 0;
}
