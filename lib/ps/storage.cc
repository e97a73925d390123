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
#include "ps/archive.h"
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

void Storage::claim(std::uint64_t job) {
  job_ = job;
  ArchiveWriter claim;
  claim.put(job);
  claim.put(files_.generation());
  seal(files_.claim(), claim.take());
}

std::optional<std::uint64_t> Storage::claimed_job() const {
  if (!std::filesystem::exists(files_.claim())) return std::nullopt;
  const std::vector<std::uint8_t> sealed = base::read_sealed(files_.claim());
  ArchiveReader claim(std::as_bytes(std::span(sealed)));
  const std::uint64_t job = claim.number();
  const bool has_replaced_nothing = claim.number() == files_.generation();
  return has_replaced_nothing ? std::optional(job) : std::nullopt;
}

base::Fd Storage::replace(const State& state) {
  stop_writer();
  ++generation_;
  has_changed_ = false;
  due_.reset();
  if (!start_writer(state)) return written_here(state);
  // glibc 2.36 declares pidfd_open for C alone.
  base::Fd end(static_cast<int>(::syscall(SYS_pidfd_open, child_, 0)));
  if (!end) throw base::system_failure("watch a process that writes a checkpoint");
  return end;
}

/// Where no process can be had, this one writes: better late than never.
base::Fd Storage::written_here(const State& state) const {
  seal(files_.checkpoint(generation_), state());
  base::Fd readable(::eventfd(1, EFD_CLOEXEC));
  if (!readable) throw base::system_failure("make an event of a checkpoint");
  return readable;
}

bool Storage::has_replaced() {
  if (!writer_has_ended()) return false;
  if (!take_checkpoint()) {
    throw Error(ErrorCode::internal, fmt::format("the checkpoint {} could not be written",
                                                 files_.checkpoint(generation_)));
  }
  start_journal();
  return true;
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
  if (!start_writer(state)) put_off_checkpoint();
}

/// False: no process can be had now.
bool Storage::start_writer(const State& state) {
  const std::string path = files_.checkpoint(generation_);
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
    seal(path, state());
    ::_exit(0);
  } catch (const std::exception& error) {
    base::log().error("no checkpoint was written: {}", error.what());
    ::_exit(1);
  }
}

/// Only a whole checkpoint has its name, so that tells more than how its writer ended: of that
/// nobody hears who ignores SIGCHLD.
bool Storage::take_checkpoint() {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(files_.checkpoint(generation_), error);
  // What was before may be gone only when nothing takes the name away again.
  if (error || !base::sync_names(folder_)) return false;
  take_for_state(bytes);
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
  ::unlink(base::unfinished_file(files_.checkpoint(generation_), child_).c_str());
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
