// A progress bar: one line on standard error that is drawn anew after each step.
#pragma once

#include <string_view>

namespace tombolo::tools {

/// "probing [######........] 3/8"; ends the line when all is done. Draws nothing where `total` is 0.
void draw_progress(std::string_view what, int done, int total);
/// Whether standard error is a terminal, so that drawing makes sense.
bool can_draw_progress() noexcept;

}  // namespace tombolo::tools
