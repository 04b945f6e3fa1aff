#include "tools/demo/text.h"

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/units.h"
#include "tools/process/subprocess.h"

namespace tombolo::tools::demo {
namespace {

namespace fs = std::filesystem;

// In 200 steps the model would memorise a much shorter text.
constexpr std::uint64_t kSmallestText = 16 * kKiB;

Text from_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    fail(Cause::kInvalidUsage, "--data {}: not a file that can be read{}", path,
         error ? ": " + error.message() : "");
  }
  auto bytes = fs::file_size(path, error);
  if (error) fail(Cause::kInvalidUsage, "--data {}: {}", path, error.message());
  if (bytes < kSmallestText) {
    fail(Cause::kInvalidUsage, "--data {}: {} are too little text to learn from; at least {} are needed",
         path, format_size(bytes), format_size(kSmallestText));
  }
  if (!std::ifstream(path)) fail(Cause::kInvalidUsage, "--data {}: cannot be opened for reading", path);
  return {fs::absolute(path).string(), fs::path(path).filename().string(), static_cast<double>(bytes)};
}

Text from_bible(const std::string& folder, Duration limit) {
  auto program = find_program("bible");
  if (!program) {
    fail(Cause::kUnsupported,
         "the demo trains on the text that the program 'bible' prints, and it is not installed. Install it "
         "with "
         "'apt-get install bible-kjv bible-kjv-text', or give a text of your own with --data FILE");
  }
  Finished done = run_program({*program, "-f", "gen1:1-rev22:21"}, "", limit);
  if (done.exit_code != 0 || done.output.size() < kSmallestText) {
    fail(Cause::kSystem, "'{} -f gen1:1-rev22:21' ended with exit code {} after {}: {}", *program,
         done.exit_code, format_size(done.output.size()),
         done.error.empty() ? "is bible-kjv-text installed? Or give --data FILE" : done.error);
  }
  Text text{folder + "/king-james.txt", "the King James Bible", static_cast<double>(done.output.size())};
  std::ofstream file(text.path, std::ios::binary);
  file << done.output;
  file.close();
  if (!file) fail_errno(errno, "writing " + text.path);
  return text;
}

}  // namespace

Text make_text(const Options& options, const std::string& folder, Duration limit) {
  return options.data.empty() ? from_bible(folder, limit) : from_file(options.data);
}

}  // namespace tombolo::tools::demo
