#pragma once
#include <mpi.h>

#include <concepts>
#include <string>

#include "tutti/error.h"

namespace tutti::mpi {

/// Checks the result of an MPI call: `checked(MPI_Isend(...), "MPI_Isend to rank 3")`. Throws
/// `internal` with the call, this rank and MPI's text for the error. `call` is a literal, or a
/// function that makes the text only if it is needed.
template <std::invocable Call>
void checked(int result, const Call& call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  throw Error(ErrorCode::internal,
              call() + " failed at rank " + std::to_string(rank) + ": " + std::string(text));
}

inline void checked(int result, const char* call) {
  checked(result, [&] { return std::string(call); });
}

}  // namespace tutti::mpi
