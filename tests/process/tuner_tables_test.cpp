// The tuner's tables as NCCL finds them in the network's library.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "base/temporary_folder.h"
#include "net_plugin/abi/tuner.h"
#include "net_plugin/testing/cluster_json.h"
#include "tests/process/in_child.h"
#include "tests/process/plugin_library.h"

namespace tombolo::tests {
namespace {

namespace abi = net_plugin::abi;
using net_plugin::testing_support::ClusterJson;

constexpr int kAlgorithms = 7, kProtocols = 3;
using Costs = std::array<float, kAlgorithms * kProtocols>;

/// One version's table behind arguments that all have.
template <typename Table>
class Tuner {
 public:
  Tuner(const char* symbol, std::size_t ranks, std::size_t nodes) : table_(table_of<Table>(symbol)) {
    if constexpr (requires { table_.finalize; }) {
      abi::ncclNvlDomainInfo_v5_t domains{};
      EXPECT_EQ(table_.init(&context_, 77, ranks, nodes, keep_line, &domains, &constants), abi::ncclSuccess);
    } else {
      EXPECT_EQ(table_.init(ranks, nodes, keep_line, &context_), abi::ncclSuccess);
    }
  }
  ~Tuner() {
    if constexpr (requires { table_.finalize; }) {
      EXPECT_EQ(table_.finalize(context_), abi::ncclSuccess);
    } else {
      EXPECT_EQ(table_.destroy(context_), abi::ncclSuccess);
    }
  }
  /// NCCL's costs before and the tuner's after. It must ask for so many channels; 0: NCCL's own.
  Costs ask(std::size_t bytes, Costs costs, int wanted_channels = 0) {
    auto** table = reinterpret_cast<float**>(costs.data());
    int channels = 0;
    if constexpr (std::is_same_v<Table, abi::ncclTuner_v3_t>) {
      EXPECT_EQ(table_.getCollInfo(context_, abi::ncclFuncAllReduce, bytes, 1, table, kAlgorithms, kProtocols,
                                   &channels),
                abi::ncclSuccess);
    } else {
      EXPECT_EQ(table_.getCollInfo(context_, abi::ncclFuncAllReduce, bytes, 1, table, kAlgorithms, kProtocols,
                                   0, &channels),
                abi::ncclSuccess);
    }
    EXPECT_EQ(channels, wanted_channels);
    return costs;
  }
  const Table& table() const { return table_; }
  void* context() const { return context_; }

  abi::ncclTunerConstants_v5_t constants{};

