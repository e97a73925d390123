#include "unit/ps/durable/simulated_disk.h"

#include <algorithm>
#include <cerrno>

#include "tutti/error.h"

namespace tutti::ps {
namespace {

class ReadableBytes : public base::ReadableFile {
 public:
  explicit ReadableBytes(net::Bytes bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  std::size_t read(std::uint64_t offset, std::span<std::byte> into) const override {
    const auto rest = net::ConstBytes(bytes_).subspan(std::min<std::size_t>(offset, bytes_.size()));
    const auto part = rest.first(std::min(rest.size(), into.size()));
    std::ranges::copy(part, into.begin());
    return part.size();
  }

 private:
  const net::Bytes bytes_;
};

/// The possible states of bytes that were written and not synced.
enum class Damage : std::uint8_t { none, cut, zeros, zeros_first, zeros_last, other_bytes, count };

void damage(std::span<std::byte> written, Damage how) {
  const std::size_t half = written.size() / 2;
  const auto fill = [](std::span<std::byte> part, int with) {
    std::ranges::fill(part, static_cast<std::byte>(with));
  };
  if (how == Damage::zeros) fill(written, 0);
  if (how == Damage::zeros_first) fill(written.first(half), 0);
  if (how == Damage::zeros_last) fill(written.subspan(half), 0);
  if (how == Damage::other_bytes) fill(written, 0xff);
}

}  // namespace

std::size_t EveryChoice::pick(std::size_t count) {
  if (at_ == picks_.size()) picks_.push_back({0, count});
  return picks_[at_++].made;
}

bool EveryChoice::next() {
  at_ = 0;
  while (!picks_.empty() && ++picks_.back().made == picks_.back().count) picks_.pop_back();
  return !picks_.empty();
}

DiskContent::DiskContent(const SimulatedFiles& files) {
  for (const auto& [name, bytes] : files) {
    synced_[name] = files_.size();
    files_.push_back({{bytes}});
  }
  now_ = synced_;
}

void DiskContent::apply(const DiskOperation& operation) {
  if (operation.kind == DiskOperation::Kind::create && operation.file == files_.size()) {
    files_.push_back({{net::Bytes()}});
    return change({{}, operation.name, operation.file});
  }
  if (operation.kind == DiskOperation::Kind::rename) {
    return change({operation.name, operation.to, now_.at(operation.name)});
  }
  if (operation.kind == DiskOperation::Kind::remove) return change({operation.name, {}, 0});
  if (operation.kind == DiskOperation::Kind::sync_names) {
    if (operation.is_refused) return;
    synced_ = now_;
    return changes_.clear();
  }
  File& file = files_[operation.file];
  if (operation.kind == DiskOperation::Kind::sync) {
    file.has_failed = file.has_failed || operation.is_refused;
    if (!file.has_failed) file.versions.erase(file.versions.begin(), file.versions.end() - 1);
    return;
  }
  net::Bytes next = file.versions.back();
  if (operation.kind == DiskOperation::Kind::append) {
    const net::ConstBytes all = operation.bytes;
    net::append(next, operation.is_refused ? all.first(all.size() / 2) : all);
  } else {
    next.resize(operation.size);
  }
  file.versions.push_back(std::move(next));
}

void DiskContent::change(NameChange change) {
  now_.erase(change.gone);
  if (!change.there.empty()) now_[change.there] = change.file;
  changes_.push_back(std::move(change));
}

SimulatedFiles DiskContent::after_power_cut(Chooser& chooser) const {
  auto names = synced_;
  for (const NameChange& change : changes_) {
    if (chooser.pick(2) == 0) continue;
    names.erase(change.gone);
    if (!change.there.empty()) names[change.there] = change.file;
  }
  SimulatedFiles files;
  for (const auto& [name, file] : names) {
    files[name] = content_of(files_[file], base::is_unfinished(name), chooser);
  }
  return files;
}

/// Nothing reads a file without its name: it has nothing, or all.
net::Bytes DiskContent::content_of(const File& file, bool is_unfinished, Chooser& chooser) {
  const auto& versions = file.versions;
  if (is_unfinished) return chooser.pick(2) == 0 ? versions.front() : versions.back();
  net::Bytes bytes = versions[chooser.pick(versions.size())];
  std::size_t stable = bytes.size();
  for (const net::Bytes& one : versions) stable = std::min(stable, one.size());
  if (stable == bytes.size()) return bytes;
  const auto how = static_cast<Damage>(chooser.pick(static_cast<std::size_t>(Damage::count)));
  if (how == Damage::cut) {
    constexpr std::size_t parts = 8;
    bytes.resize(stable + (bytes.size() - stable) * chooser.pick(parts) / parts);
  } else {
    damage(std::span(bytes).subspan(stable), how);
  }
  return bytes;
}

class SimulatedDisk::Written : public base::WritableFile {
 public:
  Written(SimulatedDisk& disk, std::size_t file) : disk_(disk), file_(file) {}
  bool append(std::span<const std::byte> bytes) override {
    if (bytes.empty()) return true;
    return disk_.perform({.kind = DiskOperation::Kind::append,
                          .file = file_,
                          .bytes = {bytes.begin(), bytes.end()}});
  }
  bool truncate(std::uint64_t size) override {
    return disk_.perform({.kind = DiskOperation::Kind::truncate, .file = file_, .size = size});
  }
  bool sync() override { return disk_.perform({.kind = DiskOperation::Kind::sync, .file = file_}); }

