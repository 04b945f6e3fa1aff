#include "base/units.h"
#include "tools/demo/page/charts.h"
#include "tools/reports/svg.h"
#include "topology/files/link_table.h"

namespace tombolo::tools::demo {
namespace {

constexpr double kHeatMapCell = 84, kHeatMapCellHeight = 46, kHeatMapLeft = 70, kHeatMapTop = 42;

}  // namespace

std::string draw_heat_map(const Report& report, const std::string& nic, const RateScale& scale) {
  const auto& hosts = report.cluster.hosts;
  const topology::LinkTable links(report.cluster);
  double side = static_cast<double>(hosts.size());
  Svg svg(kHeatMapLeft + kHeatMapCell * side + 4, kHeatMapTop + kHeatMapCellHeight * side + 4,
          fmt::format("Attained bandwidth between hosts over {}", nic));
  svg.text(kHeatMapLeft - 10, 16, "from", "tick end");
  svg.text(kHeatMapLeft, 16, "to", "tick");
  for (std::size_t row = 0; row < hosts.size(); ++row) {
    double y = kHeatMapTop + kHeatMapCellHeight * static_cast<double>(row);
    svg.text(kHeatMapLeft - 10, y + kHeatMapCellHeight / 2 + 4, hosts[row].name, "name end");
    svg.text(kHeatMapLeft + kHeatMapCell * (static_cast<double>(row) + 0.5), kHeatMapTop - 8, hosts[row].name,
             "name middle");
    for (std::size_t column = 0; column < hosts.size(); ++column) {
      double x = kHeatMapLeft + kHeatMapCell * static_cast<double>(column);
      const auto link = links.find(hosts[row].name, nic, hosts[column].name, nic);
      if (row == column || !link) {
        svg.rectangle(x + 1, y + 1, kHeatMapCell - 2, kHeatMapCellHeight - 2, "no-link",
                      row == column ? "" : "no route: the fabrics do not reach each other", 3);
        if (row != column)
          svg.text(x + kHeatMapCell / 2, y + kHeatMapCellHeight / 2 + 4, "no route", "tick middle");
        continue;
      }
      const int level = scale.shade(link->bytes_per_second);
      svg.rectangle(
          x + 1, y + 1, kHeatMapCell - 2, kHeatMapCellHeight - 2, fmt::format("heat{}", level),
          fmt::format("{} to {}: {}, {} one way", hosts[row].name, hosts[column].name,
                      format_bit_rate(link->bytes_per_second), format_seconds(link->latency_seconds)),
          3);
      svg.text(x + kHeatMapCell / 2, y + kHeatMapCellHeight / 2 - 2, format_bit_rate(link->bytes_per_second),
               fmt::format("cell middle on-heat{}", level));
      svg.text(x + kHeatMapCell / 2, y + kHeatMapCellHeight / 2 + 13, format_seconds(link->latency_seconds),
               fmt::format("cell small middle on-heat{}", level));
    }
  }
  return svg.finish();
}

}  // namespace tombolo::tools::demo
