#pragma once
#include <cstddef>

#include "nn/extent.h"
#include "training/settings.h"
#include "tutti/kvstore.h"

namespace training {

/// The bytes of memory that each process of this node may use.
std::size_t memory_share(const tutti::KVStore& store);

/// Throws `invalid_argument` if a batch of `--batch-size` does not fit into `share` bytes, and says
/// which size would. Otherwise the system would refuse memory, or kill a process, much later.
/// `images` is the number that a worker holds for each sample of its batch.
void check_memory(const Settings& settings, const nn::Extent& image, std::size_t images,
                  std::size_t share);

}  // namespace training
