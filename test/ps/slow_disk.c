/* For LD_PRELOAD: a disk that takes SECONDS for each large file. */
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LARGE_BYTES = 1 << 16, SECONDS = 11 };

int fsync(int file) {
  struct stat status;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= LARGE_BYTES) {
    struct timespec left = {SECONDS, 0};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
  }
  return (int)syscall(SYS_fsync, file);
}
