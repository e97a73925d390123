// A server's process: one store after another.
#include "ps/server/server_process.h"

#include <exception>
#include <memory>

#include "base/heap.h"
#include "ps/server/server.h"

namespace tutti::ps {
namespace {

/// Null if all workers have ended and none waits for this server.
std::unique_ptr<Server> joined(const Job& job, const Options& options, const Durability& durability,
                               ServerPost& post) {
  try {
    return std::make_unique<Server>(job, options, durability, post);
  } catch (const Error& error) {
    if (post.is_over()) return nullptr;
    post.leave(error.what());
    throw;
  }
}

/// Serves one store, and waits until workers create another. Returns false if all of them have
/// ended.
bool serve(const Job& job, const Options& options, const Durability& durability, ServerPost& post) {
  auto server = joined(job, options, durability, post);
  if (!server) return false;
  try {
    server->run();
  } catch (const Error& error) {
    server->end(error.what());
    throw;
  } catch (const std::exception& error) {
    // Such an error, for example too little memory, may come in the middle of any change. The state
    // is then not complete, so the server does not write it.
    server->leave(error.what());
    throw;
  }
  try {
    // A large state takes time to write and to read again.
    post.link().beat_apart();
    server->end(std::nullopt);
    const std::size_t keys = server->keys();
    server.reset();
    base::return_memory_of(keys);
    return post.waits_for_another();
  } catch (const std::exception& error) {
    post.leave(error.what());
    throw;
  }
}

}  // namespace

void run_server(const Job& job, const Options& options, const Durability& durability) {
  ServerPost post(job, options);
  while (serve(job, options, durability, post)) continue;
}

}  // namespace tutti::ps
