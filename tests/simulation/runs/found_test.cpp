// Plans that once went wrong, for what was mended since.
#include <gtest/gtest.h>

#include "tests/simulation/runs/connection_run.h"

namespace tombolo::simulation {
namespace {

using std::chrono::milliseconds;

// Its next message had no room in the ring, and it was awake until its peer went on: there was room for a
// longer one.
TEST(Found, ASenderSleepsWhileItsPeerLeavesTheRingFull) {
  Plan plan;
  plan.seed = 2;
  plan.over = Over::kShm;
  plan.fetch = transport::shm::Fetch::kNever;
  plan.window[0] = plan.window[1] = 8;
  for (int i = 0; i < 60; ++i) plan.messages.push_back({0, 8000, {}});
  Fault stop;
  stop.kind = Fault::Kind::kStop;
  stop.host = 1;
  stop.step = 40;
  stop.lasts = milliseconds(300);
  plan.faults = {stop};
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// Its wait handles were ready again and again until the next check, up to 100 ms later, once a stream was due
// to be opened.
TEST(Found, AnOwnerSleepsUntilItsFurtherStreamsAreOpened) {
  Plan plan;
  plan.seed = 2;
  plan.nics = 2;
  plan.messages = {{1, 1, milliseconds(45)}};
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// It took streams that came only with its next check, and its wait handles were ready until then.
TEST(Found, AnOwnerSleepsOnceAFurtherStreamHasCome) {
  Plan plan;
  plan.seed = 8;
  plan.streams = 0;
  plan.delay = milliseconds(20);
  plan.messages = {{0, 1, milliseconds(84)}};
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// It read what it had received on streams that were still being opened, beyond an array's end.
// AddressSanitizer sees that.
TEST(Found, AConnectionPingsOnlyOnStreamsThatAreThere) {
  Plan plan;
  plan.seed = 21;
  plan.streams = 4;
  plan.nics = 2;
  plan.messages = {{1, 100, milliseconds(600)}};
  Fault silence;
  silence.kind = Fault::Kind::kSilence;
  silence.nic = 1;
  silence.lasts = milliseconds(700);
  plan.faults = {silence};
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// It waited ten idle timeouts to send a chunk again on the stream that had lost it. That the process was gone
// stood on the other stream, behind a chunk for which no receive was posted.
TEST(Found, AnEndThatHasToSendAgainNoticesAPeerThatIsGoneBehindAChunkThatWaits) {
  Plan plan;
  plan.seed = 114'731;
  plan.streams = 2;
  plan.tls = true;
  plan.delay = milliseconds(1);
  plan.window[0] = 5;
  plan.window[1] = 2;
  plan.wait_before_close = false;
  plan.messages.assign(5, {1, 1, {}});
  plan.messages.push_back({1, 1, Duration(83'790'775)});
  plan.messages.push_back({0, 0, Duration(69'962'075)});
  Fault reset, kill;
  reset.at = Duration(60'375'432);
  kill.kind = Fault::Kind::kKill;
  kill.host = 1;
  kill.at = Duration(95'609'068);
  plan.faults = {reset, kill};
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// It still waited for acknowledgements that lay unread on other streams, when a write failed on a stream that
// its peer had closed after saying all; so it dropped that stream with a message that no receive was posted
// for yet.
TEST(Found, WhatAPeerSaidBeforeItsGoodbyeIsDeliveredThoughAcknowledgementsAreOpen) {
  const Plan plan = decode_plan(
      R"({"bytes_per_second":1000000000.0,"checksums":false,"chunk":4096,"delay_ns":20000000,"faults":[{"at_ns":190509688,"host":1,"kind":"silent-host","lasts_ns":538984049,"stream":3}],
"messages":[{"from":1,"size":1},{"from":1,"pause_ns":97108940,"size":1920},
{"from":0,"size":5213},{"from":0,"size":1},{"from":1,"size":19690},{"from":1,"size":32929},
{"from":1,"size":0},{"from":0,"pause_ns":54444302,"size":34863},{"from":1,"size":11899},
{"from":0,"size":308},{"from":0,"size":1729},{"from":0,"size":0}],
"nics":1,"replay":65536,"seed":351158,"short_one_in":2,"streams":4,"tls":false,"wait_before_close":false,"windows":[8,5]})",
      "the shrunk plan of seed 350983");
  EXPECT_EQ(run_connection(plan).wrong, "");
}

}  // namespace
}  // namespace tombolo::simulation
