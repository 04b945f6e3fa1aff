// The states of a stream: the table is complete and unambiguous, and docs/transports.md prints it.
#include "transport/tcp/stream/stream_state.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "transport/tcp/stream/receiver.h"
#include "transport/tcp/stream/stream.h"

namespace tombolo::transport::tcp {
namespace {

constexpr std::array kStates = {StreamState::kWanted, StreamState::kBroken,  StreamState::kEnded,
                                StreamState::kLive,   StreamState::kSuspect, StreamState::kHalfClosed};
constexpr std::array kEvents = {StreamEvent::kJoined,     StreamEvent::kSilent, StreamEvent::kAnswered,
                                StreamEvent::kPeerClosed, StreamEvent::kLost,   StreamEvent::kEnded};

TEST(StreamStates, AnEventHasOneOutcomeInAState) {
  std::set<std::pair<StreamState, StreamEvent>> seen;
  for (const StreamTransition& one : kStreamTransitions) {
    EXPECT_TRUE(seen.insert({one.from, one.event}).second) << to_text(one.from) << ", " << to_text(one.event);
    EXPECT_NE(one.from, one.to);
  }
}

TEST(StreamStates, AStreamWithoutASocketCanOnlyBeJoinedAndOneWithASocketNever) {
  for (StreamState state : kStates) {
    EXPECT_EQ(next_state(state, StreamEvent::kJoined).has_value(), !is_live(state)) << to_text(state);
    for (StreamEvent event : kEvents) {
      if (event != StreamEvent::kJoined && !is_live(state)) {
        EXPECT_FALSE(next_state(state, event)) << to_text(state) << ", " << to_text(event);
      }
    }
  }
}

TEST(StreamStates, FromEveryStateAStreamCanBecomeLiveAndBeLost) {
  for (StreamState state : kStates) {
    const auto joined = is_live(state) ? state : next_state(state, StreamEvent::kJoined);
    ASSERT_TRUE(joined && is_live(*joined)) << to_text(state);
    EXPECT_EQ(next_state(*joined, StreamEvent::kLost), StreamState::kBroken) << to_text(state);
    EXPECT_EQ(next_state(*joined, StreamEvent::kEnded), StreamState::kEnded) << to_text(state);
  }
}

TEST(StreamStates, AreAsDocumented) {
  std::ifstream file(TOMBOLO_SOURCE_DIR "/docs/transports.md");
  std::vector<std::string> found;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "| event | from | to |") {
      in_table = true;
      std::getline(file, line);  // the rule
    } else if (in_table && line.starts_with("|")) {
      found.push_back(line);
    } else {
      in_table = false;
    }
  }
  std::vector<std::string> wanted;
  for (const StreamTransition& one : kStreamTransitions)
    wanted.push_back(fmt::format("| {} | {} | {} |", to_text(one.event), to_text(one.from), to_text(one.to)));
  EXPECT_EQ(found, wanted);
}

TEST(AStream, RefusesAnEventThatIsImpossibleAndSaysWhy) {
  Stream stream;
  try {
    stream.apply(StreamEvent::kLost);
    FAIL() << "a stream that was never there was lost";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInternal);
    EXPECT_NE(std::string(error.what()).find("state=wanted event=lost"), std::string::npos) << error.what();
  }
  EXPECT_EQ(stream.state(), StreamState::kWanted);
}

TEST(AStream, KeepsOneSummaryOfEpochsInWhichNothingCameUntilAChunkComes) {
  Stream stream;
  using Summaries = std::vector<Stream::EpochSummary>;
  stream.join({}, nullptr, 0);
  stream.note_epochs(0, 0, 0);
  stream.lose({});
  stream.join({}, nullptr, 4);  // of epochs 1 to 3 this end knows nothing
  EXPECT_EQ(stream.epoch(), 4U);
  EXPECT_EQ(stream.epoch_summaries(), (Summaries{{0, 3, 0}}));
  stream.note_epochs(4, 4, 7);
  EXPECT_EQ(stream.epoch_summaries(), (Summaries{{4, 4, 7}}));
  stream.note_epochs(5, 5, 0);
  stream.note_epochs(6, 8, 0);
  EXPECT_EQ(stream.epoch_summaries(), (Summaries{{4, 4, 7}, {5, 8, 0}}));
  stream.forget_epochs();
  EXPECT_TRUE(stream.epoch_summaries().empty());
}

TEST(AStream, SaysWhyItWasLost) {
  const std::vector<std::pair<StreamLoss, std::string>> losses = {
      {{StreamLoss::Why::kEnded}, "the peer's end was closed without a goodbye"},
      {{}, "the peer gave it up"},
      {StreamLoss::of(ECONNRESET), errno_text(ECONNRESET)},
      {StreamLoss::of(Receiver::kDamaged), "a checksum did not match"},
  };
  for (const auto& [loss, text] : losses) {
    Stream stream;
    stream.join({}, nullptr, 0);
    EXPECT_EQ(stream.lose(loss), text);
    EXPECT_EQ(stream.state(),
              loss.why == StreamLoss::Why::kEnded ? StreamState::kEnded : StreamState::kBroken);
  }
}

}  // namespace
}  // namespace tombolo::transport::tcp
