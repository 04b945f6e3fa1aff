#include "collectives/discovery/islands_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/temporary_folder.h"

namespace tombolo::collectives {
namespace {

const std::vector<HostIdentity> kHosts{{"a", "10.0.0.1 "}, {"b", "10.0.0.2 "}, {"c", "10.0.0.3 "}};
const Islands kIslands{{0, 1, 0}, 2, 1e9, 1e7, 1e-3};

class TheIslandsFile : public ::testing::Test {
 protected:
  IslandsFile file(const std::vector<HostIdentity>& hosts = kHosts) const {
    return IslandsFile(folder_.file("deep/islands.json"), hosts, Log());
  }
  /// Changes when the hosts were measured.
  void make_older(std::int64_t by_seconds) const {
    Json json = Json::parse(folder_.read("deep/islands.json"));
    json["measured"] = json.at("measured").get<std::int64_t>() - by_seconds;
    folder_.write("deep/islands.json", json.dump());
  }

  TemporaryFolder folder_;
};

TEST_F(TheIslandsFile, GivesBackWhatTheseHostsFound) {
  EXPECT_EQ(file().load(), std::nullopt);
  file().save(kIslands);
  EXPECT_EQ(file().load(), kIslands);
  auto others = kHosts;
  others[1].addresses = "10.0.0.9 ";
  EXPECT_EQ(file(others).load(), std::nullopt) << "a host has another address";
  std::size_t files = 0;
  for (const auto& one : std::filesystem::directory_iterator(folder_.path() / "deep"))
    files += one.is_regular_file();
  EXPECT_EQ(files, 1u) << "nothing is left beside it";
}

TEST_F(TheIslandsFile, CountsForADay) {
  constexpr std::int64_t kDay = 24 * 3600;
  file().save(kIslands);
  make_older(kDay - 600);
  EXPECT_EQ(file().load(), kIslands);
  make_older(1200);
  EXPECT_EQ(file().load(), std::nullopt) << "too old";
  file().save(kIslands);
  make_older(-kDay);
  EXPECT_EQ(file().load(), std::nullopt) << "of a time to come";
}

TEST_F(TheIslandsFile, MayBeDamagedOrImpossible) {
  for (const char* text : {"", "{", "[]", "{}", R"({"measured": 1, "identity": "x", "islands": {}})"}) {
    folder_.write("deep/islands.json", text);
    EXPECT_EQ(file().load(), std::nullopt) << text;
  }
  folder_.write("file", "");
  const IslandsFile impossible(folder_.file("file/islands.json"), kHosts, Log());
  EXPECT_NO_THROW(impossible.save(kIslands));
  EXPECT_EQ(impossible.load(), std::nullopt);
}

TEST_F(TheIslandsFile, LiesInTheUsersCacheWhereOldOnesAreRemoved) {
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  folder_.write("tombolo/islands-0123.json", "{}");
  folder_.write("tombolo/another.json", "{}");
  for (const char* name : {"tombolo/islands-0123.json", "tombolo/another.json"})
    std::filesystem::last_write_time(folder_.path() / name,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(25));
  const IslandsFile own("", kHosts, Log()), others("", {kHosts.data(), 2}, Log());
  if (before != nullptr)
    ::setenv("XDG_CACHE_HOME", kept.c_str(), 1);
  else
    ::unsetenv("XDG_CACHE_HOME");
  if (own.path().empty()) GTEST_SKIP() << "this kernel does not tell network namespaces apart";
  EXPECT_TRUE(own.path().starts_with((folder_.path() / "tombolo/islands-").string())) << own.path();
  EXPECT_NE(own.path(), others.path());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "tombolo/islands-0123.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "tombolo/another.json"));
  own.save(kIslands);
  EXPECT_EQ(own.load(), kIslands);
}

}  // namespace
}  // namespace tombolo::collectives
