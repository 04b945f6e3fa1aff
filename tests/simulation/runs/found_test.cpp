// Plans that once went wrong, for what was mended since.
#include <gtest/gtest.h>

#include "tests/simulation/runs/connection_run.h"

namespace tombolo::simulation {
namespace {

struct MendedPlan {
  const char* name;  ///< of what holds since
  const char* plan;  ///< what simulate --plan reads; a shrunk one mostly
};

constexpr MendedPlan kMended[] = {
    // Its next message had no room in the ring, and it was awake until its peer went on: there was room for
    // a longer one.
    {"ASenderSleepsWhileItsPeerLeavesTheRingFull",
     R"({"seed":2,"over":"shm","fetch":"never","windows":[8,8],"messages":[{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000},
     {"from":0,"size":8000},{"from":0,"size":8000},{"from":0,"size":8000}],"faults":[
     {"kind":"stop","host":1,"step":40,"lasts_ns":300000000}]})"},
    // Its wait handles were ready again and again until the next check, up to 100 ms later, once a stream
    // was due to be opened.
    {"AnOwnerSleepsUntilItsFurtherStreamsAreOpened",
     R"({"seed":2,"nics":2,"messages":[{"from":1,"size":1,"pause_ns":45000000}],"faults":[]})"},
    // It took streams that came only with its next check, and its wait handles were ready until then.
    {"AnOwnerSleepsOnceAFurtherStreamHasCome",
     R"({"seed":8,"streams":0,"delay_ns":20000000,"messages":[{"from":0,"size":1,"pause_ns":84000000}],"faults":[]})"},
    // It read what it had received on streams that were still being opened, beyond an array's end.
    // AddressSanitizer sees that.
    {"AConnectionPingsOnlyOnStreamsThatAreThere",
     R"({"seed":21,"streams":4,"nics":2,"messages":[{"from":1,"size":100,"pause_ns":600000000}],"faults":[
     {"kind":"silence","nic":1,"lasts_ns":700000000}]})"},
    // It waited ten idle timeouts to send a chunk again on the stream that had lost it. That the process was
    // gone stood on the other stream, behind a chunk for which no receive was posted.
    {"AnEndThatHasToSendAgainNoticesAPeerThatIsGoneBehindAChunkThatWaits",
     R"({"seed":114731,"streams":2,"tls":true,"delay_ns":1000000,"windows":[5,2],"wait_before_close":false,
     "messages":[{"from":1,"size":1},{"from":1,"size":1},{"from":1,"size":1},{"from":1,"size":1},
     {"from":1,"size":1},{"from":1,"size":1,"pause_ns":83790775},{"from":0,"size":0,"pause_ns":69962075}],
     "faults":[{"kind":"reset","at_ns":60375432},{"kind":"kill","host":1,"at_ns":95609068}]})"},
    // It still waited for acknowledgements that lay unread on other streams, when a write failed on a stream
    // that its peer had closed after saying all; so it dropped that stream with a message that no receive
    // was posted for yet.
    {"WhatAPeerSaidBeforeItsGoodbyeIsDeliveredThoughAcknowledgementsAreOpen",
     R"({"seed":351158,"chunk":4096,"delay_ns":20000000,"replay":65536,"short_one_in":2,"streams":4,
     "wait_before_close":false,"windows":[8,5],"messages":[{"from":1,"size":1},
     {"from":1,"pause_ns":97108940,"size":1920},{"from":0,"size":5213},{"from":0,"size":1},
     {"from":1,"size":19690},{"from":1,"size":32929},{"from":1,"size":0},
     {"from":0,"pause_ns":54444302,"size":34863},{"from":1,"size":11899},{"from":0,"size":308},
     {"from":0,"size":1729},{"from":0,"size":0}],"faults":[
     {"at_ns":190509688,"host":1,"kind":"silent-host","lasts_ns":538984049,"stream":3}]})"},
    // A write failed because the stream was reset, and a read found its end then, as behind every reset. So
    // it took the stream for one that its peer had closed after saying all, delivered what it held of it,
    // and closed without telling its peer on the other streams how much of this one had arrived.
    {"AResetIsNoEndInOrderThoughAReadFindsAnEndBehindIt",
     R"({"seed":1057632,"chunk":4096,"streams":3,"wait_before_close":false,"windows":[8,1],"messages":[
     {"from":0,"size":223644},{"from":0,"size":1}],"faults":[{"at_ns":1467199,"host":1,"kind":"reset","stream":1}
     ]})"},
    // The same with a single stream, and at the end that opens it again: it did not.
    {"AStreamThatWasResetIsOpenedAgainThoughAChunkOnItWaits",
     R"({"seed":1527902,"wait_before_close":false,"windows":[2,3],"messages":[
     {"from":1,"pause_ns":58814099,"size":1},{"from":1,"size":35410},{"from":1,"pause_ns":30542311,"size":1}],
     "faults":[{"at_ns":326607765,"host":1,"kind":"reset","nic":1,"stream":2},
     {"at_ns":85541987,"kind":"stop","lasts_ns":302005547,"stream":4}]})"},
    // Its peer had accepted one stream, sent all on that, and closed. Then it answered an attempt to open
    // another that it does not know the connection any more, and that answer came to be looked at first.
    {"WhatAPeerSentOnAStreamThatStillComesIsReceivedThoughThePeerIsGone",
     R"({"seed":831245,"bytes_per_second":10000000.0,"delay_ns":5000,"nics":2,"wait_before_close":false,
     "windows":[3,8],"messages":[{"from":1,"pause_ns":24718558,"size":1}],"faults":[
     {"at_ns":559205,"call":"socket","errno":105,"kind":"errno","stream":2,"times":1},
     {"at_ns":134281,"kind":"reset"}]})"},
    // A chunk waited for its receive while the connection had one stream, whose TLS session held what
    // followed. Then a second stream came, and epoll, which was asked from then on, knew nothing of those
    // bytes: they were never read, while the owner, who was told that there is something to read, turned
    // round and round.
    {"WhatTlsHoldsOfTheOnlyStreamIsReadThoughASecondStreamComes",
     R"({"seed":547123,"nics":2,"tls":true,"windows":[1,2],"messages":[{"from":1,"pause_ns":97282608,"size":1},
     {"from":0,"size":127610},{"from":1,"pause_ns":61954781,"size":1},{"from":0,"size":1},
     {"from":0,"pause_ns":94270410,"size":1}],"faults":[]})"},
    // It closed while an attempt was under way to bring a stream back to its own NICs. The peer had accepted
    // that, dropped the stream over the other NICs, and with it the last message, which this end sent to
    // nobody again.
    {"AnEndThatClosesWhileAStreamReturnsToItsNicsSendsAgainWhatIsLostWithIt",
     R"({"seed":625320,"delay_ns":20000000,"nics":2,"short_one_in":10,"streams":2,"wait_before_close":false,
     "windows":[6,1],"messages":[{"from":0,"size":1},{"from":0,"size":44826},{"from":0,"size":124256},
     {"from":0,"size":112489},{"from":0,"pause_ns":68563196,"size":1}],"faults":[
     {"at_ns":224408613,"host":1,"kind":"silence","lasts_ns":580306129,"stream":4},
     {"at_ns":197956092,"call":"receive","errno":12,"host":1,"kind":"errno","nic":1,"stream":2,"times":2},
     {"at_ns":159333941,"kind":"reset"}]})"},
    // It sent its last message on a stream that had just come back, and closed. The peer had given up the
    // attempt by which that stream came, because its handshake took too long, and never read it.
    {"AnEndThatClosesWaitsUntilThePeerHasAStreamThatCameBack",
     R"({"seed":1327237,"delay_ns":20000000,"streams":3,"wait_before_close":false,"windows":[4,5],"messages":[
     {"from":1,"pause_ns":90734280,"size":1}],"faults":[
     {"at_ns":281936858,"kind":"silence","lasts_ns":611496952},
     {"at_ns":127057957,"call":"send","errno":12,"host":1,"kind":"errno","stream":2,"times":1}]})"},
    // The check did not know that an end learns only after a silence that its peer has given up a stream in
    // it. By then it had closed.
    {"AnEndMayCloseBeforeItLearnsThatItsPeerGaveUpAStreamInASilence",
     R"({"seed":804211,"chunk":4096,"delay_ns":20000000,"short_one_in":10,"streams":0,"wait_before_close":false,
     "windows":[1,3],"messages":[{"from":0,"pause_ns":36904541,"size":1},{"from":1,"size":170808},
     {"from":1,"size":272489},{"from":1,"size":1},{"from":1,"size":0},{"from":1,"pause_ns":36972410,"size":604},
     {"from":1,"size":31470},{"from":1,"size":33865}],"faults":[
     {"at_ns":331039607,"host":1,"kind":"silent-host","lasts_ns":505940322,"stream":5}]})"},
};

class MendedPlans : public testing::TestWithParam<MendedPlan> {};
INSTANTIATE_TEST_SUITE_P(Found, MendedPlans, testing::ValuesIn(kMended),
                         [](const auto& one) { return one.param.name; });

TEST_P(MendedPlans, GoWell) {
  EXPECT_EQ(run_connection(decode_plan(GetParam().plan, GetParam().name)).wrong, "");
}

}  // namespace
}  // namespace tombolo::simulation
