#include "bench/perf/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <new>

#include "bench/perf/values.h"

namespace tombolo::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

/// Combines all ranks' seconds by the rule of -a; every rank gets the result.
double over_ranks(const api::Communicator& communicator, Average average, double seconds) {
  if (average == Average::kRankZero) {
    communicator.broadcast(&seconds, &seconds, 1, tomboloFloat64, 0);
    return seconds;
  }
  const tomboloRedOp_t op = average == Average::kLeast  ? tomboloMin
                            : average == Average::kMost ? tomboloMax
                                                        : tomboloAvg;
  communicator.all_reduce(&seconds, &seconds, 1, op);
  return seconds;
}

}  // namespace

Measurer::Measurer(const Collective& collective, const Flags& flags, const api::Communicator& communicator)
    : collective_(collective),
      flags_(flags),
      communicator_(communicator),
      rank_(communicator.rank()),
      ranks_(communicator.size()),
      send_(allocate(flags.maximum_bytes + flags.unalign * sizeof(double))),
      receive_(allocate(flags.maximum_bytes + flags.unalign * sizeof(double))),
      expected_(allocate(flags.checks > 0 ? flags.maximum_bytes : 0)) {}

Measurer::Buffer Measurer::allocate(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t whole = (bytes / kPage + 1) * kPage;
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(kPage, whole)));
  if (!buffer) throw std::bad_alloc();
  std::memset(buffer.get(), 0, whole);  // touches every page, so that no timed call is the first to do so
  return buffer;
}

Call Measurer::call(const Point& point, Placement placement, std::size_t number) const {
  const std::size_t element = tomboloTypeSize(point.type);
  const std::size_t start = flags_.unalign * element;
  // As in nccl-tests, successive calls use successive parts of the buffers, so that caches do not hold the
  // data of the call before.
  const std::size_t used = point.shape.largest() * element;
  const std::size_t shift = used > 0 ? number % (flags_.maximum_bytes / used) * used : 0;
  std::byte* const send = send_.get() + start + shift;
  std::byte* const receive = receive_.get() + start + shift;
  const auto own = [&](std::size_t step) { return static_cast<std::size_t>(rank_) * step * element; };
  const bool in_place = placement == Placement::kInPlace;
  return {.communicator = communicator_,
          .send = in_place ? receive + own(point.shape.input_step) : send,
          .receive = in_place ? receive + own(point.shape.result_step) : receive,
          .count = point.shape.count,
          .type = point.type,
          .op = op_,
          .root = point.root,
          .rank = rank_,
          .ranks = ranks_};
}

void Measurer::iterate(const Point& point, Placement placement, std::size_t iteration) const {
  const auto first = iteration * static_cast<std::size_t>(flags_.aggregated);
  const bool each_by_itself = flags_.blocking == Blocking::kBarrierEachCall || collective_.in_steps;
  if (flags_.aggregated > 1 && !each_by_itself) {
    api::group([&] {
      for (int i = 0; i < flags_.aggregated; ++i) {
        collective_.run(call(point, placement, first + static_cast<std::size_t>(i)));
      }
    });
    return;
  }
  for (int i = 0; i < flags_.aggregated; ++i) {
    collective_.run(call(point, placement, first + static_cast<std::size_t>(i)));
    if (flags_.blocking == Blocking::kBarrierEachCall) communicator_.barrier();
  }
}

void Measurer::time(const Point& point, Placement placement, Measurement& measurement) const {
  for (int i = 0; i < flags_.warmup_iterations; ++i) iterate(point, placement, static_cast<std::size_t>(i));
  collective_.run(call(point, placement, 0));  // one more call, as in nccl-tests
  measurement.algorithm = collective_.point_to_point ? "point-to-point" : communicator_.last_algorithm();
  if (flags_.explain && rank_ == 0 && !collective_.point_to_point)
    measurement.explanation = communicator_.explain();
  communicator_.barrier();
  measurement.iterations.reserve(static_cast<std::size_t>(flags_.iterations));
  double all = 0;
  for (int i = 0; i < flags_.iterations; ++i) {
    const double cpu_start = flags_.cpu_time ? thread_cpu_seconds() : 0;
    const auto start = Clock::now();
    iterate(point, placement, static_cast<std::size_t>(i));
    const double seconds = since(start);
    if (flags_.cpu_time) measurement.cpu_seconds += thread_cpu_seconds() - cpu_start;
    all += seconds;
    measurement.iterations.push_back(seconds / flags_.aggregated);
    if (flags_.blocking == Blocking::kBarrierEachIteration) communicator_.barrier();
  }
  const double calls = static_cast<double>(flags_.iterations) * flags_.aggregated;
  measurement.cpu_seconds /= calls;
  const auto reported = [&](double seconds) { return over_ranks(communicator_, flags_.average, seconds); };
  measurement.seconds = reported(all / calls);
  measurement.median = reported(median(measurement.iterations));
  measurement.least =
      reported(*std::min_element(measurement.iterations.begin(), measurement.iterations.end()));
}

void Measurer::check(const Point& point, Placement placement, Measurement& measurement) {
  const Shape& shape = point.shape;
  const std::size_t element = tomboloTypeSize(point.type);
  const Call one = call(point, placement, 0);
  std::int64_t counts[2] = {0, 0};  // wrong elements, ranks that found any
  for (int i = 0; i < flags_.checks && counts[0] == 0; ++i) {
    const Values values{collective_, point.type, point.op, ++checks_,
                        RankContext{shape.count, rank_, ranks_, point.root}};
    std::memset(call(point, Placement::kOutOfPlace, 0).receive, 0xff, shape.largest() * element);
    values.fill_input(one.send, shape.send);
    std::memcpy(expected_.get(), one.receive, shape.receive * element);
    values.fill_expected(expected_.get(), shape.receive);
    collective_.run(one);
    counts[0] = values.count_wrong(one.receive, expected_.get(), shape.receive);
    counts[1] = counts[0] > 0 ? 1 : 0;
    communicator_.all_reduce(counts, counts, 2, tomboloSum);
  }
  measurement.wrong = counts[0];
  measurement.failed_checks = static_cast<int>(counts[1]);
}

double Measurer::seconds_of(const Point& point, int iterations) {
  op_ = point.op;
  const auto start = Clock::now();
  for (int i = 0; i < iterations; ++i) iterate(point, Placement::kOutOfPlace, static_cast<std::size_t>(i));
  return since(start) / iterations / flags_.aggregated;
}

int Measurer::check_of(const Point& point) {
  op_ = point.op;
  Measurement measurement;
  if (flags_.checks > 0) check(point, Placement::kOutOfPlace, measurement);
  return measurement.failed_checks;
}

Measurement Measurer::measure(const Point& point, Placement placement) {
  std::optional<api::PreMulSum> own;
  op_ = point.op;
  if (point.op == kMulSum) {
    std::array<std::byte, sizeof(double)> factor{};
    Values{collective_, point.type, point.op, 0, {0, rank_, ranks_, point.root}}.fill_factor(factor.data());
    op_ = own.emplace(factor.data(), point.type, communicator_);
  }
  Measurement measurement;
  time(point, placement, measurement);
  const bool defined = placement == Placement::kOutOfPlace || collective_.in_place;
  if (flags_.checks > 0 && defined) check(point, placement, measurement);
  return measurement;
}

}  // namespace tombolo::bench
