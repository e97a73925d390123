#include "ps/storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/sealed_file.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

using base::Clock;

/// Without a journal.
constexpr Clock::duration between_checkpoints = std::chrono::seconds(60);
/// A journal as large as this, and as two checkpoints, is worth another checkpoint.
constexpr std::uint64_t small_journal = std::uint64_t{64} << 20;
/// By which the launcher knows that a server writes.
constexpr const char* writer_name = "tutti-state";

base::Fd made_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  base::Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int reason = errno;
  if (folder) return folder;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the folder {} for a server's state (--state) cannot be used: {}",
                          base::quoted(path), std::generic_category().message(reason)));
}

void check_count(const std::string& folder, int servers) {
  const std::set<int> counts = server_counts(folder);
  if (counts.empty() || counts.contains(servers)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the folder {0} has the state of {1} servers, and this job has {2}; to "
                          "spread it over {2}, give an empty folder, and --restore {0}",
                          base::quoted(folder), fmt::join(counts, " and of "), servers));
}

base::Fd checked_folder(const std::string& path, int servers) {
  base::Fd folder = made_folder(path);
  check_count(path, servers);
  return folder;
}

/// Of a server's files, until it is closed.
base::Fd locked(const std::string& folder, int rank, int servers) {
  constexpr mode_t for_owner = 0600;
  const std::string path = lock_of(folder, rank, servers);
  base::Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, for_owner));
  const int reason = errno;
  if (!lock) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the folder {} for a server's state cannot be written: {}",
                            base::quoted(folder), std::generic_category().message(reason)));
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("another process uses the state {}; does the server still run, or have "
                          "two the same DMLC_RANK?",
                          base::quoted(path)));
}

void seal(const std::string& path, const net::Bytes& state) {
  base::write_sealed(path, {reinterpret_cast<const std::uint8_t*>(state.data()), state.size()});
}

}  // namespace

Storage::Storage(const Durability& durability, int rank, int servers)
    : durability_(durability),
      folder_(checked_folder(durability.folder, servers)),
      lock_(locked(durability.folder, rank, servers)),
      files_(durability.folder, rank, servers),
      generation_(files_.last_generation()) {
  files_.remove_unfinished();
  if (files_.has_state() || generation_ == 0) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the checkpoint {} is missing, and the journal that follows it is there; "
                          "put it back, or give an empty folder to begin anew",
                          base::printable(files_.checkpoint(generation_))));
}

Storage::~Storage() {
  stop_writer();
}

void Storage::sync_folder() const {
  if (!base::sync_names(folder_)) throw base::system_failure("write the folder of a state");
}

void Storage::start_journal() {
  if (!is_durable()) return;
  journal_.emplace(files_.journal(generation_), job_);
  sync_folder();
}

void Storage::take_prepared() {
  ++generation_;
  const std::string path = files_.checkpoint(generation_);
  if (::rename(files_.prepared().c_str(), path.c_str()) != 0) {
    throw base::system_failure(fmt::format("make {} the state of a server", base::printable(path)));
  }
  sync_folder();
  take_for_state(std::filesystem::file_size(path));
}

void Storage::settle(bool takes_prepared) {
  if (!files_.has_prepared()) return;
  if (takes_prepared) return take_prepared();
  if (::unlink(files_.prepared().c_str()) == 0) return;
  throw base::system_failure(fmt::format("remove {}", base::printable(files_.prepared())));
}

base::Fd Storage::prepare(const State& state) {
  return written(files_.prepared(), state);
}

bool Storage::has_prepared() {
  if (!writer_has_ended()) return false;
  check_written();
  return true;
}

void Storage::begin(std::uint64_t job) {
  job_ = job;
  take_prepared();
  start_journal();
}

base::Fd Storage::replace(const State& state) {
  stop_writer();
  ++generation_;
  return written(files_.checkpoint(generation_), state);
}

bool Storage::has_replaced() {
  if (!writer_has_ended()) return false;
  check_written();
  take_for_state(std::filesystem::file_size(writing_));
  return true;
}

base::Fd Storage::written(const std::string& path, const State& state) {
  has_changed_ = false;
  due_.reset();
  writing_ = path;
  if (!start_writer(state)) return written_here(state);
  // glibc 2.36 declares pidfd_open for C alone.
  base::Fd end(static_cast<int>(::syscall(SYS_pidfd_open, child_, 0)));
  if (!end) throw base::system_failure("watch a process that writes a checkpoint");
  return end;
}