 private:
  const Table& table_;
  void* context_ = nullptr;
};

Costs uniform(float value) {
  Costs costs;
  costs.fill(value);
  return costs;
}

/// Asks versions 3 to 6.
template <typename Body>
void with_each_table(std::size_t ranks, std::size_t nodes, const Body& body) {
  Tuner<abi::ncclTuner_v3_t> v3("ncclTunerPlugin_v3", ranks, nodes);
  Tuner<abi::ncclTuner_v4_t> v4("ncclTunerPlugin_v4", ranks, nodes);
  Tuner<abi::ncclTuner_v5_t> v5("ncclTunerPlugin_v5", ranks, nodes);
  Tuner<abi::ncclTuner_v6_t> v6("ncclTunerPlugin_v6", ranks, nodes);
  body(v3);
  body(v4);
  body(v5);
  body(v6);
}

struct Environment : std::map<std::string, std::string> {
  explicit Environment(const std::map<std::string, std::string>& set)
      : map{{"TOMBOLO_CLUSTER", ""},   {"TOMBOLO_TUNER", ""}, {"TOMBOLO_TUNER_LINK", ""},
            {"TOMBOLO_TUNER_LOG", ""}, {"NCCL_ALGO", ""},     {"NCCL_PROTO", ""}} {
    for (const auto& [name, value] : set) (*this)[name] = value;
  }
};

void expect_inert(std::size_t ranks, std::size_t nodes) {
  with_each_table(ranks, nodes, [](auto& tuner) {
    EXPECT_EQ(tuner.ask(1 << 20, uniform(12.5F)), uniform(12.5F));
    const double* const constant = &tuner.constants.baseLatencies[0][0];
    for (std::size_t i = 0; i < sizeof tuner.constants / sizeof(double); ++i) EXPECT_EQ(constant[i], 0);
  });
  Tuner<abi::ncclTuner_v6_t> v6("ncclTunerPlugin_v6", ranks, nodes);
  std::size_t chunk = 4096;
  EXPECT_EQ(v6.table().getChunkSize(v6.context(), abi::ncclFuncAllReduce, 1 << 20, 1, 2, 2, &chunk),
            abi::ncclSuccess);
  EXPECT_EQ(chunk, 4096U);
  const auto& v2 = table_of<abi::ncclTuner_v2_t>("ncclTunerPlugin_v2");
  void* context = nullptr;
  EXPECT_EQ(v2.init(ranks, nodes, keep_line, &context), abi::ncclSuccess);
  int algorithm = -1, protocol = -1, channels = 0;
  EXPECT_EQ(
      v2.getCollInfo(context, abi::ncclFuncAllReduce, 1 << 20, 1, 1, 1, &algorithm, &protocol, &channels),
      abi::ncclSuccess);
  EXPECT_EQ(algorithm, -1);
  EXPECT_EQ(protocol, -1);
  EXPECT_EQ(channels, 0);
  EXPECT_EQ(v2.destroy(context), abi::ncclSuccess);
}

TEST(TunerTables, AreInertUntilAClusterFileSaysThatACommunicatorSpans) {
  TemporaryFolder folder;
  folder.write("cluster.json", ClusterJson{.hosts = {2, 2}}.text());
  folder.write("broken.json", "{");
  const std::string cluster = folder.file("cluster.json");
  in_child(Environment({}), [] {
    expect_inert(32, 4);
    EXPECT_EQ(log_text, "") << "a job that did not ask sees nothing of it";
  });
  in_child(Environment({{"TOMBOLO_CLUSTER", cluster}, {"TOMBOLO_TUNER", "off"}}), [] {
    expect_inert(32, 4);
    EXPECT_EQ(log_text, "");
  });
  in_child(Environment({{"TOMBOLO_CLUSTER", cluster}}), [] {
    expect_inert(16, 2);
    EXPECT_NE(log_text.find("algorithms are left to NCCL: 2 nodes may all be in"), std::string::npos)
        << log_text;
  });
  // A failing init would fail the communicator.
  in_child(Environment({{"TOMBOLO_CLUSTER", folder.file("broken.json")}}), [] {
    expect_inert(32, 4);
    EXPECT_NE(log_text.find("broken.json"), std::string::npos) << log_text;
  });
  in_child(Environment({{"TOMBOLO_CLUSTER", cluster}, {"TOMBOLO_TUNER", "sometimes"}}), [] {
    expect_inert(32, 4);
    EXPECT_NE(log_text.find("TOMBOLO_TUNER"), std::string::npos) << log_text;
  });
}

TEST(TunerTables, OfAllVersionsRewriteTheCostsOfASpanningCommunicatorAlike) {
  TemporaryFolder folder;
  folder.write("cluster.json", ClusterJson{.hosts = {2, 2}}.text());
  const std::string choices = folder.file("choices");
  in_child(Environment({{"TOMBOLO_CLUSTER", folder.file("cluster.json")}, {"TOMBOLO_TUNER_LOG", choices}}),
           [] {
             std::vector<Costs> answers;
             with_each_table(32, 4, [&](auto& tuner) {
               answers.push_back(tuner.ask(1 << 20, uniform(12.5F), 2));
               EXPECT_NE(answers.back(), uniform(12.5F));
               EXPECT_EQ(answers.back(), answers.front());
               EXPECT_EQ(tuner.ask(1 << 20, uniform(-1)), uniform(-1));
             });
             Tuner<abi::ncclTuner_v6_t> v6("ncclTunerPlugin_v6", 32, 4);
             std::size_t chunk = 4096;
             v6.table().getChunkSize(v6.context(), abi::ncclFuncAllReduce, 1 << 20, 1, 2, 1, &chunk);
             EXPECT_EQ(chunk, 327680U) << "1.25e8 bytes per second for 20 ms in eighths, in steps of 64 KiB";
             EXPECT_NE(log_text.find("chooses the algorithms of 32 ranks"), std::string::npos) << log_text;
           });
  const std::string written = folder.read("choices");
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 9)
      << written << "four tables' costs and channels, and a chunk";
  EXPECT_NE(written.find("32 ranks on 4 nodes, all-reduce of 1 MiB"), std::string::npos) << written;
  EXPECT_NE(written.find("32 ranks on 4 nodes, chunks of 1 channel: 320 KiB of NCCL's 4 KiB"),
            std::string::npos)
      << written;
}

TEST(TunerTables, ALineMayTakeThePlaceOfTheClusterFile) {
  TemporaryFolder folder;
  folder.write("cluster.json", ClusterJson{.hosts = {4}}.text());
  // The line counts where both are there.
  in_child(Environment({{"TOMBOLO_CLUSTER", folder.file("cluster.json")},
                        {"TOMBOLO_TUNER_LINK", "hosts=2+2 rate=10gbit rtt=20ms"}}),
           [] {
             with_each_table(32, 4, [](auto& tuner) {
               EXPECT_NE(tuner.ask(1 << 20, uniform(12.5F), 6), uniform(12.5F));
               tuner.ask(8, uniform(12.5F), 1);
             });
             EXPECT_NE(log_text.find("4 nodes span the 2 clusters of TOMBOLO_TUNER_LINK"), std::string::npos)
                 << log_text;
           });
  in_child(Environment({{"TOMBOLO_TUNER_LINK", std::string("hosts=2+2 rate=10gbit")}}), [] {
    expect_inert(32, 4);
    EXPECT_NE(log_text.find("lacks rtt=20ms"), std::string::npos) << log_text;
  });
}

TEST(TunerTables, V2ChoosesUnlessTheUserDid) {
  TemporaryFolder folder;
  folder.write("cluster.json", ClusterJson{.hosts = {1, 1}}.text());
  const std::string cluster = folder.file("cluster.json");
  const auto expect_choice = [](int wanted_algorithm, int wanted_protocol) {
    const auto& v2 = table_of<abi::ncclTuner_v2_t>("ncclTunerPlugin_v2");
    void* context = nullptr;
    EXPECT_EQ(v2.init(16, 2, keep_line, &context), abi::ncclSuccess);
    int algorithm = -1, protocol = -1, channels = 0;
    EXPECT_EQ(v2.getCollInfo(context, abi::ncclFuncAllReduce, std::size_t{1} << 30, 0, 1, 1, &algorithm,
                             &protocol, &channels),
              abi::ncclSuccess);
    EXPECT_EQ(algorithm, wanted_algorithm);
    EXPECT_EQ(protocol, wanted_protocol);
    EXPECT_EQ(channels, 0);
    EXPECT_EQ(v2.destroy(context), abi::ncclSuccess);
  };
  in_child(Environment({{"TOMBOLO_CLUSTER", cluster}}),
           [&] { expect_choice(abi::NCCL_ALGO_TREE, abi::NCCL_PROTO_SIMPLE); });
  in_child(Environment({{"TOMBOLO_CLUSTER", cluster}, {"NCCL_ALGO", "Ring"}}),
           [&] { expect_choice(-1, -1); });
  in_child(Environment({{"TOMBOLO_CLUSTER", cluster}, {"NCCL_PROTO", "LL"}}), [&] { expect_choice(-1, -1); });
}

}  // namespace
}  // namespace tombolo::tests
