// The C++ interface over the C one. Ranks are threads.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tombolo/tombolo.hpp"

namespace tombolo::test {
namespace {

TEST(CppInterface, MeetsByAUniqueId) {
  const tomboloUniqueId id = api::make_unique_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const api::Communicator all(3, id, rank);
        std::vector<double> data(1000, rank);
        all.all_reduce(data);
        EXPECT_EQ(data.back(), 3.0);
        double from = -1, own = rank;
        api::group([&] {
          all.send(std::span(&own, 1), (rank + 1) % 3);
          all.receive(std::span(&from, 1), (rank + 2) % 3);
        });
        EXPECT_EQ(from, (rank + 2) % 3);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(CppInterface, TakesEveryCollectiveOnSpans) {
  constexpr int kRanks = 3;
  const tomboloUniqueId id = api::make_unique_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const api::Communicator all(kRanks, id, rank);
        using Vector = std::vector<std::int32_t>;
        const Vector own{rank, rank + 10};
        Vector wide{0, 1, 2, 3, 4, 5}, out(2), wide_out(6);
        all.all_reduce(own, out);
        EXPECT_EQ(out, (Vector{3, 33}));
        all.all_reduce(std::span(out).first(1), tomboloMax);
        EXPECT_EQ(out.front(), 3);
        all.reduce_scatter(wide, out, tomboloSum);
        EXPECT_EQ(out, (Vector{6 * rank, 6 * rank + 3}));
        all.reduce_scatter(wide, out, api::PreMulSum(std::int32_t{rank + 1}, all));
        EXPECT_EQ(out, (Vector{2 * rank * 6, (2 * rank + 1) * 6}));
        all.all_gather(own, wide_out);
        EXPECT_EQ(wide_out, (Vector{0, 10, 1, 11, 2, 12}));
        all.broadcast(own, out, 2);
        EXPECT_EQ(out, (Vector{2, 12}));
        out = own;
        all.broadcast(out, 1);
        EXPECT_EQ(out, (Vector{1, 11}));
        out.assign(rank == 0 ? 2 : 0, -1);  // only the root's is used
        all.reduce(own, out, tomboloMin, 0);
        if (rank == 0) {
          EXPECT_EQ(out, (Vector{0, 10}));
        }
        all.gather(own, wide_out, 1);
        if (rank == 1) {
          EXPECT_EQ(wide_out, (Vector{0, 10, 1, 11, 2, 12}));
        }
        out.resize(2);
        all.scatter(rank == 2 ? wide : Vector{}, out, 2);
        EXPECT_EQ(out, (Vector{2 * rank, 2 * rank + 1}));
        all.all_to_all(std::array{rank, rank, rank}, std::span(wide_out).first(3));
        EXPECT_EQ(Vector(wide_out.begin(), wide_out.begin() + 3), (Vector{0, 1, 2}));
        all.barrier();
        all.finalize();
        EXPECT_EQ(all.async_error(), tomboloSuccess);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

template <typename Action>
void expect_refused(const Action& action, const std::string& words) {
  try {
    action();
    ADD_FAILURE() << "expected: " << words;
  } catch (const api::Error& error) {
    EXPECT_EQ(error.result(), tomboloInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(CppInterface, RefusesLengthsThatDoNotFitTogether) {
  const api::Communicator alone(1, api::make_unique_id(), 0);
  const std::vector<float> two(2);
  std::vector<float> three(3);
  expect_refused([&] { alone.all_reduce(two, three); },
                 "all_reduce: the send buffer has 2 elements, expected 3");
  expect_refused([&] { alone.reduce_scatter(two, three); }, "reduce_scatter: the send buffer");
  expect_refused([&] { alone.all_gather(two, three); }, "all_gather: the receive buffer has 3");
  expect_refused([&] { alone.broadcast(two, three, 0); }, "broadcast: the send buffer");
  expect_refused([&] { alone.reduce(two, three, tomboloSum, 0); }, "reduce: the receive buffer");
  expect_refused([&] { alone.gather(two, three, 0); }, "gather: the receive buffer");
  expect_refused([&] { alone.scatter(two, three, 0); }, "scatter: the send buffer");
  expect_refused([&] { alone.all_to_all(two, three); }, "all_to_all: the receive buffer");
}

TEST(CppInterface, AnExceptionInAGroupDiscardsIt) {
  const api::Communicator alone(1, api::make_unique_id(), 0);
  const std::vector<int> in{7};
  std::vector<int> out{0};
  EXPECT_THROW(api::group([&] {
                 alone.all_reduce(in, out);
                 alone.send(in, 0);  // which nothing receives: carried out, it would fail
                 throw std::runtime_error("the caller's own");
               }),
               std::runtime_error);
  EXPECT_EQ(out.front(), 0);
  alone.all_reduce(in, out);  // no group is open any more
  EXPECT_EQ(out.front(), 7);
}

TEST(CppInterface, AFailedCallInAGroupDiscardsIt) {
  api::Communicator alone(1, api::make_unique_id(), 0);
  std::vector<int> data{7};
  EXPECT_THROW(api::group([&] {
                 const api::Communicator ends_with_the_body = std::move(alone);
                 ends_with_the_body.all_reduce(data);
                 ends_with_the_body.send(data, 1);  // there is no such rank
               }),
               api::Error);
  EXPECT_EQ(tomboloGroupEnd(), tomboloInvalidUsage) << "no group is left open";
}

TEST(CppInterface, RejectsADamagedUniqueId) {
  tomboloUniqueId id{};
  try {
    const api::Communicator all(2, id, 0);
    FAIL();
  } catch (const api::Error& error) {
    EXPECT_EQ(error.result(), tomboloInvalidUsage);
  }
}

}  // namespace
}  // namespace tombolo::test