 private:
  SimulatedDisk& disk_;
  const std::size_t file_;
};

SimulatedDisk::SimulatedDisk(SimulatedFiles files, std::vector<DiskOperation> operations)
    : Disk("disk"), first_(std::move(files)), operations_(std::move(operations)), content_(first_) {
  for (const DiskOperation& one : operations_) content_.apply(one);
}

DiskContent SimulatedDisk::content_after(std::size_t operations) const {
  DiskContent content(first_);
  for (std::size_t i = 0; i < operations; ++i) content.apply(operations_[i]);
  return content;
}

std::shared_ptr<SimulatedDisk> SimulatedDisk::until(std::size_t operations) const {
  const auto end = operations_.begin() + static_cast<std::ptrdiff_t>(operations);
  return std::make_shared<SimulatedDisk>(first_, std::vector(operations_.begin(), end));
}

/// If the operation is refused, the disk's content still has its effect.
bool SimulatedDisk::perform(DiskOperation operation) {
  operation.is_refused = refused_ == operations_.size();
  const bool has_effect = operation.kind == DiskOperation::Kind::append ||
                          operation.kind == DiskOperation::Kind::sync ||
                          operation.kind == DiskOperation::Kind::sync_names;
  const bool is_done = !operation.is_refused;
  if (is_done || has_effect) content_.apply(operation);
  if (!is_done && !has_effect)
    operation = {.kind = DiskOperation::Kind::sync_names, .is_refused = true};
  operations_.push_back(std::move(operation));
  if (!is_done) errno = EIO;
  return is_done;
}

std::vector<std::string> SimulatedDisk::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : content_.names()) names.push_back(name);
  return names;
}

std::unique_ptr<base::ReadableFile> SimulatedDisk::open(const std::string& name) const {
  const auto found = content_.names().find(name);
  if (found == content_.names().end()) {
    throw Error(ErrorCode::invalid_argument, path(name) + ": No such file");
  }
  return std::make_unique<ReadableBytes>(content_.bytes_of(found->second));
}

std::unique_ptr<base::WritableFile> SimulatedDisk::create(const std::string& name) {
  const auto found = content_.names().find(name);
  const bool is_there = found != content_.names().end();
  const std::size_t file = is_there ? found->second : content_.files();
  if (!perform({.kind = is_there ? DiskOperation::Kind::truncate : DiskOperation::Kind::create,
                .file = file,
                .name = name})) {
    return nullptr;
  }
  return std::make_unique<Written>(*this, file);
}

bool SimulatedDisk::rename(const std::string& from, const std::string& to) {
  return perform({.kind = DiskOperation::Kind::rename, .name = from, .to = to});
}

bool SimulatedDisk::remove(const std::string& name) {
  return perform({.kind = DiskOperation::Kind::remove, .name = name});
}

bool SimulatedDisk::sync() {
  return perform({.kind = DiskOperation::Kind::sync_names});
}

}  // namespace tutti::ps
