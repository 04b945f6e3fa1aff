// What the self-contained pages are put together from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topology/nic.h"

namespace tombolo::tools {

/// A whole page with the style sheet inside; `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);
std::string html_section(const std::string& title, const std::string& body);
/// A figure in large and what it means.
std::string html_tile(const std::string& value, const std::string& text);
std::string html_note(const std::string& text);
/// Colours (variables of the style sheet, without the dashes) and what they stand for.
std::string html_legend(const std::vector<std::pair<std::string, std::string>>& entries);
/// Texts, not HTML. Columns from `numbers` on are set to the right.
std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows, std::size_t numbers);

/// "InfiniBand", "RoCE", "iWARP", "Ethernet": as people say it.
std::string kind_title(topology::NicKind kind);

}  // namespace tombolo::tools
