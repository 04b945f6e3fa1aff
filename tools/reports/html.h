// Building blocks of the HTML pages, which need no other file and no network.
//
// tools/reports/ owns how plans, simulations, probes and calibrations are presented: as text, JSON and pages.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topology/nic.h"

namespace tombolo::tools {

/// A whole page with the style sheet inside; `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);
std::string html_section(const std::string& title, const std::string& body);
/// A figure in large type, with its meaning below.
std::string html_tile(const std::string& value, const std::string& text);
std::string html_note(const std::string& text);
/// What is unfolded by a click or a key on its title; `body` is HTML.
std::string html_details(const std::string& title, const std::string& body);
/// A legend of colours (variables of the style sheet, without the dashes) with their meanings.
std::string html_legend(const std::vector<std::pair<std::string, std::string>>& entries);
/// A table whose cells are texts, not HTML. Columns from number `numbers` on are right-aligned.
std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows, std::size_t numbers);

/// "InfiniBand", "RoCE", "iWARP" or "Ethernet".
std::string kind_title(topology::NicKind kind);

}  // namespace tombolo::tools
