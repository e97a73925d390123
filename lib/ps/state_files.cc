#include "ps/state_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "base/sealed_file.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view checkpoint_word = "checkpoint-";
constexpr std::string_view journal_word = "journal-";
constexpr std::string_view prepared_word = "prepared";

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (!error) return names;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the folder {} of a server's state cannot be read: {}",
                          base::quoted(folder), error.message()));
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

/// What follows `start` in the text, as a number.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view start) {
  return text.starts_with(start) ? number_in(text.substr(start.size())) : std::nullopt;
}

net::Bytes unsealed(const std::string& path) {
  const std::vector<std::uint8_t> sealed = base::read_sealed(path);
  const auto bytes = std::as_bytes(std::span(sealed));
  return {bytes.begin(), bytes.end()};
}

/// With which the names of its files begin.
std::string name_of(int rank, int servers) {
  return fmt::format("server-{}-of-{}.", rank, servers);
}

}  // namespace

StateFiles::StateFiles(const std::string& folder, int rank, int servers)
    : folder_(folder),
      rank_(rank),
      servers_(servers),
      name_(name_of(rank, servers)),
      prefix_((fs::path(folder) / name_).string()) {
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with(name_)) continue;
    const std::string_view rest = std::string_view(name).substr(name_.size());
    if (const auto number = number_after(rest, checkpoint_word)) checkpoints_.insert(*number);
    if (const auto number = number_after(rest, journal_word)) journals_.insert(*number);
    has_prepared_ = has_prepared_ || rest == prepared_word;
  }
}

std::string StateFiles::checkpoint(std::uint64_t generation) const {
  return fmt::format("{}{}{}", prefix_, checkpoint_word, generation);
}

std::string StateFiles::journal(std::uint64_t generation) const {
  return fmt::format("{}{}{}", prefix_, journal_word, generation);
}

std::string StateFiles::prepared() const {
  return fmt::format("{}{}", prefix_, prepared_word);
}

std::uint64_t StateFiles::last_generation() const {
  return std::max(generation(), journals_.empty() ? 0 : *journals_.rbegin());
}

net::Bytes StateFiles::read_checkpoint() const {
  return unsealed(checkpoint(generation()));
}

net::Bytes StateFiles::read_prepared() const {
  return unsealed(prepared());
}

void StateFiles::replay(std::uint64_t job, const std::function<void(net::ConstBytes)>& take) const {
  const std::uint64_t last = last_generation();
  for (std::uint64_t each = generation(); each <= last; ++each) {
    // The first is missing where the server was killed when it had written the checkpoint.
    if (!journals_.contains(each) && each == last) return;
    if (!journals_.contains(each)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is missing, and a later one is there; put it back, or remove the "
                              "later ones to go on from what was before them",
                              base::printable(journal(each))));
    }
    if (Journal::read(journal(each), job, take) == Journal::End::whole) continue;
    if (each != last) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} has been cut short, and a later one is there",
                              base::printable(journal(each))));
    }
    base::log().warn(
        "the end of {} had not reached the disk, and is left out; with --durable each no worker "
        "has been told otherwise",
        journal(each));
  }
}

void StateFiles::remove_unfinished() const {
  std::error_code error;
  for (const std::string& name : names_in(folder_)) {
    if (!name.starts_with(name_) || !name.ends_with(".unfinished")) continue;
    fs::remove(fs::path(folder_) / name, error);
  }
}

void StateFiles::remove_before(std::uint64_t generation) {
  std::error_code error;
  for (const std::string& name : names_in(folder_)) {
    if (!name.starts_with(name_)) continue;
    const std::string_view rest = std::string_view(name).substr(name_.size());
    auto number = number_after(rest, checkpoint_word);
    if (!number) number = number_after(rest, journal_word);
    if (number && *number < generation) fs::remove(fs::path(folder_) / name, error);
  }
}

std::string lock_of(const std::string& folder, int rank, int servers) {
  return (fs::path(folder) / (name_of(rank, servers) + "lock")).string();
}

std::set<int> server_counts(const std::string& folder) {
  std::set<int> counts;
  for (const std::string& name : names_in(folder)) {
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
