// The C interface: groups, handles, the end of a communicator, and its settings. Ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tombolo/tombolo.hpp"

namespace tombolo::test {
namespace {

// Two ranks, each a thread with a communicator of its own id for every letter.
template <typename Body>
void run_pair(int communicators, const Body& body) {
  std::vector<tomboloUniqueId> ids(static_cast<std::size_t>(communicators));
  for (auto& id : ids) ASSERT_EQ(tomboloGetUniqueId(&id), tomboloSuccess) << tomboloGetLastError(nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<tomboloComm_t> all;
      for (const auto& id : ids) {
        all.push_back(nullptr);
        EXPECT_EQ(tomboloCommInitRank(&all.back(), 2, id, rank), tomboloSuccess)
            << tomboloGetLastError(nullptr);
        if (all.back() == nullptr) return;
      }
      body(all, rank);
      for (const auto one : all) EXPECT_EQ(tomboloCommDestroy(one), tomboloSuccess);
    });
  }
  for (auto& thread : threads) thread.join();
}

constexpr std::size_t kLarge = std::size_t{8} << 20;  // so large that it is not sent when the call returns

// The buffers of a group are free after its end, also where it failed in the middle (a sanitizer sees more).
TEST(Group, EndsAllThatItStartedBeforeItReturnsAFailure) {
  run_pair(2, [](const std::vector<tomboloComm_t>& all, int rank) {
    const auto fine = all[0], broken = all[1];
    EXPECT_EQ(tomboloCommAbort(broken), tomboloSuccess);
    {
      std::vector<char> out(kLarge, static_cast<char>('a' + rank)), in(kLarge), odd(100);
      tomboloGroupStart();
      EXPECT_EQ(tomboloSend(out.data(), out.size(), tomboloInt8, 1 - rank, fine), tomboloSuccess);
      EXPECT_EQ(tomboloSend(odd.data(), odd.size(), tomboloInt8, 1 - rank, broken), tomboloSuccess);
      EXPECT_EQ(tomboloRecv(in.data(), in.size(), tomboloInt8, 1 - rank, fine), tomboloSuccess);
      EXPECT_EQ(tomboloAllReduce(odd.data(), odd.data(), odd.size(), tomboloInt8, tomboloSum, broken),
                tomboloSuccess);
      EXPECT_EQ(tomboloGroupEnd(), tomboloAborted) << tomboloGetLastError(nullptr);
      EXPECT_EQ(std::count(in.begin(), in.end(), static_cast<char>('a' + 1 - rank)),
                static_cast<std::ptrdiff_t>(kLarge));
    }
    int sum = 1;  // nothing may be left that writes to freed memory
    EXPECT_EQ(tomboloAllReduce(&sum, &sum, 1, tomboloInt32, tomboloSum, fine), tomboloSuccess);
    EXPECT_EQ(sum, 2);
  });
}

TEST(Group, RefusesWrongArgumentsAtOnceAndKeepsTheRest) {
  run_pair(1, [](const std::vector<tomboloComm_t>& all, int rank) {
    std::vector<char> out(kLarge, static_cast<char>('a' + rank)), in(kLarge);
    tomboloGroupStart();
    EXPECT_EQ(tomboloSend(out.data(), out.size(), tomboloInt8, 1 - rank, all[0]), tomboloSuccess);
    EXPECT_EQ(tomboloRecv(in.data(), in.size(), tomboloInt8, 1 - rank, all[0]), tomboloSuccess);
    EXPECT_EQ(tomboloAllReduce(out.data(), out.data() + 1, 9, tomboloInt8, tomboloSum, all[0]),
              tomboloInvalidUsage);
    EXPECT_EQ(tomboloReduce(out.data(), in.data(), 9, tomboloInt8, tomboloSum, 2, all[0]),
              tomboloInvalidUsage);
    EXPECT_EQ(tomboloAllToAll(out.data(), out.data(), 9, tomboloInt8, all[0]), tomboloInvalidUsage);
    EXPECT_EQ(tomboloGroupEnd(), tomboloSuccess) << tomboloGetLastError(nullptr);
    EXPECT_EQ(in.back(), 'a' + 1 - rank);
  });
}

