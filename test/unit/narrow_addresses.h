#pragma once
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace tutti {

/// This process may take no more than `more` bytes of addresses beyond those it has.
class NarrowAddresses {
 public:
  explicit NarrowAddresses(std::size_t more) {
    ::getrlimit(RLIMIT_AS, &before_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit narrow = before_;
    narrow.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + more;
    ::setrlimit(RLIMIT_AS, &narrow);
  }
  ~NarrowAddresses() { ::setrlimit(RLIMIT_AS, &before_); }
  NarrowAddresses(const NarrowAddresses&) = delete;
  NarrowAddresses& operator=(const NarrowAddresses&) = delete;

 private:
  rlimit before_{};
};

}  // namespace tutti
