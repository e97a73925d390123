#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace training {

/// The settings of a run of the training program.
struct Settings {
  std::string network = "lenet";
  std::string kv_store = "device";
  int epochs = 20;
  int batch_size = 16;  ///< of each worker
  double lr = 0.05;     ///< set by `parse`: `usual_rate` of the store, unless chosen
  double momentum = 0.9;
  std::string dataset = "digits";  ///< set by `parse`: the network's usual one, unless chosen
  std::filesystem::path data_dir;
  std::vector<int> work_loads = {1};  ///< one a device
  std::optional<int> gpu;             ///< where weights and gradients lie; none: on the CPU
  bool benchmark = false;
  std::uint64_t seed = 1;      ///< up to 2^53
  std::filesystem::path plot;  ///< a .png; empty: none
  std::filesystem::path json;  ///< empty: none
};

/// The learning rate at which training with this type of store and the other defaults is stable. An
/// asynchronous store applies gradients of weights that other workers have changed since, and
/// learns nothing at the usual rate.
double usual_rate(std::string_view kv_store);

/// Reads the command line. Returns nothing if nothing is left to do (--help). Throws `unsupported`,
/// and `invalid_argument`, which suggests the most similar name for a misspelt option.
std::optional<Settings> parse(int argc, const char* const* argv);

}  // namespace training
