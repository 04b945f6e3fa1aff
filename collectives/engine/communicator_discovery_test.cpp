#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "base/temporary_folder.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/hooked_store.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

/// Hosts without clusters, each limited to a rate, that find out which of them are near each other.
Change discovering(std::vector<double> bytes_per_second, std::string file,
                   std::vector<std::string> hosts = {}) {
  return [=](Options& options) {
    const auto rank = static_cast<std::size_t>(options.identity.rank);
    options.discover = true;
    options.islands_file = file;
    options.router.host.cluster.clear();
    options.router.limits = {{"eth0", bytes_per_second[rank]}};
    if (!hosts.empty()) options.router.host.name = hosts[rank];
  };
}

/// How many islands it has. Sums over them, and checks that.
std::size_t islands_of(Communicator& communicator) {
  std::vector<float> values(100'000, 1);
  communicator.all_reduce(values.data(), values.data(), values.size(), DataType::kFloat32, ReduceOp::kSum);
  EXPECT_EQ(values, std::vector<float>(values.size(), static_cast<float>(communicator.size())));
  return Json::parse(communicator.explain()).at("network").at("clusters").size();
}

/// Runs `body` on ranks whose hosts have measured each other, or know from `file` what they found before.
/// Hosts that are too busy to measure in time keep nothing, and the next job measures again.
void run_measured(std::string_view clusters, const std::string& file, const Body& body,
                  const Change& options_of) {
  for (int job = 0; job < 20; ++job) {
    expect_fine(run_ranks(
        clusters,
        [&](Communicator& all) {
          if (std::filesystem::exists(file)) body(all);
        },
        options_of));
    if (std::filesystem::exists(file)) return;
  }
  ADD_FAILURE() << "no job measured in time";
}

TEST(Discovery, FindsNoIslandsAmongEqualHosts) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  run_measured(
      "AAAA", file, [](Communicator& all) { EXPECT_EQ(islands_of(all), 1U); },
      discovering({3e7, 3e7, 3e7, 3e7}, file));
}

TEST(Discovery, FindsASlowHostAndTellsPartsOfTheCommunicator) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  run_measured(
      "AAAA", file,
      [](Communicator& all) {
        EXPECT_EQ(islands_of(all), 2U);
        EXPECT_EQ(all.members()[0].cluster, "") << "nobody declared one";
        const auto part = all.split(all.rank() == 3 ? 1 : 0, 0);
        EXPECT_EQ(islands_of(*part), all.rank() == 3 ? 1U : 2U);
      },
      discovering({5e7, 2e6, 5e7, 5e7}, file));
}

TEST(Discovery, MeasuresWhatThreeIslandsAttainAmongEachOther) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  for (const char* const from : {"measured", "kept"}) {
    SCOPED_TRACE(from);
    run_measured(
        "AAAAA", file,
        [](Communicator& all) {
          EXPECT_EQ(islands_of(all), 3U);
          const auto part = all.split(all.rank() < 2 ? 1 : 0, 0);
          EXPECT_EQ(islands_of(*part), all.rank() < 2 ? 1U : 3U);
        },
        discovering({5e7, 5e7, 5e7, 2e6, 4e6}, file));
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    EXPECT_NE(text.str().find("\"between\""), std::string::npos) << text.str();
  }
}

TEST(Discovery, TakesEachOfTwoHostsWithSeveralRanksForAnIsland) {
  const TemporaryFolder folder;
  for (const auto& [clusters, islands] : {std::pair("AAA", 2U), {"AA", 1U}}) {
    expect_fine(run_ranks(
        clusters, [wanted = islands](Communicator& all) { EXPECT_EQ(islands_of(all), wanted); },
        discovering({3e7, 3e7, 3e7}, folder.file("islands.json"), {"one", "other", "one"})));
  }
}

/// What all ranks tell of one of them in a part of the survey, which is in the names of its keys, is changed.
void change_survey(StoreHooks& hooks, std::string part, std::size_t of,
                   std::function<double(double)> changed) {
  const auto before = hooks.change_value;
  hooks.change_value = [=](std::string_view key, std::vector<std::byte>& row) {
    before(key, row);
    if (key.find(part) == std::string_view::npos) return;
    const bool own = key.ends_with(fmt::format("/{}", of));
    for (std::size_t at = 0; at < row.size() / sizeof(double); ++at) {
      double value = 0;
      std::memcpy(&value, &row[at * sizeof value], sizeof value);
      if (value > 0 && (own || at == of)) value = changed(value);
      std::memcpy(&row[at * sizeof value], &value, sizeof value);
    }
  };
}

