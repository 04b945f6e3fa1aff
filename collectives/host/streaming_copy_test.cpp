#include "collectives/host/streaming_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace tombolo::collectives {
namespace {

TEST(CopyPastCaches, CopiesThatMuchFromAnyPlaceToAny) {
  std::vector<std::byte> from(1000), to(1000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 200U, 700U}) {
    for (std::size_t source = 0; source < 70; source += 23) {
      for (std::size_t place = 0; place < 70; ++place) {
        std::fill(to.begin(), to.end(), std::byte{0xee});
        copy_past_caches(to.data() + place, from.data() + source, bytes);
        for (std::size_t i = 0; i < to.size(); ++i) {
          const bool within = i >= place && i < place + bytes;
          ASSERT_EQ(to[i], within ? from[source + i - place] : std::byte{0xee})
              << "byte " << i << " of " << bytes << " from " << source << " to " << place;
        }
      }
    }
  }
}

TEST(CopyPastCaches, LeavesWhatIsCopiedToItself) {
  std::vector<std::byte> values(200, std::byte{3});
  copy_past_caches(values.data(), values.data(), values.size());
  EXPECT_EQ(values, std::vector<std::byte>(200, std::byte{3}));
}

}  // namespace
}  // namespace tombolo::collectives
