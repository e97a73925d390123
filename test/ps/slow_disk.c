/* For LD_PRELOAD: a disk that takes SECONDS for each checkpoint. */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LARGE_BYTES = 1 << 16, SECONDS = 11, NAME_BYTES = 16 };

/* Journals are written by the server itself. */
static int is_writer(void) {
  char name[NAME_BYTES] = "";
  return prctl(PR_GET_NAME, name) == 0 && strcmp(name, "tutti-state") == 0;
}

int fdatasync(int file) {
  struct stat status;
  if (is_writer() && fstat(file, &status) == 0 && status.st_size >= LARGE_BYTES) {
    struct timespec left = {SECONDS, 0};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
  }
  return (int)syscall(SYS_fdatasync, file);
}
