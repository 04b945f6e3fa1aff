#include "topology/export/graphviz.h"

#include <map>
#include <set>

#include "base/format.h"
#include "base/units.h"
#include "topology/export/pci_forest.h"
#include "topology/judge/distance.h"

namespace tombolo::topology {
namespace {

/// The text as a string of the language; a new line in it stays one.
std::string dot_text(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

struct Colours {
  std::string_view fill, line;
};

Colours colours_of(NicKind kind) {
  switch (kind) {
    case NicKind::kInfiniBand:
      return {"#d6e6ff", "#2f5fa8"};
    case NicKind::kRoce:
      return {"#e6dcff", "#6a48b0"};
    case NicKind::kIwarp:
      return {"#ffe3d1", "#b3642c"};
    case NicKind::kTcp:
      break;
  }
  return {"#eeeeee", "#666666"};
}

std::string nic_title(const Nic& nic) {
  std::string kind;
  switch (nic.kind) {
    case NicKind::kInfiniBand:
      kind = "InfiniBand";
      break;
    case NicKind::kRoce:
      kind = "RoCE";
      break;
    case NicKind::kIwarp:
      kind = "iWARP";
      break;
    case NicKind::kTcp:
      kind = "TCP";
      break;
  }
  std::string text = nic.name;
  if (!nic.rdma_device.empty() && nic.name.find('/') == std::string::npos)
    text += fmt::format("\n{}/{}", nic.rdma_device, nic.rdma_port);
  text += fmt::format("\n{}", kind);
  if (nic.rate_bits_per_second > 0)
    text += fmt::format(" {}", format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8));
  return nic.usable ? text : text + "\nnot used";
}

/// "16 GT/s x16" of a PCIe link; empty where unknown.
std::string link_label(const PciNode& node) {
  const PciLink link = pci_link(node);
  std::string speed = link.speed.substr(0, link.speed.find(' '));
  if (speed.ends_with(".0")) speed.resize(speed.size() - 2);
  if (!speed.empty()) speed += " GT/s";
  return link.width > 0 ? fmt::format("{}{}x{}", speed, speed.empty() ? "" : " ", link.width) : speed;
}

class Picture {
 public:
  explicit Picture(const Machine& machine) : machine_(machine) {}

  std::string draw() {
    // NICs that are neither hardware nor used would only clutter the picture.
    forest_ = pci_forest(machine_, [](const Nic& nic) { return nic.usable || !nic.pci_path.empty(); });
    line("graph machine {");
    line(
        "  graph [rankdir=TB, nodesep=0.3, ranksep=0.45, newrank=true, fontname=\"Helvetica\", fontsize=16, "
        "labelloc=t,");
    line("         label={}];", dot_text(title()));
    line(
        "  node [fontname=\"Helvetica\", fontsize=11, shape=box, style=\"rounded,filled\", "
        "fillcolor=\"#ffffff\"];");
    line("  edge [fontname=\"Helvetica\", fontsize=9, color=\"#888888\", fontcolor=\"#555555\"];");
    std::string before;
    for (const auto& [node, functions] : forest_.roots) {
      numa_node(node, functions);
      if (!before.empty())
        line("  {} -- numa{} [style=dashed, constraint=false, label=\"SYS\"];", before, name_of(node));
      before = fmt::format("numa{}", name_of(node));
    }
    for (std::size_t gpu : forest_.gpus) gpu_box("  ", gpu);
    for (std::size_t nic : forest_.nics) nic_box("  ", nic);
    nvlinks();
    fabrics();
    line("}");
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    out_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
  }
  void line(const char* text) { out_.append(text).append("\n"); }

  static std::string name_of(int node) { return node < 0 ? "_unknown" : std::to_string(node); }

  std::string title() const {
    return fmt::format("{}: {} cores, {} NUMA node{}, {} of memory", machine_.host_name, machine_.cores,
                       machine_.numa_nodes, machine_.numa_nodes == 1 ? "" : "s",
                       format_size(machine_.memory_bytes));
  }

