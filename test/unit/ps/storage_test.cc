// What is left of a server's state, whatever befalls who writes it.
#include "ps/storage.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/sealed_file.h"
#include "unit/errors.h"
#include "unit/folder.h"

using namespace tutti;
using namespace tutti::ps;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

Durability in(const Folder& folder, Durability::When when = Durability::When::off) {
  return {.folder = folder.path(), .when = when};
}

net::Bytes bytes(const std::string& text) {
  const auto all = net::as_bytes(text);
  return {all.begin(), all.end()};
}

void begin(Storage& storage, const Storage::State& state) {
  const base::Fd writer = storage.replace(state);
  pollfd end{writer.get(), POLLIN, 0};
  REQUIRE(::poll(&end, 1, -1) == 1);
}

void replace(Storage& storage, const Storage::State& state) {
  begin(storage, state);
  REQUIRE(storage.has_replaced());
}

/// Of what is there now.
std::string state_in(const Folder& folder) {
  const net::Bytes state = StateFiles(folder.path(), 0, 1).read_checkpoint();
  return std::string(net::as_text(state));
}

/// Only when it is watched.
net::Bytes fail_to_write() {
  std::this_thread::sleep_for(100ms);
  throw std::runtime_error("no space is left");
}

/// A signal that this process ignores, until the end of the test.
class Ignored {
 public:
  explicit Ignored(int number) : number_(number), before_(std::signal(number, SIG_IGN)) {}
  ~Ignored() { std::signal(number_, before_); }
  Ignored(const Ignored&) = delete;
  Ignored& operator=(const Ignored&) = delete;

 private:
  const int number_;
  void (*const before_)(int);
};

/// Runs it in a process that cannot start others, for root, who may, as somebody else. Returns
/// whether it threw nothing.
bool works_without_processes(const Folder& folder, const std::function<void()>& run) {
  constexpr uid_t nobody = 65534;
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NPROC, &none);
    if (::getuid() == 0 && ::setresuid(nobody, nobody, nobody) != 0) ::_exit(2);
    try {
      run();
      ::_exit(0);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0;
}

/// What is made or renamed in folders does not reach the disk.
bool names_are_lost = false;

}  // namespace

/// In place of the system's.
extern "C" int fsync(int file) {
  struct stat status {};
  const bool is_folder = ::fstat(file, &status) == 0 && S_ISDIR(status.st_mode);
  if (!is_folder || !names_are_lost) return static_cast<int>(::syscall(SYS_fsync, file));
  errno = EIO;
  return -1;
}

TEST_CASE("what was before a checkpoint stays until that one's name is on the disk") {
  const Folder folder;
  Storage storage(in(folder), 0, 1);
  replace(storage, [] { return bytes("first"); });
  names_are_lost = true;
  begin(storage, [] { return bytes("second"); });
  CHECK_THAT(text_of(ErrorCode::internal, [&] { storage.has_replaced(); }),
             Contains("checkpoint-2 could not be written"));
  names_are_lost = false;
  CHECK(std::filesystem::exists(storage.files().checkpoint(1)));
  replace(storage, [] { return bytes("third"); });
  CHECK_FALSE(std::filesystem::exists(storage.files().checkpoint(1)));
  CHECK(state_in(folder) == "third");
}

TEST_CASE("a checkpoint that could not be written leaves the one before, SIGCHLD ignored or not") {
  for (const bool ignored : {false, true}) {
    const Folder folder;
    Storage storage(in(folder), 0, 1);
    replace(storage, [] { return bytes("good"); });
    const Ignored signal(ignored ? SIGCHLD : SIGUSR1);
    const base::Fd writer = storage.replace(fail_to_write);
    pollfd end{writer.get(), POLLIN, 0};
    REQUIRE(::poll(&end, 1, -1) == 1);
    CHECK_THAT(text_of(ErrorCode::internal, [&] { storage.has_replaced(); }),
               Contains("checkpoint-2 could not be written"));
    CHECK(state_in(folder) == "good");
  }
}

TEST_CASE(
    "who ends while a checkpoint is being written leaves the one before, and nothing of that") {
  const Folder folder;
  {
    Storage storage(in(folder), 0, 1);
    replace(storage, [] { return bytes("good"); });
    const std::string path = storage.files().checkpoint(2);
    storage.replace([&] {
      std::ofstream(base::unfinished_file(path, ::getpid())) << "half of it";
      std::this_thread::sleep_for(60s);
      return net::Bytes();
    });
    std::this_thread::sleep_for(100ms);
  }
  CHECK(state_in(folder) == "good");
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    files += file.path().string().find("checkpoint") != std::string::npos;
  }
  CHECK(files == 1);
}

TEST_CASE("what killed processes have left half written goes when a server begins") {
  const Folder folder;
  const std::string left = folder.path() + "/server-0-of-1.prepared.17.unfinished";
  const std::string of_another = folder.path() + "/server-0-of-10.prepared.17.unfinished";
  std::ofstream(left) << "half of it";
  std::ofstream(of_another) << "half of it";
  const Storage storage(in(folder), 0, 1);
  CHECK_FALSE(std::filesystem::exists(left));
  CHECK(std::filesystem::exists(of_another));
}

