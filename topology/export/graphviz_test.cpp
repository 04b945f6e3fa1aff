#include "topology/export/graphviz.h"

#include "topology/testing/recorded_machine.h"

namespace tombolo::topology {
namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Graphviz, DrawsDevicesWhereTheyAre) {
  RecordedMachine host("gpu-server");
  host.machine.gpus[2].nvlinks = {{"0000:9c:00.0", false, 12}};
  const std::string text = graphviz(host.machine);
  EXPECT_TRUE(text.starts_with("graph machine {\n")) << text;
  EXPECT_TRUE(has(text, "\"0000:16:00.0\" -- \"gpu0\" [label=\"32 GT/s x16\"]")) << text;
  EXPECT_TRUE(has(text, "\"0000:16:00.0\" -- \"0000:1a:00.0\""));
  EXPECT_TRUE(has(text, "\"0000:1a:00.0\" -- \"gpu1\""));
  EXPECT_TRUE(has(text, "\"pci0000:15\" -- \"nic ib1\""));
  EXPECT_TRUE(has(text, "numa0 -- \"pci0000:37\""));
  EXPECT_TRUE(has(text, "gpu2 -- gpu3 [label=\"NV12\""));
  EXPECT_TRUE(has(text, "\"nic ib3\" -- \"fabric infiniband-fe80:0000:0000:0007\""));
  EXPECT_TRUE(has(text, "\"nic eno1\" -- \"fabric \""));
  EXPECT_FALSE(has(text, "\"nic lo\"")) << "neither used nor hardware";
}

TEST(Graphviz, DashesWhatIsNotUsedAndQuotesWhatIsOdd) {
  RecordedMachine host("sriov-host");
  host.machine.host_name = "a\"b\\c\nd";
  const std::string text = graphviz(host.machine);
  EXPECT_TRUE(has(text, "ens5f0v0\\nmlx5_2/1\\nRoCE 100 Gbit/s\\nnot used")) << text;
  EXPECT_TRUE(has(text, "style=\"rounded,dashed\""));
  EXPECT_TRUE(has(text, "label=\"a\\\"b\\\\c\\nd: 32 cores"));
}

}  // namespace
}  // namespace tombolo::topology
