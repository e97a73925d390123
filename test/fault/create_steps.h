#pragma once
#include <functional>

namespace fault {

/// A step of `create`. Its name is that of the call in which the process stands.
enum class CreateStep {
  none,
  duplicate,  ///< MPI_Comm_idup, which the others call too
  compare,    ///< the first MPI_Iallgather, in which ranks compare their options
  connect,    ///< a socket to another rank of the node, or from one
  reserve     ///< posix_fallocate of its part of the node's shared memory
};

/// Once, in place of that call and on its thread, `act` runs; if it returns the call is made.
void at_create_step(CreateStep step, std::function<void()> act);

}  // namespace fault
