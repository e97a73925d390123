#include "ps/durable/state_writer.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <system_error>

#include "base/failure.h"
#include "base/log.h"
#include "base/process_end.h"
#include "base/sealed_file.h"

namespace tutti::ps {
namespace {

/// The launcher recognises by this name that a server writes.
constexpr const char* writer_name = "tutti-state";

/// Closes the child's copies of connections and of the lock, so that these end with the server.
void close_all_but(const base::Fd& kept) {
  constexpr unsigned first = STDERR_FILENO + 1;
  const auto one = static_cast<unsigned>(kept.get());
  if (one > first) ::close_range(first, one - 1, 0);
  ::close_range(std::max(first, one + 1), ~0U, 0);
}

}  // namespace

void write_state(base::Disk& disk, const std::string& name, const StateWriter::State& state) {
  const net::Bytes bytes = state();
  base::write_sealed(disk, name, {net::as_unsigned(bytes.data()), bytes.size()});
}

bool ForkedWriter::start(const std::string& name, const State& state) {
  const pid_t server = ::getpid();
  if (!base::watch_process(server)) return false;
  const pid_t child = ::fork();
  if (child < 0) {
    base::log().error("the server cannot start a process that writes a checkpoint: {}",
                      std::generic_category().message(errno));
  }
  name_ = name;
  child_ = std::max(child, 0);
  if (child != 0) return child > 0;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_all_but(disk_.folder());
  if (::getppid() != server) ::_exit(1);
  ::prctl(PR_SET_NAME, writer_name);
  try {
    write_state(disk_, name, state);
    ::_exit(0);
  } catch (const std::exception& error) {
    base::log().error("the server could not write a checkpoint: {}", error.what());
    ::_exit(1);
  }
}

base::Fd ForkedWriter::end() const {
  base::Fd end = base::watch_process(child_);
  if (!end) throw base::system_failure("watch a process that writes a checkpoint");
  return end;
}

bool ForkedWriter::has_ended() {
  if (child_ != 0 && ::waitpid(child_, nullptr, WNOHANG) == 0) return false;
  child_ = 0;
  return true;
}

void ForkedWriter::stop() {
  if (child_ == 0) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
  disk_.remove(base::unfinished_file(name_, child_));
  child_ = 0;
}

}  // namespace tutti::ps
