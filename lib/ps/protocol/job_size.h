#pragma once

namespace tutti::ps {

/// The number of processes of a job, without the scheduler.
struct JobSize {
  int workers = 1;
  int servers = 1;
};

}  // namespace tutti::ps
