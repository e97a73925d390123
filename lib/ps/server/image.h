#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ps/durable/state_files.h"
#include "ps/link/delivery.h"
#include "ps/server/table.h"
#include "tutti/error.h"

/// A server's state in the form in which its files have it.
namespace tutti::ps {

/// Says to which job and server a state belongs.
struct StateHead {
  std::uint64_t job = 0;
  int rank = 0;
  int servers = 1;
  int workers = 1;
  bool asynchronous = false;
  int staleness = unbounded;
};

/// A record of a journal: a worker's message, or the loss of a worker.
struct JournalRecord {
  int worker = 0;
  bool is_loss = false;
  std::uint64_t acknowledged =
      0;  ///< the number up to which the worker had acknowledged the server's messages
  net::ConstBytes message{};  ///< a request, or `Lost`

  /// The bytes before the message.
  net::Bytes head() const;
  static JournalRecord in(net::ConstBytes record);
};

/// Whether a server goes on after it has refused a request with this error. It must do the same if
/// it is started again and refuses the request once more. If it cannot go on, the worker knows
/// something that the server does not know, and the server ends.
bool survives(const Error& error);

/// The message of an event in which the worker is lost.
net::Bytes message_of(const Lost& lost);

struct Image {
  using Send = std::function<void(int worker, const Answer&)>;

  StateHead head;
  std::shared_ptr<Send> send;  ///< the function by which the table sends
  std::unique_ptr<Table> table;
  std::vector<Delivery> deliveries;  ///< by worker

  explicit Image(const StateHead& whose);
  /// Reads the checkpoint, and executes the messages that the journals have since. Throws
  /// `invalid_argument` if the files were changed, or if no server wrote them.
  static Image read(const StateFiles& files);
  /// Reads the prepared state that an interrupted beginning has left. Throws the same errors as
  /// `read`.
  static Image read_prepared(const StateFiles& files);
  /// The moment of the state. Only for a synchronous job, whose servers go through the same rounds.
  std::optional<Moment> moment() const;

 private:
  static Image loaded(const net::Bytes& bytes, const StateFiles& files);
  void load(ArchiveReader& from);
  void execute(const JournalRecord& event);
};

/// The bytes of a state in the form of a checkpoint.
net::Bytes image_bytes(const StateHead& head, const Table& table,
                       const std::vector<const Delivery*>& deliveries);

}  // namespace tutti::ps
