#pragma once
#include "ps/link/scheduler_link.h"
#include "ps/local_job.h"
#include "tutti/version.h"

namespace tutti {

/// A worker that joins the job and then does nothing.
class Sleeper {
 public:
  explicit Sleeper(const ps::Job& job, int rank) : link_(job, LocalJob::options(), poller_, 0) {
    link_.join({.role = ps::Role::worker,
                .rank = rank,
                .workers = job.size.workers,
                .servers = job.size.servers,
                .version = version(),
                .asynchronous = false,
                .address = {},
                .port = 0});
  }

 private:
  net::Poller poller_;
  ps::SchedulerLink link_;
};

}  // namespace tutti
