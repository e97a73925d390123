// The remains of a server's state when its writer fails in different ways.
#include "ps/durable/storage.h"

#include <poll.h>
#include <sys/file.h>
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
#include <system_error>
#include <thread>

#include "base/disk.h"
#include "ps/durable/journal.h"
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

std::string checkpoint_of(const Storage& storage, std::uint64_t generation) {
  return storage.files().disk().path(storage.files().checkpoint(generation));
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

/// The state that the files in the folder have now.
std::string state_in(const Folder& folder) {
  const net::Bytes state = StateFiles(state_folder(folder.path()), 0, 1).read_checkpoint();
  return std::string(net::as_text(state));
}

/// Fails a moment later, when the test watches it.
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

constexpr uid_t nobody = 65534;

mode_t permissions_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

/// Gives the folder and everything in it to this user.
void give(const Folder& folder, uid_t user) {
  REQUIRE(::chown(folder.path().c_str(), user, user) == 0);
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    REQUIRE(::chown(file.path().c_str(), user, user) == 0);
  }
}

/// Runs it in a process that cannot start others, for root, who may, as somebody else. Returns
/// whether it threw nothing.
bool works_without_processes(const Folder& folder, const std::function<void()>& run) {
  const bool is_root = ::getuid() == 0;
  if (is_root) give(folder, nobody);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NPROC, &none);
    if (is_root && ::setresuid(nobody, nobody, nobody) != 0) ::_exit(2);
    try {
      run();
      ::_exit(0);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (is_root) give(folder, 0);
  return status == 0;
}

/// Whether names that are made or changed in folders fail to reach the disk.
bool names_are_lost = false;
/// Why no file can be locked; 0: files can.
int lock_failure = 0;
/// How many tries to lock a file another process refuses.
int lock_refusals = 0;

}  // namespace

/// Replaces the system's function.
extern "C" int flock(int file, int how) {
  if (lock_refusals > 0) {
    --lock_refusals;
    errno = EWOULDBLOCK;
    return -1;
  }
  if (lock_failure == 0) return static_cast<int>(::syscall(SYS_flock, file, how));
  errno = lock_failure;
  return -1;
}

/// Replaces the system's function.
extern "C" int fsync(int file) {
  struct stat status {};
  const bool is_folder = ::fstat(file, &status) == 0 && S_ISDIR(status.st_mode);
  if (!is_folder || !names_are_lost) return static_cast<int>(::syscall(SYS_fsync, file));
  errno = EIO;
  return -1;
}