  void numa_node(int node, const std::map<std::string, PciNode>& functions) {
    line("  subgraph cluster_numa{} {{", name_of(node));
    line("    style=\"rounded,filled\"; color=\"#c8c8c8\"; fillcolor=\"#fafafa\"; label=\"\";");
    line("    numa{} [label={}, fillcolor=\"#fff3c4\", color=\"#b08d1e\"];", name_of(node),
         dot_text(node < 0 ? "NUMA node unknown" : fmt::format("NUMA node {}", node)));
    std::set<std::string> bridges;
    for (const auto& [address, function] : functions) {
      const std::string bridge = host_bridge(function.facts->path);
      if (bridges.insert(bridge).second) {
        line("    {} [label={}, fillcolor=\"#f4f4f4\", color=\"#999999\"];", dot_text(bridge),
             dot_text("host bridge\n" + bridge));
        line("    numa{} -- {};", name_of(node), dot_text(bridge));
      }
      below(bridge, function);
    }
    line("  }");
  }

  void below(const std::string& parent, const PciNode& function) {
    const std::string label = link_label(function);
    auto edge = [&](const std::string& to) {
      line("    {} -- {} [label={}];", dot_text(parent), dot_text(to), dot_text(label));
    };
    for (std::size_t gpu : function.gpus) edge(gpu_box("    ", gpu));
    for (std::size_t nic : function.nics) edge(nic_box("    ", nic));
    if (function.below.empty()) return;
    const std::string& here = function.facts->address;
    line("    {} [label={}, fillcolor=\"#f4f4f4\", color=\"#999999\"];", dot_text(here),
         dot_text("PCIe switch\n" + here));
    edge(here);
    for (const auto& [address, inner] : function.below) below(here, inner);
  }

  std::string gpu_box(std::string_view indent, std::size_t index) {
    const Gpu& gpu = machine_.gpus[index];
    const std::string id = fmt::format("gpu{}", index);
    std::string text = fmt::format("GPU{}\n{}", index, gpu.name);
    if (gpu.memory_bytes > 0)
      text += fmt::format("\n{}", format_size(static_cast<std::uint64_t>(gpu.memory_bytes)));
    line("{}{} [label={}, fillcolor=\"#dff2d8\", color=\"#4c8a36\"];", indent, dot_text(id), dot_text(text));
    return id;
  }

  std::string nic_box(std::string_view indent, std::size_t index) {
    const Nic& nic = machine_.nics[index];
    const std::string id = "nic " + nic.name;
    const Colours colours = colours_of(nic.kind);
    line("{}{} [label={}, tooltip={}, {}];", indent, dot_text(id), dot_text(nic_title(nic)),
         dot_text(nic.reason),
         nic.usable ? fmt::format("fillcolor=\"{}\", color=\"{}\"", colours.fill, colours.line)
                    : "style=\"rounded,dashed\", color=\"#aaaaaa\", fontcolor=\"#888888\"");
    return id;
  }

  void nvlinks() {
    for (std::size_t a = 0; a < machine_.gpus.size(); ++a) {
      for (std::size_t b = a + 1; b < machine_.gpus.size(); ++b) {
        if (const int links = nvlinks_between(machine_.gpus[a], machine_.gpus[b]); links > 0) {
          line("  gpu{} -- gpu{} [label=\"NV{}\", color=\"#4c8a36\", penwidth=2, constraint=false];", a, b,
               links);
        }
      }
    }
  }

  void fabrics() {
    std::set<std::string> seen;
    for (const Nic& nic : machine_.nics) {
      if (!nic.usable) continue;
      const std::string id = "fabric " + nic.fabric;
      const Colours colours = nic.fabric.empty() ? colours_of(NicKind::kTcp) : colours_of(nic.kind);
      if (seen.insert(id).second) {
        line("  {} [label={}, shape=ellipse, style=filled, fillcolor=\"#ffffff\", color=\"{}\"];",
             dot_text(id),
             dot_text(nic.fabric.empty() ? "the network that all share" : "fabric\n" + nic.fabric),
             colours.line);
      }
      line("  {} -- {} [color=\"{}\", penwidth=1.5];", dot_text("nic " + nic.name), dot_text(id),
           colours.line);
    }
  }

  const Machine& machine_;
  PciForest forest_;
  std::string out_;
};

}  // namespace

std::string graphviz(const Machine& machine) {
  return Picture(machine).draw();
}

}  // namespace tombolo::topology
