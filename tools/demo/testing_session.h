// A session of the demo whose hosts are loopback addresses, which every machine permits.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tools/demo/session.h"

namespace tombolo::tools::demo {

class DemoSession : public ::testing::Test {
 protected:
  ~DemoSession() override {
    screen_.reset();  // which flushes
    std::fclose(out_);
  }

  /// All that was shown so far.
  std::string shown() const {
    std::fflush(out_);
    std::string text(static_cast<std::size_t>(std::ftell(out_)), '\0');
    std::rewind(out_);
    text.resize(std::fread(text.data(), 1, text.size(), out_));
    return text;
  }

  Options options_;
  InterruptWatch interrupts_;
  std::unique_ptr<emulation::Emulation> emulation_ =
      emulation::Emulation::start(emulation::Spec::from_text("holmes"), {emulation::Mode::kLoopback, {}});
  std::FILE* out_ = std::tmpfile();
  std::unique_ptr<Screen> screen_ = std::make_unique<Screen>(out_, 9);
  Session session_{options_, *screen_, interrupts_, *emulation_, Deadline::after(std::chrono::hours(1))};
};

}  // namespace tombolo::tools::demo
