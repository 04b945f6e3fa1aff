// Operations of one rank on another where NICs carry out what they can, over a library of verbs without
// hardware: whatever the order in which NICs work, and where their network is cut, memory and signals must be
// as if the operations had gone one after the other.
#include "net_plugin/rma/nic_way.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>

#include "base/randomized_test.h"
#include "net_plugin/rma/initiator.h"
#include "net_plugin/rma/target.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/test_support.h"

namespace tombolo::net_plugin::rma {
namespace {

using transport::test::PretendedVerbs;
using Bytes = std::vector<std::byte>;

class Ranks final : public Windows {
 public:
  const Window* find(std::uint32_t number) const noexcept override {
    const auto found = windows.find(number);
    return found != windows.end() ? &found->second : nullptr;
  }
  bool is_to_come(std::uint32_t) const noexcept override { return false; }
  Duration patience() const noexcept override { return std::chrono::seconds(60); }
  bool by_nic() const noexcept override { return nics; }
  void note(const std::string& what) const noexcept override { notes.push_back(what); }
  bool take_turn(const void*) noexcept override { return true; }
  void end_turn(const void*) noexcept override {}

  std::map<std::uint32_t, Window> windows;
  bool nics = true;
  mutable std::vector<std::string> notes;
};

constexpr std::uint32_t kData = 0, kStamps = 1, kSignals = 2;
constexpr std::size_t kBytes = 300'000, kWords = 4;

/// Memory of a rank's windows, or what it must be.
struct Memory {
  Bytes data = Bytes(kBytes);
  std::array<std::uint64_t, kWords> stamps{}, signals{};

  std::span<std::byte> of(std::uint32_t window) {
    return window == kData     ? std::span<std::byte>(data)
           : window == kStamps ? std::as_writable_bytes(std::span(stamps))
                               : std::as_writable_bytes(std::span(signals));
  }
  bool operator==(const Memory&) const = default;
};

class NicWayTest : public testing::Test {
 protected:
  void SetUp() override { verbs_.reset(test_seed()); }
  void TearDown() override {
    end();
    EXPECT_EQ(verbs_.registered(), 0u);
    verbs_.reset(1);
  }
  void begin(transport::test::Pair pair, bool by_nic = true) {
    here_ = there_ = {};
    for (const std::uint32_t number : {kData, kStamps, kSignals}) {
      mine_[number] = {number, here_.of(number).data(), here_.of(number).size(), nullptr};
      theirs_.windows[number] = {number, there_.of(number).data(), there_.of(number).size(), nullptr};
    }
    initiator_ = std::make_unique<Initiator>(std::move(pair.first), pieces_, by_nic);
    target_ = std::make_unique<Target>(0, std::move(pair.second), theirs_, pieces_);
  }
  void end() {
    initiator_.reset();
    target_.reset();
    operations_.clear();
  }
  Operation& post(OperationKind kind, std::uint32_t window, std::uint64_t from, std::uint64_t bytes,
                  std::uint64_t to, std::uint32_t local = kData) {
    RequestFrame frame;
    frame.kind = kind;
    if (bytes > 0) {
      frame.window = window;
      frame.offset = to;
      frame.bytes = bytes;
    }
    Operation& made = operations_.emplace_back();
    made.begin(1, frame, bytes > 0 ? &mine_[local] : nullptr, from);
    return made;
  }
  static void signal(Operation& put, std::uint64_t word, std::uint64_t add) {
    put.frame.signal_window = kSignals;
    put.frame.signal_offset = 8 * word;
    put.frame.signal_add = add;
  }
  /// Progresses both ranks until the operation ends; the reason where it fails.
  std::string finish(const Operation& one) {
    for (const auto deadline = transport::test::soon(); !deadline.passed();) {
      if (one.state == Operation::State::kDone) return {};
      if (one.state == Operation::State::kFailed) return *initiator_->error();
      initiator_->progress();
      target_->progress();
    }
    return "it does not end";
  }

