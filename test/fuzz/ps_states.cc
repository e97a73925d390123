// A server reads its state, and the files that have it, with any contents.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "fuzz/decoders.h"
#include "fuzz/folder.h"
#include "net/bytes.h"
#include "ps/durable/archive.h"
#include "ps/durable/journal.h"
#include "ps/durable/journal_reader.h"
#include "ps/durable/state_files.h"
#include "ps/durable/state_folder.h"
#include "ps/durable/state_writer.h"
#include "ps/protocol/wire.h"
#include "ps/server/image.h"
#include "ps/server/stock.h"

/// Nothing here is to survive the machine, and a disk takes longer than all else.
extern "C" int fsync(int) {
  return 0;
}
extern "C" int fdatasync(int) {
  return 0;
}

namespace tutti::fuzz {
namespace {

using namespace ps;

constexpr StateHead head{.job = 7, .rank = 0, .servers = 1, .workers = 2};
constexpr std::initializer_list<ErrorCode> refusals{ErrorCode::internal,
                                                    ErrorCode::invalid_argument};

net::Bytes saved(const Table& table) {
  ArchiveWriter to;
  table.save(to);
  return to.take();
}

void load(Bytes bytes, Table& table) {
  ArchiveReader from(bytes);
  table.load(from);
  from.finish();
}

/// A table; saved again, it is the same. What waits in it is answered once its workers are lost.
bool read_table(Bytes bytes) {
  Image image(head);
  *image.send = [](int, const Answer& answer) { encode(answer); };
  const auto is_accepted = accepted(
      [&] {
        load(bytes, *image.table);
        return true;
      },
      refusals);
  if (!is_accepted) return false;
  const net::Bytes once = saved(*image.table);
  Image again(head);
  load(once, *again.table);
  if (saved(*again.table) != once) fail("saved again, it is another state");
  for (int worker = 0; worker < head.workers; ++worker) {
    image.table->lose(worker, {ErrorCode::peer_lost, "it is lost", {}});
  }
  return true;
}

/// The next of parts that have their length in two bytes in front.
Bytes next_part(Bytes& bytes) {
  if (bytes.size() < 2) return std::exchange(bytes, {});
  const auto number = [&](std::size_t at) { return std::to_integer<std::size_t>(bytes[at]); };
  const std::size_t length = std::min(number(0) + (number(1) << 8), bytes.size() - 2);
  const Bytes part = bytes.subspan(2, length);
  bytes = bytes.subspan(2 + length);
  return part;
}

void add_part(net::Bytes& to, Bytes part) {
  to.push_back(static_cast<std::byte>(part.size()));
  to.push_back(static_cast<std::byte>(part.size() >> 8));
  net::append(to, part);
}

void write(const StateFiles& files, const std::string& name, Bytes bytes) {
  write_state(files.disk(), name, [&] { return net::Bytes(bytes.begin(), bytes.end()); });
}

/// Reads a checkpoint and the records of a journal. They have the form in which a server writes
/// them, and any contents.
bool read_image(Bytes bytes) {
  static const Folder folder;
  const StateFiles names(state_folder(folder.path()), head.rank, head.servers);
  write(names, names.checkpoint(1), next_part(bytes));
  Journal journal(names.disk(), names.journal(1), head.job);
  while (!bytes.empty()) journal.append(next_part(bytes), {});
  journal.write();
  const StateFiles files(state_folder(folder.path()), head.rank, head.servers);
  return accepted([&] { return Image::read(files).table != nullptr; },
                  {ErrorCode::invalid_argument})
      .has_value();
}

/// Checkpoints of two servers, for others.
bool read_stock(Bytes bytes) {
  static const Folder folder;
  for (const int rank : {0, 1}) {
    const StateFiles files(state_folder(folder.path()), rank, 2);
    write(files, files.checkpoint(1), next_part(bytes));
  }
  const auto stock =
      accepted([&] { return Stock::read(folder.path()); }, {ErrorCode::invalid_argument});
  if (!stock) return false;
  Located located;
  for (const Locate::Value& value : stock->question().values) {
    const auto pieces = std::min<std::uint64_t>(value.count + 2, 3);
    located.placements.push_back({value.key, {{0, 1}, static_cast<std::uint32_t>(pieces)}});
  }
  for (const int server : {0, 1}) stock->pieces_on(server, located);
  return true;
}

/// The file of a journal may have been changed.
bool read_journal(Bytes bytes) {
  static const Folder folder;
  const auto disk = state_folder(folder.path());
  if (!disk->create("journal")->append(bytes)) fail("no journal was written");
  return accepted(
             [&] {
               std::size_t taken = 0;
               JournalReader reader(*disk, "journal", head.job);
               reader.replay([&](Bytes record) { taken += record.size(); });
               if (taken > bytes.size()) fail("there is more in it than its bytes");
               return true;
             },
             {ErrorCode::invalid_argument})
      .has_value();
}

/// Reads the state that an interrupted beginning has left.
bool read_prepared(Bytes bytes) {
  static const Folder folder;
  const StateFiles files(state_folder(folder.path()), head.rank, head.servers);
  write(files, files.prepared(), bytes);
  return accepted([&] { return Image::read_prepared(files).table != nullptr; },
                  {ErrorCode::invalid_argument})
      .has_value();
}

/// There may be as many workers as a job has.
constexpr std::size_t for_workers = std::size_t{128} << 20;

constexpr Decoder all[] = {{read_table},
                           {read_image, for_workers},
                           {read_stock, for_workers},
                           {read_journal},
                           {read_prepared, for_workers}};

const std::vector<std::byte> elements(8, std::byte{1});
const Optimizer adam{"adam", {{"beta1", 0.5}}, {{"w", {.learning_rate = 2, .wd = 0}}}};

Contribution contribution(std::uint64_t sequence, const PieceName& piece, Kind kind,
                          bool brings = true) {
  return {.sequence = sequence,
          .piece = piece,
          .kind = kind,
          .shape = {std::int64_t{2} * piece.pieces},
          .data = brings ? Bytes(elements) : Bytes()};
}

/// A value with a state, requests that wait, and answers on their way.
void fill(Image& image, const PieceName& piece) {
  *image.send = [&image](int worker, const Answer& answer) {
    image.deliveries[static_cast<std::size_t>(worker)].send(encode(answer), {},
                                                            [](Bytes, Bytes) {});
  };
  Table& table = *image.table;
  for (const int worker : {0, 1}) {
    table.receive(worker, contribution(1, piece, Kind::init, worker == 0));
  }
  for (const int worker : {0, 1}) table.receive(worker, SetOptimizer{2, adam});
  for (const int worker : {0, 1}) table.receive(worker, contribution(3, piece, Kind::push));
  table.receive(0, contribution(4, piece, Kind::pushpull));
  table.receive(0, Pull{5, piece, DType::f32, {2}, {}});
  table.receive(0, SetCompression{6, {Encoding::two_bits, 0.5F}});
}

net::Bytes bytes_of(const Image& image) {
  std::vector<const Delivery*> deliveries;
  for (const Delivery& delivery : image.deliveries) deliveries.push_back(&delivery);
  return image_bytes(image.head, *image.table, deliveries);
}

/// The files of a state, with a request and a loss in the journal.
net::Bytes files_of(const Image& image) {
  net::Bytes files;
  add_part(files, bytes_of(image));
  const net::Bytes pull = encode(ToServer(PullOptimizer{4}));
  const net::Bytes lost = message_of({Role::worker, 1, "it was killed"});
  for (const JournalRecord& event :
       {JournalRecord{.worker = 1, .message = pull},
        JournalRecord{.worker = 1, .is_loss = true, .message = lost}}) {
    net::Bytes record = event.head();
    net::append(record, event.message);
    add_part(files, record);
  }
  return files;
}

/// The states of two servers, with a value in two pieces.
net::Bytes two_servers() {
  net::Bytes files;
  for (const std::uint32_t rank : {0U, 1U}) {
    StateHead mine = head;
    mine.rank = static_cast<int>(rank);
    mine.servers = 2;
    Image image(mine);
    fill(image, {"w", rank, 2});
    add_part(files, bytes_of(image));
  }
  return files;
}

net::Bytes journal_bytes() {
  const Folder folder;
  Journal journal(*state_folder(folder.path()), "journal", head.job);
  for (const char* text : {"one", "", "another"}) journal.append(net::as_bytes(text), {});
  journal.sync();
  std::ifstream file(folder.path() + "/journal", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const Bytes bytes = net::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::span<const Decoder> decoders() {
  static const bool is_ready = base::set_log_level("off");
  static_cast<void>(is_ready);
  return all;
}

std::vector<Seed> seeds() {
  Image image(head);
  const net::Bytes empty = saved(*image.table);
  fill(image, {"w", 0, 1});
  return {{0, empty},         {0, saved(*image.table)}, {1, files_of(image)},
          {2, two_servers()}, {3, journal_bytes()},     {4, bytes_of(image)}};
}

}  // namespace tutti::fuzz
