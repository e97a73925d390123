#include "training/memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include "nn/zoo.h"
#include "training/threads.h"
#include "tutti/error.h"

namespace training {
namespace {

double gibibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(std::size_t{1} << 30);
}

}  // namespace

std::size_t memory_share(const tutti::KVStore& store) {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes / static_cast<std::size_t>(processes_of_node(store));
}

void check_memory(const Settings& settings, const nn::Extent& image, std::size_t images,
                  std::size_t share) {
  nn::Network network = nn::make_network(settings.network, image, 10, {});
  std::size_t weights = 0;
  for (const nn::Parameter* parameter : network.parameters()) weights += parameter->value.bytes();
  // Weights, gradients and velocities.
  const std::size_t fixed = 3 * weights * settings.work_loads.size();
  const std::size_t sample =
      network.activation_bytes(1) + images * static_cast<std::size_t>(image.count());
  const std::size_t needed = fixed + sample * static_cast<std::size_t>(settings.batch_size);
  if (needed <= share) return;
  throw tutti::Error(
      tutti::ErrorCode::invalid_argument,
      fmt::format("--batch-size {}: {} would take {:.1f} GiB of memory in each worker, and there "
                  "are {:.1f}; {}",
                  settings.batch_size, settings.network, gibibytes(needed), gibibytes(share),
                  share < fixed + sample
                      ? "not even a batch of 1 fits: use fewer devices or "
                        "workers on this node"
                      : fmt::format("at most {} fit", (share - fixed) / sample)));
}

}  // namespace training
