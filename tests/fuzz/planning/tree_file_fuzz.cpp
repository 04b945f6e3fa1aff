// A recorded /sys, as it comes with somebody's report.
#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "topology/system/tree_file.h"

using namespace tombolo;
using namespace tombolo::topology;

namespace {

/// Looks at all of the tree, without following links; returns how many entries there are.
std::size_t visit(const TreeFile& tree, const std::string& path, int depth) {
  FUZZ_CHECK(tree.exists(path) || tree.link(path));
  (void)tree.real_path(path);
  if (tree.link(path)) return 1;
  std::size_t entries = 1;
  for (const std::string& name : tree.names(path)) {
    FUZZ_CHECK(!tree.text(path));
    if (depth < 64) entries += visit(tree, path + "/" + name, depth + 1);
  }
  return entries;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::enlarged(data, size);
  const std::string_view text = fuzz::text_of(bytes.data(), bytes.size());
  try {
    const TreeFile tree = TreeFile::parse(text, "input");
    if (text.size() < 4096) (void)visit(tree, "", 0);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
  }
  return 0;
}
