#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "training/settings.h"
#include "training/trainer.h"

namespace training {

/// The results of a run that are kept.
struct History {
  std::vector<EpochResult> epochs{};
  int workers = 1;
  std::size_t nodes = 1;
  std::size_t parameters = 0;
  std::size_t steps = 0;
  std::size_t gradient_bytes = 0;
  std::string weights_sha256{};
};

/// Throws `invalid_argument` unless a file can be created there. It is called before hours of
/// training. Leaves no file behind.
void check_writable(const std::filesystem::path& file);
/// Throws `internal` if the file cannot be written.
void write_json(const std::filesystem::path& file, const Settings& settings,
                const History& history);
/// Runs plot_curves.py on a file of `write_json`. Throws `internal`, which says what failed.
void draw(const std::filesystem::path& json, const std::filesystem::path& image);

}  // namespace training
