#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/disk.h"
#include "base/fd.h"
#include "ps/durable/state_writer.h"

namespace tutti::ps {

/// The disk and the clock with which a server keeps its state. Tests pass others.
struct StatePlace {
  base::Fd lock;  ///< while it is open no other process uses this server's files
  std::shared_ptr<base::Disk> disk;
  std::unique_ptr<StateWriter> writer;
  std::function<base::Clock::time_point()> now = base::Clock::now;
};

/// Returns a folder for one server's state, and makes it if it does not exist. Throws
/// `invalid_argument` if:
/// - it cannot be used;
/// - another user may change it;
/// - another process uses this server's files there;
/// - it has the state of another number of servers.
StatePlace state_place(const std::string& folder, int rank, int servers);

/// Returns a folder from which states are read. Throws `invalid_argument` if it cannot be read, or
/// if another user may change it.
std::shared_ptr<base::Disk> state_folder(const std::string& folder);

}  // namespace tutti::ps