TEST(Group, OfARankAloneGivesItsBuffersBackWhereMessagesDoNotMatch) {
  tomboloUniqueId id;
  tomboloComm_t alone;
  ASSERT_EQ(tomboloGetUniqueId(&id), tomboloSuccess);
  ASSERT_EQ(tomboloCommInitRank(&alone, 1, id, 0), tomboloSuccess) << tomboloGetLastError(nullptr);
  const auto exchange = [&](std::size_t sent, std::size_t received) {
    std::vector<char> out(sent, 'x'), in(received);
    tomboloGroupStart();
    tomboloSend(out.data(), sent, tomboloInt8, 0, alone);
    tomboloRecv(in.data(), received, tomboloInt8, 0, alone);
    const auto result = tomboloGroupEnd();
    EXPECT_EQ(in.back(), result == tomboloSuccess ? 'x' : '\0');
    return result;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(exchange(10, 20), tomboloInvalidUsage);
    EXPECT_NE(std::string(tomboloGetLastError(nullptr)).find("10 bytes"), std::string::npos)
        << tomboloGetLastError(nullptr);
    EXPECT_EQ(exchange(20, 20), tomboloSuccess) << tomboloGetLastError(nullptr);
  }
  EXPECT_EQ(tomboloCommDestroy(alone), tomboloSuccess);
}

// ---- handles: nothing is done with one that was destroyed (an address sanitizer would see it)

tomboloComm_t rank_alone() {
  tomboloUniqueId id;
  tomboloComm_t comm = nullptr;
  EXPECT_EQ(tomboloGetUniqueId(&id), tomboloSuccess);
  EXPECT_EQ(tomboloCommInitRank(&comm, 1, id, 0), tomboloSuccess) << tomboloGetLastError(nullptr);
  return comm;
}

void expect_last_error(const std::string& words) {
  EXPECT_NE(std::string(tomboloGetLastError(nullptr)).find(words), std::string::npos)
      << tomboloGetLastError(nullptr);
}