/// What hosts tell of links that they measured in time is what a quiet network of these rates would show, and
/// not what else the machine does.
void quiet_survey(StoreHooks& hooks, std::vector<double> bytes_per_second) {
  hooks.change_value = [=](std::string_view key, std::vector<std::byte>& row) {
    const bool latency = key.find("latency") != std::string_view::npos;
    if (key.find("/islands") == std::string_view::npos || (!latency && key.find("rate") == key.npos)) return;
    const auto own = static_cast<std::size_t>(key.back() - '0');
    for (std::size_t at = 0; at < row.size() / sizeof(double); ++at) {
      double value = 0;
      std::memcpy(&value, &row[at * sizeof value], sizeof value);
      if (value > 0) value = latency ? 1e-4 : std::min(bytes_per_second.at(own), bytes_per_second.at(at));
      std::memcpy(&row[at * sizeof value], &value, sizeof value);
    }
  };
}

Change with_hooks(Change options_of, const StoreHooks& hooks) {
  return [=, &hooks](Options& options) {
    options_of(options);
    options.store =
        std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
  };
}

// As where the others kept it from its processor while it measured rates, or all along.
TEST(Discovery, LooksAgainAtAHostThatSeemsFarFromAll) {
  const TemporaryFolder folder;
  for (const bool all_along : {false, true}) {
    for (const std::size_t hosts : {3, 5}) {
      SCOPED_TRACE(fmt::format("{} hosts, {}", hosts, all_along ? "all along" : "in its rates"));
      StoreHooks hooks;
      quiet_survey(hooks, std::vector<double>(hosts, 3e7));
      change_survey(hooks, "/islands/rate0/", 2, [](double rate) { return 0.05 * rate; });
      if (all_along)
        change_survey(hooks, "/islands/latency0/", 2, [](double latency) { return latency + 5e-3; });
      const std::string file = folder.file(fmt::format("{}{}.json", hosts, all_along));
      run_measured(
          std::string(hosts, 'A'), file, [](Communicator& all) { EXPECT_EQ(islands_of(all), 1U); },
          with_hooks(discovering(std::vector<double>(hosts, 3e7), file), hooks));
    }
  }
}

// Of which the first measurement shows no islands.
TEST(Discovery, MeasuresAgainWhereTheLinksOfAnIslandAreUnlike) {
  const TemporaryFolder folder;
  const std::vector<double> rates{5e7, 5e7, 5e7, 2e6, 4e6};
  StoreHooks hooks;
  quiet_survey(hooks, rates);
  change_survey(hooks, "/islands/rate0/", 1, [](double rate) { return 0.06 * rate; });
  const std::string file = folder.file("islands.json");
  run_measured(
      "AAAAA", file, [](Communicator& all) { EXPECT_EQ(islands_of(all), 3U); },
      with_hooks(discovering(rates, file), hooks));
}

/// What a file says of islands, changed.
void change_islands(const std::string& file, const std::function<void(Islands&)>& change) {
  Json kept = Json::parse(std::ifstream(file));
  const std::string text = kept.at("islands").dump();
  Islands islands = Islands::decode(text, kept.at("islands").at("of_host").size(), file);
  change(islands);
  kept["islands"] = Json::parse(islands.encode());
  std::ofstream(file) << kept;
}

/// Runs `body` on ranks that know from `file` what `wrong` has made of what their hosts found before, until
/// the hosts of a job have measured again in time, which then keeps that.
void run_with_wrong_file(std::string_view clusters, const std::string& file,
                         const std::function<void(Islands&)>& wrong, const Body& body,
                         const Change& options_of) {
  for (int job = 0; job < 20; ++job) {
    run_measured(
        clusters, file, [](Communicator&) {}, options_of);
    change_islands(file, wrong);
    expect_fine(run_ranks(clusters, body, options_of));
    if (std::filesystem::exists(file)) return;
  }
  ADD_FAILURE() << "no job measured in time";
}

/// The first of three hosts far from the others, as none is.
void first_is_far(Islands& wrong) {
  wrong.of_host = {0, 1, 1};
  wrong.between_bytes_per_second = 2e5;
  wrong.between_latency_seconds = 1e-3;
}

bool was_renewed(const Json& network) {
  return network.at("text").get<std::string>().find("while calls were made") != std::string::npos;
}

