#include "runtime/timeline_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/regular_file.h"
#include "observe/clock_bounds.h"
#include "observe/trace_merge.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

std::int64_t now_ns() {
  return std::chrono::nanoseconds(base::Clock::now().time_since_epoch()).count();
}

/// Returns why a timeline is not written there, or nothing. Beside a device such as /dev/full the
/// files would be left among devices.
std::string refusal_of(const std::string& path) {
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
      std::filesystem::is_directory(status)) {
    return {};
  }
  return fmt::format("{}: it is no regular file", path);
}

constexpr int to_write = O_WRONLY | O_CREAT | O_TRUNC;

/// Makes the file or empties it. Returns why that failed, or nothing.
std::string create(const std::string& path, int flags) {
  const std::string failure = base::open_regular(path, flags).failure;
  return failure.empty() ? failure : fmt::format("{}: {}", path, failure);
}

/// Writes a file from its beginning. Returns why that failed, or nothing. If not everything could
/// be written, removes the file.
std::string fill(const std::string& path, int flags,
                 const std::function<void(std::ostream&)>& write) {
  base::RegularFile opened = base::open_regular(path, flags);
  if (!opened.file) return opened.failure;
  base::OutputFile out(std::move(opened.file));
  write(out);
  const int error = out.finish();
  if (error == 0) return {};
  ::unlink(path.c_str());
  return std::strerror(error);
}

/// The times at which a rank came to meetings of all ranks, and left them.
using Stamps = std::vector<std::pair<std::int64_t, std::int64_t>>;

Stamps meet(const World& world) {
  constexpr int meetings = 32;
  Stamps stamps;
  for (int i = 0; i < meetings; ++i) {
    const std::int64_t came = now_ns();
    world.all_gather("", "every rank to compare its clock");
    stamps.emplace_back(came, now_ns());
  }
  return stamps;
}

/// The bounds of the difference between a node's clock and that of rank 0's node.
observe::ClockBounds bounds_of(const std::vector<Stamps>& everyone,
                               const topology::Topology& topology, int node) {
  observe::ClockBounds bounds;
  const int reference = topology.node_of.front();
  for (std::size_t meeting = 0; meeting < everyone.front().size(); ++meeting) {
    observe::Passage here;
    observe::Passage there;
    for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
      const auto [came, left] = everyone[rank][meeting];
      if (topology.node_of[rank] == reference) here.add(came, left);
      if (topology.node_of[rank] == node) there.add(came, left);
    }
    bounds.add(here, there);
  }
  return bounds;
}

/// A list for the name of a file, which has at most 255 bytes. Long lists differ even if they begin
/// and end alike.
std::string short_list(const std::vector<int>& ranks) {
  constexpr std::size_t shown = 8;
  if (ranks.size() <= shown) return fmt::format("{}", fmt::join(ranks, "-"));
  std::uint32_t hash = 0;
  for (const int rank : ranks) hash = hash * 31 + static_cast<std::uint32_t>(rank);
  return fmt::format("{}-to-{}-{:08x}", ranks.front(), ranks.back(), hash);
}

}  // namespace

std::string timeline_path(const std::string& path, int creation_number,
                          const std::vector<int>& world_ranks) {
  if (creation_number == 0 && world_ranks.empty()) return path;
  const std::filesystem::path whole(path);
  std::filesystem::path name = whole.stem();
  if (!world_ranks.empty()) name += ".ranks-" + short_list(world_ranks);
  if (creation_number > 0) name += fmt::format(".{}", creation_number + 1);
  name += whole.extension();
  return whole.parent_path() / name;
}

TimelineFiles::TimelineFiles(const World& world, const Options& options)
    : rank_(world.rank),
      size_(world.size),
      // The path is absolute, because the program may change its folder before the end.
      given_(std::filesystem::absolute(options.timeline)),
      path_(timeline_path(given_, world.creation_number, world.world_ranks)) {
  info_.rank = world.rank;
  info_.host = base::host_name();
  info_.store = world.creation_number;
}

std::string TimelineFiles::part_of(int rank) const {
  return fmt::format("{}.{}.part", path_, rank);
}

std::string TimelineFiles::create_files() {
  std::string failure = refusal_of(given_);
  // The timeline's path may be a link of the user's. Nobody has reason to make a link at the path
  // of a part, so such a link is refused.
  if (failure.empty()) failure = create(part_of(rank_), to_write | O_NOFOLLOW);
  if (!failure.empty() || rank_ != 0) return failure;
  failure = create(path_, to_write);
  if (!failure.empty()) ::unlink(part_of(rank_).c_str());
  return failure;
}