TEST(Handle, IsRefusedByEveryFunctionOnceItIsDestroyed) {
  const auto gone = rank_alone();
  ASSERT_EQ(tomboloCommDestroy(gone), tomboloSuccess);
  const auto other = rank_alone();  // its handle must not be the same
  EXPECT_NE(other, gone);
  int value = 0;
  const char* name = nullptr;
  tomboloComm_t made = nullptr;
  tomboloResult_t error = tomboloSuccess;
  EXPECT_EQ(tomboloCommDestroy(gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommCount(gone, &value), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommUserRank(gone, &value), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommLastAlgorithm(gone, &name), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommExplain(gone, &name), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommSetTuning(gone, nullptr), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommSetDeadline(gone, 1), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommGetAsyncError(gone, &error), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommSplit(gone, 0, 0, &made), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommFinalize(gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommAbort(gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloAllReduce(&value, &value, 1, tomboloInt32, tomboloSum, gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloSend(&value, 1, tomboloInt32, 0, gone), tomboloInvalidArgument);
  expect_last_error("no such communicator");
  EXPECT_EQ(tomboloCommDestroy(other), tomboloSuccess);
}

// ---- operators with a factor

TEST(PreMulSum, ServesBlockingStartedAndRecordedCallsOfItsTypeAndCommunicatorAlone) {
  run_pair(2, [](const std::vector<tomboloComm_t>& all, int rank) {
    const float factor = rank == 0 ? 0.5F : 3;
    tomboloRedOp_t op = tomboloSum;
    EXPECT_EQ(tomboloRedOpCreatePreMulSum(&op, &factor, tomboloFloat32, all[0]), tomboloSuccess);
    EXPECT_GT(op, tomboloNumOps);
    const float in[3] = {1, 2, -4};
    float out[3][3] = {};
    tomboloWork_t work;
    EXPECT_EQ(tomboloAllReduce(in, out[0], 3, tomboloFloat32, op, all[0]), tomboloSuccess);
    EXPECT_EQ(tomboloAllReduceAsync(in, out[1], 3, tomboloFloat32, op, all[0], &work), tomboloSuccess);
    tomboloGroupStart();
    EXPECT_EQ(tomboloAllReduceCompressed(in, out[2], 3, op, tomboloCompressionInt8, nullptr, all[0]),
              tomboloSuccess);
    // What was started or recorded keeps the factor.
    EXPECT_EQ(tomboloRedOpDestroy(op, all[0]), tomboloSuccess);
    EXPECT_EQ(tomboloGroupEnd(), tomboloSuccess) << tomboloGetLastError(nullptr);
    EXPECT_EQ(tomboloWorkWait(work), tomboloSuccess);
    for (const auto& one : out)
      for (int i = 0; i < 3; ++i) EXPECT_EQ(one[i], 3.5F * in[i]);

    EXPECT_EQ(tomboloAllReduce(in, out[0], 3, tomboloFloat32, op, all[0]), tomboloInvalidArgument);
    expect_last_error("was it destroyed");
    EXPECT_EQ(tomboloRedOpDestroy(op, all[0]), tomboloInvalidArgument);
    const tomboloRedOp_t gone = op;
    EXPECT_EQ(tomboloRedOpCreatePreMulSum(&op, &factor, tomboloFloat32, all[0]), tomboloSuccess);
    EXPECT_NE(op, gone);
    EXPECT_EQ(tomboloAllReduce(in, out[0], 3, tomboloInt32, op, all[0]), tomboloInvalidArgument);
    expect_last_error("made for float and not for int32");
    EXPECT_EQ(tomboloAllReduce(in, out[0], 3, tomboloFloat32, op, all[1]), tomboloInvalidArgument);
    expect_last_error("made on another one");
    EXPECT_EQ(tomboloRedOpDestroy(op, all[1]), tomboloInvalidArgument);
    EXPECT_EQ(tomboloRedOpDestroy(tomboloSum, all[0]), tomboloInvalidArgument);
    EXPECT_EQ(tomboloRedOpCreatePreMulSum(nullptr, &factor, tomboloFloat32, all[0]), tomboloInvalidArgument);
    EXPECT_EQ(tomboloRedOpCreatePreMulSum(&op, nullptr, tomboloFloat32, all[0]), tomboloInvalidArgument);
    EXPECT_EQ(tomboloRedOpCreatePreMulSum(&op, &factor, tomboloNumTypes, all[0]), tomboloInvalidArgument);
    EXPECT_EQ(tomboloRedOpCreatePreMulSum(&op, &factor, tomboloFloat32, nullptr), tomboloInvalidArgument);
  });
}

// One rank may multiply where another passes the plain sum.
TEST(PreMulSum, OfOneRankMeetsThePlainSumOfAnother) {
  run_pair(1, [](const std::vector<tomboloComm_t>& all, int rank) {
    const int factor = -7;
    tomboloRedOp_t op = tomboloSum;
    if (rank == 1) {
      EXPECT_EQ(tomboloRedOpCreatePreMulSum(&op, &factor, tomboloInt32, all[0]), tomboloSuccess);
    }
    int one = rank + 1;
    EXPECT_EQ(tomboloAllReduce(&one, &one, 1, tomboloInt32, op, all[0]), tomboloSuccess);
    EXPECT_EQ(one, 1 - 14);
  });
}

TEST(Group, RefusesACommunicatorThatIsDestroyedBeforeItOrInIt) {
  const auto gone = rank_alone(), kept = rank_alone();
  int one = 1, two = 2, sum = 0;
  ASSERT_EQ(tomboloGroupStart(), tomboloSuccess);
  EXPECT_EQ(tomboloAllReduce(&one, &sum, 1, tomboloInt32, tomboloSum, gone), tomboloSuccess);
  EXPECT_EQ(tomboloSend(&one, 1, tomboloInt32, 0, gone), tomboloSuccess);
  EXPECT_EQ(tomboloRecv(&sum, 1, tomboloInt32, 0, gone), tomboloSuccess);
  EXPECT_EQ(tomboloAllReduce(&two, &sum, 1, tomboloInt32, tomboloSum, kept), tomboloSuccess);
  EXPECT_EQ(tomboloCommDestroy(gone), tomboloSuccess);
  EXPECT_EQ(tomboloSend(&one, 1, tomboloInt32, 0, gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloGroupEnd(), tomboloInvalidUsage);
  expect_last_error("destroyed");
  EXPECT_EQ(sum, 2) << "the other communicator's call is made";
  EXPECT_EQ(tomboloCommDestroy(kept), tomboloSuccess);
}

TEST(Group, RefusesWhatItCannotHold) {
  const auto comm = rank_alone();
  tomboloComm_t made = nullptr;
  tomboloUniqueId id;
  ASSERT_EQ(tomboloGetUniqueId(&id), tomboloSuccess);
  ASSERT_EQ(tomboloGroupStart(), tomboloSuccess);
  EXPECT_EQ(tomboloCommInitRank(&made, 1, id, 0), tomboloInvalidUsage);
  EXPECT_EQ(tomboloCommSplit(comm, 0, 0, &made), tomboloInvalidUsage);
  EXPECT_EQ(tomboloCommFinalize(comm), tomboloInvalidUsage);
  expect_last_error("tomboloCommFinalize");
  EXPECT_EQ(tomboloGroupEnd(), tomboloSuccess);
  EXPECT_EQ(tomboloCommDestroy(comm), tomboloSuccess);
}

TEST(Group, DiscardForgetsWhatItsOwnGroupRecorded) {
  const auto comm = rank_alone();
  int one = 1, outer = 0, inner = 0;
  EXPECT_EQ(tomboloGroupDiscard(), tomboloInvalidUsage) << "without a group";
  tomboloGroupStart();
  tomboloAllReduce(&one, &outer, 1, tomboloInt32, tomboloSum, comm);
  tomboloGroupStart();
  tomboloAllReduce(&one, &inner, 1, tomboloInt32, tomboloSum, comm);
  tomboloSend(&one, 1, tomboloInt32, 0, comm);
  EXPECT_EQ(tomboloGroupDiscard(), tomboloSuccess);
  EXPECT_EQ(tomboloGroupEnd(), tomboloSuccess) << tomboloGetLastError(nullptr);
  EXPECT_EQ(outer, 1);
  EXPECT_EQ(inner, 0);
  EXPECT_EQ(tomboloCommDestroy(comm), tomboloSuccess);
}

TEST(Finalize, IsTheLastCall) {
  run_pair(1, [](const std::vector<tomboloComm_t>& all, int) {
    int one = 1;
    tomboloComm_t part = nullptr;
    tomboloResult_t error = tomboloInternalError;
    EXPECT_EQ(tomboloAllReduce(&one, &one, 1, tomboloInt32, tomboloSum, all[0]), tomboloSuccess);
    EXPECT_EQ(tomboloCommFinalize(all[0]), tomboloSuccess) << tomboloGetLastError(nullptr);
    EXPECT_EQ(tomboloCommFinalize(all[0]), tomboloInvalidUsage);
    EXPECT_EQ(tomboloAllReduce(&one, &one, 1, tomboloInt32, tomboloSum, all[0]), tomboloInvalidUsage);
    EXPECT_EQ(tomboloSend(&one, 1, tomboloInt32, 0, all[0]), tomboloInvalidUsage);
    EXPECT_EQ(tomboloCommSplit(all[0], 0, 0, &part), tomboloInvalidUsage);
    expect_last_error("finalized");
    EXPECT_EQ(tomboloCommGetAsyncError(all[0], &error), tomboloSuccess);
    EXPECT_EQ(error, tomboloSuccess);
    EXPECT_EQ(tomboloCommCount(all[0], &one), tomboloSuccess);
    EXPECT_EQ(one, 2);
  });
}

TEST(AsyncError, IsWhatMadeTheCommunicatorUnusable) {
  run_pair(1, [](const std::vector<tomboloComm_t>& all, int rank) {
    tomboloResult_t error = tomboloInternalError;
    EXPECT_EQ(tomboloCommGetAsyncError(all[0], &error), tomboloSuccess);
    EXPECT_EQ(error, tomboloSuccess);
    if (rank == 0) {
      EXPECT_EQ(tomboloCommAbort(all[0]), tomboloSuccess);
    }
    int one = 1;
    EXPECT_EQ(tomboloAllReduce(&one, &one, 1, tomboloInt32, tomboloSum, all[0]), tomboloAborted);
    EXPECT_EQ(tomboloCommGetAsyncError(all[0], &error), tomboloSuccess);
    EXPECT_EQ(error, tomboloAborted);
    EXPECT_EQ(tomboloCommFinalize(all[0]), tomboloAborted);
  });
}

// ---- settings

TEST(Config, IsCheckedFieldByField) {
  const auto result_of = [](auto change) {
    tomboloUniqueId id;
    tomboloComm_t comm = nullptr;
    EXPECT_EQ(tomboloGetUniqueId(&id), tomboloSuccess);
    tomboloConfig_t config = TOMBOLO_CONFIG_INITIALIZER;
    change(config);
    const auto result = tomboloCommInitRankConfig(&comm, 1, id, 0, &config);
    if (comm != nullptr) tomboloCommDestroy(comm);
    return result;
  };
  EXPECT_EQ(result_of([](tomboloConfig_t&) {}), tomboloSuccess);
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.blocking = 1; }), tomboloSuccess);
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config = {}; }), tomboloInvalidArgument);
  expect_last_error("TOMBOLO_CONFIG_INITIALIZER");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.size += 8; }), tomboloInvalidArgument);
  expect_last_error("version");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.blocking = 0; }), tomboloInvalidArgument);
  expect_last_error("config.blocking=0");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.deadline = 0; }), tomboloInvalidUsage);
  expect_last_error("config.deadline=0");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.routing = "fast"; }), tomboloInvalidUsage);
  expect_last_error("config.routing='fast'");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.algorithm = "fastest"; }), tomboloInvalidUsage);
  expect_last_error("auto|");
}

