#include "tools/reports/html.h"

#include "tools/reports/style.h"
#include "tools/reports/svg.h"

namespace tombolo::tools {

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/>\n<title>{}</title>\n<style>{}</style>\n"
      "</head>\n<body>\n<main>\n{}</main>\n</body>\n</html>\n",
      escape(title), kPageStyle, body);
}

std::string html_section(const std::string& title, const std::string& body) {
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", escape(title), body);
}

std::string html_tile(const std::string& value, const std::string& text) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escape(value), escape(text));
}

std::string html_note(const std::string& text) {
  return fmt::format("<p class=\"note\">{}</p>\n", escape(text));
}

std::string html_details(const std::string& title, const std::string& body) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escape(title), body);
}

std::string html_legend(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out = "<div class=\"legend\">";
  for (const auto& [variable, name] : entries)
    out += fmt::format("<span><i style=\"background: var(--{})\"></i>{}</span>", variable, escape(name));
  return out + "</div>\n";
}

std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows, std::size_t numbers) {
  const auto row_of = [&](const std::vector<std::string>& cells, const char* tag) {
    const bool head_row = std::string_view(tag) == "th";
    std::string out = "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i)
      out += fmt::format("<{0}{1}{2}>{3}</{0}>", tag, head_row ? " scope=\"col\"" : "",
                         i < numbers ? "" : " class=\"number\"", escape(cells[i]));
    return out + "</tr>\n";
  };
  std::string out = "<div class=\"wide\"><table><thead>" + row_of(head, "th") + "</thead><tbody>";
  for (const auto& row : rows) out += row_of(row, "td");
  return out + "</tbody></table></div>\n";
}

std::string kind_title(topology::NicKind kind) {
  switch (kind) {
    case topology::NicKind::kInfiniBand:
      return "InfiniBand";
    case topology::NicKind::kRoce:
      return "RoCE";
    case topology::NicKind::kIwarp:
      return "iWARP";
    case topology::NicKind::kTcp:
      return "Ethernet";
  }
  return "unknown";
}

}  // namespace tombolo::tools