std::unique_ptr<TimelineFiles> TimelineFiles::open(const World& world,
                                                   const topology::Topology& topology,
                                                   const Options& options) {
  if (options.timeline.empty()) return nullptr;
  std::unique_ptr<TimelineFiles> files(new TimelineFiles(world, options));
  const auto failures =
      world.all_gather(files->create_files(), "every rank to open its timeline's file");
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    const bool has_part = failures[static_cast<std::size_t>(world.rank)].empty();
    if (has_part) ::unlink(files->part_of(world.rank).c_str());
    throw Error(ErrorCode::invalid_argument,
                fmt::format("rank {} cannot write its timeline to {}; give Options.timeline "
                            "(TUTTI_TIMELINE) a path in a folder that every host has",
                            rank, failures[rank]));
  }
  files->compare_clocks(world, topology);
  return files;
}

void TimelineFiles::compare_clocks(const World& world, const topology::Topology& topology) {
  // There is only one clock if there is one node.
  const Stamps mine = topology.node_count() > 1 ? meet(world) : Stamps{{now_ns(), now_ns()}};
  std::vector<Stamps> everyone;
  for (const std::string& said :
       world.all_gather(nlohmann::json(mine).dump(), "every rank to tell when it came and left")) {
    everyone.push_back(nlohmann::json::parse(said).get<Stamps>());
  }
  info_.origin = everyone.front().back().second;
  info_.node = topology.node();
  node_of_ = topology.node_of;
  if (info_.node == topology.node_of.front()) return;
  const observe::ClockBounds bounds = bounds_of(everyone, topology, info_.node);
  info_.clock_offset = bounds.offset();
  info_.clock_error = bounds.error();
}

void TimelineFiles::write_part(const observe::Timeline& timeline) {
  if (timeline.dropped() > 0) {
    base::log().warn("the timeline {} has this rank's first {} events; {} later ones are left out",
                     path_, timeline.events().size(), timeline.dropped());
  }
  const std::string file = part_of(rank_);
  const auto write = [&](std::ostream& out) { observe::write_trace(out, timeline, info_); };
  const std::string failure = fill(file, to_write | O_NOFOLLOW, write);
  has_part_ = failure.empty();
  if (has_part_) return;
  base::log().error("cannot write the timeline's part {}: {}; the timeline is without this rank",
                    file, failure);
}

void TimelineFiles::merge() {
  std::vector<std::string> parts;
  parts.reserve(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) parts.push_back(part_of(rank));
  std::vector<int> missing;
  std::string failure = "rank 0 has not written its part";
  if (has_part_) {
    failure = fill(path_, to_write,
                   [&](std::ostream& out) { missing = observe::merge_traces(parts, out); });
  } else {
    ::unlink(path_.c_str());
  }
  if (!failure.empty()) {
    base::log().error(
        "cannot write the timeline {}: {}; the parts that were written stay beside it, and "
        "scripts/timeline shows them together",
        path_, failure);
    return;
  }
  for (const int rank : missing) parts[static_cast<std::size_t>(rank)].clear();
  for (const std::string& part : parts) ::unlink(part.c_str());
  warn_of(missing);
}

void TimelineFiles::warn_of(const std::vector<int>& missing) const {
  std::vector<int> unwritten;
  std::vector<int> elsewhere;
  for (const int rank : missing) {
    const bool is_here = node_of_[static_cast<std::size_t>(rank)] == info_.node;
    (is_here ? unwritten : elsewhere).push_back(rank);
  }
  if (!unwritten.empty()) {
    base::log().warn(
        "the timeline {} lacks rank {} of this host, which could not write its "
        "whole part",
        path_, fmt::join(unwritten, ", "));
  }
  if (elsewhere.empty()) return;
  base::log().warn(
      "the timeline {} lacks rank {}, whose parts are on other hosts: parts such as {} lie on "
      "the hosts of their ranks, unless a rank has logged that it could not write its part; "
      "scripts/timeline shows parts together",
      path_, fmt::join(elsewhere, ", "), part_of(elsewhere.front()));
}

void TimelineFiles::leave_part() {
  // The file is empty. It was made together with the store.
  if (rank_ == 0) ::unlink(path_.c_str());
  if (!has_part_) return;
  base::log().warn("a rank is lost, so the timeline stays in parts; this rank's is {}",
                   part_of(rank_));
}

}  // namespace tutti::runtime
