#include "tests/process/rma_replay.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>

namespace tombolo::tests {
namespace {

/// What one rank does, which every other rank can work out too.
struct Step {
  enum class Kind { kPut, kPutSignal, kSignal, kGet, kFlush } kind;
  std::uint32_t rank;  // the other one
  std::size_t size, from, to;
  std::uint64_t value;
  bool increments;
};

constexpr std::size_t kRegion = 512 * 1024;  // of each rank in every rank's window

std::vector<Step> plan_of(unsigned seed, int rank, int ranks, int steps) {
  std::mt19937 random(seed * 31 + static_cast<unsigned>(rank));
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  std::vector<Step> plan;
  for (int i = 0; i < steps; ++i) {
    Step step{};
    step.kind = static_cast<Step::Kind>(below(5));
    step.rank = static_cast<std::uint32_t>(below(static_cast<std::size_t>(ranks)));
    constexpr std::array<std::size_t, 6> kLimits{9, 4098, 4098, 20'000, 140'000, 400'000};
    step.size = below(kLimits[below(kLimits.size())]);
    step.from = below(kRegion - step.size);
    step.to = below(kRegion - step.size);
    step.value = below(1000);
    step.increments = below(2) == 0;
    plan.push_back(step);
  }
  return plan;
}

std::vector<std::byte> source_of(unsigned seed, int rank) {
  std::mt19937_64 random(seed + 77U * static_cast<unsigned>(rank));
  std::vector<std::byte> bytes(kRegion);
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(&bytes[i], &word, 8);
  }
  return bytes;
}

}  // namespace

// The windows' words: one for each rank, which counts its signalled puts, and one to which all add.
void replay(const Replay& run, int rank, int ranks, Bootstrap& bootstrap) {
  if (run.on_gpu) PretendedCuda::instance().reset({.seed = run.seed});
  const auto all = static_cast<std::size_t>(ranks);
  {
    Memory signals(8 * (all + 1), run.on_gpu), data(all * kRegion, run.on_gpu);
    Memory stamps(8 * all, run.on_gpu), source(kRegion, run.on_gpu), got(kRegion, run.on_gpu);
    Memory numbers(8 * 4096, false);  // what is put as a stamp: its own number
    source.write(0, source_of(run.seed, rank));
    for (std::uint64_t i = 0; i < 4096; ++i) {
      std::vector<std::byte> word(8);
      std::memcpy(word.data(), &i, 8);
      numbers.write(8 * i, word);
    }
    auto plugin = make_rank(run.version, rank, ranks, bootstrap);
    // Ranks are not at the same point when the first operations arrive.
    if (rank % 2 == 1) ::usleep(20'000);
    void* signal_window =
        plugin->reg(signals.data(), signals.size(), run.on_gpu,
                    abi::NCCL_NET_MR_FLAG_FORCE_SO | abi::NCCL_NET_MR_FLAG_SIGNAL_NEVER_RESET);
    void* stamp_window = plugin->reg(stamps.data(), stamps.size(), run.on_gpu, 0);
    void* source_window = plugin->reg(source.data(), source.size(), run.on_gpu, 0);
    void* number_window = plugin->reg(numbers.data(), numbers.size(), false, 0);
    void* got_window = plugin->reg(got.data(), got.size(), run.on_gpu, 0);
    void* data_window = plugin->reg(data.data(), data.size(), run.on_gpu, 0);

    if (run.on_gpu) PretendedCuda::instance().forbid_making(true);

    // A connection whose NIC fails before its ends have told each other where another way may lead fails with
    // it, so that faults begin once every rank has reached every other.
    if (run.before_step) {
      for (int other = 0; other < ranks; ++other) {
        if (other == rank) continue;
        void* request = nullptr;
        succeed(plugin->get(0, source_window, 8, 0, got_window, static_cast<std::uint32_t>(other), &request),
                "get");
        succeed(plugin->finish(request), "finish");
      }
      for (++bootstrap.met; bootstrap.met < ranks;) plugin->progress();
    }

    struct UnderWay {
      void* request;
      Step step;
    };
    std::vector<UnderWay> under_way;
    std::vector<std::size_t> per_rank(all);
    std::vector<std::uint64_t> stamped(all);
    std::mt19937 random(run.seed + static_cast<unsigned>(rank));
    const auto place = static_cast<std::uint64_t>(rank) * kRegion;
    const auto me = static_cast<std::uint64_t>(rank);
    bool getting = false;

    // A signal that is seen follows the puts before it: the stamp of that number, or a later one, is there.
    const auto look = [&] {
      for (std::size_t other = 0; other < all; ++other) {
        const std::uint64_t count = signals.word(other), stamp = stamps.word(other);
        require(stamp >= count,
                fmt::format("rank {} sees signal {} of rank {} but stamp {}", rank, count, other, stamp));
      }
    };
    const auto end_one = [&](std::size_t at) {
      bool done = false;
      succeed(plugin->test(under_way[at].request, done), "test");
      if (!done) return;
      const Step step = under_way[at].step;
      if (step.kind == Step::Kind::kGet) {
        getting = false;
        const auto there = source_of(run.seed, static_cast<int>(step.rank));
        const std::vector<std::byte> wanted(
            there.begin() + static_cast<std::ptrdiff_t>(step.from),
            there.begin() + static_cast<std::ptrdiff_t>(step.from + step.size));
        require(got.read(step.to, step.size) == wanted, "a get brought other bytes");
      }
      --per_rank[step.rank];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(at));
    };
    const auto posted = [&](abi::ncclResult_t result, void* const& request, const Step& step) {
      succeed(result, "post");
      require(request != nullptr, "a null request");
      under_way.push_back({request, step});
      ++per_rank[step.rank];
    };
    int posting = 0;
    for (const Step& step : plan_of(run.seed, rank, ranks, run.steps)) {
      if (run.before_step) run.before_step(rank, posting++);
      while (per_rank[step.rank] + 2 > 256 || (getting && step.kind == Step::Kind::kGet) ||
             random() % 3 == 0) {
        if (under_way.empty()) break;
        end_one(random() % under_way.size());
        look();
      }
      void* request = nullptr;
      switch (step.kind) {
        case Step::Kind::kPut:
          posted(plugin->put(step.from, source_window, step.size, place + step.to, data_window, step.rank,
                             &request),
                 request, step);
          break;
        case Step::Kind::kPutSignal: {  // a stamp, then bytes with the signal that counts it
          const std::uint64_t number = ++stamped[step.rank];
          posted(plugin->put(8 * number, number_window, 8, 8 * me, stamp_window, step.rank, &request),
                 request, step);
          posted(
              plugin->put_signal(step.from, source_window, step.size, place + step.to, data_window, step.rank,
                                 8 * me, signal_window, 5, abi::NCCL_NET_SIGNAL_OP_INC, &request),
              request, step);
          break;
        }
        case Step::Kind::kSignal:
          posted(plugin->put_signal(
                     0, nullptr, 0, 0, nullptr, step.rank, 8 * all, signal_window, step.value,
                     step.increments ? abi::NCCL_NET_SIGNAL_OP_INC : abi::NCCL_NET_SIGNAL_OP_ADD, &request),
                 request, step);
          break;
        case Step::Kind::kGet:
          posted(plugin->get(step.from, source_window, step.size, step.to, got_window, step.rank, &request),
                 request, step);
          getting = true;
          break;
        case Step::Kind::kFlush:
          posted(plugin->flush(data_window, step.rank, &request), request, step);
          break;
      }
    }
    const Deadline deadline = Deadline::after(kPatience);
    while (!under_way.empty()) {
      end_one(random() % under_way.size());
      require(!deadline.passed(), "operations do not end");
    }
    for (++bootstrap.finished; bootstrap.finished < ranks;) {
      plugin->progress();
      look();
      require(!deadline.passed(), "the other ranks do not end");
    }
    require(!plugin->failed(), "an error is told of");

    std::uint64_t sum = 0;
    std::vector<std::uint64_t> counts(all);
    for (int other = 0; other < ranks; ++other) {
      std::vector<std::byte> wanted(kRegion);
      const std::vector<std::byte> there = source_of(run.seed, other);
      for (const Step& step : plan_of(run.seed, other, ranks, run.steps)) {
        if (step.rank != static_cast<std::uint32_t>(rank)) continue;
        if (step.kind == Step::Kind::kSignal) sum += step.increments ? 1 : step.value;
        if (step.kind == Step::Kind::kPutSignal) ++counts[static_cast<std::size_t>(other)];
        if (step.kind == Step::Kind::kPut || step.kind == Step::Kind::kPutSignal)
          std::memcpy(&wanted[step.to], &there[step.from], step.size);
      }
      require(data.read(static_cast<std::size_t>(other) * kRegion, kRegion) == wanted,
              fmt::format("rank {} has other bytes of rank {} than were put", rank, other));
      require(signals.word(static_cast<std::size_t>(other)) == counts[static_cast<std::size_t>(other)],
              "a count");
    }
    require(signals.word(all) == sum, fmt::format("the sum is {} instead of {}", signals.word(all), sum));
    for (void* window : {data_window, got_window, number_window, source_window, stamp_window, signal_window})
      plugin->dereg(window);
  }
  if (run.on_gpu) {
    PretendedCuda::instance().check_thread();
    for (const std::string& breach : PretendedCuda::instance().breaches()) require(false, breach);
  }
}

}  // namespace tombolo::tests
