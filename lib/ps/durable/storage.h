#pragma once
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "ps/durable/journal.h"
#include "ps/durable/state_files.h"
#include "ps/durable/state_folder.h"
#include "ps/durable/state_writer.h"
#include "tutti/server.h"

namespace tutti::ps {

/// Keeps one server's state in a folder, which no other process uses meanwhile. The state consists
/// of checkpoints, which are written in the background, and of a journal of the messages that have
/// come since. A file gets its name once its whole content is on disk. A file is removed only when
/// the name of its replacement is on disk, too. So the machine may go down at any moment.
class Storage {
 public:
  using State = StateWriter::State;

  /// Throws `invalid_argument` if there is a journal without its checkpoint, and the errors that
  /// `state_place` throws.
  Storage(const Durability& durability, int rank, int servers);
  Storage(const Durability& durability, int rank, int servers, StatePlace place);
  ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const StateFiles& files() const { return files_; }
  /// Whether the messages that the server acknowledges survive its process.
  bool is_durable() const { return durability_.when != Durability::When::off; }

  /// If an interrupted beginning has left a prepared state, that state takes the place of the older
  /// one, or it is removed. Blocks.
  void settle(bool takes_prepared);
  /// Lets the writer write this state beside the old state, which still counts. Returns a
  /// descriptor that is readable when the writer has ended.
  base::Fd prepare(const State& state);
  /// Whether the prepared state is written. Throws `internal` if it could not be written.
  bool has_prepared();
  /// Puts the prepared state in the place of the old state. Later messages belong to this job. Call
  /// this before `append`. Blocks.
  void begin(std::uint64_t job);
  /// Lets the writer write this state, which is the last. Once it is on disk, it takes the place of
  /// the old state. Returns a descriptor, as `prepare` does.
  base::Fd replace(const State& state);
  /// Whether the last state has replaced the old one. Throws `internal` if it could not be written.
  bool has_replaced();
  /// Whether the last checkpoint lacks something, or is still being written.
  bool has_changed() const { return has_changed_ || is_writing_; }
  void append(net::ConstBytes head, net::ConstBytes body);
  /// Makes the appended messages as safe as `Durability::when` says. Call this before any process
  /// learns of them.
  void commit();
  /// Writes all appended messages to the disk, if there is a journal. Blocks.
  void sync();
  /// Whether the journal has failed. Then the last appended messages are not kept, and nothing more
  /// can be appended.
  bool has_failed() const { return journal_ && journal_->has_failed(); }
  /// Begins a checkpoint in the background if one is due, and checks whether the last one was
  /// written.
  void look(const State& state);
  /// The time at which `commit` and `look` are due even if no message comes.
  std::optional<base::Clock::time_point> due() const;

 private:
  base::Fd written(const std::string& name, const State& state);
  base::Fd written_here(const State& state) const;
  void take_prepared();
  void start_journal();
  bool wants_checkpoint() const;
  void start_checkpoint(const State& state);
  void put_off_checkpoint();
  bool writer_has_ended();
  bool is_written() const;
  void check_written() const;
  void reap();
  void take_for_state(const std::string& name);
  void clean_up();

  const Durability durability_;
  const StatePlace place_;
  StateFiles files_;  ///< looked for when no other process makes any
  std::uint64_t generation_ = 0;
  std::uint64_t job_ = 0;
  std::optional<Journal> journal_;
  /// Whether the state has changed since the last checkpoint was begun.
  bool has_changed_ = false;
  /// The bytes in journals since the last checkpoint, without the current journal.
  std::uint64_t journal_bytes_ = 0;
  std::uint64_t checkpoint_bytes_ = 0;
  /// The time of the next sync. Without a journal, the time of the next checkpoint.
  std::optional<base::Clock::time_point> due_;
  bool is_writing_ = false;  ///< whether a checkpoint is written in the background
  std::string writing_;      ///< the file that is written, or was last
};

}  // namespace tutti::ps
