// The executor over connections in memory: all ranks of a small mesh are driven by turns in one thread, so
// that every order of events is the test's.
#include "collectives/engine/executor.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "base/randomized_test.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/testing/schedule_simulation.h"
#include "transport/memory/pair.h"

namespace tombolo::collectives {
namespace {

/// Connections in memory between all ranks, each made when it is first asked for, and an executor for each
/// rank.
class MemoryMesh {
 public:
  explicit MemoryMesh(int size) {
    for (int rank = 0; rank < size; ++rank) {
      executors_.push_back(std::make_unique<Executor>([this, rank](int peer) { return open(rank, peer); }));
    }
  }
  Executor& executor(int rank) { return *executors_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(executors_.size()); }

  transport::Connection* open(int rank, int peer) {
    if (held_back) return nullptr;
    auto& one = connections_[{rank, peer}];
    if (!one) std::tie(one, connections_[{peer, rank}]) = transport::memory::make_pair();
    return one.get();
  }
  void close(int rank, int peer) { connections_[{rank, peer}].reset(); }

  bool finished() const {
    for (const auto& executor : executors_) {
      if (!executor->finished()) return false;
    }
    return true;
  }
  /// Gives the ranks turns in random order until all have finished or none can move.
  void run(std::mt19937& random) {
    for (int idle = 0; !finished() && idle < 100 * size();) {
      idle = executor(static_cast<int>(random() % executors_.size())).progress() ? 0 : idle + 1;
    }
  }

  bool held_back = false;  ///< connections take their time

 private:
  std::map<std::pair<int, int>, std::unique_ptr<transport::Connection>> connections_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

/// For a task of a schedule that outlives it.
std::shared_ptr<const Schedule> borrowed(const Schedule& schedule) {
  return {std::shared_ptr<const Schedule>(), &schedule};
}

Executor::Task float_task(const Schedule& schedule, const test::Vector& input, test::Vector& output,
                          std::size_t ranks) {
  Executor::Task task;
  task.schedule = borrowed(schedule);
  task.input = reinterpret_cast<const std::byte*>(input.data());
  task.output = reinterpret_cast<std::byte*>(output.data());
  task.type = DataType::kFloat32;
  task.ranks = ranks;
  return task;
}

TEST(Executor, CarriesOutEveryAllReduce) {
  std::mt19937 random(test_seed());
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective != Collective::kAllReduce) continue;
    for (const std::string_view clusters : {"A", "AB", "AAB", "ABAB", "AABBB"}) {
      // One executor after the other uses the same scratch memory, for vectors of growing and of shrinking
      // size.
      MemoryMesh mesh(static_cast<int>(clusters.size()));
      for (const std::size_t count : {1, 1000, 0, 50}) {
        SCOPED_TRACE(std::string(algorithm->name) + " " + std::string(clusters) + " " +
                     std::to_string(count));
        Tuning tuning;
        tuning.segment_bytes = 64;  // more pieces than may be in flight
        const Problem problem{count, test::kElement, random() % 2 == 0, 0};
        std::vector<Schedule> schedules;
        std::vector<test::Vector> inputs, outputs(clusters.size(), test::Vector(count, -1));
        for (int rank = 0; rank < mesh.size(); ++rank) {
          const RankMap map = RankMap::make(rank, test::locations_of(clusters));
          schedules.push_back(algorithm->build(map, problem, tuning, false));
          inputs.push_back(test::input_of(count, rank));
        }
        for (std::size_t rank = 0; rank < clusters.size(); ++rank) {
          mesh.executor(static_cast<int>(rank))
              .start(float_task(schedules[rank], inputs[rank], outputs[rank], clusters.size()));
        }
        mesh.run(random);
        ASSERT_TRUE(mesh.finished());
        const auto expected = test::reference_sum(clusters.size(), count, problem.average);
        for (const auto& output : outputs) ASSERT_EQ(output, expected);
      }
    }
  }
}

/// `messages` floats from rank 0 to rank 1, one message each.
struct Stream {
  explicit Stream(std::size_t messages, std::size_t bytes_sent = test::kElement,
                  std::size_t bytes_received = test::kElement)
      : input(test::input_of(messages * 2, 0)), output(messages * 2, -1) {
    ScheduleBuilder sender({}, false), receiver({}, false);
    for (std::size_t i = 0; i < messages; ++i) {
      sender.send(1, Piece{Buffer::kInput, 0} + i * test::kElement, bytes_sent);
      receiver.receive(0, Piece{Buffer::kOutput, 0} + i * test::kElement, bytes_received);
    }
    sends = sender.build("stream");
    receives = receiver.build("stream");
  }
  void start(MemoryMesh& mesh) {
    mesh.executor(0).start(float_task(sends, input, unused, 2));
    mesh.executor(1).start(float_task(receives, unused, output, 2));
  }
  Schedule sends, receives;
  test::Vector input, output, unused;
};

TEST(Executor, KeepsTheOrderOfMoreMessagesThanMayBeInFlight) {
  std::mt19937 random(test_seed());
  MemoryMesh mesh(2);
  Stream stream(100);
  stream.start(mesh);
  EXPECT_FALSE(mesh.finished());
  mesh.run(random);
  ASSERT_TRUE(mesh.finished());
  EXPECT_EQ(test::Vector(stream.output.begin(), stream.output.begin() + 100),
            test::Vector(stream.input.begin(), stream.input.begin() + 100));
}

TEST(Executor, NamesThePeerThatItWaitsFor) {
  MemoryMesh mesh(2);
  mesh.held_back = true;
  Stream stream(1);
  stream.start(mesh);
  // Neither has a connection yet.
  EXPECT_FALSE(mesh.executor(0).progress());
  EXPECT_EQ(mesh.executor(0).awaited_peer(), 1);
  EXPECT_FALSE(mesh.executor(0).awaits_arrival());
  mesh.held_back = false;
  // The receive is posted; the sender has not had a turn.
  EXPECT_TRUE(mesh.executor(1).progress());
  EXPECT_EQ(mesh.executor(1).awaited_peer(), 0);
  EXPECT_TRUE(mesh.executor(1).awaits_arrival());
  std::mt19937 random(test_seed());
  mesh.run(random);
  EXPECT_TRUE(mesh.finished());
  EXPECT_EQ(mesh.executor(1).awaited_peer(), -1);
  EXPECT_FALSE(mesh.executor(1).failure());
}

TEST(Executor, ReportsAMessageOfAnotherSize) {
  std::mt19937 random(test_seed());
  MemoryMesh mesh(2);
  Stream stream(1, test::kElement, 2 * test::kElement);
  stream.start(mesh);
  mesh.run(random);
  const auto& failure = mesh.executor(1).failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->peer, 0);
  EXPECT_NE(failure->text.find("4 bytes where 8 were expected"), std::string::npos) << failure->text;
  EXPECT_FALSE(mesh.executor(1).finished());
}

