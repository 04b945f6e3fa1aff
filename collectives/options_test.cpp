#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <string>

#include "collectives/testing/hooked_store.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

// Two ranks that a launcher has started, without a secret.
class OptionsTest : public testing::Test {
 protected:
  void SetUp() override {
    clear();
    set("RANK", "0");
    set("WORLD_SIZE", "2");
    set("MASTER_ADDR", "node3.example");
  }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK",
          "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "TOMBOLO_SECRET", "TOMBOLO_PORT"})
      ::unsetenv(name);
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }
  static std::string log_of_reading() {
    testing::internal::CaptureStderr();
    Options::from_environment();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(OptionsTest, WithoutASecretSaysWhatIsOpenAndHowToCloseIt) {
  const std::string text = log_of_reading();
  for (const char* word : {"TOMBOLO_SECRET is not set", "node3.example:29400", "may join", "on every rank"})
    EXPECT_NE(text.find(word), std::string::npos) << text;
  EXPECT_TRUE(Options::from_environment().make_secret);
  set("RANK", "1");
  EXPECT_EQ(log_of_reading(), "") << "once per job";
}

TEST_F(OptionsTest, IsQuietWithASecretOrOnLoopback) {
  set("MASTER_ADDR", "localhost");
  EXPECT_EQ(log_of_reading(), "");
  set("MASTER_ADDR", "node3.example");
  set("TOMBOLO_SECRET", "xyzzy");
  EXPECT_EQ(log_of_reading(), "");
  EXPECT_FALSE(Options::from_environment().make_secret);
}

TEST_F(OptionsTest, SettingsAreReadWhateverALauncherSays) {
  set("RANK", "no number");
  set("OMPI_COMM_WORLD_SIZE", "2");
  set("MASTER_PORT", "-1");
  EXPECT_THROW(Options::from_environment(), Error);
  const Options options = Options::settings_from_environment();
  EXPECT_EQ(options.identity.size, 1);
  EXPECT_FALSE(options.make_secret);
}

// The connections of a job without a chosen secret are not authenticated by a secret that is public.
TEST(JobSecret, IsRandomAndTheSameOnAllRanks) {
  const auto known = transport::Secret::from_text("");
  std::mutex mutex;
  std::vector<std::vector<std::byte>> secrets;
  for (int job = 0; job < 2; ++job) {
    expect_fine(run_ranks(
        "AAB",
        [&](Communicator& all) {
          std::int32_t sum = 1;
          all.all_reduce(&sum, &sum, 1, DataType::kInt32, ReduceOp::kSum);
          EXPECT_EQ(sum, 3);
          const auto part = all.split(all.rank() % 2, 0);
          for (const Communicator* one : std::initializer_list<const Communicator*>{&all, part.get()}) {
            const auto bytes = one->secret().bytes();
            const std::lock_guard lock(mutex);
            secrets.emplace_back(bytes.begin(), bytes.end());
          }
        },
        [](Options& options) { options.make_secret = true; }));
  }
  ASSERT_EQ(secrets.size(), 12U);
  for (std::size_t i = 0; i < secrets.size(); ++i) {
    EXPECT_FALSE(std::equal(secrets[i].begin(), secrets[i].end(), known.bytes().begin()));
    EXPECT_FALSE(std::equal(secrets[i].begin(), secrets[i].end(), kTestSecret.bytes().begin()));
    EXPECT_EQ(secrets[i] == secrets[0], i < 6) << "one per job";
  }
}

TEST(JobSecret, IsTheGivenOneWhereThereIsOne) {
  expect_fine(run_ranks("AB", [&](Communicator& all) {
    EXPECT_TRUE(transport::equal(all.secret().bytes(), kTestSecret.bytes()));
  }));
}

TEST(JobSecret, ItsAbsenceNamesRankZero) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  Options options = options_for("AA", 1, server.port());
  options.make_secret = true;
  HeldClock clock;
  clock.hold();
  StoreHooks hooks;
  hooks.before_get = [&](std::string_view) { clock.advance(options.deadline); };
  options.store = std::make_shared<HookedStore>(store_at("127.0.0.1", server.port(), kTestSecret), hooks);
  options.router.clock = &clock;
  try {
    Communicator::create(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kTimeout);
    EXPECT_NE(std::string(error.what()).find("rank 0 did not arrive"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tombolo::collectives