/// Sums of 1.2 MB, every fifth time two that are under way together, until the network was measured while
/// they were made, which all ranks find at the same call, or there were so many. Returns what the
/// communicator then says of it.
Json network_after_calls(Communicator& all, std::size_t most) {
  const auto n = static_cast<float>(all.size());
  const auto network = [&] { return Json::parse(all.explain()).at("network"); };
  for (std::size_t call = 0; call < most && !was_renewed(network()); ++call) {
    std::vector<float> one(300'000, 1), other(300'000, 2);
    if (call % 5 != 4) {
      all.all_reduce(one.data(), one.data(), one.size(), DataType::kFloat32, ReduceOp::kSum);
    } else {
      std::vector<Work> started;
      for (auto* values : {&one, &other})
        started.push_back(all.start({Collective::kAllReduce, values->data(), values->data(), values->size(),
                                     DataType::kFloat32, ReduceOp::kSum}));
      for (const Work work : started) all.wait(work);
      EXPECT_EQ(other, std::vector<float>(other.size(), 2 * n)) << "call " << call;
    }
    EXPECT_EQ(one, std::vector<float>(one.size(), n)) << "call " << call;
  }
  return network();
}

TEST(Discovery, MeasuresAgainWhereIslandsAreNearerThanTheFileSays) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  StoreHooks hooks;
  quiet_survey(hooks, {5e7, 5e7, 5e7});
  const auto equal = with_hooks(discovering({5e7, 5e7, 5e7}, file), hooks);
  run_with_wrong_file(
      "AAA", file, first_is_far,
      [&](Communicator& all) {
        EXPECT_EQ(islands_of(all), 2U);
        const Json network = network_after_calls(all, 20);
        if (!std::filesystem::exists(file)) return;
        EXPECT_EQ(network.at("clusters").size(), 1U) << network;
        EXPECT_NE(network.at("text").get<std::string>().find("times as fast"), std::string::npos) << network;
        EXPECT_EQ(islands_of(all), 1U);
      },
      equal);
  // The file was written anew.
  run_measured(
      "AAA", file, [](Communicator& all) { EXPECT_EQ(islands_of(all), 1U); }, equal);
}

TEST(Discovery, MeasuresAgainWhereCallsAreMuchSlowerThanTheFileSays) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  const std::vector<double> rates{5e7, 5e7, 4e6, 5e7};
  StoreHooks hooks;
  quiet_survey(hooks, rates);
  run_with_wrong_file(
      "AAAA", file,
      [](Islands& wrong) {
        wrong.of_host = {0, 0, 0, 0};
      },
      [&](Communicator& all) {
        EXPECT_EQ(islands_of(all), 1U);
        const Json network = network_after_calls(all, 20);
        if (!std::filesystem::exists(file)) return;
        EXPECT_NE(network.at("text").get<std::string>().find("between hosts, where"), std::string::npos)
            << network;
        EXPECT_EQ(islands_of(all), 2U);
      },
      with_hooks(discovering(rates, file), hooks));
}

// What they know then is less than what the file says.
TEST(Discovery, KeepsWhatWasKnownWhereHostsAreTooBusyToMeasureAgain) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  StoreHooks hooks;
  quiet_survey(hooks, {5e7, 5e7, 5e7});
  const auto before = hooks.change_value;
  std::atomic<bool> measured_again{false};
  hooks.change_value = [&](std::string_view key, std::vector<std::byte>& row) {
    before(key, row);
    if (key.find("/islands-again-1/rate") == std::string_view::npos) return;
    measured_again = true;
    std::ranges::fill(row, std::byte{0});  // not tried before time ran out
  };
  const auto equal = with_hooks(discovering({5e7, 5e7, 5e7}, file), hooks);
  run_measured(
      "AAA", file, [](Communicator&) {}, equal);
  change_islands(file, first_is_far);
  expect_fine(run_ranks(
      "AAA",
      [](Communicator& all) {
        const Json network = network_after_calls(all, 9);
        EXPECT_FALSE(was_renewed(network)) << network;
        EXPECT_EQ(islands_of(all), 2U);
      },
      equal));
  EXPECT_TRUE(measured_again);
  EXPECT_FALSE(std::filesystem::exists(file)) << "the next job would begin with it";
}

TEST(Discovery, DoesNotMeasureAgainWhatIsAsItWasFound) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  const std::vector<double> rates{5e7, 5e7, 4e6, 5e7};
  StoreHooks hooks;
  quiet_survey(hooks, rates);
  run_measured(
      "AAAA", file,
      [](Communicator& all) {
        EXPECT_EQ(islands_of(all), 2U);
        const Json network = network_after_calls(all, 9);
        EXPECT_FALSE(was_renewed(network)) << network;
      },
      with_hooks(discovering(rates, file), hooks));
}

