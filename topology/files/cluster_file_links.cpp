#include "topology/files/cluster_file_links.h"

#include <tuple>
#include <utility>

#include "topology/files/fields.h"

namespace tombolo::topology {
namespace {

/// Splits "host/nic". A NIC's name may itself contain a slash ("mlx5_0/1"), a host's may not.
std::pair<std::string, std::string> end_of(const JsonCursor& cursor, const NicsByHost& names) {
  std::string text = cursor.text();
  auto slash = text.find('/');
  if (slash == std::string::npos) {
    cursor.reject(fmt::format("expected \"host/nic\", found \"{}\"", text.substr(0, 60)));
  }
  std::pair<std::string, std::string> end{text.substr(0, slash), text.substr(slash + 1)};
  check_host(cursor, end.first, names);
  const auto& nics = names.find(end.first)->second;
  if (!nics.contains(end.second)) {
    cursor.reject(fmt::format("host \"{}\" has no NIC \"{}\"{}", end.first, end.second,
                              suggestion(end.second, views(nics))));
  }
  return end;
}

Link link_of(const JsonCursor& cursor, const NicsByHost& names) {
  cursor.only({"from", "to", "bytes_per_second", "latency_seconds", "measured"});
  Link link;
  std::tie(link.from_host, link.from_nic) = end_of(cursor.field("from"), names);
  std::tie(link.to_host, link.to_nic) = end_of(cursor.field("to"), names);
  link.bytes_per_second = bandwidth_of(cursor.field("bytes_per_second"));
  link.latency_seconds = latency_of(cursor.field("latency_seconds"));
  if (auto value = cursor.optional("measured")) link.measured = value->boolean();
  return link;
}

std::vector<NicName> ends_of(const JsonCursor& list, const NicsByHost& names) {
  std::vector<NicName> ends;
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& element : list.elements()) {
    auto end = end_of(element, names);
    if (!seen.insert(end).second) {
      element.reject(fmt::format("\"{}/{}\" is listed twice", end.first, end.second));
    }
    ends.push_back({std::move(end.first), std::move(end.second)});
  }
  if (ends.empty()) list.reject("expected at least one \"host/nic\"");
  return ends;
}

SharedLink shared_link_of(const JsonCursor& cursor, const NicsByHost& names) {
  cursor.only({"name", "from", "to", "bytes_per_second"});
  SharedLink link;
  link.name = cursor.field("name").text();
  link.from = ends_of(cursor.field("from"), names);
  link.to = ends_of(cursor.field("to"), names);
  link.bytes_per_second = bandwidth_of(cursor.field("bytes_per_second"));
  return link;
}

}  // namespace

void check_host(const JsonCursor& cursor, const std::string& host, const NicsByHost& names) {
  if (!names.contains(host)) {
    cursor.reject(fmt::format("there is no host \"{}\"{}", host, suggestion(host, views(names))));
  }
}

std::vector<Link> links_of(const JsonCursor& list, const NicsByHost& names) {
  std::vector<Link> links;
  std::set<std::tuple<std::string, std::string, std::string, std::string>> seen;
  for (const auto& element : list.elements()) {
    Link link = link_of(element, names);
    if (!seen.emplace(link.from_host, link.from_nic, link.to_host, link.to_nic).second) {
      element.reject(fmt::format("the link from \"{}/{}\" to \"{}/{}\" is given twice", link.from_host,
                                 link.from_nic, link.to_host, link.to_nic));
    }
    links.push_back(std::move(link));
  }
  return links;
}

std::vector<SharedLink> shared_links_of(const JsonCursor& list, const NicsByHost& names) {
  std::vector<SharedLink> links;
  std::set<std::string> seen;
  for (const auto& element : list.elements()) {
    links.push_back(shared_link_of(element, names));
    if (!seen.insert(links.back().name).second) {
      element.field("name").reject(fmt::format("there is already a shared link \"{}\"", links.back().name));
    }
  }
  return links;
}

}  // namespace tombolo::topology
