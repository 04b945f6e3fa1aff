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

// A write failed because the stream was reset, and a read found its end then, as behind every reset. So it
// took the stream for one that its peer had closed after saying all, delivered what it held of it, and closed
// without telling its peer on the other streams how much of this one had arrived.
TEST(Found, AResetIsNoEndInOrderThoughAReadFindsAnEndBehindIt) {
  const Plan plan = decode_plan(
      R"({"bytes_per_second":1000000000.0,"checksums":false,"chunk":4096,"delay_ns":50000,
"faults":[{"at_ns":1467199,"host":1,"kind":"reset","stream":1}],
"messages":[{"from":0,"size":223644},{"from":0,"size":1}],
"nics":1,"replay":0,"seed":1057632,"short_one_in":0,"streams":3,"tls":false,"wait_before_close":false,"windows":[8,1]})",
      "the shrunk plan of seed 1057558");
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// The same with a single stream, and at the end that opens it again: it did not.
TEST(Found, AStreamThatWasResetIsOpenedAgainThoughAChunkOnItWaits) {
  const Plan plan = decode_plan(
      R"({"bytes_per_second":1000000000.0,"checksums":false,"chunk":0,"delay_ns":50000,
"faults":[{"at_ns":326607765,"host":1,"kind":"reset","nic":1,"stream":2},{"at_ns":85541987,"kind":"stop","lasts_ns":302005547,"stream":4}],
"messages":[{"from":1,"pause_ns":58814099,"size":1},{"from":1,"size":35410},{"from":1,"pause_ns":30542311,"size":1}],
"nics":1,"replay":0,"seed":1527902,"short_one_in":0,"streams":1,"tls":false,"wait_before_close":false,"windows":[2,3]})",
      "the shrunk plan of seed 1527902");
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// Its peer had accepted one stream, sent all on that, and closed. Then it answered an attempt to open another
// that it does not know the connection any more, and that answer came to be looked at first.
TEST(Found, WhatAPeerSentOnAStreamThatStillComesIsReceivedThoughThePeerIsGone) {
  const Plan plan = decode_plan(
      R"({"bytes_per_second":10000000.0,"checksums":false,"chunk":0,"delay_ns":5000,
"faults":[{"at_ns":559205,"call":"socket","errno":105,"kind":"errno","stream":2,"times":1},{"at_ns":134281,"kind":"reset"}],
"messages":[{"from":1,"pause_ns":24718558,"size":1}],
"nics":2,"replay":0,"seed":831245,"short_one_in":0,"streams":1,"tls":false,"wait_before_close":false,"windows":[3,8]})",
      "the shrunk plan of seed 831245");
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// A chunk waited for its receive while the connection had one stream, whose TLS session held what followed.
// Then a second stream came, and epoll, which was asked from then on, knew nothing of those bytes: they were
// never read, while the owner, who was told that there is something to read, turned round and round.
TEST(Found, WhatTlsHoldsOfTheOnlyStreamIsReadThoughASecondStreamComes) {
  const Plan plan = decode_plan(
      R"({"bytes_per_second":1000000000.0,"checksums":false,"chunk":0,"delay_ns":50000,"faults":[],
"messages":[{"from":1,"pause_ns":97282608,"size":1},{"from":0,"size":127610},{"from":1,"pause_ns":61954781,"size":1},
{"from":0,"size":1},{"from":0,"pause_ns":94270410,"size":1}],
"nics":2,"replay":0,"seed":547123,"short_one_in":0,"streams":1,"tls":true,"wait_before_close":true,"windows":[1,2]})",
      "the shrunk plan of seed 547073");
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// It closed while an attempt was under way to bring a stream back to its own NICs. The peer had accepted
// that, dropped the stream over the other NICs, and with it the last message, which this end sent to nobody
// again.
TEST(Found, AnEndThatClosesWhileAStreamReturnsToItsNicsSendsAgainWhatIsLostWithIt) {
  const Plan plan = decode_plan(
      R"({"bytes_per_second":1000000000.0,"checksums":false,"chunk":0,"delay_ns":20000000,
"faults":[{"at_ns":224408613,"host":1,"kind":"silence","lasts_ns":580306129,"stream":4},
{"at_ns":197956092,"call":"receive","errno":12,"host":1,"kind":"errno","nic":1,"stream":2,"times":2},
{"at_ns":159333941,"kind":"reset"}],
"messages":[{"from":0,"size":1},{"from":0,"size":44826},{"from":0,"size":124256},{"from":0,"size":112489},
{"from":0,"pause_ns":68563196,"size":1}],
"nics":2,"replay":0,"seed":625320,"short_one_in":10,"streams":2,"tls":false,"wait_before_close":false,"windows":[6,1]})",
      "the shrunk plan of seed 625219");
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// It sent its last message on a stream that had just come back, and closed. The peer had given up the attempt
// by which that stream came, because its handshake took too long, and never read it.
TEST(Found, AnEndThatClosesWaitsUntilThePeerHasAStreamThatCameBack) {
  const Plan plan = decode_plan(
      R"({"bytes_per_second":1000000000.0,"checksums":false,"chunk":0,"delay_ns":20000000,
"faults":[{"at_ns":281936858,"kind":"silence","lasts_ns":611496952},
{"at_ns":127057957,"call":"send","errno":12,"host":1,"kind":"errno","stream":2,"times":1}],
"messages":[{"from":1,"pause_ns":90734280,"size":1}],
"nics":1,"replay":0,"seed":1327237,"short_one_in":0,"streams":3,"tls":false,"wait_before_close":false,"windows":[4,5]})",
      "the shrunk plan of seed 1327208");
  EXPECT_EQ(run_connection(plan).wrong, "");
}

// The check did not know that an end learns only after a silence that its peer has given up a stream in it.
// By then it had closed.
TEST(Found, AnEndMayCloseBeforeItLearnsThatItsPeerGaveUpAStreamInASilence) {
  const Plan plan = decode_plan(
      R"({"bytes_per_second":1000000000.0,"checksums":false,"chunk":4096,"delay_ns":20000000,
"faults":[{"at_ns":331039607,"host":1,"kind":"silent-host","lasts_ns":505940322,"stream":5}],
"messages":[{"from":0,"pause_ns":36904541,"size":1},{"from":1,"size":170808},{"from":1,"size":272489},{"from":1,"size":1},
{"from":1,"size":0},{"from":1,"pause_ns":36972410,"size":604},{"from":1,"size":31470},{"from":1,"size":33865}],
"nics":1,"replay":0,"seed":804211,"short_one_in":10,"streams":0,"tls":false,"wait_before_close":false,"windows":[1,3]})",
      "the shrunk plan of seed 803933");
  EXPECT_EQ(run_connection(plan).wrong, "");
}

}  // namespace
}  // namespace tombolo::simulation
