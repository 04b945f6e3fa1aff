// What Python and PyTorch make of it: tests/process/stuck_test.py.
#include "tools/stuck/flight_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tombolo::tools::stuck {
namespace {

using collectives::OperationState;
using collectives::RankReport;
using collectives::ReportedCommunicator;
using collectives::ReportedOperation;
using Json = nlohmann::json;

RankView rank_with(const std::vector<ReportedOperation>& operations) {
  ReportedCommunicator one;
  one.name = "comm/0";
  one.ranks = {0, 1, 2, 3};
  one.operations = operations;
  return {2, "a", 7, ProcessState::kUnknown, RankReport{2, "a", 7, 5, {one}}};
}

TEST(FlightRecord, GivesTheElementsOfEachCollectivesBuffers) {
  const struct {
    const char* collective;
    const char* name;
    int sent, received;
  } all[] = {{"all_reduce", "nccl:all_reduce", 10, 10},
             {"reduce_scatter", "nccl:_reduce_scatter_base", 40, 10},
             {"all_gather", "nccl:_all_gather_base", 10, 40},
             {"broadcast", "nccl:broadcast", 10, 10},
             {"gather", "nccl:gather", 10, 40},
             {"scatter", "nccl:scatter", 40, 10},
             {"all_to_all", "nccl:all_to_all", 40, 40},
             {"barrier", "nccl:barrier", 1, 1}};
  for (const auto& one : all) {
    const Json entry =
        flight_record_of(
            rank_with({{3, one.collective, "half", "", 10, -1, false, OperationState::kStarted, 9}}))
            .at("entries")
            .at(0);
    EXPECT_EQ(entry["profiling_name"], one.name);
    EXPECT_EQ(entry["input_sizes"], Json::array({Json::array({one.sent})})) << one.collective;
    EXPECT_EQ(entry["output_sizes"], Json::array({Json::array({one.received})})) << one.collective;
    EXPECT_EQ(entry["input_dtypes"], Json::array({"Half"}));
  }
}

TEST(FlightRecord, SaysHowFarEachGroupCame) {
  const Json record =
      flight_record_of(rank_with({{4, "barrier", "", "", 0, -1, false, OperationState::kCompleted, 1},
                                  {5, "barrier", "", "", 0, -1, false, OperationState::kStarted, 2},
                                  {6, "barrier", "", "", 0, -1, false, OperationState::kScheduled, 3}}));
  EXPECT_EQ(record["pg_status"]["0"]["last_completed_collective"], "4");
  EXPECT_EQ(record["pg_status"]["0"]["last_started_collective"], "5");
  EXPECT_EQ(record["pg_status"]["0"]["last_enqueued_collective"], "6");
  EXPECT_EQ(record["entries"][1]["time_discovered_started_ns"], 2);
  EXPECT_TRUE(record["entries"][2]["time_discovered_started_ns"].is_null());
  EXPECT_EQ(record["entries"][2]["process_group"], Json::array({"comm/0", "comm/0"}));
  EXPECT_THROW(flight_record_of(RankView{}), Error);
}

TEST(Pickle, WritesEveryKindOfValue) {
  using namespace std::string_literals;
  EXPECT_EQ(pickled(nullptr), "\x80\x02N."s);
  EXPECT_EQ(pickled(true), "\x80\x02\x88."s);
  EXPECT_EQ(pickled(-2), "\x80\x02\x8a\x09\xfe\xff\xff\xff\xff\xff\xff\xff\xff."s);
  EXPECT_EQ(pickled(258u), "\x80\x02\x8a\x09\x02\x01\0\0\0\0\0\0\0."s);
  EXPECT_EQ(pickled(1.5), "\x80\x02G\x3f\xf8\0\0\0\0\0\0."s);
  EXPECT_EQ(pickled(Json::array({"a"})), "\x80\x02](X\x01\0\0\0ae."s);
  EXPECT_EQ(pickled(Json{{"k", 1.5}}), "\x80\x02}(X\x01\0\0\0kG\x3f\xf8\0\0\0\0\0\0u."s);
}

}  // namespace
}  // namespace tombolo::tools::stuck