  /// Puts, gets and signals by a random schedule, several under way. Local memory that an operation uses is
  /// left alone; what it does there may overlap with anything. Adds to `by_nic` how many the NICs carried
  /// out.
  void exchange(std::mt19937_64& random, int count, std::size_t& by_nic) {
    std::ranges::copy(transport::test::random_data(random, kBytes), here_.data.begin());  // windows stay
    Memory wanted_here = here_, wanted_there = there_;
    std::deque<Operation*> under_way;
    std::size_t used = 0;  // bytes of local memory from its beginning
    const auto end_all = [&](std::size_t but) {
      while (under_way.size() > but) {
        Operation& one = *under_way.front();
        ASSERT_EQ(finish(one), "");
        by_nic += one.way == Operation::Way::kNic ? 1 : 0;
        under_way.pop_front();
      }
      if (but == 0) used = 0;
    };
    std::uint64_t signals = 0;
    for (int i = 0; i < count; ++i) {
      const std::size_t limit = std::array<std::size_t, 4>{9, 5000, 20'000, 120'000}[random() % 4];
      const std::size_t bytes = random() % limit, to = random() % (kBytes - bytes);
      if (used + bytes > kBytes || random() % 20 == 0) end_all(0);
      if (HasFatalFailure()) return;
      const std::size_t from = used;
      used += bytes;
      const auto copy = [&](Bytes& source, std::size_t at, Bytes& target, std::size_t place) {
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(at), bytes,
                    target.begin() + static_cast<std::ptrdiff_t>(place));
      };
      switch (random() % 5) {
        case 0:
          initiator_->add(*under_way.emplace_back(&post(OperationKind::kGet, kData, from, bytes, to)));
          copy(wanted_there.data, to, wanted_here.data, from);
          break;
        case 1: {
          Operation& one = post(OperationKind::kPut, kData, from, bytes, to);
          signal(one, 1 + random() % (kWords - 1), i);
          wanted_there.signals[one.frame.signal_offset / 8] += static_cast<std::uint64_t>(i);
          initiator_->add(*under_way.emplace_back(&one));
          copy(wanted_here.data, from, wanted_there.data, to);
          break;
        }
        case 2: {
          // Now and then a stamp, then bytes with the signal that counts it.
          end_all(0);
          if (HasFatalFailure()) return;
          used = bytes;
          ++signals;
          if (random() % 2 == 0) {
            here_.stamps[0] = wanted_here.stamps[0] = wanted_there.stamps[0] = signals;
            initiator_->add(*under_way.emplace_back(&post(OperationKind::kPut, kStamps, 0, 8, 0, kStamps)));
          }
          Operation& one = post(OperationKind::kPut, kData, 0, bytes, to);
          signal(one, 0, 1);
          ++wanted_there.signals[0];
          initiator_->add(*under_way.emplace_back(&one));
          copy(wanted_here.data, 0, wanted_there.data, to);
          // Nothing is posted behind it that could change its bytes before the signal is seen.
          for (const auto deadline = transport::test::soon(); there_.signals[0] != signals;) {
            ASSERT_FALSE(deadline.passed());
            initiator_->progress();
            target_->progress();
          }
          EXPECT_EQ(there_.stamps[0], wanted_there.stamps[0]) << "a signal before what was put before it";
          ASSERT_TRUE(std::equal(here_.data.begin(), here_.data.begin() + static_cast<std::ptrdiff_t>(bytes),
                                 there_.data.begin() + static_cast<std::ptrdiff_t>(to)))
              << "a signal before its own bytes";
          break;
        }
        case 3:
          initiator_->add(*under_way.emplace_back(&post(OperationKind::kFlush, 0, 0, 0, 0)));
          break;
        default:
          initiator_->add(*under_way.emplace_back(&post(OperationKind::kPut, kData, from, bytes, to)));
          copy(wanted_here.data, from, wanted_there.data, to);
      }
      for (std::size_t turns = random() % 4; turns > 0; --turns) {
        initiator_->progress();
        if (random() % 2 == 0) target_->progress();
      }
      if (under_way.size() > 40) end_all(20);
      if (HasFatalFailure()) return;
    }
    end_all(0);
    EXPECT_EQ(there_, wanted_there);
    EXPECT_EQ(here_, wanted_here);
    EXPECT_EQ(target_->error(), "");
  }

