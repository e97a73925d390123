#pragma once
#include <cstddef>

#include "nn/extent.h"
#include "training/settings.h"
#include "tutti/kvstore.h"

namespace training {

/// What each process of this node may have of its memory, in bytes.
std::size_t memory_share(const tutti::KVStore& store);

/// Throws `invalid_argument` that says which batch would fit when one of `--batch-size` does not
/// fit `share` bytes: said before the system has to refuse memory, or to end a process for it.
/// `images` are those that a worker holds for each sample of its batch.
void check_memory(const Settings& settings, const nn::Extent& image, std::size_t images,
                  std::size_t share);

}  // namespace training
