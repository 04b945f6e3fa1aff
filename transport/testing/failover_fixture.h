// For tests: connections that go on over another way, over a library of verbs without hardware whose network
// is cut at any point.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <string>
#include <utility>

#include "transport/routing/failover_connection.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::test {

class FailoverTest : public testing::Test {
 protected:
  void SetUp() override { verbs_.reset(test_seed()); }
  void TearDown() override {
    if (HasFailure()) {
      for (Connection* one : {pair_.first.get(), pair_.second.get()})
        if (auto* end = dynamic_cast<FailoverConnection*>(one))
          std::cerr << fmt::format("{}, moves: {}, over {}\n", to_text(end->state()), end->moves(),
                                   end->route().transport);
      std::cerr << book_.text();
    }
    pair_ = {};
    EXPECT_EQ(verbs_.registered(), 0u);
    verbs_.reset(1);
  }

  RouterOptions options(const std::string& host, std::size_t nics = 1, int queue_pairs = 1,
                        std::size_t eager = 4096) {
    RouterOptions made = router_options(host);
    made.log = book_.of(host);
    made.extra_backends = {pretended_rdma(nics, queue_pairs, eager)};
    return made;
  }
  /// The ends have told each other then what they have received, and where further legs go.
  void connect(std::size_t nics = 1, int queue_pairs = 1, std::size_t eager = 4096) {
    connect(options("left", nics, queue_pairs, eager), options("right", nics, queue_pairs, eager));
  }
  void connect(RouterOptions from, RouterOptions to) {
    pair_ = connect_routers(std::move(from), std::move(to), 77);
    ASSERT_TRUE(pair_.first && pair_.second);
    std::byte byte{}, buffer{};
    expect_carried(left(), right(), {&byte, 1}, {&buffer, 1});
    expect_carried(right(), left(), {&byte, 1}, {&buffer, 1});
    for (int turn = 0; turn < 100; ++turn) {
      left().progress();
      right().progress();
    }
  }
  Connection& left() { return *pair_.first; }
  Connection& right() { return *pair_.second; }
  static FailoverConnection& moving(Connection& one) { return dynamic_cast<FailoverConnection&>(one); }
  std::string failure_of(Connection& one) {
    for (const auto deadline = soon(); one.error() == nullptr && !deadline.passed();) {
      left().progress();
      if (pair_.second) right().progress();
    }
    return why_failed(one);
  }
  void move_until(const std::function<bool()>& done) {
    for (const auto deadline = soon(); !done();) {
      left().progress();
      right().progress();
      ASSERT_FALSE(deadline.passed());
    }
  }

  PretendedVerbs& verbs_ = PretendedVerbs::instance();
  LogBook book_;
  Pair pair_;
};

}  // namespace tombolo::transport::test
