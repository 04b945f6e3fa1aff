#include "bench/perf.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "collectives/data_type.h"
#include "collectives/half.h"

namespace tombolo::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  std::string begin = "32M", end = "32M", step = "1M";
  double factor = 0;
  int iterations = 20, warmup = 5;
  bool check = true;
  std::string type = "float", op = "sum";
  std::string json;
};

struct Timing {
  double average = 0, median = 0, least = 0;  ///< seconds
  std::int64_t wrong = 0;
};

struct Row {
  std::size_t bytes, count;
  std::string type, op;
  std::string algorithm;
  Timing out_of_place, in_place;
};

double read(const std::byte* at, tomboloDataType_t type) noexcept {
  const auto as = [&](auto sample) {
    std::memcpy(&sample, at, sizeof(sample));
    return sample;
  };
  switch (type) {
    case tomboloInt8:
      return as(std::int8_t{});
    case tomboloUint8:
      return as(std::uint8_t{});
    case tomboloInt16:
      return as(std::int16_t{});
    case tomboloUint16:
      return as(std::uint16_t{});
    case tomboloInt32:
      return as(std::int32_t{});
    case tomboloUint32:
      return as(std::uint32_t{});
    case tomboloInt64:
      return static_cast<double>(as(std::int64_t{}));
    case tomboloUint64:
      return static_cast<double>(as(std::uint64_t{}));
    case tomboloFloat16:
      return collectives::to_float(as(collectives::Float16{}));
    case tomboloBfloat16:
      return collectives::to_float(as(collectives::Bfloat16{}));
    case tomboloFloat32:
      return as(float{});
    case tomboloFloat64:
    case tomboloNumTypes:
      break;
  }
  return as(double{});
}

void write(std::byte* at, tomboloDataType_t type, double value) noexcept {
  const auto put = [&](auto typed) { std::memcpy(at, &typed, sizeof(typed)); };
  switch (type) {
    case tomboloInt8:
      return put(static_cast<std::int8_t>(value));
    case tomboloUint8:
      return put(static_cast<std::uint8_t>(value));
    case tomboloInt16:
      return put(static_cast<std::int16_t>(value));
    case tomboloUint16:
      return put(static_cast<std::uint16_t>(value));
    case tomboloInt32:
      return put(static_cast<std::int32_t>(value));
    case tomboloUint32:
      return put(static_cast<std::uint32_t>(value));
    case tomboloInt64:
      return put(static_cast<std::int64_t>(value));
    case tomboloUint64:
      return put(static_cast<std::uint64_t>(value));
    case tomboloFloat16:
      return put(collectives::to_float16(static_cast<float>(value)));
    case tomboloBfloat16:
      return put(collectives::to_bfloat16(static_cast<float>(value)));
    case tomboloFloat32:
      return put(static_cast<float>(value));
    case tomboloFloat64:
    case tomboloNumTypes:
      break;
  }
  put(value);
}

bool is_float(tomboloDataType_t type) noexcept {
  return type >= tomboloFloat16;
}

/// How far a float result may be off: one rounding per rank.
double tolerance(tomboloDataType_t type, int ranks) noexcept {
  const double epsilon = type == tomboloFloat16    ? 0x1p-11
                         : type == tomboloBfloat16 ? 0x1p-8
                         : type == tomboloFloat32  ? 0x1p-24
                                                   : 0x1p-53;
  return epsilon * (ranks + 1);
}

/// The expected value as the type holds it: integers wrap, averages are cut.
double as_held(double value, tomboloDataType_t type) noexcept {
  std::byte place[8];
  if (is_float(type)) return value;
  const auto whole = static_cast<std::int64_t>(value);
  std::memcpy(place, &whole, sizeof(whole));  // little-endian: the low bytes come first
  return read(place, type);
}

class Bench {
 public:
  Bench(const Collective& collective, const Flags& flags, const api::Communicator& communicator)
      : collective_(collective),
        flags_(flags),
        communicator_(communicator),
        ranks_(communicator.size()),
        rank_(communicator.rank()) {}

  bool run() {
    const std::size_t begin = parse_size(flags_.begin, "-b"), end = parse_size(flags_.end, "-e");
    const std::size_t step = parse_size(flags_.step, "-i");
    if (begin > end) fail(Cause::kInvalidUsage, "-b {} is above -e {}", flags_.begin, flags_.end);
    if (flags_.factor != 0 && flags_.factor <= 1)
      fail(Cause::kInvalidUsage, "-f {}: a factor is above 1", flags_.factor);
    if (flags_.factor == 0 && step == 0) fail(Cause::kInvalidUsage, "-i 0: a step is above 0");
    send_.resize(end);
    receive_.resize(end);
    print_header(begin, end);
    for (std::size_t bytes = begin; bytes <= end;) {
      for (const auto type : types()) {
        for (const auto op : ops()) measure(bytes, type, op);
      }
      const auto next = flags_.factor != 0
                            ? static_cast<std::size_t>(static_cast<double>(bytes) * flags_.factor)
                            : bytes + step;
      if (next <= bytes) break;
      bytes = next;
    }
    print_footer();
    return wrong_ == 0;
  }