TEST(Config, IsHonoured) {
  const tomboloUniqueId id = api::make_unique_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        tomboloConfig_t config = api::default_config();
        config.algorithm = "ring";
        config.deadline = 30;
        const api::Communicator all(2, id, rank, config);
        std::vector<float> data(3, 1);
        all.all_reduce(data);
        EXPECT_EQ(all.last_algorithm(), "ring");  // by itself it takes another for so few bytes
        const api::Communicator part = all.split(0, rank);
        part.all_reduce(data);
        EXPECT_EQ(part.last_algorithm(), "ring");
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Deadline, IsSetForTheCallsThatFollow) {
  const auto comm = rank_alone();
  EXPECT_EQ(tomboloCommSetDeadline(comm, 0), tomboloInvalidUsage);
  EXPECT_EQ(tomboloCommSetDeadline(comm, 1e7), tomboloInvalidUsage);
  expect_last_error("tomboloCommSetDeadline: seconds=10000000");
  ASSERT_EQ(tomboloCommSetDeadline(comm, 0.2), tomboloSuccess);
  tomboloUniqueId id;
  ASSERT_EQ(tomboloCommGetUniqueId(comm, &id), tomboloSuccess);
  tomboloComm_t grown = nullptr;
  EXPECT_EQ(tomboloCommGrow(comm, 2, &id, -1, &grown, nullptr), tomboloTimeout);
  expect_last_error("rank 1 of 2 did not arrive within 200 ms");
  EXPECT_EQ(tomboloCommDestroy(comm), tomboloSuccess);
}

