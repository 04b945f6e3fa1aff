// What people write to describe an emulated cluster: a file, or (by the first byte) a built-in name with
// parameters.
#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "tools/emulation/spec_parts.h"

using namespace tombolo;
using namespace tombolo::emulation;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = fuzz::enlarged(data, size);
  const std::string text = fuzz::grown(rest.data(), rest.size());
  Spec spec;
  try {
    if (data[0] % 4 < 2) {
      spec = Spec::parse(JsonDocument::parse(text, "input"));
    } else if (const auto built_in = built_in_spec(text)) {
      spec = *built_in;
    } else {
      return 0;
    }
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
    return 0;
  }
  FUZZ_CHECK(!spec.hosts.empty() && spec.devices() > 0);
  for (std::size_t host = 0; host < spec.hosts.size(); ++host) {
    FUZZ_CHECK(&spec.host(spec.hosts[host].name) == &spec.hosts[host]);
    for (std::size_t nic = 0; nic < spec.hosts[host].nics.size(); ++nic)
      FUZZ_CHECK(!spec.address(host, nic, true).empty());
  }
  return 0;
}
