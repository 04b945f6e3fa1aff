#include "bench/perf/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <span>
#include <utility>

#include "base/error.h"
#include "bench/perf/collective.h"
#include "bench/perf/exit_codes.h"

namespace tombolo::bench {
namespace {

template <typename Value>
using Names = std::pair<Value, std::string_view>;

// In nccl-tests' order, which has no 16-bit integers.
constexpr Names<tomboloDataType_t> kTypes[] = {
    {tomboloInt8, "int8"},         {tomboloUint8, "uint8"},      {tomboloInt16, "int16"},
    {tomboloUint16, "uint16"},     {tomboloInt32, "int32"},      {tomboloUint32, "uint32"},
    {tomboloInt64, "int64"},       {tomboloUint64, "uint64"},    {tomboloFloat16, "half"},
    {tomboloFloat32, "float"},     {tomboloFloat64, "double"},   {tomboloBfloat16, "bfloat16"},
    {tomboloFloat8e4m3, "f8e4m3"}, {tomboloFloat8e5m2, "f8e5m2"}};
constexpr Names<tomboloRedOp_t> kOps[] = {{tomboloSum, "sum"}, {tomboloProd, "prod"}, {tomboloMax, "max"},
                                          {tomboloMin, "min"}, {tomboloAvg, "avg"},   {kMulSum, "mulsum"}};
static_assert(std::size(kOps) == tomboloNumOps + 1);

/// A flag of nccl-tests that does not apply to host memory: only its value for "off" is accepted.
struct Refused {
  const char* names;
  const char* off;
  const char* why;
};
constexpr Refused kRefused[] = {
    {"-G,--cudagraph", "0", "a CUDA graph replays work on a GPU's stream"},
    {"-R,--local_register", "0", "the engine takes any host memory; there is nothing to register"},
    {"-y,--stream_null", "0", "calls block; host memory has no streams"},
    {"-x,--cta_policy", "0", "no part of a GPU carries out the calls"},
    {"-D,--device_implementation", "0", "no kernel of a GPU carries out the calls"},
    {"-V,--device_cta_count", "16", "no kernel of a GPU carries out the calls"},
    {"-M,--memory", "0", "it reports a GPU's memory, and none is used"},
};

void add_refused(CLI::App& app) {
  for (const Refused& flag : kRefused) {
    app.add_option_function<std::string>(
           flag.names, [](const std::string&) {}, fmt::format("Only {}: {}", flag.off, flag.why))
        ->check([flag](const std::string& text) {
          return text == flag.off
                     ? std::string()
                     : fmt::format("{} is refused, only {} is taken: {}", text, flag.off, flag.why);
        })
        ->group("Of a GPU");
  }
}

/// A validator that reports the error which `parse` throws.
template <typename Parse>
auto why_not(Parse parse) {
  return [parse](const std::string& text) {
    try {
      parse(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
}

void add_bytes(CLI::App& app, const char* names, std::size_t& bytes, const char* shown, const char* help) {
  app.add_option_function<std::string>(
         names, [&bytes](const std::string& text) { bytes = parse_bytes(text); }, help)
      ->check(why_not(parse_bytes))
      ->default_str(shown)
      ->type_name("SIZE");
}

template <typename Value>
CLI::Option* add_range(CLI::App& app, const char* names, Value& value, int low, int high, const char* help) {
  return app.add_option(names, value, help)
      ->check(CLI::Range(low, high).description(""))
      ->capture_default_str()
      ->type_name("N");
}

void add_switch(CLI::App& app, const char* names, bool& on, const char* help) {
  app.add_option_function<int>(
         names, [&on](const int& value) { on = value != 0; }, help)
      ->check(CLI::Range(0, 1).description(""))
      ->default_str("0")
      ->type_name("0|1");
}

/// nccl-tests' names of 8-bit floats, f8e4m3 and f8e5m2, are also taken as most others write them: fp8e4m3.
bool is_name(std::string_view text, std::string_view name) {
  if (text.starts_with("fp8") && name.starts_with("f8")) return text.substr(3) == name.substr(2);
  return text == name;
}

/// Parses the name of one value, or "all".
template <typename Value>
void add_choice(CLI::App& app, const char* option, std::vector<Value>& chosen,
                std::span<const Names<Value>> names, const char* help) {
  app.add_option_function<std::string>(
         option,
         [&chosen, names](const std::string& text) {
           chosen.clear();
           for (const auto& [value, name] : names) {
             if (text == "all" || is_name(text, name)) chosen.push_back(value);
           }
         },
         help)
      ->check([names, help](const std::string& text) {
        const bool known = text == "all" || std::any_of(names.begin(), names.end(),
                                                        [&](auto& one) { return is_name(text, one.second); });
        return known ? std::string() : fmt::format("'{}' is none of {}", text, help);
      });
}

/// Parses the number of a rank; none stands for all.
std::optional<int> parse_root(const std::string& text) {
  if (text == "all" || text == "-1") return std::nullopt;
  int root = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, root);
  if (status != std::errc() || rest != end || root < 0) {
    fail(Cause::kInvalidUsage, "'{}' is no rank: expected 0 or more, or all", text);
  }
  return root;
}

/// Refuses combinations of flags that are each valid by themselves.
void check_together(const Flags& flags) {
  const auto refuse = [](const std::string& text) { throw CLI::ValidationError(text); };
  if (flags.minimum_bytes > flags.maximum_bytes) {
    refuse(fmt::format("-b {} is above -e {}", flags.minimum_bytes, flags.maximum_bytes));
  }
  const bool several = flags.minimum_bytes < flags.maximum_bytes;
  if (several && flags.step_factor <= 1 && flags.step_bytes == 0) {
    refuse("-i 0 never comes from -b to -e: give a step above 0, or a factor with -f");
  }
  if (several && flags.step_factor > 1 && flags.minimum_bytes == 0) {
    refuse(fmt::format("-b 0 times -f {} stays 0: begin above 0, or give a step with -i", flags.step_factor));
  }
  if (flags.per_iteration_skip > 0 && !flags.per_iteration) {
    refuse(fmt::format("-K {} leaves samples out of -I 1, which is not given", flags.per_iteration_skip));
  }
  if (flags.per_iteration_skip >= flags.iterations) {
    refuse(fmt::format("-K {} leaves none of -n {} iterations", flags.per_iteration_skip, flags.iterations));
  }
  if (!flags.tuning_file.empty() && (flags.types.size() > 1 || flags.ops.size() > 1 || !flags.root))
    refuse("--tune measures one type, operator and root: give one -d, -o and -r");
  if (!flags.tuning_file.empty() && flags.ops.front() == kMulSum)
    refuse("--tune takes a sum for mulsum: give -o sum");
  if (flags.cycles == 0 && !flags.output_file.empty()) {
    refuse("-N 0 runs until it is interrupted, and -J writes its file at the end: give a number of cycles");
  }
}

}  // namespace

std::string_view type_name(tomboloDataType_t type) noexcept {
  return std::find_if(std::begin(kTypes), std::end(kTypes), [type](auto& one) { return one.first == type; })
      ->second;
}

std::string_view op_name(tomboloRedOp_t op) noexcept {
  return std::find_if(std::begin(kOps), std::end(kOps), [op](auto& one) { return one.first == op; })->second;
}

std::size_t parse_bytes(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  double factor = 0;
  if (unit.empty()) factor = 1;
  if (unit == "K" || unit == "k") factor = 0x1p10;
  if (unit == "M" || unit == "m") factor = 0x1p20;
  if (unit == "G" || unit == "g") factor = 0x1p30;
  if (status != std::errc() || factor == 0 || !(number >= 0) || number * factor > 0x1p60) {
    fail(Cause::kInvalidUsage, "'{}' is no size: expected bytes, or a number with K, M or G", text);
  }
  return static_cast<std::size_t>(number * factor);
}

std::optional<std::size_t> next_size(const Flags& flags, std::size_t bytes) noexcept {
  const std::size_t next = flags.step_factor > 1 ? bytes * flags.step_factor : bytes + flags.step_bytes;
  if (next <= bytes || next > flags.maximum_bytes) return std::nullopt;
  return next;
}

CommandLine parse_command_line(std::string_view collective, int argc, const char* const* argv) {
  CommandLine line;
  Flags& flags = line.flags;
  flags.minimum_bytes = flags.maximum_bytes = std::size_t{32} << 20;
  flags.step_bytes = std::size_t{1} << 20;
  flags.types = {tomboloFloat32};
  flags.ops = {tomboloSum};
  flags.arguments.assign(argv, argv + argc);

  CLI::App app(
      fmt::format(
          "Times {} and checks its results, with the flags, table and JSON of nccl-tests, over "
          "Tombolo's engine\nand host memory. Start it with tombolo run, torchrun, srun or mpirun, or "
          "several ranks of one process with -t or -g.",
          collective),
      fmt::format("{}_perf", collective));
  add_bytes(app, "-b,--minbytes", flags.minimum_bytes, "32M", "Least size, as 8, 64K, 1.5M or 1G");
  add_bytes(app, "-e,--maxbytes", flags.maximum_bytes, "32M", "Largest size");
  add_bytes(app, "-i,--stepbytes", flags.step_bytes, "1M", "Bytes from one size to the next");
  add_range(app, "-f,--stepfactor", flags.step_factor, 0, 1 << 30,
            "Or: times the last size; 0 and 1 mean -i");
  add_range(app, "-t,--nthreads", flags.threads, 1, 1024, "Threads of each process");
  add_range(app, "-g,--ngpus", flags.devices, 1, 1024,
            "Ranks of each thread; here each has a thread of its own");
  add_range(app, "-n,--iters", flags.iterations, 1, 1 << 30, "Timed iterations");
  add_range(app, "-w,--warmup_iters", flags.warmup_iterations, 0, 1 << 30,
            "Iterations before them, for every size");
  add_range(app, "-m,--agg_iters", flags.aggregated, 1, 1 << 20, "Calls in one iteration, as a group");
  add_range(app, "-N,--run_cycles", flags.cycles, 0, 1 << 30, "Go through the sizes so often; 0: on and on");
  add_range(app, "-c,--check", flags.checks, 0, 1 << 20, "Check so often; 0: not at all");
  add_choice<tomboloRedOp_t>(app, "-o,--op", flags.ops, kOps,
                             "sum, prod, min, max, avg, mulsum (times a factor of each rank) or all");
  add_choice<tomboloDataType_t>(
      app, "-d,--datatype", flags.types, kTypes,
      "int8, uint8, int16 ... uint64, f8e4m3, f8e5m2, half, bfloat16, float, double or all");
  app.add_option_function<std::string>(
         "-r,--root", [&flags](const std::string& text) { flags.root = parse_root(text); },
         "A rank, or all (-1): each in turn")
      ->check(why_not(parse_root))
      ->default_str("0");
  add_range(app, "-a,--average", flags.average, 0, 3,
            "Report rank 0's time (0), the mean (1), least (2) or most (3)")
      ->default_str("1");
  app.add_option("-z,--blocking", flags.blocking,
                 "Barrier after every call (1), none (2), or after every iteration, untimed (3)")
      ->check([](const std::string& text) {
        if (text == "0") {
          return std::string("0 is refused: calls block until their rank is done, which is nccl-tests' 2");
        }
        return CLI::Range(1, 3)(text);
      })
      ->default_str("2")
      ->type_name("N");
  add_switch(app, "-p,--parallel_init", flags.parallel_init,
             "Taken as it is: ranks of one process always begin at the same time");
  add_switch(app, "-C,--report_cputime", flags.cpu_time, "Show rank 0's processor time instead of latency");
  add_switch(app, "-S,--report_timestamps", flags.timestamps, "Add the time of day to each line");
  add_switch(app, "-I,--per_iter_timing", flags.per_iteration,
             "Add the least, greatest and 99th percentile of the iterations, and how much they vary");
  add_range(app, "-K,--per_iter_skip", flags.per_iteration_skip, 0, 1 << 30,
            "Leave so many first ones out of -I");
  add_range(app, "-T,--timeout", flags.timeout_seconds, 0, 1 << 30,
            "Seconds after which one size is given up; 0: only TOMBOLO_DEADLINE");
  add_range(app, "-u,--unalign", flags.unalign, 0, 1 << 20, "Begin so many elements into the buffers");
  app.add_option("-J,--output_file", flags.output_file,
                 "Write JSON here too (.json; an existing file is kept)")
      ->check([](const std::string& text) {
        return text.ends_with(".json") ? std::string() : text + " does not end in .json";
      });
  app.add_option(
         "--bound", flags.bound_file,
         "Say at the end how many times as long as the lower bound on the network of this cluster file "
         "each size took")
      ->type_name("FILE");
  app.add_flag(
         "--explain", flags.explain,
         "Say at the end what the engine knows of the network, and which algorithm each size took and why")
      ->group("Of Tombolo");
  app.add_option(
         "--tune", flags.tuning_file,
         "First measure every algorithm at every size, and write the table of the fastest to this file (or "
         "add to it), for TOMBOLO_TUNING")
      ->type_name("FILE")
      ->group("Of Tombolo");
  add_refused(app);
  try {
    app.parse(argc, argv);
    check_together(flags);
  } catch (const CLI::Success& help) {
    line.exit_code = app.exit(help);
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "%.*s_perf: %s\n", static_cast<int>(collective.size()), collective.data(),
                 error.what());
    line.exit_code = kExitBadFlags;
  }
  return line;
}

}  // namespace tombolo::bench
