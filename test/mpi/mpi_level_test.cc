// A program that starts MPI itself, below what several nodes need.
//
//   mpi_level_test refused|fine
//
// Each rank prints what create said. `refused`: exits with 0 when every rank was told the level and
// the fix. `fine`: when the store worked, and told that MPI was finalised under it.
#include <mpi.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "tutti/tutti.h"

namespace {

using namespace tutti;

bool names(const Error& error, std::initializer_list<std::string_view> words) {
  const std::string_view text = error.what();
  for (const std::string_view word : words) {
    if (text.find(word) == text.npos) return false;
  }
  return true;
}

Pending sum(KVStore& store, float& value) {
  const Tensor tensor(&value, {}, DType::f32);
  return store.pushpull("w", tensor, tensor);
}

bool refused(int rank) {
  try {
    KVStore::create("dist_sync_mpi");
  } catch (const Error& error) {
    std::printf("rank %d: %s\n", rank, error.what());
    return error.code() == ErrorCode::invalid_argument &&
           names(error, {"'single'", "2 nodes", "MPI_THREAD_MULTIPLE", "USER_MAKES_NO_MPI_CALLS"});
  }
  return false;
}

bool fine(int ranks) {
  const auto store = KVStore::create("dist_sync_mpi");
  float value = 1;
  sum(*store, value).wait();
  store->barrier();
  MPI_Finalize();
  try {
    sum(*store, value).wait();
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return value == static_cast<float>(ranks) && error.code() == ErrorCode::aborted &&
           names(error, {"finalised MPI"});
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 0;
  int rank = 0;
  MPI_Init(nullptr, nullptr);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool refuse = argc == 2 && std::string_view(argv[1]) == "refused";
  const bool right = refuse ? refused(rank) : fine(ranks);
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised == 0) MPI_Finalize();
  return right ? 0 : 1;
}
