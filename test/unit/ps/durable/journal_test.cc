#include "ps/durable/journal.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ps/durable/journal_reader.h"
#include "ps/durable/state_folder.h"
#include "unit/errors.h"
#include "unit/folder.h"
#include "unit/full_disk.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;
using Texts = std::vector<std::string>;

namespace {

constexpr std::uint64_t job = 7;

struct Read {
  Texts texts;
  bool is_torn = false;
};

const std::string file_name = "journal";

Read read(const Folder& folder) {
  Read read;
  JournalReader reader(*state_folder(folder.path()), file_name, job);
  reader.replay([&](net::ConstBytes record) { read.texts.emplace_back(net::as_text(record)); });
  read.is_torn = reader.is_torn();
  return read;
}

constexpr std::size_t head = record_head_bytes;
constexpr std::size_t mark = mark_bytes;
/// The place at which the first record begins.
constexpr std::size_t first = JournalBeginning::bytes;

/// Three records, which are on the disk. Returns where.
std::string written(const Folder& folder) {
  Journal journal(*state_folder(folder.path()), file_name, job);
  journal.append(net::as_bytes("fir"), net::as_bytes("st"));
  journal.write();
  journal.append({}, net::as_bytes("second"));
  journal.append(net::as_bytes("third"), {});
  journal.sync();
  return folder.path() + "/" + file_name;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// The next time that something is to reach the disk, it does not. The system says so once.
bool next_is_lost = false;

}  // namespace

/// Replaces the system's function.
extern "C" int fdatasync(int file) {
  if (!next_is_lost) return static_cast<int>(::syscall(SYS_fdatasync, file));
  next_is_lost = false;
  errno = EIO;
  return -1;
}

TEST_CASE("a journal gives back the records that were appended, in order") {
  const Folder folder;
  written(folder);
  const Read all = read(folder);
  CHECK(all.texts == Texts{"first", "second", "third"});
  CHECK_FALSE(all.is_torn);
}

TEST_CASE("a journal that ends within a record gives those before it, wherever it was cut") {
  const Folder folder;
  const std::string path = written(folder);
  const std::string whole = content_of(path);
  const std::size_t last = whole.size() - mark - head - 5;
  for (std::size_t size = last + 1; size < last + head + 5; ++size) {
    put(path, whole.substr(0, size));
    const Read rest = read(folder);
    CHECK(rest.texts == Texts{"first", "second"});
    CHECK(rest.is_torn);
  }
}

TEST_CASE("every changed byte of a record is found") {
  const Folder folder;
  const std::string path = written(folder);
  const std::string whole = content_of(path);
  for (std::size_t at = first; at < first + head + 5; ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    put(path, changed);
    CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { read(folder); }),
               Contains(path) && Contains("damaged: record 1 is not as tutti wrote it"));
  }
}

TEST_CASE("no changed byte before the last mark passes for the written one") {
  const Folder folder;
  const std::string path = written(folder);
  const std::string whole = content_of(path);
  for (std::size_t at = 0; at < whole.size() - mark; ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    put(path, changed);
    INFO("byte " << at);
    CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { read(folder); }), Contains(path));
  }
}

TEST_CASE("a record that was taken out is missed") {
  const Folder folder;
  const std::string path = written(folder);
  std::string changed = content_of(path);
  changed.erase(first + head + 5, head + 6);
  put(path, changed);
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { read(folder); }), Contains("record 2"));
}

TEST_CASE("a length that was changed is found, though the file seems to end within the record") {
  const Folder folder;
  const std::string path = folder.path() + "/" + file_name;
  Journal journal(*state_folder(folder.path()), file_name, job);
  for (int i = 0; i < 100; ++i) journal.append({}, net::as_bytes("a record"));
  journal.sync();
  std::string changed = content_of(path);
  changed[first + 2 * (head + 8) + 3] = '\x7f';
  put(path, changed);
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { read(folder); }), Contains("record 3"));
}

TEST_CASE("the remains of a journal's end that a machine had not synced are left out") {
  const Folder folder;
  const Folder other;
  const std::string path = written(folder);
  const std::string whole = content_of(path);
  const std::string old = content_of(written(other));
  const std::string zeros(4096, '\0');
  // The last is what the disk had there before: of another journal.
  for (const std::string& end :
       {zeros, std::string(5000, '\xff'), zeros + old, old.substr(first)}) {
    put(path, whole + end);
    const Read rest = read(folder);
    CHECK(rest.texts == Texts{"first", "second", "third"});
    CHECK(rest.is_torn);
  }
}

