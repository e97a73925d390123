#include "ps/durable/state_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "base/sealed_file.h"
#include "ps/durable/journal_reader.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

constexpr std::string_view checkpoint_word = "checkpoint-";
constexpr std::string_view journal_word = "journal-";
constexpr std::string_view prepared_word = "prepared";

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

/// The number that follows `start` in the text.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view start) {
  return text.starts_with(start) ? number_in(text.substr(start.size())) : std::nullopt;
}

net::Bytes unsealed(const base::Disk& disk, const std::string& name) {
  const std::vector<std::uint8_t> sealed = base::read_sealed(disk, name);
  const auto bytes = std::as_bytes(std::span(sealed));
  return {bytes.begin(), bytes.end()};
}

/// The words with which the names of a server's files begin.
std::string name_of(int rank, int servers) {
  return fmt::format("server-{}-of-{}.", rank, servers);
}

}  // namespace

StateFiles::StateFiles(std::shared_ptr<base::Disk> disk, int rank, int servers)
    : disk_(std::move(disk)), rank_(rank), servers_(servers), name_(name_of(rank, servers)) {
  for (const std::string& name : disk_->names()) {
    if (!name.starts_with(name_)) continue;
    const std::string_view rest = std::string_view(name).substr(name_.size());
    if (const auto number = number_after(rest, checkpoint_word)) checkpoints_.insert(*number);
    if (const auto number = number_after(rest, journal_word)) journals_.insert(*number);
    has_prepared_ = has_prepared_ || rest == prepared_word;
  }
}

std::string StateFiles::checkpoint(std::uint64_t generation) const {
  return fmt::format("{}{}{}", name_, checkpoint_word, generation);
}

std::string StateFiles::journal(std::uint64_t generation) const {
  return fmt::format("{}{}{}", name_, journal_word, generation);
}

std::string StateFiles::prepared() const {
  return fmt::format("{}{}", name_, prepared_word);
}

std::uint64_t StateFiles::last_generation() const {
  return std::max(generation(), journals_.empty() ? 0 : *journals_.rbegin());
}

net::Bytes StateFiles::read_checkpoint() const {
  return unsealed(*disk_, checkpoint(generation()));
}

net::Bytes StateFiles::read_prepared() const {
  return unsealed(*disk_, prepared());
}

void StateFiles::replay(std::uint64_t job, const std::function<void(net::ConstBytes)>& take) const {
  const std::uint64_t last = last_generation();
  std::optional<JournalPlace> before;
  for (std::uint64_t each = generation(); each <= last; ++each) {
    // If the server was killed right after it had written the checkpoint, there is no journal of
    // its generation.
    if (!journals_.contains(each) && each == last) return;
    if (!journals_.contains(each)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the journal {} is missing, but a later one is there; put it back, "
                              "or remove the later journals to go on from the state before them",
                              base::printable(disk_->path(journal(each)))));
    }
    JournalReader reader(*disk_, journal(each), job);
    if (before) check_follows(reader.follows(), *before, each);
    reader.replay(take);
    before = reader.end();
    if (!reader.is_torn() || each != last) continue;
    base::log().warn(
        "the end of {} had not reached the disk, and is left out; with --durable each no worker "
        "has been told that it was applied",
        disk_->path(journal(each)));
  }
}

/// Checks that this generation's journal follows the one before it. That journal was on the disk
/// when this one was begun.
void StateFiles::check_follows(const JournalPlace& said, const JournalPlace& before,
                               std::uint64_t generation) const {
  if (said == before) return;
  const std::string earlier = base::printable(disk_->path(journal(generation - 1)));
  const std::string later = base::printable(disk_->path(journal(generation)));
  if (said.id != before.id) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the journal {} does not follow {}: one of them has been replaced; "
                            "put the original file back",
                            later, earlier));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the journal {} has been cut short, and a later one is there: it has "
                          "{} whole records, and had {} when {} was begun; put the whole file "
                          "back, or remove the later journals to go on from the state before them",
                          earlier, before.records, said.records, later));
}

void StateFiles::remove_unfinished() const {
  for (const std::string& name : disk_->names()) {
    if (name.starts_with(name_) && base::is_unfinished(name)) disk_->remove(name);
  }
}

void StateFiles::remove_before(std::uint64_t generation) const {
  for (const std::string& name : disk_->names()) {
    if (!name.starts_with(name_)) continue;
    const std::string_view rest = std::string_view(name).substr(name_.size());
    auto number = number_after(rest, checkpoint_word);
    if (!number) number = number_after(rest, journal_word);
    if (number && *number < generation) disk_->remove(name);
  }
}

std::string lock_of(int rank, int servers) {
  return name_of(rank, servers) + "lock";
}

std::set<int> server_counts(const base::Disk& disk) {
  std::set<int> counts;
  for (const std::string& name : disk.names()) {
    const std::string_view text = name;
    const std::size_t of = text.find("-of-");
    const std::size_t dot = text.find('.');
    if (!text.starts_with("server-") || of == text.npos || dot == text.npos || dot < of) continue;
    const auto count = number_in(text.substr(of + 4, dot - of - 4));
    const bool is_checkpoint = text.substr(dot + 1).starts_with(checkpoint_word);
    if (count && is_checkpoint && *count <= 1 << 16) counts.insert(static_cast<int>(*count));
  }
  return counts;
}

}  // namespace tutti::ps
