#include "ps/server/image.h"

#include <fmt/format.h>

#include <utility>

#include "base/failure.h"
#include "ps/durable/archive.h"
#include "ps/link/scheduler_link.h"
#include "ps/protocol/wire.h"
#include "tutti/version.h"

namespace tutti::ps {
namespace {

constexpr std::size_t event_head_bytes = 16;
constexpr std::uint32_t loss_mark = 1;
constexpr std::uint64_t most_members = std::uint64_t{1} << 16;
/// The number of this format. Another version of tutti may have another format.
constexpr std::uint64_t format = 4;

void put(ArchiveWriter& to, const StateHead& head) {
  to.put(format);
  to.put(std::string(version()));
  to.put(head.job);
  to.put(static_cast<std::uint64_t>(head.rank));
  to.put(static_cast<std::uint64_t>(head.servers));
  to.put(static_cast<std::uint64_t>(head.workers));
  to.put(std::uint64_t{head.asynchronous});
  to.put(static_cast<std::uint64_t>(std::int64_t{head.staleness}));
}

StateHead head_in(ArchiveReader& from) {
  const std::uint64_t number = from.number();
  const std::string written_by = from.text();
  if (number != format) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("tutti {} wrote this state, and this tutti {} cannot read it; go on with the "
                    "version that wrote it",
                    written_by, version()));
  }
  StateHead head;
  head.job = from.number();
  head.rank = static_cast<int>(from.number(most_members));
  head.servers = static_cast<int>(from.number(most_members));
  head.workers = static_cast<int>(from.number(most_members));
  head.asynchronous = from.number(1) == 1;
  head.staleness = static_cast<int>(static_cast<std::int64_t>(from.number()));
  return head;
}

/// Somebody may have renamed the files.
void check_owner(const StateHead& head, const StateFiles& files) {
  if (head.rank == files.rank() && head.servers == files.servers()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the file has the state of server {} of {}, but its name says server "
                          "{} of {}; give the file its own name again",
                          head.rank, head.servers, files.rank(), files.servers()));
}

void put(ArchiveWriter& to, const Delivery::Snapshot& saved) {
  to.put(saved.sent);
  to.put(saved.received);
  to.put(std::uint64_t{saved.kept.size()});
  for (const net::Bytes& message : saved.kept) to.put(message);
}

Delivery::Snapshot saved_in(ArchiveReader& from) {
  Delivery::Snapshot saved{from.number(), from.number(), {}};
  for (std::uint64_t left = from.number(saved.sent); left > 0; --left) {
    saved.kept.push_back(from.copy());
  }
  return saved;
}

/// Answers go nowhere, because no worker is connected.
void transmit_nothing(net::ConstBytes, net::ConstBytes) {}

}  // namespace

net::Bytes JournalRecord::head() const {
  net::Bytes head;
  net::append_u32(head, static_cast<std::uint32_t>(worker));
  net::append_u32(head, is_loss ? loss_mark : 0);
  net::append_u64(head, acknowledged);
  return head;
}

JournalRecord JournalRecord::in(net::ConstBytes record) {
  if (record.size() < event_head_bytes) {
    throw Error(ErrorCode::invalid_argument, "a journal has a record that no server writes");
  }
  const std::byte* const at = record.data();
  return {.worker = static_cast<int>(net::load_u32(at)),
          .is_loss = net::load_u32(at + 4) == loss_mark,
          .acknowledged = net::load_u64(at + 8),
          .message = record.subspan(event_head_bytes)};
}

bool survives(const Error& error) {
  return error.code() != ErrorCode::mismatch;
}

net::Bytes message_of(const Lost& lost) {
  return encode(FromScheduler(lost));
}

Image::Image(const StateHead& whose)
    : head(whose),
      send(std::make_shared<Send>()),
      table(std::make_unique<Table>(
          Rules{.workers = whose.workers,
                .asynchronous = whose.asynchronous,
                .staleness = whose.staleness,
                .send = [by = send](int worker, const Answer& answer) { (*by)(worker, answer); }})),
      deliveries(static_cast<std::size_t>(whose.workers), Delivery({.keeps = true})) {}

Image Image::loaded(const net::Bytes& bytes, const StateFiles& files) {
  ArchiveReader from(bytes);
  Image image(head_in(from));
  check_owner(image.head, files);
  image.load(from);
  return image;
}

Image Image::read(const StateFiles& files) {
  const std::string path = files.disk().path(files.checkpoint(files.generation()));
  try {
    Image image = loaded(files.read_checkpoint(), files);
    std::vector<Delivery>& deliveries = image.deliveries;
    *image.send = [&deliveries](int worker, const Answer& answer) {
      deliveries.at(static_cast<std::size_t>(worker)).send(encode(answer), {}, transmit_nothing);
    };
    files.replay(image.head.job,
                 [&image](net::ConstBytes record) { image.execute(JournalRecord::in(record)); });
    *image.send = nullptr;
    return image;
  } catch (const Error& error) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the state in {} and its journals cannot be used: {}", path, error.what()));
  }
}

Image Image::read_prepared(const StateFiles& files) {
  try {
    return loaded(files.read_prepared(), files);
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the state in {} cannot be used: {}",
                            files.disk().path(files.prepared()), error.what()));
  }
}

std::optional<Moment> Image::moment() const {
  if (head.asynchronous) return std::nullopt;
  return Moment{head.rank, table->rounds(), table->is_finished()};
}

void Image::load(ArchiveReader& from) {
  table->load(from);
  for (Delivery& delivery : deliveries) delivery.restore(saved_in(from));
  from.finish();
}

void Image::execute(const JournalRecord& event) {
  if (event.worker < 0 || event.worker >= head.workers) {
    throw Error(ErrorCode::invalid_argument, "a journal has a record of no worker");
  }
  Delivery& delivery = deliveries.at(static_cast<std::size_t>(event.worker));
  if (event.is_loss) {
    const FromScheduler message = decode_from_scheduler(event.message);
    const auto* const lost = std::get_if<Lost>(&message);
    if (lost == nullptr) {
      throw Error(ErrorCode::invalid_argument, "a journal has a loss that is none");
    }
    table->lose(event.worker, failure_of(*lost));
    return;
  }
  delivery.replay(event.acknowledged);
  try {
    table->receive(event.worker, decode_to_server(event.message));
  } catch (const Error& error) {
    if (!survives(error)) throw;
  }
}

net::Bytes image_bytes(const StateHead& head, const Table& table,
                       const std::vector<const Delivery*>& deliveries) {
  ArchiveWriter to;
  put(to, head);
  table.save(to);
  for (const Delivery* delivery : deliveries) put(to, delivery->save());
  return to.take();
}

}  // namespace tutti::ps