 private:
  std::vector<tomboloDataType_t> types() const {
    std::vector<tomboloDataType_t> all;
    for (int type = 0; type < tomboloNumTypes; ++type) {
      if (flags_.type == "all" ||
          collectives::data_type_from_name(flags_.type) == static_cast<collectives::DataType>(type)) {
        all.push_back(static_cast<tomboloDataType_t>(type));
      }
    }
    return all;
  }
  std::vector<tomboloRedOp_t> ops() const {
    if (!collective_.reduces()) return {tomboloSum};
    std::vector<tomboloRedOp_t> all;
    for (int op = 0; op < tomboloNumOps; ++op) {
      if (flags_.op == "all" ||
          collectives::reduce_op_from_name(flags_.op) == static_cast<collectives::ReduceOp>(op)) {
        all.push_back(static_cast<tomboloRedOp_t>(op));
      }
    }
    return all;
  }

  void measure(std::size_t bytes, tomboloDataType_t type, tomboloRedOp_t op) {
    const std::size_t element = tomboloTypeSize(type);
    Row row{bytes / element * element,
            bytes / element,
            std::string(collectives::data_type_name(static_cast<collectives::DataType>(type))),
            collective_.reduces()
                ? std::string(collectives::reduce_op_name(static_cast<collectives::ReduceOp>(op)))
                : "none",
            {},
            {},
            {}};
    row.out_of_place = time(row.count, type, op, receive_.data());
    row.algorithm = algorithm_;
    row.in_place = time(row.count, type, op, send_.data());
    wrong_ += row.out_of_place.wrong + row.in_place.wrong;
    bus_sum_ += bus(row, row.out_of_place) + bus(row, row.in_place);
    if (rank_ == 0) print(row);
    rows_.push_back(std::move(row));
  }

  Timing time(std::size_t count, tomboloDataType_t type, tomboloRedOp_t op, std::byte* receive) {
    const Collective::Buffers buffers{send_.data(), receive, count};
    fill(count, type, op);
    for (int i = 0; i < flags_.warmup; ++i) collective_.run(communicator_, buffers, type, op);
    communicator_.barrier();
    std::vector<double> seconds;
    for (int i = 0; i < flags_.iterations; ++i) {
      const auto start = Clock::now();
      collective_.run(communicator_, buffers, type, op);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    Timing timing;
    for (const double one : seconds) timing.average += one / static_cast<double>(seconds.size());
    std::sort(seconds.begin(), seconds.end());
    timing.median = (seconds[seconds.size() / 2] + seconds[(seconds.size() - 1) / 2]) / 2;
    timing.least = seconds.front();
    algorithm_ = communicator_.last_algorithm();
    double all[3] = {timing.average, timing.median, timing.least};
    communicator_.all_reduce(all, all, 3, tomboloAvg);  // over ranks, as nccl-tests does by default
    timing.average = all[0], timing.median = all[1], timing.least = all[2];
    if (flags_.check) {
      fill(count, type, op);
      collective_.run(communicator_, buffers, type, op);
      timing.wrong = count_wrong(receive, count, type, op);
      communicator_.all_reduce(&timing.wrong, &timing.wrong, 1, tomboloSum);
    }
    return timing;
  }

  void fill(std::size_t count, tomboloDataType_t type, tomboloRedOp_t op) {
    const std::size_t element = tomboloTypeSize(type);
    for (std::size_t i = 0; i < count; ++i) write(send_.data() + i * element, type, value_of(i, rank_, op));
    if (!receive_.empty()) std::memset(receive_.data(), 0xff, count * element);
  }

  std::int64_t count_wrong(const std::byte* result, std::size_t count, tomboloDataType_t type,
                           tomboloRedOp_t op) const {
    const std::size_t element = tomboloTypeSize(type);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double expected = as_held(collective_.expected(i, rank_, ranks_, op), type);
      const double found = read(result + i * element, type);
      const double allowed = is_float(type) ? std::fabs(expected) * tolerance(type, ranks_) : 0;
      if (!(std::fabs(found - expected) <= allowed)) ++wrong;
    }
    return wrong;
  }

  static double algorithm(const Row& row, const Timing& timing) {
    return timing.average > 0 ? static_cast<double>(row.bytes) / timing.average / 1e9 : 0;
  }
  double bus(const Row& row, const Timing& timing) const {
    return algorithm(row, timing) * collective_.bus_factor(ranks_);
  }

  void print_header(std::size_t begin, std::size_t end) const {
    if (rank_ != 0) return;
    std::printf("# Tombolo %.*s_perf: %d ranks, host memory\n", static_cast<int>(collective_.name().size()),
                collective_.name().data(), ranks_);
    std::printf("# minBytes %zu maxBytes %zu step: %s warmup iters: %d iters: %d validation: %d\n#\n", begin,
                end,
                flags_.factor != 0 ? fmt::format("{:g}(factor)", flags_.factor).c_str()
                                   : (flags_.step + "(bytes)").c_str(),
                flags_.warmup, flags_.iterations, flags_.check ? 1 : 0);
    std::printf(
        "# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "",
        "", "", "", "");
    std::printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s\n", "size", "count",
                "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
                "#wrong");
    std::printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s\n", "(B)", "(elements)",
                "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  }

