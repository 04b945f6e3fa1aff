// A peer in the same host that writes what it likes into the shared ring: records with any fields behind a
// stamp that holds.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/transport/guarded_receive.h"
#include "transport/shm/connection.h"

using namespace tombolo;
using namespace tombolo::transport;
using namespace tombolo::transport::shm;

namespace {

/// Puts a record where the reader will look next, if it believes the lengths as we do.
void write_record(FuzzedDataProvider& input, Ring& ring, std::uint64_t& position) {
  Record record;
  record.type = static_cast<RecordType>(input.ConsumeIntegralInRange<int>(0, 6));
  record.reason = input.ConsumeIntegralInRange<std::uint16_t>(0, 4);
  record.length = input.ConsumeBool() ? input.ConsumeIntegralInRange<std::uint64_t>(0, kLongestRecord + 64)
                                      : input.ConsumeIntegral<std::uint64_t>();
  record.total = input.ConsumeBool() ? record.length : input.ConsumeIntegral<std::uint64_t>();
  record.address = input.ConsumeIntegral<std::uint64_t>();
  record.stamp = stamp_at(position);
  std::memcpy(ring.bytes + position % kRingBytes, &record, sizeof record);
  const std::size_t to_end = kRingBytes - position % kRingBytes;
  if (record.type == RecordType::kSkip) {
    position += to_end;
  } else if (record_bytes(record) <= to_end) {
    position += record_bytes(record);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return 0;
  transport::Descriptor link(ends[1]);
  transport::Descriptor file;
  Mapping mapping = Mapping::create(file);
  Segment* segment = mapping.operator->();
  channel::ControlChannel channel{transport::Descriptor(ends[0]),
                                  true,
                                  {},
                                  {},
                                  {},
                                  0,
                                  {},
                                  Deadline::after(std::chrono::minutes(1)),
                                  nullptr,
                                  {},
                                  std::chrono::seconds(1),
                                  &Clock::steady(),
                                  {}};
  channel.route.transport = "shm";
  // No process has this number, so that no fetch reads anything; the test is that the reader tries and
  // survives.
  Agreed agreed{std::move(mapping), Witness(), PeerMemory(0x7fff'fff0, 0, {}),
                input.PickValueInArray({Fetch::kNever, Fetch::kWhereCheaper, Fetch::kAlways})};
  Ring& incoming = segment->rings[1];
  Ring& outgoing = segment->rings[0];
  std::uint64_t position = 0;
  std::deque<Receive> receives;
  std::vector<std::byte> message(40'000, std::byte{0x44});
  std::vector<Request*> sends;
  {
    ShmConnection connection(std::move(channel), std::move(agreed));
    for (int steps = 0; input.remaining_bytes() > 0 && steps < 64; ++steps) {
      switch (input.ConsumeIntegralInRange(0, 6)) {
        case 0: {
          Receive& one =
              receives.emplace_back(input.ConsumeIntegralInRange<std::size_t>(0, 2 * kLongestRecord));
          one.request = connection.post_receive(one.buffer(), nullptr);
          break;
        }
        case 1:
          if (Request* request = connection.post_send(
                  std::span(message).first(input.ConsumeIntegralInRange<std::size_t>(0, message.size())),
                  nullptr))
            sends.push_back(request);
          break;
        case 2:
          outgoing.taken.store(input.ConsumeIntegral<std::uint64_t>());
          break;
        case 3:
          outgoing.fetched.store(input.ConsumeIntegral<std::uint64_t>());
          break;
        case 4: {
          std::vector<pollfd> handles;
          connection.append_wait_handles(handles);
          break;
        }
        default:
          write_record(input, incoming, position);
      }
      connection.progress();
      std::size_t bytes = 0;
      for (Receive& one : receives) {
        if (one.request == nullptr) continue;
        const Outcome outcome = connection.test(one.request, bytes);
        if (outcome == Outcome::kPending) continue;
        one.request = nullptr;
        FUZZ_CHECK(outcome == Outcome::kFailed || bytes <= one.size);
      }
      std::erase_if(sends,
                    [&](Request* request) { return connection.test(request, bytes) != Outcome::kPending; });
    }
  }
  for (const Receive& one : receives) FUZZ_CHECK(one.intact());
  return 0;
}
