// Requests of several clients to a small store, in any order, against a model of it.
#include <fuzzer/FuzzedDataProvider.h>

#include "collectives/testing/store_model.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;
using namespace tombolo::collectives;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  StoreLimits limits;
  limits.keys = input.ConsumeIntegralInRange<std::size_t>(0, 6);
  limits.bytes = input.ConsumeIntegralInRange<std::size_t>(0, 40'000);
  test::StoreModel model(limits);
  constexpr store::Kind kKinds[] = {store::Kind::kSet,   store::Kind::kGet, store::Kind::kTryGet,
                                    store::Kind::kClaim, store::Kind::kAdd, store::Kind::kHold};
  while (input.remaining_bytes() > 0) {
    const auto client = input.ConsumeIntegralInRange<std::size_t>(0, test::StoreModel::kClients - 1);
    if (input.ConsumeIntegralInRange(0, 9) == 0) {
      model.leave(client);
      continue;
    }
    const store::Kind kind = input.PickValueInArray(kKinds);
    const std::string key(1, static_cast<char>('a' + input.ConsumeIntegralInRange(0, 7)));
    const bool counts = input.ConsumeBool();
    const std::string value = counts ? input.ConsumeBytesAsString(8) : input.ConsumeRandomLengthString(4'000);
    const std::string wrong = model.step(client, kind, key, value);
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    FUZZ_CHECK(wrong.empty());
  }
  return 0;
}