  void print(const Row& row) const {
    std::printf("%12zu  %12zu  %8s  %6s  %6i", row.bytes, row.count, row.type.c_str(), row.op.c_str(), -1);
    for (const Timing* timing : {&row.out_of_place, &row.in_place}) {
      const double us = timing->average * 1e6;
      std::printf("  %7.*f  %6.2f  %6.2f  %5s",
                  us >= 10000 ? 0
                  : us >= 100 ? 1
                              : 2,
                  us, algorithm(row, *timing), bus(row, *timing),
                  flags_.check ? std::to_string(timing->wrong).c_str() : "N/A");
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  void print_footer() const {
    if (rank_ != 0) return;
    const double average = rows_.empty() ? 0 : bus_sum_ / (2 * static_cast<double>(rows_.size()));
    std::printf("# Out of bounds values : %lld %s\n", static_cast<long long>(wrong_),
                wrong_ == 0 ? "OK" : "FAILED");
    std::printf("# Avg bus bandwidth    : %g \n#\n", average);
    if (flags_.json.empty()) return;
    Json results = Json::array();
    for (const Row& row : rows_) {
      Json one{{"size_bytes", row.bytes},
               {"count", row.count},
               {"type", row.type},
               {"redop", row.op},
               {"algorithm", row.algorithm}};
      const std::pair<const char*, const Timing*> modes[] = {{"out_of_place", &row.out_of_place},
                                                             {"in_place", &row.in_place}};
      for (const auto& [name, timing] : modes) {
        one[name] = {{"median_seconds", timing->median},
                     {"average_seconds", timing->average},
                     {"least_seconds", timing->least},
                     {"bus_bytes_per_second",
                      timing->median > 0
                          ? static_cast<double>(row.bytes) / timing->median * collective_.bus_factor(ranks_)
                          : 0}};
        if (flags_.check) one[name]["wrong"] = timing->wrong;
      }
      results.push_back(std::move(one));
    }
    write_json_file(flags_.json, {{"collective", std::string(collective_.name())},
                                  {"ranks", ranks_},
                                  {"iterations", flags_.iterations},
                                  {"results", results}});
  }

  const Collective& collective_;
  const Flags& flags_;
  const api::Communicator& communicator_;
  int ranks_, rank_;
  std::vector<std::byte> send_, receive_;
  std::vector<Row> rows_;
  std::int64_t wrong_ = 0;
  double bus_sum_ = 0;
  std::string algorithm_;
};

}  // namespace

double value_of(std::size_t index, int rank, tomboloRedOp_t op) noexcept {
  const std::size_t mixed = index * 7 + static_cast<std::size_t>(rank) * 5;
  return op == tomboloProd ? 1 + static_cast<double>(mixed % 2) : static_cast<double>(mixed % 11);
}

int run_perf(const Collective& collective, int argc, char** argv) {
  Flags flags;
  CLI::App app(fmt::format(
      "Times {} and checks its results. Start one process per rank, with `tombolo run`, torchrun, srun or "
      "mpirun. Flags and table are nccl-tests'.",
      collective.name()));
  app.add_option("-b,--minbytes", flags.begin, "Least size, \"8\", \"64K\", \"16M\"")->capture_default_str();
  app.add_option("-e,--maxbytes", flags.end, "Largest size")->capture_default_str();
  auto* factor = app.add_option("-f,--stepfactor", flags.factor, "Each size is so many times the last");
  app.add_option("-i,--stepbytes", flags.step, "Or: each size is so many bytes more")
      ->excludes(factor)
      ->capture_default_str();
  app.add_option("-n,--iters", flags.iterations, "Timed iterations")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("-w,--warmup_iters", flags.warmup, "Iterations before")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("-c,--check", flags.check, "Verify the results (0 or 1)")->capture_default_str();
  app.add_option("-d,--datatype", flags.type, "int8 ... uint64, half, bfloat16, float, double, or all")
      ->check([](const std::string& text) {
        return text == "all" || collectives::data_type_from_name(text) ? std::string() : "no such data type";
      })
      ->capture_default_str();
  app.add_option("-o,--op", flags.op, "sum, prod, min, max, avg, or all")
      ->check([](const std::string& text) {
        return text == "all" || collectives::reduce_op_from_name(text) ? std::string() : "no such operator";
      })
      ->capture_default_str();
  app.add_option("--json", flags.json, "Also write medians to this file (rank 0)");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto communicator = api::Communicator::from_environment();
    Bench bench(collective, flags, communicator);
    return bench.run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%.*s_perf: %s\n", static_cast<int>(collective.name().size()),
                 collective.name().data(), error.what());
    return 1;
  }
}

}  // namespace tombolo::bench
