// Staged connections fail in their own way also while memory is short or the log's sink throws: no exception
// leaves a call, and none ends the process.
#include <gtest/gtest.h>

#include "base/sanitizer.h"
#include "net_plugin/testing/staged_connections.h"
#include "transport/testing/failing_operator_new.h"

namespace tombolo::net_plugin::gpu {
namespace {

TEST_F(StagedConnections, ASinkThatThrowsChangesNothingOfTheEnd) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options, std::size_t{64} << 20, 4, std::chrono::milliseconds(5));
  memory_given_up_ = true;
  auto [near, far] = transport::test::make_connected(memory());
  int lines = 0;
  const Log throwing(LogLevel::kWarning, [&](LogLevel, std::string_view) {
    ++lines;
    throw 42;
  });
  auto from = std::make_unique<StagedConnection>(std::move(near), Directions::kSend, staging_, throwing);
  Buffer buffer(*from, 1000, true);
  ASSERT_NE(from->post_send(buffer.span(), buffer.memory()), nullptr);
  from.reset();
  EXPECT_EQ(lines, 1) << "of the memory that is left to a copy";
  far.reset();
  staging_.reset();
  EXPECT_EQ(cuda().holdings().host_allocations, 1);
  cuda().set_pace(PretendedPace::kEarly);
  cuda().reset();  // the copy ends now, in memory that is still there
}

TEST_F(StagedConnections, AnEndWithoutMemoryForItsErrorKeepsTheCauseAndNamesTheConnection) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's operator new always has memory";
  start({});
  auto ends = connect(tcp());
  Buffer from(*ends.from, 2000, false), to(*ends.to, 1999, false);
  ASSERT_NE(ends.from->post_send(from.span(), from.memory()), nullptr);
  ASSERT_NE(ends.to->post_receive(to.span(), to.memory()), nullptr);
  for (const auto deadline = soon(); ends.to->error() == nullptr && !deadline.passed();) {
    ends.from->progress();
    const transport::test::ShortMemory none;
    ends.to->progress();
  }
  ASSERT_NE(ends.to->error(), nullptr);
  EXPECT_EQ(ends.to->error()->cause(), Cause::kRemote);
  const std::string text = ends.to->error()->what();
  EXPECT_EQ(text.find("staged tcp"), 0U) << text;
  EXPECT_NE(text.find("there was no memory for a text that says how"), std::string::npos) << text;
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
