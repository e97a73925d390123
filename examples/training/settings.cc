#include "training/settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>

#include "command_line/command_line.h"
#include "dataset/catalogue.h"
#include "nn/zoo.h"
#include "tutti/error.h"

namespace training {
namespace {

using command_line::between;
using command_line::one_of;

constexpr const char* footer =
    "examples:\n"
    "  train --network mlp\n"
    "  mpirun -n 4 train --network lenet --dataset digits --kv-store dist_sync_mpi\n"
    "  scripts/launch.py --launcher local -n 2 train --network lenet --kv-store dist_sync";

std::string wrong_suffix(const std::string& file) {
  return file.ends_with(".png") ? "" : "a PNG is drawn: give it a name that ends in .png";
}

/// Options of the command line that are not stored in Settings as they are.
struct Raw {
  int devices = 0;
  std::optional<double> lr;
  std::optional<std::string> gpus;
};

void add_work(CLI::App& app, Settings& settings) {
  app.add_option("--network,--model", settings.network, "the network to train")
      ->check(one_of(nn::network_names()))
      ->capture_default_str();
  app.add_option("--dataset", settings.dataset,
                 "the data set (default: digits for mlp and lenet, otherwise cifar10)")
      ->check(one_of(dataset::names()));
  app.add_option("--data-dir", settings.data_dir,
                 "the folder of the data set's files; digits and synthetic need none");
  app.add_option("--benchmark", settings.benchmark,
                 "1: train on random data, to measure samples/s");
}

void add_workers(CLI::App& app, Settings& settings, Raw& raw) {
  app.add_option("--kv-store,--kvstore", settings.kv_store,
                 "the type of the store, which exchanges gradients. dist_sync_mpi: between the "
                 "processes of mpirun; dist_sync: over parameter servers; dist_async: over "
                 "parameter servers, which update the weights by each worker's gradients; device "
                 "or local: between the devices of one process")
      ->capture_default_str();
  app.add_option("--devices", raw.devices, "the number of CPU devices of each worker (default: 1)")
      ->check(between(1, 1024));
  app.add_option("--work-load-list", settings.work_loads,
                 "the share of the batch that each device takes, such as 2,1 (default: equal "
                 "shares)")
      ->delimiter(',')
      ->check(between(1, 1e6));
  app.add_option("--gpus", raw.gpus,
                 "the GPU of each worker, such as 0: weights and gradients lie there, and the "
                 "layers compute on the CPU");
}

void add_training(CLI::App& app, Settings& settings, Raw& raw) {
  app.add_option("--num-epochs,--epochs", settings.epochs,
                 "the number of passes over the training set")
      ->check(between(1, 1e6))
      ->capture_default_str();
  app.add_option("--batch-size", settings.batch_size,
                 "the number of samples of each worker in a step")
      ->check(between(1, 1e6))
      ->capture_default_str();
  app.add_option("--lr", raw.lr,
                 fmt::format("learning rate (default: {}; {} with dist_async, whose servers update "
                             "by gradients of older weights)",
                             usual_rate("device"), usual_rate("dist_async")))
      ->check(between(0, 1000));
  app.add_option("--momentum", settings.momentum, "the momentum of stochastic gradient descent")
      ->check(between(0, 1))
      ->capture_default_str();
  app.add_option("--seed", settings.seed,
                 "the seed of the first weights and of the order of the samples")
      // Above 2^53 not every whole number is a double, and workers compare the seed as a double.
      ->check(between(0, 0x1p53).description(""))
      ->capture_default_str();
}

void add_output(CLI::App& app, Settings& settings) {
  app.add_option("--plot", settings.plot,
                 "draw loss and accuracy into this PNG (needs python3 with matplotlib)")
      ->check(CLI::Validator(wrong_suffix, "", "PNG"));
  app.add_option("--json", settings.json, "write the run's numbers into this file");
}

/// Reads "0". MXNet's programs take lists, such as "0,1".
int gpu_named(const std::string& text) {
  using enum tutti::ErrorCode;
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop != end && *stop == ',') {
    throw tutti::Error(unsupported,
                       fmt::format("--gpus '{}': a worker has one GPU; start a worker for each, "
                                   "with dist_sync_mpi",
                                   text));
  }
  if (error == std::errc() && stop == end && number >= 0) return number;
  throw tutti::Error(invalid_argument,
                     fmt::format("--gpus '{}' is no GPU; it takes a number from 0 on", text));
}

void settle_devices(const Raw& raw, bool has_loads, Settings& settings) {
  using enum tutti::ErrorCode;
  if (raw.gpus) settings.gpu = gpu_named(*raw.gpus);
  if (raw.gpus && (raw.devices > 1 || settings.work_loads.size() > 1)) {
    throw tutti::Error(invalid_argument,
                       fmt::format("--gpus '{}' with several CPU devices; a worker trains on one "
                                   "GPU, or on --devices N CPU devices",
                                   *raw.gpus));
  }
  const auto devices = static_cast<std::size_t>(raw.devices);
  if (!has_loads) {
    settings.work_loads.assign(std::max<std::size_t>(devices, 1), 1);
  } else if (devices != 0 && devices != settings.work_loads.size()) {
    throw tutti::Error(invalid_argument, "--work-load-list has " +
                                             std::to_string(settings.work_loads.size()) +
                                             " shares for --devices " + std::to_string(devices));
  }
}

}  // namespace

double usual_rate(std::string_view kv_store) {
  const bool is_asynchronous = kv_store.find("async") != std::string_view::npos;
  return is_asynchronous ? 0.01 : 0.05;
}

std::optional<Settings> parse(int argc, const char* const* argv) {
  Settings settings;
  settings.dataset.clear();
  Raw raw;
  CLI::App app("Trains a network on images, alone or together with other processes.", "train");
  app.footer(footer);
  add_work(app, settings);
  add_workers(app, settings, raw);
  add_training(app, settings, raw);
  add_output(app, settings);
  try {
    command_line::parse(app, argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument, error.what());
  }
  if (settings.dataset.empty()) {
    settings.dataset = dataset::usual_for(nn::usual_image(settings.network));
  }
  settings.lr = raw.lr.value_or(usual_rate(settings.kv_store));
  settle_devices(raw, app.count("--work-load-list") > 0, settings);
  return settings;
}

}  // namespace training