// A call that waits for all comes behind others that nobody has waited for.
TEST(Discovery, MeasuresAgainWhileStartedCallsAreUnderWay) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  StoreHooks hooks;
  quiet_survey(hooks, {5e7, 5e7, 5e7});
  for (const Progress progress : {Progress::kCaller, Progress::kThread}) {
    SCOPED_TRACE(progress == Progress::kThread ? "thread" : "caller");
    const auto equal = with_hooks(discovering({5e7, 5e7, 5e7}, file), hooks);
    run_with_wrong_file(
        "AAA", file, first_is_far,
        [&](Communicator& all) {
          network_after_calls(all, 7);
          std::vector<std::vector<float>> values;
          for (int call = 0; call < 6; ++call)
            values.emplace_back(call % 3 == 2 ? 100 : 200'000, static_cast<float>(call));
          std::vector<Work> started;
          for (auto& each : values) {
            started.push_back(all.start({Collective::kAllReduce, each.data(), each.data(), each.size(),
                                         DataType::kFloat32, ReduceOp::kSum}));
          }
          all.barrier();
          for (const Work work : started) all.wait(work);
          for (std::size_t call = 0; call < values.size(); ++call)
            EXPECT_EQ(values[call], std::vector<float>(values[call].size(), 3 * static_cast<float>(call)));
          if (!std::filesystem::exists(file)) return;
          EXPECT_TRUE(was_renewed(network_after_calls(all, 0)));
          EXPECT_EQ(islands_of(all), 1U);
        },
        [&](Options& options) {
          equal(options);
          options.progress = progress;
        });
  }
}

// What a call waits for while its caller computes says nothing of the network.
TEST(Discovery, NotesNoCallThatStandsStillWhileItsCallerComputes) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  StoreHooks hooks;
  quiet_survey(hooks, {5e7, 5e7, 5e7});
  run_measured(
      "AAA", file,
      [](Communicator& all) {
        for (int call = 0; call < 9; ++call) {
          std::vector<float> values(300'000, 1);
          const Work work = all.start({Collective::kAllReduce, values.data(), values.data(), values.size(),
                                       DataType::kFloat32, ReduceOp::kSum});
          std::this_thread::sleep_for(std::chrono::milliseconds(200));  // stands for computing
          all.wait(work);
          all.barrier();
        }
        EXPECT_FALSE(was_renewed(Json::parse(all.explain()).at("network")));
      },
      with_hooks(discovering({5e7, 5e7, 5e7}, file), hooks));
}

// Others have heard by then what was found.
TEST(Discovery, LeavesThoseThatShrinkWithOneNetworkWhereARankFailsAsItMeasuresAgain) {
  const TemporaryFolder folder;
  for (const char* const at : {"/islands-again-1/latency", "/islands-again-1/measured"}) {
    SCOPED_TRACE(at);
    const std::string file = folder.file("islands.json");
    StoreHooks quiet, failing;
    quiet_survey(quiet, {5e7, 5e7, 5e7});
    quiet_survey(failing, {5e7, 5e7, 5e7});
    const auto fail_there = [at](std::string_view key) {
      if (key.find(at) != std::string_view::npos) fail(Cause::kSystem, "out of luck");
    };
    failing.before_set = fail_there;
    failing.before_get = fail_there;
    const auto equal = with_hooks(discovering({5e7, 5e7, 5e7}, file), quiet);
    std::array<HeldClock, 3> clocks;
    run_measured(
        "AAA", file, [](Communicator&) {}, equal);
    change_islands(file, first_is_far);
    const auto outcomes = run_ranks(
        "AAA",
        [&](Communicator& all) {
          try {
            network_after_calls(all, 20);
            ADD_FAILURE() << "rank 1 fails";
          } catch (const Error& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("comparing the network with what was found of it, before all_reduce #"),
                      std::string::npos)
                << text;
          }
          // All are waited for, however slow the machine.
          clocks[static_cast<std::size_t>(all.rank())].hold();
          const auto left = all.shrink({});
          clocks[static_cast<std::size_t>(all.rank())].let_go();
          EXPECT_EQ(left->size(), 3);
          islands_of(*left);
        },
        [&](Options& options) {
          equal(options);
          options.router.clock = &clocks[static_cast<std::size_t>(options.identity.rank)];
          if (options.identity.rank == 1) with_hooks([](Options&) {}, failing)(options);
        });
    expect_fine(outcomes);
    std::filesystem::remove(file);
  }
}

