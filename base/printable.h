#pragma once

#include <string>
#include <string_view>

namespace tombolo {

/// `text` with every byte that is no part of valid UTF-8, and every control character but line end and tab,
/// written as "\x1b". For messages that quote files and peers: they must not move a terminal's cursor, nor
/// break the programs that read them.
std::string printable(std::string_view text);

}  // namespace tombolo
