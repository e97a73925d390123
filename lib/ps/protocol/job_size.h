#pragma once

namespace tutti::ps {

/// How many processes a job has beside the scheduler.
struct JobSize {
  int workers = 1;
  int servers = 1;
};

}  // namespace tutti::ps
