#include "ps/durable/storage.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

using base::Clock;

/// The time between checkpoints if there is no journal.
constexpr Clock::duration between_checkpoints = std::chrono::seconds(60);

}  // namespace

Storage::Storage(const Durability& durability, int rank, int servers)
    : Storage(durability, rank, servers, state_place(durability.folder, rank, servers)) {}

Storage::Storage(const Durability& durability, int rank, int servers, StatePlace place)
    : durability_(durability),
      place_(std::move(place)),
      files_(place_.disk, rank, servers),
      generation_(files_.last_generation()) {
  files_.remove_unfinished();
  if (files_.has_state() || generation_ == 0) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the checkpoint {} is missing, but the journal that follows it is "
                          "there; put the checkpoint back, or give an empty folder to begin anew",
                          base::printable(place_.disk->path(files_.checkpoint(generation_)))));
}

/// Begins a journal. The one before is on the disk by then.
void Storage::start_journal() {
  if (!is_durable()) return;
  const JournalPlace follows = journal_ ? journal_->end() : JournalPlace();
  journal_.emplace(*place_.disk, files_.journal(generation_), job_, follows);
}

void Storage::take_prepared() {
  ++generation_;
  const std::string name = files_.checkpoint(generation_);
  if (!place_.disk->rename(files_.prepared(), name) || !place_.disk->sync()) {
    throw base::system_failure(
        fmt::format("make {} the state of a server", base::printable(place_.disk->path(name))));
  }
  take_for_state(name);
}

void Storage::settle(bool takes_prepared) {
  if (!files_.has_prepared()) return;
  if (takes_prepared) return take_prepared();
  if (place_.disk->remove(files_.prepared())) return;
  throw base::system_failure(
      fmt::format("remove {}", base::printable(place_.disk->path(files_.prepared()))));
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
  journal_.reset();
  start_journal();
}

base::Fd Storage::replace(const State& state) {
  place_.writer->stop();
  ++generation_;
  return written(files_.checkpoint(generation_), state);
}

bool Storage::has_replaced() {
  if (!writer_has_ended()) return false;
  check_written();
  take_for_state(writing_);
  return true;
}

base::Fd Storage::written(const std::string& name, const State& state) {
  has_changed_ = false;
  due_.reset();
  writing_ = name;
  is_writing_ = place_.writer->start(name, state);
  return is_writing_ ? place_.writer->end() : written_here(state);
}

/// Writes the state in this process, because no child process can be made.
base::Fd Storage::written_here(const State& state) const {
  write_state(*place_.disk, writing_, state);
  base::Fd readable(::eventfd(1, EFD_CLOEXEC));
  if (!readable) throw base::system_failure("make an event of a checkpoint");
  return readable;
}

/// Only a complete state has its name. So the name tells more than the exit status of the writer,
/// which a process that ignores SIGCHLD never gets. The sync writes the name to the disk; only then
/// may older files be removed.
bool Storage::is_written() const {
  const std::vector<std::string> names = place_.disk->names();
  return std::ranges::find(names, writing_) != names.end() && place_.disk->sync();
}

void Storage::check_written() const {
  if (is_written()) return;
  throw Error(ErrorCode::internal, fmt::format("the state {} could not be written",
                                               base::printable(place_.disk->path(writing_))));
}

void Storage::sync() {
  if (!journal_) return;
  journal_->sync();
  due_.reset();
}

/// Notes that this file is the state now. The older files are no longer needed.
void Storage::take_for_state(const std::string& name) {
  checkpoint_bytes_ = place_.disk->open(name)->size();
  journal_bytes_ = 0;
  clean_up();
}

/// If a file cannot be removed now, the next call removes it.
void Storage::clean_up() {
  try {
    files_.remove_before(generation_);
    files_.remove_unfinished();
  } catch (const Error& error) {
    base::log().warn("files that the state no longer needs may be left behind: {}", error.what());
  }
}

void Storage::append(net::ConstBytes head, net::ConstBytes body) {
  has_changed_ = true;
  if (journal_) journal_->append(head, body);
  if (!is_durable() && !due_) due_ = place_.now() + between_checkpoints;
}

void Storage::commit() {
  if (!journal_) return;
  const bool has_new = journal_->has_unwritten();
  if (has_new) journal_->write();
  if (durability_.when == Durability::When::each) {
    if (has_new) journal_->sync();
    return;
  }
  const auto now = place_.now();
  if (has_new && !due_) due_ = now + durability_.interval;
  if (!due_ || now < *due_) return;
  sync();
}

/// A checkpoint has to wait for the one before it, and nothing wakes the server when that one ends.
std::optional<Clock::time_point> Storage::due() const {
  return !journal_ && is_writing_ ? std::nullopt : due_;
}

bool Storage::wants_checkpoint() const {
  if (is_writing_ || !has_changed_) return false;
  if (!journal_) return due_ && place_.now() >= *due_;
  return journal_->bytes() + journal_bytes_ >
         std::max(durability_.journal_bytes, 2 * checkpoint_bytes_);
}

void Storage::look(const State& state) {
  reap();
  if (wants_checkpoint()) start_checkpoint(state);
}

/// The writer has the state as it is now, even if the state changes in this process meanwhile.
void Storage::start_checkpoint(const State& state) {
  if (journal_) {
    sync();
    journal_bytes_ += journal_->bytes();
  }
  ++generation_;
  start_journal();
  has_changed_ = false;
  if (!is_durable()) due_.reset();
  writing_ = files_.checkpoint(generation_);
  is_writing_ = place_.writer->start(writing_, state);
  if (!is_writing_) put_off_checkpoint();
}

bool Storage::writer_has_ended() {
  if (is_writing_ && !place_.writer->has_ended()) return false;
  is_writing_ = false;
  return true;
}

void Storage::reap() {
  if (!is_writing_ || !writer_has_ended()) return;
  if (is_written()) return take_for_state(writing_);
  base::log().error("the server could not write the checkpoint {}; it keeps the older files",
                    base::printable(place_.disk->path(writing_)));
  put_off_checkpoint();
}

/// Lets some time pass before the next attempt.
void Storage::put_off_checkpoint() {
  has_changed_ = true;
  checkpoint_bytes_ = std::max(checkpoint_bytes_, journal_bytes_);
  if (!is_durable()) due_ = place_.now() + between_checkpoints;
}

}  // namespace tutti::ps
