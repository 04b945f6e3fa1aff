// Detection on damaged trees: its answer must be facts that all other parts can work with.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/randomized_test.h"
#include "topology/export/graphviz.h"
#include "topology/export/nccl_xml.h"
#include "topology/judge/distance.h"
#include "topology/judge/reach.h"
#include "topology/testing/recorded_machine.h"

namespace tombolo::topology {
namespace {

using Lines = std::vector<std::string>;

class Damaged : public ::testing::Test {
 protected:
  Damaged() {
    std::string name = (std::filesystem::temp_directory_path() / "tombolo-damaged-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    random_.seed(test_seed());
    for (const auto& entry : std::filesystem::directory_iterator(TOMBOLO_SOURCE_DIR "/topology/recorded")) {
      std::ifstream file(entry.path());
      std::string line;
      for (auto& lines = trees_[entry.path().stem().string()]; std::getline(file, line);) {
        if (!line.empty() && line[0] != '#') lines.push_back(line);
      }
    }
  }
  ~Damaged() override { std::filesystem::remove_all(folder_); }

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  /// A text or link target from elsewhere in the tree, or a senseless one.
  std::string other_value(const Lines& lines) {
    static const Lines kOdd{"",
                            "-1",
                            "0x",
                            "0xffffffffffffffffff",
                            "99999999999999999999",
                            "1e99",
                            "\x01\xff\\n\\n",
                            ": ",
                            "4:",
                            "nan Gb/sec",
                            "inf",
                            "772",
                            "32",
                            "DEVTYPE=",
                            "Ethernet",
                            "fe80::1",
                            std::string(39, 'f'),
                            std::string(5000, '7'),
                            std::string(59, ':'),
                            "a b c d e f g h i j k",
                            "\"<&>'"};
    if (below(2) == 0) return kOdd[below(kOdd.size())];
    const std::string& line = lines[below(lines.size())];
    const auto at = line.find(" = ");
    return at == std::string::npos ? kOdd[below(kOdd.size())] : line.substr(at + 3);
  }

  void damage(Lines& lines) {
    std::string& line = lines[below(lines.size())];
    const auto equals = line.find(" ="), arrow = line.find(" -> ");
    if (equals != std::string::npos) {
      switch (below(4)) {
        case 0:
          line = line.substr(0, equals) + "/";  // a folder where a file should be
          break;
        case 1:
          line = line.substr(0, equals) + " -> " + other_value(lines);
          break;
        default:
          line = line.substr(0, equals) + " = " + other_value(lines);
      }
    } else if (arrow != std::string::npos) {
      const Lines targets{"nowhere",
                          "..",
                          "/",
                          "/sys/class/net",
                          line.substr(0, arrow),
                          "/sys/devices",
                          "../../../../../../../../etc",
                          "/sys/devices/virtual/net"};
      line = below(4) == 0 ? line.substr(0, arrow) + " = " + other_value(lines)
                           : line.substr(0, arrow) + " -> " + targets[below(targets.size())];
    } else {
      line = "# gone";  // what follows lies in the folder before
    }
    if (below(4) == 0) lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(below(lines.size())));
  }

  /// What every part of the program may rely on.
  void check(const Machine& machine) {
    for (const Nic& nic : machine.nics) {
      EXPECT_FALSE(nic.name.empty());
      EXPECT_FALSE(nic.reason.empty()) << nic.name;
      EXPECT_GE(nic.mtu, 0);
      if (is_rdma(nic.kind)) {
        EXPECT_FALSE(nic.rdma_device.empty()) << nic.name;
        EXPECT_GE(nic.rdma_port, 1) << nic.name;
      }
      for (const Nic& other : machine.nics) EXPECT_FALSE(judge_reach(nic, other).why.empty());
    }
    const DistanceMatrix matrix = distance_matrix(machine);
    for (const auto& row : matrix.cells) EXPECT_EQ(row.size(), matrix.devices.size());
    EXPECT_FALSE(to_json(machine).dump(-1, ' ', false, Json::error_handler_t::strict).empty());
    EXPECT_TRUE(nccl_xml(machine).starts_with("<system version=\"1\">"));
    EXPECT_TRUE(graphviz(machine).ends_with("}\n"));
    ClusterFile file;
    file.hosts.push_back(to_host(machine));
    file.hosts[0].name = file.hosts[0].cluster = "A";
    if (std::any_of(file.hosts[0].nics.begin(), file.hosts[0].nics.end(),
                    [](const Nic& nic) { return odd(nic); }))
      return;
    EXPECT_NO_THROW(ClusterFile::parse(JsonDocument::parse(file.to_json().dump(1), "damaged")));
  }

  /// Driver names and interface names are the kernel's; a damaged one may have blanks, which a cluster file
  /// refuses.
  static bool odd(const Nic& nic) {
    auto blank = [](const std::string& text) { return text.find_first_of(" \n\"<") != std::string::npos; };
    return blank(nic.name) || blank(nic.fabric) || blank(nic.rdma_device);
  }

  std::filesystem::path folder_;
  std::mt19937 random_;
  std::map<std::string, Lines> trees_;
};

TEST_F(Damaged, TreesGiveFactsAndNeverCrash) {
  const std::string path = folder_ / "damaged.tree";
  int accepted = 0;
  constexpr int kRounds = test_rounds(200);
  for (int round = 0; round < kRounds; ++round) {
    auto tree = trees_.begin();
    std::advance(tree, static_cast<std::ptrdiff_t>(below(trees_.size())));
    Lines lines = tree->second;
    for (std::size_t times = 1 + below(12); times > 0; --times) damage(lines);
    std::ofstream file(path, std::ios::trunc);
    for (const std::string& line : lines) file << line << "\n";
    file.close();
    try {
      check(detect({.root = path, .live = false, .log = {}}));
      ++accepted;
    } catch (const Error& error) {
      // Damage may make two entries of one name, or one below a file: then the line is named.
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      EXPECT_NE(std::string(error.what()).find(path + ":"), std::string::npos) << error.what();
    }
    if (HasFailure()) {
      std::printf("round %d, %s:\n", round, tree->first.c_str());
      for (const std::string& line : lines) std::printf("%s\n", line.c_str());
      return;
    }
  }
  EXPECT_GT(accepted, kRounds / 4);
}

TEST_F(Damaged, TextOfAnyKindIsRefusedOrRead) {
  const std::string path = folder_ / "any.tree";
  const std::string letters = "/.[]=->#\\n ab0:\t\n\n\n";
  for (int round = 0; round < test_rounds(100); ++round) {
    std::string text;
    for (std::size_t i = below(120); i > 0; --i) text += letters[below(letters.size())];
    std::ofstream(path, std::ios::trunc) << text;
    try {
      check(detect({.root = path, .live = false, .log = {}}));
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << text;
    }
  }
}

}  // namespace
}  // namespace tombolo::topology
