#include "collectives/rendezvous/unique_id.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace tombolo::collectives {
namespace {

using std::chrono::seconds;

class UniqueIds : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TOMBOLO_ADDRESS", "127.0.0.1", 1); }
  void TearDown() override {
    ::unsetenv("TOMBOLO_ADDRESS");
    ::unsetenv("RANK");
    ::unsetenv("WORLD_SIZE");
  }
  static Cause cause_of(const UniqueId& id) {
    try {
      options_from(id, 0, 1);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("was not made by tomboloGetUniqueId"), std::string::npos)
          << error.what();
      return error.cause();
    }
    ADD_FAILURE() << "it was taken";
    return Cause::kInternal;
  }
};

TEST_F(UniqueIds, LeadToTheirStoreAndAdmitToIt) {
  const UniqueId id = make_unique_id();
  const auto store = find_store(id);
  ASSERT_NE(store, nullptr);
  const Options options = options_from(id, 2, 5);
  EXPECT_EQ(options.identity.rank, 2);
  EXPECT_EQ(options.identity.size, 5);
  EXPECT_EQ(options.identity.address, "127.0.0.1");
  EXPECT_EQ(options.identity.port, store->port()) << "both bytes of it";
  EXPECT_EQ(options.identity.source, "unique id");
  EXPECT_EQ(options.store_reach, store->own_address());
  EXPECT_TRUE(options.store_elsewhere);
  const auto client = Store::connect(options.identity.address, options.identity.port, options.secret,
                                     Deadline::after(seconds(60)), Log());
  EXPECT_EQ(client->add("count", 1), 1);
  close_store(store);
}

TEST_F(UniqueIds, DifferInStoreAndSecret) {
  const UniqueId first = make_unique_id(), second = make_unique_id();
  EXPECT_NE(first, second);
  const auto one = find_store(first), other = find_store(second);
  ASSERT_TRUE(one && other);
  EXPECT_NE(one, other);
  const Options options = options_from(first, 0, 1);
  try {
    Store::connect("127.0.0.1", other->port(), options.secret, Deadline::after(seconds(60)), Log());
    ADD_FAILURE() << "the one's secret opens the other's store";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("wrong secret"), std::string::npos) << error.what();
  }
  close_store(one);
  close_store(other);
}

TEST_F(UniqueIds, LoseTheirStoreWithItsLastOwner) {
  const UniqueId id = make_unique_id();
  auto store = find_store(id);
  ASSERT_NE(store, nullptr);
  close_store(store);
  EXPECT_EQ(find_store(id), nullptr);
  const Options options = options_from(id, 0, 1);
  EXPECT_EQ(options.store_reach, "") << "another process may keep it";
  // It goes on as long as somebody holds it.
  EXPECT_NE(Store::connect("127.0.0.1", store->port(), options.secret, Deadline::after(seconds(60)), Log()),
            nullptr);
  close_store(store);  // once more does no harm
}

TEST_F(UniqueIds, AreRefusedWhereTheyWereDamaged) {
  EXPECT_EQ(cause_of(UniqueId{}), Cause::kInvalidUsage);
  const UniqueId good = make_unique_id();
  UniqueId bad = good;
  bad[3] = 'x';
  EXPECT_EQ(cause_of(bad), Cause::kInvalidUsage);
  // The address would have no end.
  bad = good;
  bad.back() = 'x';
  EXPECT_EQ(cause_of(bad), Cause::kInvalidUsage);
  close_store(find_store(good));
}

TEST_F(UniqueIds, OfAnAddressThatDoesNotFitAreRefusedByName) {
  ::setenv("TOMBOLO_ADDRESS", std::string(128, 'a').c_str(), 1);
  try {
    make_unique_id();
    ADD_FAILURE() << "it was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find("TOMBOLO_ADDRESS"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("too long"), std::string::npos) << error.what();
  }
}

TEST_F(UniqueIds, DoNotCareForLaunchersVariables) {
  const UniqueId id = make_unique_id();
  ::setenv("RANK", "7", 1);
  ::setenv("WORLD_SIZE", "nonsense", 1);
  const Options options = options_from(id, 1, 2);
  EXPECT_EQ(options.identity.rank, 1);
  EXPECT_EQ(options.identity.size, 2);
  close_store(find_store(id));
}

}  // namespace
}  // namespace tombolo::collectives