TEST_CASE("of records that were not synced those behind a missing one are left out, too") {
  const Folder folder;
  const std::string path = written(folder);
  const std::size_t synced = content_of(path).size();
  Journal journal(*state_folder(folder.path()), file_name, job);
  for (const char* text : {"first", "second", "third"}) journal.append({}, net::as_bytes(text));
  journal.write();
  std::string changed = content_of(path);
  REQUIRE(changed.size() == synced - mark);
  changed[first + head + 5 + head] = 0;
  put(path, changed);
  CHECK(read(folder).texts == Texts{"first"});
  CHECK(read(folder).is_torn);
}

TEST_CASE("a journal says where the one before it ended, and no changed byte of that is believed") {
  const Folder folder;
  const JournalPlace before{.id = JournalId{std::byte{9}}, .records = 3};
  { const Journal journal(*state_folder(folder.path()), file_name, job, before); }
  CHECK(JournalReader(*state_folder(folder.path()), file_name, job).follows() == before);
  const std::string path = folder.path() + "/" + file_name;
  const std::string whole = content_of(path);
  REQUIRE(whole.size() == JournalBeginning::bytes);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    for (const std::string& content : {changed, whole.substr(0, at)}) {
      put(path, content);
      INFO("byte " << at);
      CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { read(folder); }), Contains(path));
    }
  }
}

TEST_CASE("a journal of another job is refused") {
  const Folder folder;
  const std::string path = written(folder);
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument,
              [&] { JournalReader reader(*state_folder(folder.path()), file_name, job + 1); }),
      Contains(path) && Contains("of another job than the checkpoint before it"));
}

TEST_CASE("a file that is no journal is refused by name") {
  const Folder folder;
  const auto refused = [&] { return text_of(ErrorCode::invalid_argument, [&] { read(folder); }); };
  CHECK_THAT(refused(), Contains("journal: No such file"));
  put(folder.path() + "/" + file_name, std::string(100, '\7'));
  CHECK_THAT(refused(), Contains("journal: not a journal that tutti wrote"));
  put(folder.path() + "/" + file_name, "tutti, journal 2\n" + std::string(100, '\7'));
  CHECK_THAT(refused(),
             Contains("journal: a journal of another version of tutti; go on with that"));
}

TEST_CASE("a journal whose disk was full keeps its whole records, and writes no more") {
  const Folder folder;
  const std::string path = folder.path() + "/" + file_name;
  Journal journal(*state_folder(folder.path()), file_name, job);
  journal.append({}, net::as_bytes("first"));
  journal.sync();
  const std::string whole = content_of(path);
  journal.append({}, net::as_bytes("second"));
  {
    const FullDisk full(whole.size() + head + 3);
    CHECK_THAT(text_of(ErrorCode::internal, [&] { journal.write(); }),
               Contains("cannot write " + path + ": File too large"));
    CHECK(content_of(path) == whole);
  }
  CHECK(journal.has_failed());
  const std::string again = "cannot write " + path + ", because an earlier write failed";
  CHECK_THAT(text_of(ErrorCode::internal, [&] { journal.write(); }), Contains(again));
  CHECK_THAT(text_of(ErrorCode::internal, [&] { journal.sync(); }), Contains(again));
  CHECK(read(folder).texts == Texts{"first"});
  CHECK_FALSE(read(folder).is_torn);
}

TEST_CASE("no journal says of a record that did not reach the disk that it has") {
  const Folder folder;
  const std::string path = folder.path() + "/" + file_name;
  Journal journal(*state_folder(folder.path()), file_name, job);
  journal.append({}, net::as_bytes("first"));
  next_is_lost = true;
  CHECK_THAT(text_of(ErrorCode::internal, [&] { journal.sync(); }), Contains("Input/output error"));
  text_of(ErrorCode::internal, [&] { journal.sync(); });
  std::string content = content_of(path);
  content.at(first + head) ^= 1;
  put(path, content);
  CHECK(read(folder).texts.empty());
  CHECK(read(folder).is_torn);
}
