#include "runtime/timeline_files.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>

#include "thread_world.h"

using tutti::runtime::timeline_path;

TEST_CASE("the first store of a process writes to the path, later ones add their number") {
  CHECK(timeline_path("out/trace.json", 0) == "out/trace.json");
  CHECK(timeline_path("out/trace.json", 1) == "out/trace.2.json");
  CHECK(timeline_path("trace", 2) == "trace.3");
}

namespace {

/// While it lives, no file may grow, as on a disk that is full.
class FullDisk {
 public:
  FullDisk() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*const handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before_{};
};

}  // namespace

TEST_CASE("a timeline whose disk fills up while it is merged leaves whole parts and no cut file") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("tutti-full-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  tutti::Options options;
  options.timeline = folder / "trace.json";
  ThreadWorld ranks(1);
  const tutti::runtime::World world = ranks.rank(0);
  const auto files = tutti::runtime::TimelineFiles::open(world, {}, options);
  files->write_part(tutti::observe::Timeline(1));
  // A pipe, for a file could not grow.
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  {
    const FullDisk full;
    files->merge();
  }
  ::dup2(before, STDERR_FILENO);
  ::close(ends[1]);
  ::close(before);
  std::string said(4096, ' ');
  said.resize(static_cast<std::size_t>(::read(ends[0], said.data(), said.size())));
  ::close(ends[0]);
  CHECK_THAT(said, Catch::Contains("cannot write the timeline " + options.timeline + ": File too"));
  CHECK_FALSE(fs::exists(options.timeline));
  CHECK(fs::exists(options.timeline + ".0.part"));
  fs::remove_all(folder);
}
