#include "collectives/engine/used_buffers.h"

#include <gtest/gtest.h>

#include <string>

namespace tombolo::collectives {
namespace {

/// "send<0+8 receive>0+4,8+4": what is read and written, offset and bytes.
std::string text(const CollectiveCall& call, int rank, int ranks) {
  std::string all;
  for (const gpu::Buffer& buffer : used_buffers(call, rank, ranks)) {
    all += (all.empty() ? "" : " ") + std::string(buffer.name);
    for (const auto* ranges : {&buffer.read, &buffer.written}) {
      const char* sign = ranges == &buffer.read ? "<" : ">";
      for (const gpu::Range& range : *ranges) {
        all += sign + std::to_string(range.offset) + "+" + std::to_string(range.bytes);
        sign = ",";
      }
    }
  }
  return all;
}

std::byte memory[64];

CollectiveCall call_of(Collective collective) {
  CollectiveCall call{collective, memory, memory + 32, 2, DataType::kInt16};
  call.root = 1;
  return call;
}

TEST(UsedBuffers, AreThoseOfTheRanksPart) {
  EXPECT_EQ(text(call_of(Collective::kAllReduce), 0, 3), "send<0+4 receive>0+4");
  EXPECT_EQ(text(call_of(Collective::kReduceScatter), 0, 3), "send<0+12 receive>0+4");
  EXPECT_EQ(text(call_of(Collective::kAllGather), 0, 3), "send<0+4 receive>0+12");
  EXPECT_EQ(text(call_of(Collective::kAllToAll), 0, 3), "send<0+12 receive>0+12");
  EXPECT_EQ(text(call_of(Collective::kBroadcast), 0, 3), "receive>0+4");
  EXPECT_EQ(text(call_of(Collective::kBroadcast), 1, 3), "send<0+4 receive>0+4");
  EXPECT_EQ(text(call_of(Collective::kReduce), 0, 3), "send<0+4");
  EXPECT_EQ(text(call_of(Collective::kReduce), 1, 3), "send<0+4 receive>0+4");
  EXPECT_EQ(text(call_of(Collective::kGather), 0, 3), "send<0+4");
  EXPECT_EQ(text(call_of(Collective::kGather), 1, 3), "send<0+4 receive>0+12");
  EXPECT_EQ(text(call_of(Collective::kScatter), 0, 3), "receive>0+4");
  EXPECT_EQ(text(call_of(Collective::kScatter), 1, 3), "send<0+12 receive>0+4");
  EXPECT_EQ(text(call_of(Collective::kBarrier), 1, 3), "");
}

TEST(UsedBuffers, LeaveOutWhatLiesBetweenParts) {
  CollectiveCall call = call_of(Collective::kAllGather);
  call.uneven = true;
  call.parts = std::make_shared<const Parts>(Parts{{2, 0, 1, 3}, {4, 99, 6, 0}});
  EXPECT_EQ(text(call, 0, 4), "send<0+4 receive>0+6,8+6") << "those that adjoin each other are one";
}

TEST(UsedBuffers, OfARootsBroadcastInPlaceNothingIsWritten) {
  CollectiveCall call = call_of(Collective::kBroadcast);
  call.receive = memory;
  EXPECT_EQ(text(call, 1, 3), "send<0+4");
  EXPECT_EQ(text(call, 0, 3), "receive>0+4");
}

TEST(UsedBuffers, AreNoneWithoutElements) {
  CollectiveCall call = call_of(Collective::kAllReduce);
  call.count = 0;
  EXPECT_EQ(text(call, 0, 3), "");
}

TEST(UsedBuffers, AResidualIsReadAndWritten) {
  CollectiveCall call = call_of(Collective::kAllReduce);
  call.type = DataType::kFloat32;
  call.residual = reinterpret_cast<float*>(memory);
  EXPECT_EQ(text(call, 0, 3), "send<0+8 receive>0+8 residual<0+8>0+8");
}

}  // namespace
}  // namespace tombolo::collectives
