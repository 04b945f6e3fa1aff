// The HTTP request of a scrape, which may arrive in pieces.
#include "tests/fuzz/fuzz.h"
#include "transport/observe/report/http.h"

using namespace tombolo;
using namespace tombolo::transport::report;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  const HttpParse whole = parse_http_request(text);
  FUZZ_CHECK(!whole.request || whole.refusal == 0);
  FUZZ_CHECK(whole.request || whole.refusal != 0 || size < kLongestRequest);
  if (whole.request) {
    FUZZ_CHECK(whole.request->path.starts_with('/'));
    FUZZ_CHECK(whole.request->path.find('\n') == std::string::npos);
  }
  // A decision on the first bytes must not change when more bytes come.
  const HttpParse half = parse_http_request(text.substr(0, size / 2));
  if (half.request) FUZZ_CHECK(whole.request && whole.request->path == half.request->path);
  if (half.refusal != 0) FUZZ_CHECK(whole.refusal == half.refusal);
  return 0;
}
