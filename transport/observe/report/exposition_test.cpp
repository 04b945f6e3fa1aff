// The text of the meters. tests/process/observability_test.py reads it with Prometheus' own parser.
#include "transport/observe/report/exposition.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tombolo::transport::report {
namespace {

MeterSubject subject_to(const std::string& host) {
  MeterSubject one;
  one.route.transport = "tcp";
  one.route.local_nic = "eth0";
  one.route.peer_nic = "eth1";
  one.route.peer_host = host;
  one.label = 12;
  return one;
}

TEST(Exposition, ShowsCountsUnderTheirLabelsAndTimesInSeconds) {
  auto meters = std::make_shared<Meters>();
  Metering one(meters, subject_to("b0"));
  one->sent_bytes.add(1'000'000'007);
  one->send_stalled_ns.add(1'500'000'000);
  one->add_stream("eth0", "eth1").round_trip_ns.set(250'000);
  const std::string page = to_prometheus(meters->read(), {"a0", 77});
  const std::string labels = R"({transport="tcp",nic="eth0",peer_nic="eth1",peer="b0"})";
  EXPECT_NE(page.find("\ntombolo_sent_bytes_total" + labels + " 1000000007\n"), std::string::npos) << page;
  EXPECT_NE(page.find("\ntombolo_send_stalled_seconds_total" + labels + " 1.5\n"), std::string::npos);
  EXPECT_NE(page.find("\ntombolo_round_trip_seconds" + labels + " 0.00025\n"), std::string::npos);
  EXPECT_NE(page.find("\ntombolo_connections" + labels + " 1\n"), std::string::npos);
  EXPECT_NE(page.find("\n# TYPE tombolo_sent_bytes_total counter\n"), std::string::npos);
  EXPECT_NE(page.find("host=\"a0\",process=\"77\"} 1\n"), std::string::npos);
}

TEST(Exposition, KeepsHostileNamesInsideTheirQuotes) {
  auto meters = std::make_shared<Meters>();
  Metering one(meters, subject_to("b\"} 1\nevil 2 \\ \xff\x01"));
  const std::string page = to_prometheus(meters->read(), {"a0", 77});
  EXPECT_EQ(page.find("\nevil"), std::string::npos);
  EXPECT_NE(page.find(R"(peer="b\"} 1\nevil 2 \\ \\xff\\x01"})"), std::string::npos) << page;
}

class TwoSeries final : public SeriesSource {
 public:
  std::vector<SeriesFamily> read() const override {
    return {{"tombolo_x_seconds_total",
             "Time.",
             {{{{"rank", "0"}, {"nic", "a\"b"}}, 1.5}, {{{"rank", "1"}, {"nic", "c"}}, 12345678901.0}}}};
  }
};

TEST(Exposition, ShowsWhatOtherSourcesCount) {
  auto meters = std::make_shared<Meters>();
  EXPECT_TRUE(to_json(meters->read(), {"a0", 77})["more"].empty());
  meters->add_source(std::make_shared<TwoSeries>());
  const std::string page = to_prometheus(meters->read(), {"a0", 77});
  EXPECT_TRUE(
      page.ends_with("# HELP tombolo_x_seconds_total Time.\n# TYPE tombolo_x_seconds_total counter\n"
                     "tombolo_x_seconds_total{rank=\"0\",nic=\"a\\\"b\"} 1.5\n"
                     "tombolo_x_seconds_total{rank=\"1\",nic=\"c\"} 12345678901\n"))
      << page;
  const auto json = to_json(meters->read(), {"a0", 77});
  EXPECT_EQ(json["more"]["x_seconds"][0], (nlohmann::json{{"rank", "0"}, {"nic", "a\"b"}, {"value", 1.5}}));
}

TEST(Exposition, GivesEveryConnectionWithItsStreamsAsJson) {
  auto meters = std::make_shared<Meters>();
  Metering one(meters, subject_to("b0"));
  one->sent_messages.add(3);
  StreamMeter& stream = one->add_stream("eth2", "eth3");
  stream.sent_chunks.add(5);
  stream.broke();
  const auto json = to_json(meters->read(), {"a0", 77});
  ASSERT_EQ(json["connections"].size(), 1u);
  const auto& connection = json["connections"][0];
  EXPECT_EQ(connection["label"], 12);
  EXPECT_EQ(connection["sent_messages"], 3);
  EXPECT_EQ(connection["peer_host"], "b0");
  ASSERT_EQ(connection["streams"].size(), 1u);
  EXPECT_EQ(connection["streams"][0]["nic"], "eth2");
  EXPECT_EQ(connection["streams"][0]["sent_chunks"], 5);
  EXPECT_EQ(connection["streams"][0]["up"], false);
  EXPECT_EQ(json["totals"].size(), 2u);
  EXPECT_EQ(json["totals"][0]["sent_messages"], 3);
}

}  // namespace
}  // namespace tombolo::transport::report
