#include <sstream>

#include "base/error.h"
#include "tests/faults/arena.h"
#include "tools/emulation/emulation.h"
#include "tools/process/subprocess.h"

namespace tombolo::faults {
namespace {

using emulation::RelayOrder;
using std::chrono::milliseconds;

constexpr Duration kTool = std::chrono::seconds(20);

emulation::Spec cuttable(const std::string& text) {
  emulation::Spec spec = emulation::Spec::from_text(text);
  for (auto& link : spec.links) link.cuttable = true;
  if (spec.hosts.size() != 2) fail(Cause::kInvalidUsage, "'{}' has not two hosts", text);
  return spec;
}

class PathsArena final : public Arena {
 public:
  explicit PathsArena(const std::string& text)
      : emulation_(emulation::Emulation::start(cuttable(text), {emulation::Mode::kNamespaces, {}})) {}

  std::string description() const override { return emulation_->description() + ", relays between them"; }
  topology::Host host(std::size_t end) const override { return emulation_->cluster().hosts[end]; }
  int enter(std::size_t end) override { return emulation_->enter(end); }

  std::vector<Fault> faults() override {
    const auto short_while = milliseconds(50), long_while = milliseconds(800);
    std::vector<Fault> all;
    all.push_back({"kill-stream",
                   false,
                   {},
                   {},
                   [this](std::mt19937_64& random) { return kill_streams(random, 1); },
                   {}});
    all.push_back({"kill-streams",
                   false,
                   {},
                   {},
                   [this](std::mt19937_64& random) { return kill_streams(random, 1000); },
                   {}});
    all.push_back({"nic-down", paths() == 1, short_while, long_while,
                   [this](std::mt19937_64& random) {
                     down_ = {random() % 2, random() % paths()};
                     set_nic(down_, "down");
                     return 1;
                   },
                   [this] { set_nic(down_, "up"); }});
    all.push_back({"path-cut", paths() == 1, short_while, long_while,
                   [this](std::mt19937_64& random) {
                     cut_ = random() % paths();
                     emulation_->order_relay(cut_, RelayOrder::kCut);
                     return 1;
                   },
                   [this] { emulation_->order_relay(cut_, RelayOrder::kRestore); }});
    all.push_back({"all-cut", true, short_while, milliseconds(300),
                   [this](std::mt19937_64&) {
                     cut_all();
                     return static_cast<int>(paths());
                   },
                   [this] {
                     for (std::size_t l = 0; l < paths(); ++l)
                       emulation_->order_relay(l, RelayOrder::kRestore);
                   }});
    return all;
  }

  void cut_all() override {
    for (std::size_t l = 0; l < paths(); ++l) emulation_->order_relay(l, RelayOrder::kCut);
  }

  std::vector<std::string> names(std::size_t end) const override {
    return {emulation_->spec().hosts[1 - end].name, "eth"};
  }

 private:
  using NicAt = std::pair<std::size_t, std::size_t>;  // host, NIC

  std::size_t paths() const { return emulation_->spec().links.size(); }

  std::string run_on(std::size_t host, std::vector<std::string> command) const {
    auto program = tools::find_program(command[0]);
    if (!program) fail(Cause::kUnsupported, "'{}' was not found; install the package iproute2", command[0]);
    command[0] = *program;
    auto done = tools::run_program(command, "", kTool, [this, host] { return emulation_->enter(host); });
    if (done.exit_code != 0)
      fail(Cause::kSystem, "{} on host {}: {} {}", fmt::join(command, " "), host, done.exit_code, done.error);
    return done.output;
  }

  void set_nic(NicAt at, const std::string& state) const {
    run_on(at.first,
           {"ip", "link", "set", "dev", emulation_->spec().hosts[at.first].nics[at.second].name, state});
  }

  // Destroys the streams at one host; the other host gets a reset through the network, where a path is left.
  int kill_streams(std::mt19937_64& random, std::size_t most) const {
    const std::size_t host = random() % 2;
    std::istringstream lines(run_on(host, {"ss", "-tnH", "state", "established"}));
    std::vector<std::pair<std::string, std::string>> streams;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string receive, send, here, there;
      if (words >> receive >> send >> here >> there) streams.emplace_back(here, there);
    }
    std::shuffle(streams.begin(), streams.end(), random);
    streams.resize(std::min(streams.size(), most));
    for (const auto& [here, there] : streams)
      run_on(host, {"ss", "-K", "-tnH", "state", "established", "src", here, "dst", there});
    return static_cast<int>(streams.size());
  }

  std::unique_ptr<emulation::Emulation> emulation_;
  NicAt down_{};
  std::size_t cut_ = 0;
};

}  // namespace

std::unique_ptr<Arena> paths_arena(const std::string& spec) {
  return std::make_unique<PathsArena>(spec);
}

}  // namespace tombolo::faults