// The file says what no measurement would, so that it is seen who was believed.
TEST(Discovery, BelievesAFileOfTheSameHostsAndOfNoOthers) {
  const TemporaryFolder folder;
  const std::string file = folder.file("deep/islands.json");
  const auto equal = discovering({3e7, 3e7, 3e7}, file);
  run_measured(
      "AAA", file, [](Communicator& all) { EXPECT_EQ(islands_of(all), 1U); }, equal);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::string kept = text.str();
  const auto at = kept.find("\"of_host\"");
  ASSERT_NE(at, std::string::npos) << kept;
  const auto second = kept.find('0', kept.find('0', at) + 1);
  kept[second] = '1';
  std::ofstream(file) << kept;
  expect_fine(run_ranks(
      "AAA", [](Communicator& all) { EXPECT_EQ(islands_of(all), 2U); }, equal));
  expect_fine(run_ranks(
      "AAA", [](Communicator& all) { EXPECT_EQ(islands_of(all), 1U); },
      discovering({3e7, 3e7, 3e7}, file, {"x", "y", "z"})));
  std::ofstream(file) << "{";
  expect_fine(run_ranks(
      "AAA", [](Communicator& all) { EXPECT_EQ(islands_of(all), 1U); }, equal));
}

TEST(Discovery, IsNotTriedWhereItIsOffOrAClusterIsDeclared) {
  const TemporaryFolder folder;
  const std::string file = folder.file("islands.json");
  for (const bool declared : {false, true}) {
    expect_fine(run_ranks(
        "AAA", [](Communicator& all) { EXPECT_EQ(islands_of(all), 1U); },
        [&](Options& options) {
          discovering({2e6, 5e7, 5e7}, file)(options);
          options.discover = declared;
          if (declared) options.router.host.cluster = "A";
        }));
    EXPECT_FALSE(std::ifstream(file)) << "nothing was measured";
  }
}

// Also where its store closes as soon as it has told them.
TEST(Discovery, TellsWhyRankZeroFailedWhoseStoreIsGoneWithIt) {
  const TemporaryFolder folder;
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kTestSecret, Log());
  StoreHooks hooks;
  hooks.before_set = [](std::string_view key) {
    if (key.find("/islands/latency") != std::string_view::npos) fail(Cause::kSystem, "out of luck");
  };
  std::vector<Outcome> outcomes(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank, port = server->port()] {
      Options options = options_for("AAA", rank, port);
      discovering({3e7, 3e7, 3e7}, folder.file("islands.json"))(options);
      if (rank == 0)
        options.store = std::make_shared<HookedStore>(store_at("127.0.0.1", port, kTestSecret), hooks);
      try {
        Communicator::create(options);
      } catch (const Error& error) {
        outcomes[static_cast<std::size_t>(rank)] = {true, error.cause(), error.what()};
      }
      if (rank == 0) server.reset();
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& outcome : outcomes) {
    EXPECT_TRUE(outcome.threw);
    EXPECT_EQ(outcome.cause, Cause::kSystem);
    EXPECT_NE(outcome.text.find("out of luck"), std::string::npos) << outcome.text;
  }
}

// The others wait for what it measured.
TEST(Discovery, EndsAtOnceWhereARankFailsInIt) {
  const TemporaryFolder folder;
  StoreHooks hooks;
  hooks.before_set = [](std::string_view key) {
    if (key.find("/islands/latency") != std::string_view::npos) fail(Cause::kSystem, "out of luck");
  };
  const auto outcomes = run_ranks(
      "AAA", [](Communicator&) {},
      [&](Options& options) {
        discovering({3e7, 3e7, 3e7}, folder.file("islands.json"))(options);
        if (options.identity.rank == 1)
          options.store =
              std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
      });
  for (const auto& outcome : outcomes) {
    EXPECT_TRUE(outcome.threw);
    EXPECT_NE(outcome.text.find("out of luck"), std::string::npos) << outcome.text;
  }
  EXPECT_NE(outcomes[0].text.find("rank 1"), std::string::npos) << outcomes[0].text;
}

TEST(Discovery, NamesARankThatNeverComes) {
  const TemporaryFolder folder;
  HeldClock clock;
  FirstLooks looks(clock, 2);
  const auto outcomes = run_ranks(
      "AA", [](Communicator&) {},
      [&](Options& options) {
        discovering({3e7, 3e7}, folder.file("islands.json"))(options);
        options.identity.size = 3;
        looks.into(options);
      });
  for (const auto& outcome : outcomes) {
    EXPECT_TRUE(outcome.threw);
    EXPECT_NE(outcome.text.find("rank 2"), std::string::npos) << outcome.text;
  }
}

}  // namespace
}  // namespace tombolo::collectives
