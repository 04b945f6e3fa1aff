#include "topology/export/nccl_xml.h"

#include <filesystem>
#include <map>

#include "topology/testing/recorded_machine.h"

namespace tombolo::topology {
namespace {

/// An element as NCCL's reader takes it.
struct Parsed {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::vector<Parsed> inner;

  const Parsed* find(std::string_view kind, std::string_view key, std::string_view value) const {
    for (const Parsed& element : inner) {
      auto attribute = element.attributes.find(std::string(key));
      if (element.name == kind && attribute != element.attributes.end() && attribute->second == value)
        return &element;
      if (const Parsed* found = element.find(kind, key, value)) return found;
    }
    return nullptr;
  }
  int count(std::string_view kind) const {
    int total = 0;
    for (const Parsed& element : inner) total += (element.name == kind ? 1 : 0) + element.count(kind);
    return total;
  }
};

/// Reads with NCCL's rules, which are stricter than XML's: no declaration, exactly one blank before an
/// attribute and none before the end, quotes around values of at most 254 characters, at most 16 attributes,
/// no text.
class StrictReader {
 public:
  explicit StrictReader(std::string_view text) : text_(text) {}
  Parsed read() {
    Parsed root = element();
    blanks();
    EXPECT_EQ(at_, text_.size()) << "something follows the system";
    return root;
  }

