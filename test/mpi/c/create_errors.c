/* What can go wrong while a store is made: every rank is told, and the next store works. The
 * sentences of test/mpi/create_errors_test.cc. */
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fixture.h"

static void next_store_works(void) {
  tutti_store* store = make_store();
  check_alive(store);
  tutti_store_destroy(store);
}

static void refused(const char* const* settings, int code, const char* words, const char* others) {
  tutti_store* store = NULL;
  CHECK(create_with(settings, &store) == code);
  CHECK(store == NULL);
  CHECK_SAYS(words);
  CHECK_SAYS(others);
}

/* With this variable set. */
static void refused_where(const char* variable, const char* value, int code, const char* words,
                          const char* others) {
  const char* now = getenv(variable);
  char* before = now == NULL ? NULL : strdup(now);
  setenv(variable, value, 1);
  refused(SETTINGS(NULL), code, words, others);
  if (before == NULL) unsetenv(variable);
  if (before != NULL) setenv(variable, before, 1);
  free(before);
}

static void unknown_types(void) {
  tutti_store* store = NULL;
  CHECK(tutti_store_create("dist_sink_mpi", NULL, &store) == TUTTI_INVALID_ARGUMENT);
  CHECK(store == NULL);
  CHECK_SAYS("'dist_sink_mpi'");
  CHECK_SAYS("did you mean 'dist_sync_mpi'");
  next_store_works();
}

static void misspelt_variables(void) {
  refused_where("TUTTI_FUSION_BITES", "1000", TUTTI_INVALID_ARGUMENT, "TUTTI_FUSION_BITES",
                "did you mean 'TUTTI_FUSION_BYTES'");
  refused_where("TUTTI_FUSION_BYTES", "many", TUTTI_INVALID_ARGUMENT, "TUTTI_FUSION_BYTES='many'",
                "64K");
  refused_where("DMLC_INTERFACE", "nowhere0", TUTTI_INVALID_ARGUMENT, "'nowhere0'", "lo");
  next_store_works();
}

