#include "tools/demo/train_log.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "base/error.h"

namespace tombolo::tools::demo {

TrainLog parse_train_log(std::string_view text, const std::string& source) {
  TrainLog log;
  int number = 0;
  while (!text.empty()) {
    auto end = std::min(text.find('\n'), text.size());
    auto row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (row.empty()) continue;
    auto line = JsonDocument::parse(row, fmt::format("{}, line {}", source, number)).root();
    if (line.field("step").integer(0, 1 << 30) != static_cast<std::int64_t>(log.loss.size()))
      line.field("step").reject(fmt::format("expected step {}", log.loss.size()));
    log.loss.push_back(line.field("loss").number());
    log.step_seconds.push_back(line.field("step_seconds").positive_number());
  }
  return log;
}

std::vector<planner::Span> parse_timeline(std::string_view text, const std::string& source) {
  std::vector<planner::Span> spans;
  for (const auto& event : JsonDocument::parse(text, source).root().field("traceEvents").elements()) {
    if (event.field("ph").text() != "X") continue;
    std::string category = event.field("cat").text();
    if (category == "wait") continue;
    planner::Span span;
    span.rank = static_cast<int>(event.field("pid").integer(0, 1 << 20));
    span.name = category == "reduce" ? "all-reduce" : event.field("name").text();
    // Bars other than passes belong to the optimizer: clearing gradients, their norm, the update.
    if (category == "compute" && span.name != "forward" && span.name != "backward") span.name = "optimizer";
    if (auto batch = event.field("args").optional("micro_batch"))
      span.micro_batch = static_cast<int>(batch->integer(0, 1 << 20));
    span.begin_seconds = event.field("ts").number() / 1e6;
    span.end_seconds = span.begin_seconds + event.field("dur").number_at_least(0) / 1e6;
    spans.push_back(std::move(span));
  }
  auto earliest = std::min_element(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return a.begin_seconds < b.begin_seconds;
  });
  double origin = spans.empty() ? 0 : earliest->begin_seconds;
  for (auto& span : spans) {
    span.begin_seconds -= origin;
    span.end_seconds -= origin;
  }
  return spans;
}

std::vector<LinkUse> parse_traffic(std::string_view text, const std::string& source) {
  const JsonDocument document = JsonDocument::parse(text, source);
  const JsonCursor root = document.root();
  const double steps = root.field("steps").positive_number();
  std::vector<LinkUse> links;
  for (const auto& link : root.field("links").elements()) {
    LinkUse use;
    use.from_host = link.field("from_host").text();
    use.from_nic = link.field("from_nic").text();
    use.to_host = link.field("to_host").text();
    use.to_nic = link.field("to_nic").text();
    auto kind = topology::nic_kind_from_name(link.field("kind").text());
    if (!kind) link.field("kind").reject("not a kind of NIC");
    use.kind = *kind;
    use.bytes = link.field("bytes").number_at_least(0);
    use.bytes_per_step = use.bytes / steps;
    links.push_back(use);
  }
  std::sort(links.begin(), links.end(), [](const LinkUse& a, const LinkUse& b) {
    return std::tie(a.from_host, a.to_host, a.from_nic) < std::tie(b.from_host, b.to_host, b.from_nic);
  });
  return links;
}

std::string only_ascii(std::string_view text) {
  std::string out;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    out += c == '\n' || (byte >= 0x20 && byte < 0x7f) ? c : '?';
  }
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) fail_errno(errno, "reading " + path);
  return text.str();
}

}  // namespace tombolo::tools::demo
