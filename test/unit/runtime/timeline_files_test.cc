#include "runtime/timeline_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "../full_disk.h"
#include "thread_world.h"

namespace fs = std::filesystem;
using Catch::Contains;
using tutti::FullDisk;
using tutti::observe::Timeline;
using tutti::runtime::timeline_path;
using tutti::runtime::TimelineFiles;

TEST_CASE("the first store of a process writes to the path, later ones add their number") {
  CHECK(timeline_path("out/trace.json", 0) == "out/trace.json");
  CHECK(timeline_path("out/trace.json", 1) == "out/trace.2.json");
  CHECK(timeline_path("trace", 2) == "trace.3");
  CHECK(timeline_path("trace.json", 0, {1, 3}) == "trace.ranks-1-3.json");
  CHECK(timeline_path("trace.json", 1, {1, 3}) == "trace.ranks-1-3.2.json");
  std::vector<int> many(300);
  std::iota(many.begin(), many.end(), 0);
  std::vector<int> others = many;
  others.erase(others.begin() + 7);
  CHECK(timeline_path("trace.json", 0, many).size() < 60);
  CHECK(timeline_path("trace.json", 0, many) != timeline_path("trace.json", 0, others));
}

namespace {

/// A folder for one test, and options that record into it.
class TraceFolder {
 public:
  TraceFolder() {
    std::filesystem::create_directory(path_);
    options.timeline = path_ / "trace.json";
  }
  ~TraceFolder() { std::filesystem::remove_all(path_); }
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;
  std::string part(int rank) const {
    return options.timeline + "." + std::to_string(rank) + ".part";
  }

  tutti::Options options;

 private:
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("tutti-parts-" + std::to_string(::getpid()));
};

/// The text that the work writes to stderr. It may have up to a page, because a pipe takes that
/// without a reader.
std::string said_by(const std::function<void()>& work) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  work();
  // Something, so that the read below ends.
  const char end = '\n';
  CHECK(::write(ends[1], &end, 1) == 1);
  ::dup2(before, STDERR_FILENO);
  ::close(ends[1]);
  ::close(before);
  std::string said(4096, ' ');
  said.resize(static_cast<std::size_t>(::read(ends[0], said.data(), said.size())));
  ::close(ends[0]);
  return said;
}

tutti::topology::Topology one_host(int rank, int size) {
  return tutti::topology::make_topology(rank, std::vector<int>(static_cast<std::size_t>(size), 0));
}

/// Opens the files of two ranks on one host, by rank.
std::vector<std::unique_ptr<TimelineFiles>> two_ranks(const tutti::Options& options) {
  ThreadWorld ranks(2);
  std::vector<std::unique_ptr<TimelineFiles>> files(2);
  std::thread other(
      [&] { files[1] = TimelineFiles::open(ranks.rank(1), one_host(1, 2), options); });
  files[0] = TimelineFiles::open(ranks.rank(0), one_host(0, 2), options);
  other.join();
  return files;
}

}  // namespace

TEST_CASE("a timeline whose disk fills up while it is merged leaves whole parts and no cut file") {
  const TraceFolder folder;
  ThreadWorld ranks(1);
  const auto files = TimelineFiles::open(ranks.rank(0), {}, folder.options);
  files->write_part(Timeline(1));
  const std::string said = said_by([&] {
    const FullDisk full;
    files->merge();
  });
  CHECK_THAT(said, Contains("cannot write the timeline " + folder.options.timeline + ": File too"));
  CHECK_FALSE(fs::exists(folder.options.timeline));
  CHECK(fs::exists(folder.part(0)));
}

TEST_CASE("if a part's path is no regular file, create refuses it and leaves it unchanged") {
  const TraceFolder folder;
  const auto refused = [&](const std::string& path) {
    ThreadWorld ranks(1);
    CHECK_THROWS_WITH(
        TimelineFiles::open(ranks.rank(0), {}, folder.options),
        Contains("rank 0 cannot write its timeline to " + path + ": it is no regular file"));
  };
  REQUIRE(::mkfifo(folder.part(0).c_str(), 0600) == 0);
  refused(folder.part(0));
  CHECK(fs::is_fifo(folder.part(0)));
  fs::remove(folder.part(0));
  for (const char* target : {"/dev/zero", "/dev/full", "elsewhere"}) {
    fs::create_symlink(target, folder.part(0));
    refused(folder.part(0));
    CHECK(fs::is_symlink(folder.part(0)));
    fs::remove(folder.part(0));
  }
  // The first store's path is the user's; the second one's name may be anything's.
  REQUIRE(::mkfifo(folder.options.timeline.c_str(), 0600) == 0);
  refused(folder.options.timeline);
  CHECK_FALSE(fs::exists(folder.part(0)));
}

TEST_CASE(
    "a part that was replaced by a pipe or a device while the store was open is not waited for") {
  const TraceFolder folder;
  const auto files = two_ranks(folder.options);
  for (const auto& file : files) file->write_part(Timeline(1));
  fs::remove(folder.part(1));
  fs::create_symlink("/dev/zero", folder.part(1));
  const std::string said = said_by([&] { files[0]->merge(); });
  CHECK_THAT(said, Contains("lacks rank 1 of this host, which could not write"));
  CHECK(fs::file_size(folder.options.timeline) > 0);
  CHECK(fs::is_symlink(folder.part(1)));
}

TEST_CASE("a rank whose own part could not be written is not looked for on another host") {
  for (const int failing : {0, 1}) {
    const TraceFolder folder;
    const auto files = two_ranks(folder.options);
    const std::string said = said_by([&] {
      files[static_cast<std::size_t>(1 - failing)]->write_part(Timeline(1));
      {
        const FullDisk full;
        files[static_cast<std::size_t>(failing)]->write_part(Timeline(1));
      }
      files[0]->merge();
    });
    INFO(said);
    CHECK_THAT(said, Contains("cannot write the timeline's part " + folder.part(failing)));
    CHECK_THAT(said, !Contains("on other hosts"));
    CHECK_THAT(said, failing == 0 ? Contains("rank 0 has not written its part")
                                  : Contains("lacks rank 1 of this host"));
    CHECK(fs::exists(folder.options.timeline) == (failing == 1));
  }
}