static void options_differ(void) {
  if (job_size() == 1) return;
  const int last = job_size() - 1;
  const char* set = getenv("TUTTI_REPLAY");
  const char* replay = set != NULL && strcmp(set, "0") == 0 ? "1" : "0";
  const char* const cases[][4] = {
      {"fusion_bytes", "1000", "TUTTI_FUSION_BYTES", "1000"},
      {"part_bytes", "2000", "TUTTI_PART_BYTES", "2000"},
      {"slice_bytes", "65536", "TUTTI_SLICE_BYTES", "65536"},
      {"reproducible", "0", "TUTTI_REPRODUCIBLE", "0"},
      {"replay", replay, "TUTTI_REPLAY", ""},
      {"key_timeout", "7", "TUTTI_TIMEOUT_SECONDS", "7000 ms"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    char theirs[64], others[32];
    snprintf(theirs, sizeof theirs, "%s on rank %d", cases[i][3], last);
    snprintf(others, sizeof others, last == 1 ? "on rank %d" : "on ranks 0-%d", last - 1);
    const int odd = job_rank() == last;
    refused(odd ? SETTINGS(cases[i][0], cases[i][1]) : SETTINGS(NULL), TUTTI_MISMATCH, cases[i][2],
            theirs);
    CHECK_SAYS(others);
  }
  next_store_works();
}

static void* create_first(void* store) {
  *(tutti_store**)store = make_store();
  return NULL;
}

static void impatient_threads(void) {
  if (job_size() == 1) return;
  if (job_rank() != 0) {
    nap(600); /* the first thread's store waits for this one */
    next_store_works();
    return;
  }
  tutti_store* first = NULL;
  pthread_t other;
  pthread_create(&other, NULL, create_first, &first);
  nap(200);
  refused(SETTINGS("create_timeout", "0.05"), TUTTI_TIMEOUT,
          "waited 0.05 s (create_timeout, TUTTI_CREATE_SECONDS) for another thread", "");
  pthread_join(other, NULL);
  check_alive(first);
  tutti_store_destroy(first);
}

static void other_world_sizes(void) {
  char size[16], seen[48], said[48];
  snprintf(size, sizeof size, "%d", job_size() + 3);
  snprintf(seen, sizeof seen, "MPI sees %d process", job_size());
  snprintf(said, sizeof said, "OMPI_COMM_WORLD_SIZE=%s", size);
  refused_where("OMPI_COMM_WORLD_SIZE", size, TUTTI_MISMATCH, seen, said);
  CHECK_SAYS("mpirun");
  next_store_works();
}

/* The value that this one takes the place of, to be given back and freed. */
static char* replaced(const char* name, const char* value) {
  const char* const set = getenv(name);
  char* own = strdup(set == NULL ? "" : set);
  setenv(name, value, 1);
  return own;
}

static void give_back(const char* name, char* own) {
  setenv(name, own, 1);
  free(own);
}

static void worlds_of_one(void) {
  static const char* const variables[][2] = {{"PMI_SIZE", "PMI_RANK"},
                                             {"SLURM_NTASKS", "PMIX_RANK"},
                                             {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                                             {"WORLD_SIZE", "RANK"},
                                             {"WORLD_SIZE", "OTHER"}};
  if (job_size() > 1) return;
  char* size = replaced("OMPI_COMM_WORLD_SIZE", "");
  char* rank = replaced("PMIX_RANK", "");
  for (int i = 0; i < 5; ++i) {
    char said[32], cure[32];
    snprintf(said, sizeof said, "%s=4", variables[i][0]);
    snprintf(cure, sizeof cure, "unset %s", variables[i][0]);
    char* place = replaced(variables[i][1], "0");
    refused_where(variables[i][0], "4", TUTTI_MISMATCH, "MPI sees 1 process", said);
    give_back(variables[i][1], place);
    CHECK_SAYS("started 4");
    CHECK_SAYS("type instead: mpirun -n 4 PROGRAM");
    CHECK_SAYS(cure);
  }
  give_back("PMIX_RANK", rank);
  give_back("OMPI_COMM_WORLD_SIZE", size);
  next_store_works();
}

static void sizes_of_batch_systems(void) {
  static const char* const variables[] = {"PMI_SIZE", "SLURM_NTASKS"};
  if (job_size() > 1) return;
  char* size = replaced("OMPI_COMM_WORLD_SIZE", "");
  char* rank = replaced("PMIX_RANK", "");
  char* task = replaced("SLURM_PROCID", "0"); /* a batch script has one, and no step */
  for (int i = 0; i < 2; ++i) {
    char* others = replaced(variables[i], "4");
    next_store_works();
    give_back(variables[i], others);
  }
  give_back("SLURM_PROCID", task);
  give_back("PMIX_RANK", rank);
  give_back("OMPI_COMM_WORLD_SIZE", size);
}

/* This process may take no more than `more` bytes of addresses beyond those it has. */
static void narrow_addresses(const struct rlimit* before, size_t more) {
  unsigned long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  CHECK(fscanf(file, "%lu", &pages) == 1);
  fclose(file);
  struct rlimit narrow = *before;
  narrow.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
  CHECK(setrlimit(RLIMIT_AS, &narrow) == 0);
}

static void no_room(void) {
  const int poor = job_size() - 1;
  struct rlimit before;
  CHECK(getrlimit(RLIMIT_AS, &before) == 0);
  if (job_rank() == poor) narrow_addresses(&before, (size_t)256 << 20);
  char words[32];
  snprintf(words, sizeof words, "rank %d could not", poor);
  refused(SETTINGS(NULL), TUTTI_INTERNAL, words, "shared memory");
  CHECK_SAYS("bytes");
  CHECK_SAYS("ulimit -v");
  CHECK(setrlimit(RLIMIT_AS, &before) == 0);
}

static void too_much_memory(tutti_store* store, int64_t bytes, const char* words) {
  tutti_tensor* tensor = NULL;
  char said[32];
  snprintf(said, sizeof said, "%lld", (long long)bytes);
  CHECK(tutti_store_allocate(store, &bytes, 1, TUTTI_U8, &tensor) == TUTTI_INTERNAL);
  CHECK(tensor == NULL);
  CHECK_SAYS(said);
  CHECK_SAYS(words);
}

static void more_than_there_is(void) {
  tutti_store* store = make_store();
  const int64_t machine = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  char all[32];
  snprintf(all, sizeof all, "%lld", (long long)machine);
  too_much_memory(store, 2 * machine, all);
  too_much_memory(store, machine - 8192, "left");
  CHECK_SAYS("fewer ranks");
  array small = allocate_array(store, 1000, TUTTI_F32);
  fill(&small, 1);
  CHECK_OK(pushpull(store, named("small"), small.tensor));
  CHECK(unlike(&small, tutti_store_num_workers(store)) == 0);
  drop(&small);
  check_alive(store);
  tutti_store_destroy(store);
}

static void timelines_on_devices(void) {
  refused(SETTINGS("timeline", "/dev/full"), TUTTI_INVALID_ARGUMENT,
          "rank 0 cannot write its timeline to /dev/full: it is no regular file", "");
  CHECK(access("/dev/full.0.part", F_OK) != 0);
  CHECK(access("/dev/full.1.part", F_OK) != 0);
  next_store_works();
}

TESTS(create_error_tests,
      {"an unknown type string is refused with the nearest known one", unknown_types},
      {"a misspelt variable or value is refused with what was meant", misspelt_variables},
      {"options that differ between ranks fail create on every rank, with ranks and values",
       options_differ},
      {"who waits too long for another thread to create its store is told what it waits for",
       impatient_threads},
      {"a world of another size than the launcher says is an error, never a world of one",
       other_world_sizes},
      {"a world of one that another MPI's launcher started as many is an error", worlds_of_one},
      {"a batch system's size without its launcher's rank leaves one process alone",
       sizes_of_batch_systems},
      {"a rank without room for the shared memory fails create on every rank", no_room},
      {"a store is made where one could not be made for want of memory", next_store_works},
      {"asking for more shared memory than there is says how much there is", more_than_there_is},
      {"a timeline that would be a device is refused on every rank, and leaves nothing there",
       timelines_on_devices});
