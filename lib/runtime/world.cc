#include "runtime/world.h"

#include "mpi/library.h"

namespace tutti::runtime {
namespace {

World mpi_world(const Options& options) {
  const auto patience = options.create_timeout;
  mpi::start({.interface = options.interface});
  mpi::check_world_size();
  World world;
  world.data = std::make_unique<mpi::Communicator>(mpi::Communicator::world(patience));
  world.gate = std::make_unique<mpi::Communicator>(mpi::Communicator::world(patience));
  world.rank = world.data->rank();
  world.size = world.data->size();
  // Every store makes two communicators.
  world.creation_number = world.data->creation_number() / 2;
  world.all_gather = [comm = world.data.get(), patience](const std::string& mine,
                                                         const std::string& waiting_for) {
    return comm->all_gather(mine, patience, waiting_for);
  };
  return world;
}

}  // namespace

void with_mpi_world(const Options& options, const std::function<void(World)>& create) {
  mpi::in_turn(options.create_timeout, [&] { create(mpi_world(options)); });
}

}  // namespace tutti::runtime