// What is left of a job admits a new rank by the secret that its own connections have had.
TEST(Growth, IsPossibleForTheOnlyRankThatIsLeft) {
  run_pair(1, [](const std::vector<tomboloComm_t>& all, int rank) {
    if (rank == 1) return;
    const int excluded = 1;
    tomboloComm_t left = nullptr, grown = nullptr;
    ASSERT_EQ(tomboloCommShrink(all[0], &excluded, 1, &left, TOMBOLO_SHRINK_DEFAULT), tomboloSuccess)
        << tomboloGetLastError(nullptr);
    tomboloUniqueId id;
    ASSERT_EQ(tomboloCommGetUniqueId(left, &id), tomboloSuccess);
    const auto sum = [](tomboloComm_t comm) {
      int value = 1;
      EXPECT_EQ(tomboloAllReduce(&value, &value, 1, tomboloInt32, tomboloSum, comm), tomboloSuccess)
          << tomboloGetLastError(nullptr);
      return value;
    };
    std::thread joining([&] {
      tomboloComm_t joined = nullptr;
      ASSERT_EQ(tomboloCommGrow(nullptr, 2, &id, 1, &joined, nullptr), tomboloSuccess)
          << tomboloGetLastError(nullptr);
      EXPECT_EQ(sum(joined), 2);
      EXPECT_EQ(tomboloCommDestroy(joined), tomboloSuccess);
    });
    EXPECT_EQ(tomboloCommGrow(left, 2, &id, -1, &grown, nullptr), tomboloSuccess)
        << tomboloGetLastError(nullptr);
    if (grown != nullptr) {
      EXPECT_EQ(sum(grown), 2);
    }
    joining.join();
    for (const tomboloComm_t one : {grown, left}) EXPECT_EQ(tomboloCommDestroy(one), tomboloSuccess);
  });
}

// A deadline of its own, on the only rank of two that comes.
TEST(Config, ItsDeadlineEndsTheWaitForAMissingRank) {
  const tomboloUniqueId id = api::make_unique_id();
  tomboloConfig_t config = TOMBOLO_CONFIG_INITIALIZER;
  config.deadline = 0.2;
  tomboloComm_t comm = nullptr;
  EXPECT_EQ(tomboloCommInitRankConfig(&comm, 2, id, 0, &config), tomboloTimeout);
  expect_last_error("rank 1 of 2 did not arrive");
}

}  // namespace
}  // namespace tombolo::test