 private:
  char next() { return at_ < text_.size() ? text_[at_++] : '\0'; }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  std::string until(std::string_view ends) {
    const auto begin = at_;
    while (at_ < text_.size() && ends.find(text_[at_]) == std::string_view::npos) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  Parsed element() {
    Parsed made;
    blanks();
    EXPECT_EQ(next(), '<');
    made.name = until(" />");
    char c = next();
    while (c == ' ') {
      std::string key = until("= />");
      EXPECT_EQ(next(), '=') << made.name;
      EXPECT_EQ(next(), '"') << made.name << " " << key;
      std::string value = until("\"");
      EXPECT_LE(value.size(), 254U);
      EXPECT_EQ(next(), '"');
      EXPECT_TRUE(made.attributes.emplace(key, value).second) << key << " twice";
      c = next();
    }
    EXPECT_LE(made.attributes.size(), 16U);
    if (c == '/') {
      EXPECT_EQ(next(), '>');
      return made;
    }
    EXPECT_EQ(c, '>') << made.name;
    while (c == '>') {
      blanks();
      if (text_.substr(at_).starts_with("</")) break;
      if (at_ >= text_.size()) {
        ADD_FAILURE() << made.name << " does not end";
        return made;
      }
      made.inner.push_back(element());
    }
    at_ += 2;
    EXPECT_EQ(until(">"), made.name);
    next();
    return made;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// What NCCL needs of each element, and what it knows inside it.
void expect_shape(const Parsed& element) {
  static const std::map<std::string, std::vector<std::string>> kNeeds{
      {"system", {"version"}},
      {"cpu", {"numaid"}},
      {"pci", {"busid", "class", "link_speed", "link_width"}},
      {"gpu", {"dev"}},
      {"nvlink", {"target", "count", "tclass"}},
      {"nic", {}},
      {"net", {"name", "dev", "port"}}};
  static const std::map<std::string, std::string> kKnows{
      {"system", "cpu"}, {"cpu", "pci nic"}, {"pci", "pci gpu nic"}, {"gpu", "nvlink"}, {"nvlink", ""},
      {"nic", "net"},    {"net", ""}};
  auto needs = kNeeds.find(element.name);
  ASSERT_NE(needs, kNeeds.end()) << element.name;
  for (const std::string& key : needs->second)
    EXPECT_TRUE(element.attributes.contains(key)) << element.name << " " << key;
  for (const Parsed& inner : element.inner) {
    EXPECT_NE(kKnows.at(element.name).find(inner.name), std::string::npos)
        << inner.name << " in " << element.name;
    expect_shape(inner);
  }
}

TEST(NcclXml, NestsSwitchesGpusAndNics) {
  RecordedMachine host("gpu-server");
  host.machine.gpus[0].compute_capability = 90;
  host.machine.gpus[0].nvlinks = {{"0000:1c:00.0", false, 4}, {"", true, 2}};
  const std::string text = nccl_xml(host.machine);
  Parsed system = StrictReader(text).read();
  expect_shape(system);
  EXPECT_EQ(system.attributes.at("version"), "1");
  ASSERT_EQ(system.inner.size(), 2U);
  const Parsed& first = system.inner[0];
  EXPECT_EQ(first.attributes.at("numaid"), "0");
  EXPECT_EQ(first.attributes.at("affinity"), "00000000,0000ffff,ffffffff");
  EXPECT_EQ(first.attributes.at("arch"), "x86_64");
  EXPECT_EQ(first.attributes.at("vendor"), "GenuineIntel");
  EXPECT_EQ(first.attributes.at("familyid"), "6");
  EXPECT_EQ(first.attributes.at("modelid"), "143");
  // The switch's upper port stands for it: GPU, NIC and the second switch lie in it side by side.
  const Parsed* outer = first.find("pci", "busid", "0000:16:00.0");
  ASSERT_NE(outer, nullptr);
  EXPECT_EQ(outer->attributes.at("link_speed"), "32.0 GT/s PCIe");
  EXPECT_EQ(outer->attributes.at("link_width"), "16");
  ASSERT_EQ(outer->inner.size(), 3U) << text;
  EXPECT_EQ(outer->inner[0].attributes.at("busid"), "0000:18:00.0");
  EXPECT_EQ(outer->inner[1].attributes.at("busid"), "0000:19:00.0");
  EXPECT_EQ(outer->inner[2].attributes.at("busid"), "0000:1a:00.0");
  ASSERT_EQ(outer->inner[2].inner.size(), 1U);
  EXPECT_EQ(outer->inner[2].inner[0].attributes.at("busid"), "0000:1c:00.0");
  EXPECT_EQ(first.find("pci", "busid", "0000:17:00.0"), nullptr)
      << "the lower ports are left out, as in NCCL";
  const Parsed& gpu = outer->inner[0].inner.at(0);
  EXPECT_EQ(gpu.name, "gpu");
  EXPECT_EQ(gpu.attributes.at("dev"), "0");
  EXPECT_EQ(gpu.attributes.at("sm"), "90");
  ASSERT_EQ(gpu.inner.size(), 2U);
  EXPECT_EQ(gpu.inner[0].attributes.at("tclass"), "0x030200");
  EXPECT_EQ(gpu.inner[1].attributes.at("tclass"), "0x068000");
  const Parsed* net = first.find("net", "name", "mlx5_0");
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(net->attributes.at("speed"), "400000");
  EXPECT_EQ(net->attributes.at("port"), "1");
  EXPECT_EQ(system.count("gpu"), 4);
  EXPECT_EQ(system.count("net"), 5);
}

TEST(NcclXml, HasTheShapeThatNcclReadsForEveryRecordedMachine) {
  for (const auto& entry : std::filesystem::directory_iterator(TOMBOLO_SOURCE_DIR "/topology/recorded")) {
    SCOPED_TRACE(entry.path().string());
    RecordedMachine host(entry.path().stem().string());
    const std::string text = nccl_xml(host.machine);
    Parsed system = StrictReader(text).read();
    expect_shape(system);
    const auto used = std::count_if(host.machine.nics.begin(), host.machine.nics.end(),
                                    [](const Nic& nic) { return nic.usable; });
    EXPECT_EQ(system.count("net"), used) << text;
    EXPECT_EQ(static_cast<std::size_t>(system.count("gpu")), host.machine.gpus.size());
  }
}

TEST(NcclXml, TakesWhatEachEndOfALinkCanDoAndLeavesOutWhatIsUnknown) {
  RecordedMachine old("dual-port"), guest("sriov-guest"), amd("roce-v2"), loopback("loopback");
  Parsed system = StrictReader(nccl_xml(old.machine)).read();
  const Parsed* mlx4 = system.find("pci", "busid", "0000:86:00.0");
  ASSERT_NE(mlx4, nullptr);
  EXPECT_EQ(mlx4->attributes.at("link_speed"), "8.0 GT/s PCIe");
  EXPECT_EQ(mlx4->attributes.at("link_width"), "8") << "of 16 lanes in the slot";
  ASSERT_EQ(mlx4->inner.size(), 1U);
  EXPECT_EQ(mlx4->inner[0].inner.size(), 2U) << "two ports of one nic";
  system = StrictReader(nccl_xml(guest.machine)).read();
  const Parsed* function = system.find("pci", "busid", "0000:00:05.0");
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function->attributes.at("link_speed"), "") << "NCCL takes its default";
  EXPECT_EQ(function->attributes.at("link_width"), "0");
  EXPECT_NE(system.find("cpu", "numaid", "-1"), nullptr);
  system = StrictReader(nccl_xml(amd.machine)).read();
  EXPECT_EQ(system.inner[0].attributes.at("familyid"), "175")
      << "0xf and the extended family's 0xa in its place";
  system = StrictReader(nccl_xml(loopback.machine)).read();
  ASSERT_EQ(system.inner.size(), 1U);
  EXPECT_EQ(system.inner[0].inner.at(0).name, "nic") << "without a PCI function it hangs on the processor";
}

TEST(NcclXml, PassesNoCharacterThatItsReaderStumblesOver) {
  RecordedMachine host("virtio");
  host.machine.nics.at(0).name = "a\"b<c>&'\n\x7f" + std::string(400, 'x');
  Parsed system = StrictReader(nccl_xml(host.machine)).read();
  EXPECT_NE(system.find("net", "dev", "0"), nullptr);
}

}  // namespace
}  // namespace tombolo::topology
