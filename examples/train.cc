/// Trains a network on images: alone, on several devices, or together with other processes.
#include <fmt/format.h>

#include <memory>
#include <new>

#include "command_line/command_line.h"
#include "dataset/catalogue.h"
#include "training/agreement.h"
#include "training/console.h"
#include "training/curves.h"
#include "training/exchange.h"
#include "training/memory.h"
#include "training/settings.h"
#include "training/threads.h"
#include "training/trainer.h"
#include "training/worker.h"
#include "tutti/tutti.h"

namespace {

using namespace training;

/// Loads the data, after checking that a batch fits into the memory beside it.
dataset::Dataset load_data(const Settings& settings, const tutti::KVStore& store) {
  const std::size_t share = memory_share(store);
  if (!settings.benchmark) {
    dataset::Dataset data = dataset::load(settings.dataset, settings.data_dir);
    check_memory(settings, data.train.extent, 0, share);
    return data;
  }
  constexpr std::size_t steps = 50;
  const std::size_t images = steps * static_cast<std::size_t>(store.num_workers());
  check_memory(settings, dataset::extent(settings.dataset), images, share);
  return dataset::synthetic(settings.dataset,
                            images * static_cast<std::size_t>(settings.batch_size));
}

std::string introduce(const Settings& settings, const dataset::Dataset& data, const Worker& worker,
                      const tutti::KVStore& store) {
  return fmt::format(
      "{} ({} parameters) on {} ({} training, {} test images), store {}: workers {}, devices of "
      "each {}{}, batch of each {}",
      settings.network, worker.weight_count(),
      settings.benchmark ? "random data like " + settings.dataset : settings.dataset,
      data.train.count(), data.test.count(), store.type(), store.num_workers(),
      settings.work_loads.size(),
      settings.gpu ? fmt::format(", weights and gradients on gpu({})", *settings.gpu) : "",
      settings.batch_size);
}

History train(const Settings& settings, const dataset::Dataset& data, Worker& worker,
              Exchange& exchange) {
  const bool speaker = exchange.rank() == 0;
  Trainer trainer(settings, data, worker, exchange);
  Progress progress;
  History history{.workers = exchange.ranks(), .parameters = worker.weight_count()};
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    const auto on_step = [&](bool testing, std::size_t step, std::size_t steps,
                             const nn::Score& score) {
      if (speaker) progress.show({epoch, settings.epochs, step, steps, testing}, score);
    };
    history.epochs.push_back(trainer.run_epoch(epoch, on_step));
    progress.clear();
    if (speaker) print(describe(history.epochs.back()));
  }
  history.steps = trainer.steps();
  history.gradient_bytes = exchange.gradient_bytes();
  history.weights_sha256 = worker.weights_sha256();
  return history;
}

/// The results that rank 0 prints and writes at the end.
void conclude(const Settings& settings, const History& history) {
  const std::size_t expected = sizeof(float) * history.parameters * history.steps;
  print(fmt::format("bytes reduced {} = 4 bytes x {} parameters x {} steps{}",
                    history.gradient_bytes, history.parameters, history.steps,
                    history.gradient_bytes == expected
                        ? ""
                        : fmt::format(" was expected, which is {}", expected)));
  if (!settings.json.empty()) write_json(settings.json, settings, history);
  if (settings.plot.empty()) return;
  const std::filesystem::path numbers =
      settings.json.empty() ? std::filesystem::path(settings.plot.string() + ".json")
                            : settings.json;
  if (settings.json.empty()) write_json(numbers, settings, history);
  draw(numbers, settings.plot);
  print("curves: " + settings.plot.string());
}

void run(const Settings& settings) {
  tutti::Options options = tutti::Options::from_env();
  if (settings.gpu) options.gpu = settings.gpu;
  const auto store = tutti::KVStore::create(settings.kv_store, options);
  share_processors(*store);
  const bool speaker = store->rank() == 0;
  if (speaker && !settings.plot.empty()) check_writable(settings.plot);
  if (speaker && !settings.json.empty()) check_writable(settings.json);

  const dataset::Dataset data = load_data(settings, *store);
  Worker worker({.network = settings.network,
                 .image = data.train.extent,
                 .classes = data.train.classes,
                 .work_loads = settings.work_loads,
                 .lr = static_cast<float>(settings.lr),
                 .momentum = static_cast<float>(settings.momentum)},
                settings.seed);
  if (speaker) print(introduce(settings, data, worker, *store));

  Exchange exchange(*store, worker, settings.gpu);
  check_agreement(settings, data, worker, exchange);
  exchange.broadcast_weights();
  History history = train(settings, data, worker, exchange);
  history.nodes = store->counters().nodes;
  print(fmt::format("rank {} weights sha256 {}", store->rank(), history.weights_sha256));
  if (speaker) conclude(settings, history);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (const auto settings = parse(argc, argv)) run(*settings);
    return 0;
  } catch (const tutti::Error& error) {
    return command_line::complain(
        "train", error,
        fmt::format("{}: {}", tutti::name(error.code()), command_line::text_of(error)));
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "train: out of memory; a smaller --batch-size takes less\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "train: {}\n", command_line::text_of(error));
  }
  return 1;
}