/// Where no process can be had, this one writes: better late than never.
base::Fd Storage::written_here(const State& state) const {
  seal(writing_, state());
  base::Fd readable(::eventfd(1, EFD_CLOEXEC));
  if (!readable) throw base::system_failure("make an event of a checkpoint");
  return readable;
}

/// Only a whole state has its name, so that tells more than how its writer ended: of that nobody
/// hears who ignores SIGCHLD. What was before may be gone only when nothing takes the name away.
bool Storage::is_written() const {
  return std::filesystem::exists(writing_) && base::sync_names(folder_);
}

void Storage::check_written() const {
  if (is_written()) return;
  throw Error(ErrorCode::internal,
              fmt::format("the state {} could not be written", base::printable(writing_)));
}

void Storage::sync() {
  if (!journal_) return;
  journal_->sync();
  due_.reset();
}

/// What was before it is not needed any more.
void Storage::take_for_state(std::uint64_t bytes) {
  checkpoint_bytes_ = bytes;
  journal_bytes_ = 0;
  files_.remove_before(generation_);
  files_.remove_unfinished();
}

void Storage::append(net::ConstBytes head, net::ConstBytes body) {
  has_changed_ = true;
  if (journal_) journal_->append(head, body);
  if (!is_durable() && !due_) due_ = Clock::now() + between_checkpoints;
}

void Storage::commit() {
  if (!journal_) return;
  const bool has_new = journal_->has_unwritten();
  if (has_new) journal_->write();
  if (durability_.when == Durability::When::each) {
    if (has_new) journal_->sync();
    return;
  }
  const auto now = Clock::now();
  if (has_new && !due_) due_ = now + durability_.interval;
  if (!due_ || now < *due_) return;
  journal_->sync();
  due_.reset();
}

/// A checkpoint has to wait for the one before, whose end nobody is woken by.
std::optional<Clock::time_point> Storage::due() const {
  return !journal_ && child_ != 0 ? std::nullopt : due_;
}

bool Storage::wants_checkpoint(Clock::time_point now) const {
  if (child_ != 0 || !has_changed_) return false;
  if (!journal_) return due_ && now >= *due_;
  return journal_->bytes() + journal_bytes_ > std::max(small_journal, 2 * checkpoint_bytes_);
}

void Storage::look(const State& state) {
  reap();
  if (wants_checkpoint(Clock::now())) start_checkpoint(state);
}

/// The child sees the state as it is now, whatever becomes of it here meanwhile.
void Storage::start_checkpoint(const State& state) {
  if (journal_) {
    journal_->sync();
    journal_bytes_ += journal_->bytes();
  }
  ++generation_;
  start_journal();
  has_changed_ = false;
  if (!is_durable()) due_.reset();
  writing_ = files_.checkpoint(generation_);
  if (!start_writer(state)) put_off_checkpoint();
}

/// False: no process can be had now.
bool Storage::start_writer(const State& state) {
  const pid_t server = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    base::log().error("no process can be started to write a checkpoint: {}",
                      std::generic_category().message(errno));
  }
  child_ = std::max(child, 0);
  if (child != 0) return child > 0;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Connections and the lock end with the server, not with this.
  ::close_range(3, ~0U, 0);
  if (::getppid() != server) ::_exit(1);
  ::prctl(PR_SET_NAME, writer_name);
  try {
    seal(writing_, state());
    ::_exit(0);
  } catch (const std::exception& error) {
    base::log().error("no checkpoint was written: {}", error.what());
    ::_exit(1);
  }
}

bool Storage::take_checkpoint() {
  if (!is_written()) return false;
  take_for_state(std::filesystem::file_size(writing_));
  return true;
}

bool Storage::writer_has_ended() {
  if (child_ != 0 && ::waitpid(child_, nullptr, WNOHANG) == 0) return false;
  child_ = 0;
  return true;
}

/// What it would have written is not wanted any more.
void Storage::stop_writer() {
  if (child_ == 0) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
  ::unlink(base::unfinished_file(writing_, child_).c_str());
  child_ = 0;
}

void Storage::reap() {
  if (child_ == 0 || !writer_has_ended() || take_checkpoint()) return;
  base::log().error("the checkpoint {} failed; what came before it is kept",
                    files_.checkpoint(generation_));
  put_off_checkpoint();
}

/// Not at once again.
void Storage::put_off_checkpoint() {
  has_changed_ = true;
  checkpoint_bytes_ = std::max(checkpoint_bytes_, journal_bytes_);
  if (!is_durable()) due_ = Clock::now() + between_checkpoints;
}

}  // namespace tutti::ps