  PretendedVerbs& verbs_ = PretendedVerbs::instance();
  Memory here_, there_;
  std::map<std::uint32_t, Window> mine_;
  Ranks theirs_;
  CopyPieces pieces_{std::make_shared<gpu::Staging>(nullptr, std::size_t{1} << 20, 1)};
  std::deque<Operation> operations_;
  std::unique_ptr<Initiator> initiator_;
  std::unique_ptr<Target> target_;
};

TEST_F(NicWayTest, EverythingIsAsIfItHadGoneInOrder) {
  std::mt19937_64 random(test_seed());
  for (const std::size_t nics : {1, 2}) {
    for (const int queue_pairs : {1, 3}) {
      const transport::test::PretendedFabric fabric(nics);
      begin(fabric.connect(transport::test::pretended_options(queue_pairs)));
      std::size_t by_nic = 0;
      exchange(random, test_rounds(400), by_nic);
      EXPECT_GT(by_nic, 0u);
      end();
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(NicWayTest, MessagesDoTheSameWhereEitherRankWantsThem) {
  std::mt19937_64 random(test_seed());
  for (const bool here : {false, true}) {
    const transport::test::PretendedFabric fabric;
    theirs_.nics = !here;
    begin(fabric.connect(), here);
    std::size_t by_nic = 0;
    exchange(random, test_rounds(100), by_nic);
    EXPECT_EQ(by_nic, 0u);
    end();
  }
}

TEST_F(NicWayTest, WhereTheNetworkIsCutMessagesGoOnAndNothingIsDoneTwice) {
  std::mt19937_64 random(test_seed());
  std::size_t by_nic = 0, cuts = 0;
  const auto rounds = static_cast<std::size_t>(test_rounds(15));
  for (std::size_t round = 0; round < rounds; ++round) {
    verbs_.reset(static_cast<unsigned>(random()));
    const auto options = transport::test::pretended_rdma_options<2, 2, 4096>;
    begin(transport::test::connect_routers(options("left"), options("right")));
    // The first operations let each end know whither the other may go on.
    ASSERT_EQ(finish([this]() -> Operation& {
                Operation& one = post(OperationKind::kFlush, 0, 0, 0, 0);
                initiator_->add(one);
                return one;
              }()),
              "");
    // Early and late, however few rounds there are.
    verbs_.cut_after(1 + 400 * round / rounds + random() % (400 / rounds), random() % 4 == 0);
    exchange(random, 100, by_nic);
    if (HasFatalFailure()) return;
    cuts += verbs_.is_cut() ? 1 : 0;
    end();
    EXPECT_EQ(verbs_.registered(), 0u);
  }
  EXPECT_GT(by_nic, 0u);
  EXPECT_GT(cuts, 0u);
}

TEST_F(NicWayTest, WhatLiesOutsideAWindowIsRefusedByTheRankWhoseItIs) {
  const transport::test::PretendedFabric fabric;
  begin(fabric.connect());
  Operation& fits = post(OperationKind::kPut, kData, 0, kBytes, 0);
  initiator_->add(fits);
  ASSERT_EQ(finish(fits), "");
  EXPECT_EQ(fits.way, Operation::Way::kNic);
  Operation& one = post(OperationKind::kPut, kData, 0, 8192, kBytes - 8191);
  initiator_->add(one);
  EXPECT_NE(finish(one).find("rank 1 refused: the range is not inside its window of 300000 bytes"),
            std::string::npos)
      << *initiator_->error();
}

TEST_F(NicWayTest, NoNicReachesAWindowThatWasDeregistered) {
  const transport::test::PretendedFabric fabric;
  begin(fabric.connect());
  Operation& one = post(OperationKind::kPut, kData, 0, 8192, 0);
  initiator_->add(one);
  ASSERT_EQ(finish(one), "");
  target_->forget(theirs_.windows.at(kData));
  theirs_.windows.erase(kData);
  const Memory before = there_;
  here_.data[0] = std::byte{9};
  Operation& late = post(OperationKind::kPut, kData, 0, 8192, 0);
  initiator_->add(late);
  EXPECT_NE(finish(late).find("no window, or not any more"), std::string::npos) << *initiator_->error();
  EXPECT_EQ(there_, before);
}

TEST_F(NicWayTest, WhereANicRefusesAWindowMessagesDoAndTheLogSaysWhy) {
  const transport::test::PretendedFabric fabric;
  begin(fabric.connect());
  verbs_.refuse("modify_qp", ENOMEM);  // by which windows alone let queue pairs be read
  here_.data.assign(kBytes, std::byte{3});
  Operation& one = post(OperationKind::kPut, kData, 0, 8192, 0);
  initiator_->add(one);
  ASSERT_EQ(finish(one), "");
  EXPECT_EQ(one.way, Operation::Way::kMessage);
  EXPECT_EQ(there_.data[8191], std::byte{3});
  ASSERT_EQ(theirs_.notes.size(), 1u);
  EXPECT_NE(theirs_.notes[0].find("rank 0 reaches window 0 by messages, not by its NICs"), std::string::npos)
      << theirs_.notes[0];
  EXPECT_NE(theirs_.notes[0].find("be read from: Cannot allocate memory"), std::string::npos)
      << theirs_.notes[0];
}

}  // namespace
}  // namespace tombolo::net_plugin::rma
