#pragma once
#include <sys/resource.h>

#include <csignal>
#include <cstddef>

namespace tutti {

/// While it lives, no file grows beyond this, as on a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(std::size_t bytes = 0) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*const handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before_{};
};

}  // namespace tutti
