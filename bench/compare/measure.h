// How every library is measured: a driver says how its library carries out a collective, and measure_main
// does the rest.
//
//     DRIVER COLLECTIVE --meet FILE [--sizes 4,1024] [--iterations 100] [--seconds 0.1] [--warm-up 3]
//     [--bind] [--wait yield] [--autogroup N]
//
// At each size the ranks call the collective --warm-up times (once where that takes longer than --seconds),
// then as often as fits in about --seconds, at least three times and at most --iterations. Before every call
// they meet (meeting.h). Each rank takes the time of its own call; the time of an iteration is that of the
// rank that took longest. One more call, with new input and a result that was overwritten before, is checked
// element by element. Rank 0 prints a line of JSON for each size.
#pragma once

#include <getopt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "bench/compare/meeting.h"
#include "bench/compare/values.h"

namespace compare {

/// What a call works on. A broadcast has one buffer, `output`; rank 0 is its root.
struct Buffers {
  float* input;
  float* output;
};

/// A collective that is ready to be called any number of times, and where its result is.
struct Prepared {
  std::function<void()> call;
  const float* result;
};

/// One rank of a job, as its library sees it. Throws std::exception where a call fails.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Sums are of floats. What is done here is not timed. Collective.
  virtual Prepared prepare(const Shape& shape, Buffers buffers) = 0;
};

/// A collective by the name that the command line has for it.
struct Named {
  const char* name;
  Collective collective;
  bool uneven;
};

struct Options {
  Named collective;
  std::vector<std::size_t> sizes{4};  // bytes
  int iterations = 100, warm_up = 3;
  double seconds = 0.1;
  bool bind = false;
  Waiting waiting = Waiting::kYields;
  int autogroup =
      0;  // the priority of the session's processes among those of others, as of nice(1); 0: as it is
  std::string meet;
};

inline Named collective_named(const std::string& name) {
  const Named names[] = {{"allreduce", Collective::kAllReduce, false},
                         {"allgather", Collective::kAllGather, false},
                         {"reducescatter", Collective::kReduceScatter, false},
                         {"broadcast", Collective::kBroadcast, false},
                         {"alltoall", Collective::kAllToAll, false},
                         {"reduce", Collective::kReduce, false},
                         {"gather", Collective::kGather, false},
                         {"scatter", Collective::kScatter, false},
                         {"barrier", Collective::kBarrier, false},
                         {"allgatherv", Collective::kAllGather, true},
                         {"reducescatterv", Collective::kReduceScatter, true},
                         {"gatherv", Collective::kGather, true},
                         {"scatterv", Collective::kScatter, true},
                         {"alltoallv", Collective::kAllToAll, true}};
  for (const Named& known : names)
    if (name == known.name) return known;
  std::string all;
  for (const Named& known : names) all += (all.empty() ? "" : ", ") + std::string(known.name);
  throw std::runtime_error("unknown collective '" + name + "'; known are " + all);
}

inline Waiting waiting_named(const std::string& name) {
  if (name == "spin") return Waiting::kSpins;
  if (name == "yield") return Waiting::kYields;
  if (name == "sleep") return Waiting::kSleeps;
  throw std::runtime_error("--wait " + name + ": known are spin, yield, sleep");
}

inline Options read_options(int argc, char** argv) {
  Options options;
  const option known[] = {{"sizes", required_argument, nullptr, 's'},
                          {"iterations", required_argument, nullptr, 'i'},
                          {"warm-up", required_argument, nullptr, 'w'},
                          {"seconds", required_argument, nullptr, 't'},
                          {"meet", required_argument, nullptr, 'm'},
                          {"bind", no_argument, nullptr, 'b'},
                          {"wait", required_argument, nullptr, 'z'},
                          {"autogroup", required_argument, nullptr, 'a'},
                          {nullptr, 0, nullptr, 0}};
  for (int found; (found = getopt_long(argc, argv, "", known, nullptr)) != -1;) switch (found) {
      case 's': {
        options.sizes.clear();
        std::istringstream list(optarg);
        for (std::string size; std::getline(list, size, ',');) options.sizes.push_back(std::stoull(size));
        break;
      }
      case 'i':
        options.iterations = std::stoi(optarg);
        break;
      case 'w':
        options.warm_up = std::stoi(optarg);
        break;
      case 't':
        options.seconds = std::stod(optarg);
        break;
      case 'm':
        options.meet = optarg;
        break;
      case 'b':
        options.bind = true;
        break;
      case 'z':
        options.waiting = waiting_named(optarg);
        break;
      case 'a':
        options.autogroup = std::stoi(optarg);
        break;
      default:
        throw std::runtime_error("the options cannot be understood");
    }
  if (optind + 1 != argc || options.meet.empty() || options.sizes.empty())
    throw std::runtime_error("one collective and --meet FILE are needed");
  if (options.iterations < 1 || options.iterations > kMostIterations || options.warm_up < 1)
    throw std::runtime_error("--iterations is 1 to 4096, and --warm-up at least 1");
  options.collective = collective_named(argv[optind]);
  return options;
}

/// Puts this rank, and every thread that it starts later, on a processor of its own, or where there are more
/// ranks on one with as many others as any has: the system takes long to even them out, and seconds are all
/// that a run takes.
inline void bind_to_core(int rank) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof cores, &cores);
  int left = rank % std::max(CPU_COUNT(&cores), 1);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