TEST_CASE("a server that can start no process writes its state itself") {
  const Folder folder;
  CHECK(works_without_processes(folder, [&] {
    Storage storage(in(folder), 0, 1);
    storage.replace([] { return bytes("good"); });
    if (!storage.has_replaced()) throw std::runtime_error("it has not");
  }));
  CHECK(state_in(folder) == "good");
}

TEST_CASE("a journal that grows while no process can be started is all there") {
  const Folder folder;
  constexpr std::size_t records = 70;
  const net::Bytes record(std::size_t{1} << 20);
  CHECK(works_without_processes(folder, [&] {
    Storage storage(in(folder, Durability::When::each), 0, 1);
    storage.prepare([] { return bytes("good"); });
    storage.has_prepared();
    storage.begin(0);
    for (std::size_t i = 0; i < records; ++i) storage.append({}, record);
    for (int i = 0; i < 2; ++i) {
      storage.commit();
      storage.look([] { return bytes("better"); });
    }
    storage.append({}, record);
    storage.commit();
  }));
  CHECK(state_in(folder) == "good");
  std::size_t found = 0;
  StateFiles(folder.path(), 0, 1).replay(0, [&](net::ConstBytes) { ++found; });
  CHECK(found == records + 1);
}

TEST_CASE("what is found is what the process that had the lock before has left") {
  const Folder folder;
  std::atomic<int> missed = 0;
  std::mutex making;
  int made = 0;
  // Each adds a file while it has the lock, and looks whether it knew of all the others.
  const auto take_turns = [&] {
    for (const auto until = base::Clock::now() + 1s; base::Clock::now() < until;) {
      try {
        const Storage storage(in(folder), 0, 1);
        const std::lock_guard lock(making);
        if (storage.files().generation() != static_cast<std::uint64_t>(made)) ++missed;
        const std::ofstream file(storage.files().checkpoint(static_cast<std::uint64_t>(++made)));
        std::filesystem::remove(storage.files().checkpoint(static_cast<std::uint64_t>(made - 1)));
      } catch (const Error&) {
        continue;  // the other has it
      }
    }
  };
  std::thread other(take_turns);
  take_turns();
  other.join();
  CHECK(made > 10);
  CHECK(missed == 0);
}

TEST_CASE("nothing is due while a checkpoint is being written, and the next one after it") {
  const Folder folder;
  Storage storage(in(folder), 0, 1);
  const base::Fd writer = storage.replace([] {
    std::this_thread::sleep_for(200ms);
    return bytes("good");
  });
  storage.append({}, bytes("a request"));
  CHECK_FALSE(storage.due());
  pollfd end{writer.get(), POLLIN, 0};
  REQUIRE(::poll(&end, 1, -1) == 1);
  REQUIRE(storage.has_replaced());
  CHECK(storage.due());
}

TEST_CASE("what is prepared counts for nothing until a job begins with it") {
  const Folder folder;
  const auto prepare = [&](Storage& storage, const std::string& text) {
    const base::Fd writer = storage.prepare([&] { return bytes(text); });
    pollfd end{writer.get(), POLLIN, 0};
    REQUIRE(::poll(&end, 1, -1) == 1);
    REQUIRE(storage.has_prepared());
  };
  {
    Storage storage(in(folder), 0, 1);
    replace(storage, [] { return bytes("good"); });
    prepare(storage, "better");
  }
  CHECK(state_in(folder) == "good");
  {
    Storage storage(in(folder), 0, 1);
    REQUIRE(storage.files().has_prepared());
    storage.settle(false);
  }
  CHECK(state_in(folder) == "good");
  {
    Storage storage(in(folder), 0, 1);
    CHECK_FALSE(storage.files().has_prepared());
    prepare(storage, "better");
  }
  Storage(in(folder), 0, 1).settle(true);
  CHECK(state_in(folder) == "better");
  {
    Storage storage(in(folder, Durability::When::each), 0, 1);
    CHECK_FALSE(storage.files().has_prepared());
    prepare(storage, "best");
    storage.begin(7);
    storage.append({}, bytes("a request"));
    storage.commit();
  }
  CHECK(state_in(folder) == "best");
  std::size_t found = 0;
  StateFiles(folder.path(), 0, 1).replay(7, [&](net::ConstBytes) { ++found; });
  CHECK(found == 1);
}

TEST_CASE("a state that could not be prepared leaves the one before") {
  const Folder folder;
  Storage storage(in(folder), 0, 1);
  replace(storage, [] { return bytes("good"); });
  const base::Fd writer = storage.prepare(fail_to_write);
  pollfd end{writer.get(), POLLIN, 0};
  REQUIRE(::poll(&end, 1, -1) == 1);
  CHECK_THAT(text_of(ErrorCode::internal, [&] { storage.has_prepared(); }),
             Contains("prepared could not be written"));
  CHECK(state_in(folder) == "good");
}
