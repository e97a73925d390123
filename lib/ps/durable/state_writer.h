#pragma once
#include <sys/types.h>

#include <functional>
#include <string>

#include "base/fd.h"
#include "base/posix_disk.h"
#include "net/bytes.h"

namespace tutti::ps {

/// Writes a server's state into a file while the server goes on. It writes one state at a time.
class StateWriter {
 public:
  using State = std::function<net::Bytes()>;

  virtual ~StateWriter() = default;
  /// Begins to write the state as it is now. Returns false if it cannot write beside the server
  /// now.
  virtual bool start(const std::string& name, const State& state) = 0;
  /// A descriptor that is readable when the writer has ended.
  virtual base::Fd end() const = 0;
  /// Whether the writer has ended. If it has failed, it has logged that.
  virtual bool has_ended() = 0;
  /// Ends the writer, if it runs. Nobody wants its file any more.
  virtual void stop() = 0;
};

/// Writes in a child process, which sees the state as it was when the child began.
class ForkedWriter : public StateWriter {
 public:
  explicit ForkedWriter(base::PosixDisk& disk) : disk_(disk) {}
  ~ForkedWriter() override { ForkedWriter::stop(); }

  bool start(const std::string& name, const State& state) override;
  base::Fd end() const override;
  bool has_ended() override;
  void stop() override;

 private:
  base::PosixDisk& disk_;
  std::string name_;  ///< the name of the file that is written
  pid_t child_ = 0;
};

/// Writes the state, and then returns. Throws `internal` if the system refuses.
void write_state(base::Disk& disk, const std::string& name, const StateWriter::State& state);

}  // namespace tutti::ps