TEST(Executor, TellsThatAPeerHasLeft) {
  std::mt19937 random(test_seed());
  MemoryMesh mesh(2);
  Stream stream(1);
  mesh.executor(1).start(float_task(stream.receives, stream.unused, stream.output, 2));
  mesh.open(0, 1)->post_send({});  // the closing message of a communicator
  mesh.run(random);
  const auto& failure = mesh.executor(1).failure();
  ASSERT_TRUE(failure);
  EXPECT_NE(failure->text.find("has left the communicator"), std::string::npos) << failure->text;
}

TEST(Executor, NoticesAConnectionThatBreaks) {
  std::mt19937 random(test_seed());
  MemoryMesh mesh(2);
  Stream stream(3);
  mesh.executor(1).start(float_task(stream.receives, stream.unused, stream.output, 2));
  EXPECT_TRUE(mesh.executor(1).progress());
  mesh.close(0, 1);
  mesh.run(random);
  mesh.executor(1).progress_connections();
  const auto& failure = mesh.executor(1).failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->peer, 0);
  EXPECT_NE(failure->text.find("closed"), std::string::npos) << failure->text;
  mesh.executor(1).clear();
  EXPECT_TRUE(mesh.executor(1).finished()) << "a dropped task is over";
}

TEST(Executor, TakesTheLastMessagesOfAPeerThatEndsRightBehindThem) {
  MemoryMesh mesh(2);
  Stream stream(3);
  stream.start(mesh);
  mesh.executor(1).progress();  // its receives are posted
  mesh.executor(0).progress();
  ASSERT_TRUE(mesh.executor(0).finished());
  mesh.close(0, 1);
  mesh.executor(1).progress_connections();
  EXPECT_FALSE(mesh.executor(1).failure()) << mesh.executor(1).failure()->text;
  EXPECT_TRUE(mesh.executor(1).finished());
}

TEST(Executor, ReducesWithTheTasksTypeAndOperator) {
  std::mt19937 random(test_seed());
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    MemoryMesh mesh(2);
    const std::int16_t inputs[2][3] = {{1, -2, 300}, {4, 5, -6}};
    std::int16_t outputs[2][3] = {};
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < 2; ++rank) {
      const RankMap map = RankMap::make(rank, test::locations_of("AB"));
      const Problem problem{3, sizeof(std::int16_t)};
      schedules.push_back(
          choose_algorithm(Collective::kAllReduce, "auto", map, problem, {}).build(map, problem, {}, false));
    }
    for (int rank = 0; rank < 2; ++rank) {
      Executor::Task task;
      task.schedule = borrowed(schedules[static_cast<std::size_t>(rank)]);
      task.input = reinterpret_cast<const std::byte*>(inputs[rank]);
      task.output = reinterpret_cast<std::byte*>(outputs[rank]);
      task.type = DataType::kInt16;
      task.op = op;
      task.ranks = 2;
      mesh.executor(rank).start(task);
    }
    mesh.run(random);
    ASSERT_TRUE(mesh.finished());
    for (const auto& output : outputs) {
      for (int i = 0; i < 3; ++i) {
        const int left = inputs[0][i], right = inputs[1][i];
        EXPECT_EQ(output[i], op == ReduceOp::kMin   ? std::min(left, right)
                             : op == ReduceOp::kMax ? std::max(left, right)
                                                    : left * right);
      }
    }
  }
}

}  // namespace
}  // namespace tombolo::collectives