/// Each rank does it for itself, because some launchers give every rank a session of its own.
inline void prioritise_session(int nice) {
  std::ofstream file("/proc/self/autogroup");
  if (!(file << nice << std::flush))
    throw std::runtime_error("cannot write " + std::to_string(nice) + " into /proc/self/autogroup");
}

/// Page-aligned floats whose pages are there already.
class Memory {
 public:
  explicit Memory(std::size_t count)
      : floats_(static_cast<float*>(::operator new (count * sizeof(float), std::align_val_t{4096}))) {
    poison(floats_.get(), count);
  }
  float* get() const { return floats_.get(); }

 private:
  struct Free {
    void operator()(float* memory) const { ::operator delete (memory, std::align_val_t{4096}); }
  };
  std::unique_ptr<float, Free> floats_;
};

class Measurement {
 public:
  Measurement(const Options& options, Peer& peer)
      : options_(options),
        peer_(peer),
        meeting_(options.meet, peer.rank(), peer.ranks(), options.waiting),
        input_(shape(most(options)).all()),
        output_(shape(most(options)).all()) {}

  void run() {
    std::size_t last = 0;
    for (const std::size_t size : options_.sizes) {
      const Shape now = shape(size);
      if (now.all() == last) continue;  // sizes below one float for each rank are all rounded up to that
      last = now.all();
      measure(now);
    }
  }

 private:
  static std::size_t most(const Options& options) {
    return *std::max_element(options.sizes.begin(), options.sizes.end());
  }
  Shape shape(std::size_t bytes) const {
    Shape found{options_.collective.collective, 1, peer_.rank(), peer_.ranks(), options_.collective.uneven};
    if (found.collective != Collective::kBarrier)  // which has one size
      found.count = std::max<std::size_t>(1, bytes / sizeof(float) / found.all());
    return found;
  }

  double timed(const std::function<void()>& call) {
    meeting_.wait();
    const Clock::time_point begin = Clock::now();
    call();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void measure(const Shape& now) {
    const bool broadcast = now.collective == Collective::kBroadcast;
    float* input = broadcast ? output_.get() : input_.get();
    const Prepared prepared = peer_.prepare(now, {input, output_.get()});
    fill(now, 0, input);
    double least = 1e9;
    for (int i = 0; i < options_.warm_up; ++i) {
      least = meeting_.largest(std::min(least, timed(prepared.call)));
      if (least > options_.seconds) break;
    }
    const double wanted = options_.seconds / std::max(1e-7, least), most = options_.iterations;
    const int iterations = static_cast<int>(std::clamp(wanted, std::min(3.0, most), most));
    auto& seconds = meeting_.seconds_of(peer_.rank());
    for (int i = 0; i < iterations; ++i) seconds[static_cast<std::size_t>(i)] = timed(prepared.call);

    ++round_;
    poison(output_.get(), now.received());
    if (!broadcast || peer_.rank() == 0) fill(now, round_, input);
    timed(prepared.call);
    const std::size_t wrong = meeting_.largest(wrong_elements(now, round_, prepared.result));
    if (peer_.rank() == 0) print(now, iterations, wrong);
    meeting_.wait();
  }

  void print(const Shape& now, int iterations, std::size_t wrong) {
    const std::size_t bytes = now.collective == Collective::kBarrier ? 0 : now.all() * sizeof(float);
    std::printf("{\"bytes\": %zu, \"right\": %s, \"wrong_elements\": %zu, \"microseconds\": [", bytes,
                wrong == 0 ? "true" : "false", wrong);
    for (int i = 0; i < iterations; ++i) {
      double longest = 0;
      for (int rank = 0; rank < now.ranks; ++rank)
        longest = std::max(longest, meeting_.seconds_of(rank)[static_cast<std::size_t>(i)]);
      std::printf("%s%.3f", i == 0 ? "" : ", ", longest * 1e6);
    }
    std::printf("]}\n");
    std::fflush(stdout);
  }

  const Options& options_;
  Peer& peer_;
  Meeting meeting_;
  Memory input_, output_;
  std::uint32_t round_ = 0;
};

/// The counts and offsets of a collective with uneven parts, in a library's own type: of all ranks' parts,
/// or, for an all-to-all, of what this rank exchanges with each, which is as much each way.
template <typename Number>
struct Parts {
  explicit Parts(const Shape& shape) {
    for (int other = 0; other < shape.ranks; ++other) {
      const Part part =
          shape.collective == Collective::kAllToAll ? shape.exchanged(shape.rank, other) : shape.part(other);
      counts.push_back(static_cast<Number>(part.count));
      offsets.push_back(static_cast<Number>(part.begin));
    }
  }
  std::vector<Number> counts, offsets;
};

/// A driver's main. `connect` makes this rank a member of its job; `own_rank` tells its number before, for
/// --bind.
inline int measure_main(int argc, char** argv, int own_rank,
                        const std::function<std::unique_ptr<Peer>()>& connect) {
  try {
    const Options options = read_options(argc, argv);
    if (options.autogroup != 0) prioritise_session(options.autogroup);
    if (options.bind) bind_to_core(own_rank);
    const std::unique_ptr<Peer> peer = connect();
    Measurement(options, *peer).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

/// A number that the launcher of a rank put into its environment, or -1.
inline int launched(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? -1 : std::atoi(text);
}

}  // namespace compare