TEST_CASE("files before a checkpoint stay until its name is on the disk") {
  const Folder folder;
  Storage storage(in(folder), 0, 1);
  replace(storage, [] { return bytes("first"); });
  names_are_lost = true;
  begin(storage, [] { return bytes("second"); });
  CHECK_THAT(text_of(ErrorCode::internal, [&] { storage.has_replaced(); }),
             Contains("checkpoint-2 could not be written"));
  names_are_lost = false;
  CHECK(std::filesystem::exists(checkpoint_of(storage, 1)));
  replace(storage, [] { return bytes("third"); });
  CHECK_FALSE(std::filesystem::exists(checkpoint_of(storage, 1)));
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
    "a process that ends while it writes a checkpoint leaves the one before, and nothing of the "
    "new one") {
  const Folder folder;
  {
    Storage storage(in(folder), 0, 1);
    replace(storage, [] { return bytes("good"); });
    const std::string path = checkpoint_of(storage, 2);
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

TEST_CASE("half written files of killed processes go when a server begins") {
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
  StateFiles(state_folder(folder.path()), 0, 1).replay(0, [&](net::ConstBytes) { ++found; });
  CHECK(found == records + 1);
}

TEST_CASE("a server finds the files of the process that had the lock before") {
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
        const std::ofstream file(checkpoint_of(storage, static_cast<std::uint64_t>(++made)));
        std::filesystem::remove(checkpoint_of(storage, static_cast<std::uint64_t>(made - 1)));
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

TEST_CASE("a prepared state counts for nothing until a job begins with it") {
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
  StateFiles(state_folder(folder.path()), 0, 1).replay(7, [&](net::ConstBytes) { ++found; });
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

TEST_CASE("a journal that was cut is refused where a later one follows more records than it has") {
  constexpr std::uint64_t job = 7;
  const Folder folder;
  const auto disk = state_folder(folder.path());
  const StateFiles names(disk, 0, 1);
  write_state(*disk, names.checkpoint(1), [] { return bytes("good"); });
  Journal first(*disk, names.journal(1), job);
  for (int i = 0; i < 3; ++i) first.append({}, bytes("a request"));
  first.sync();
  { const Journal second(*disk, names.journal(2), job, first.end()); }
  const std::string path = disk->path(names.journal(1));
  const auto whole = std::filesystem::file_size(path);
  const auto replay = [&] {
    std::size_t found = 0;
    StateFiles(disk, 0, 1).replay(job, [&](net::ConstBytes) { ++found; });
    return found;
  };
  for (auto size = whole; size >= whole - mark_bytes; --size) {
    std::filesystem::resize_file(path, size);
    CHECK(replay() == 3);
  }
  for (auto size = whole - mark_bytes; size-- > JournalBeginning::bytes;) {
    std::filesystem::resize_file(path, size);
    CHECK_THAT(text_of(ErrorCode::invalid_argument, replay),
               Contains(path + " has been cut short") && Contains("and had 3 when"));
  }
  { const Journal other(*disk, names.journal(1), job); }
  CHECK_THAT(text_of(ErrorCode::invalid_argument, replay),
             Contains("journal-2 does not follow " + path));
}

TEST_CASE("a state is for its user alone, whatever the umask, and so are the folders made for it") {
  const Folder folder;
  const mode_t before = ::umask(0);
  const std::string inner = folder.path() + "/above/state";
  Storage storage({.folder = inner, .when = Durability::When::each}, 0, 1);
  storage.prepare([] { return bytes("good"); });
  while (!storage.has_prepared()) std::this_thread::sleep_for(1ms);
  storage.begin(7);
  ::umask(before);
  CHECK(permissions_of(folder.path() + "/above") == 0700);
  CHECK(permissions_of(inner) == 0700);
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(inner)) {
    INFO(file.path());
    CHECK(permissions_of(file.path()) == 0600);
    ++files;
  }
  CHECK(files == 3);
}

TEST_CASE("a folder that others may change is refused, and the error says what to do") {
  const Folder folder;
  const auto refused = [&] {
    return text_of(ErrorCode::invalid_argument, [&] { Storage(in(folder), 0, 1); });
  };
  for (const mode_t mode : {mode_t{0770}, mode_t{0702}, mode_t{01777}}) {
    REQUIRE(::chmod(folder.path().c_str(), mode) == 0);
    CHECK_THAT(refused(), Contains("the folder '" + folder.path() + "' of a server's state") &&
                              Contains("other users may change it") && Contains("chmod go-w"));
    CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { state_folder(folder.path()); }),
               Contains("chmod go-w"));
  }
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  const Storage storage(in(folder), 0, 1);
}

TEST_CASE("a state that another user may have put there is refused") {
  if (::getuid() != 0) return;  // no other user can be played
  const Folder folder;
  {
    Storage storage(in(folder), 0, 1);
    replace(storage, [] { return bytes("forged"); });
  }
  const std::string checkpoint = folder.path() + "/server-0-of-1.checkpoint-1";
  REQUIRE(::chown(checkpoint.c_str(), nobody, nobody) == 0);
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { state_in(folder); }),
             Contains(checkpoint + ": it belongs to user 65534"));
  REQUIRE(::chown(checkpoint.c_str(), 0, 0) == 0);
  REQUIRE(::chmod(checkpoint.c_str(), 0664) == 0);
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { state_in(folder); }),
             Contains(checkpoint + ": its mode is 0664"));
  give(folder, nobody);
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { Storage(in(folder), 0, 1); }),
             Contains("it belongs to user 65534, and this process runs as user 0"));
}

TEST_CASE("a server waits for a lock that another process has for a moment") {
  const Folder folder;
  lock_refusals = 5;
  const Storage storage(in(folder), 0, 1);
  CHECK(lock_refusals == 0);
}

TEST_CASE("a lock that the file system lacks is not taken for another process") {
  const Folder folder;
  const auto refused = [&](int reason) {
    lock_failure = reason;
    std::string text = text_of(ErrorCode::invalid_argument, [&] { Storage(in(folder), 0, 1); });
    lock_failure = 0;
    return text;
  };
  CHECK_THAT(refused(EWOULDBLOCK), Contains("another process uses the state"));
  for (const int reason : {ENOTSUP, ENOLCK, ENOSYS}) {
    CHECK_THAT(refused(reason), Contains("server-0-of-1.lock") &&
                                    Contains(std::generic_category().message(reason)) &&
                                    Contains("on a file system that has flock") &&
                                    !Contains("another process"));
  }
}

TEST_CASE("a folder that is made for a state is on the disk with its name") {
  const Folder folder;
  names_are_lost = true;
  const std::string text = text_of(ErrorCode::internal, [&] {
    Storage({.folder = folder.path() + "/state", .when = Durability::When::each}, 0, 1);
  });
  names_are_lost = false;
  CHECK_THAT(text, Contains("cannot write the folder '" + folder.path() + "'"));
}
