// Optimizers on servers: new parameters, and their states in files.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "ps/local_job.h"
#include "unit/folder.h"

using namespace tutti;
using Catch::Contains;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

constexpr std::size_t count = 301;
const Optimizer adam{"adam", {{"learning_rate", 0.1}}, {{"b", {.learning_rate = 0.5, .wd = 0}}}};

Floats ramp() {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 0.01F * static_cast<float>(i);
  return values;
}

/// A gradient that differs from step to step; the workers' sum is that of one worker alone.
Floats gradient(int step, int workers) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] =
        std::sin(static_cast<float>(step) + static_cast<float>(i)) / static_cast<float>(workers);
  }
  return values;
}

/// This worker's part, of as many as there are.
void train_with(int workers, KVStore& kv, int from, int to) {
  for (int step = from; step < to; ++step) {
    Floats mine = gradient(step, workers);
    kv.push({"a", "b"}, {tensor(mine), tensor(mine)}).wait();
  }
}

void train(KVStore& kv, int from, int to) {
  train_with(kv.num_workers(), kv, from, to);
}

/// The values of "a" and then "b".
Floats values_of(KVStore& kv) {
  Floats a(count);
  Floats b(count);
  kv.pull({"a", "b"}, {tensor(a), tensor(b)}).wait();
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void init(KVStore& kv, Floats values) {
  Floats a(values.begin(), values.begin() + count);
  Floats b(values.end() - count, values.end());
  kv.init({"a", "b"}, {tensor(a), tensor(b)});
}

/// Replaces the values that are there.
void give(KVStore& kv, Floats values) {
  Floats a(values.begin(), values.begin() + count);
  Floats b(values.end() - count, values.end());
  kv.broadcast({"a", "b"}, {tensor(a), tensor(b)}, 0).wait();
}

Floats trained_alone(int steps) {
  const auto kv = KVStore::create("local");
  init(*kv, ramp());
  kv->set_optimizer(adam);
  train(*kv, 0, steps);
  return values_of(*kv);
}

std::string compare(const Floats& got, const Floats& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, static_cast<double>(std::abs(got.at(i) - expected[i])));
  }
  return worst < 1e-5 ? "right" : fmt::format("differs by {}", worst);
}

LocalJob::Size size(int workers, int servers) {
  // "a" and "b" are split.
  return {.workers = workers, .servers = servers, .big_count = 100};
}

/// Trains, saves on worker 1 if there is one, and says whether the values are right.
void save_from(int workers, int servers, const std::string& path, bool with_optimizer) {
  LocalJob job(size(workers, servers));
  const auto said = job.run([&](KVStore& kv) {
    init(kv, ramp());
    kv.set_optimizer(adam);
    train(kv, 0, 3);
    if (kv.rank() == kv.num_workers() - 1) kv.save_optimizer_states(path, with_optimizer);
    return compare(values_of(kv), trained_alone(3));
  });
  CHECK(said == Said(static_cast<std::size_t>(workers), "right"));
}

/// Goes on where the file was saved.
void load_into(int workers, int servers, const std::string& path) {
  LocalJob job(size(workers, servers));
  const auto said = job.run([&](KVStore& kv) {
    init(kv, trained_alone(3));
    // The file is worker 0's; the others name one that is not there.
    kv.load_optimizer_states(kv.rank() == 0 ? path : path + ".elsewhere");
    train(kv, 3, 6);
    return compare(values_of(kv), trained_alone(6));
  });
  CHECK(said == Said(static_cast<std::size_t>(workers), "right"));
}

}  // namespace

TEST_CASE("states that were saved from some servers go on, on others and in one process") {
  const Folder folder;
  const std::string path = folder.path() + "/states";
  save_from(2, 3, path, true);
  load_into(3, 1, path);
  load_into(1, 2, path);
  const auto kv = KVStore::create("local");
  init(*kv, trained_alone(3));
  kv->load_optimizer_states(path);
  train(*kv, 3, 6);
  CHECK(compare(values_of(*kv), trained_alone(6)) == "right");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("states of values in more pieces than there are servers go on, on others") {
  // 400,000 bytes are 4 pieces on 1 server and on 2, and 6 on 3.
  constexpr std::size_t large = 100'000;
  const auto train_large = [](KVStore& kv, int from, int to) {
    Floats values(large);
    for (int step = from; step < to; ++step) {
      for (std::size_t i = 0; i < large; ++i) {
        values[i] = static_cast<float>(i % 17) - static_cast<float>(step);
        values[i] /= static_cast<float>(kv.num_workers());
      }
      kv.push({"w"}, {tensor(values)}).wait();
    }
    kv.pull({"w"}, {tensor(values)}).wait();
    return values;
  };
  const auto init_large = [](KVStore& kv, Floats values) { kv.init({"w"}, {tensor(values)}); };
  const auto alone = KVStore::create("local");
  init_large(*alone, Floats(large));
  alone->set_optimizer(adam);
  const Floats half = train_large(*alone, 0, 3);
  const Floats all = train_large(*alone, 3, 5);
  const Folder folder;
  const std::string path = folder.path() + "/states";
  LocalJob saving(size(2, 2));
  CHECK(saving.run([&](KVStore& kv) {
    init_large(kv, Floats(large));
    kv.set_optimizer(adam);
    const Floats values = train_large(kv, 0, 3);
    if (kv.rank() == 0) kv.save_optimizer_states(path, true);
    return compare(values, half);
  }) == Said(2, "right"));
  for (const int servers : {1, 3}) {
    LocalJob loading(size(2, servers));
    CHECK(loading.run([&](KVStore& kv) {
      init_large(kv, half);
      kv.load_optimizer_states(path);
      return compare(train_large(kv, 3, 5), all);
    }) == Said(2, "right"));
  }
}

TEST_CASE("states of a store of one process go on, on servers") {
  const Folder folder;
  const std::string path = folder.path() + "/states";
  const auto kv = KVStore::create("local");
  init(*kv, ramp());
  kv->set_optimizer(adam);
  train(*kv, 0, 3);
  kv->save_optimizer_states(path, true);
  load_into(2, 2, path);
}

TEST_CASE("a file without the optimizer needs it to be set, and one of another rule is refused") {
  const Folder folder;
  const std::string path = folder.path() + "/states";
  save_from(1, 2, path, false);
  LocalJob job(size(2, 2));
  const auto said = job.run([&](KVStore& kv) {
    std::string text;
    const auto attempt = [&](const std::string& file) {
      try {
        kv.load_optimizer_states(file);
        text += "loaded; ";
      } catch (const Error& error) {
        text += std::string(name(error.code())) + ": " + error.what() + "; ";
      }
    };
    attempt(path);
    kv.set_optimizer({"sgd"});
    attempt(path);
    attempt(folder.path() + "/none");
    kv.set_optimizer(adam);
    attempt(path);
    return text;
  });
  CHECK(said[0] == said[1]);
  CHECK_THAT(said[0], Contains("without the optimizer itself") &&
                          Contains("'adam', but the store's optimizer is 'sgd'") &&
                          Contains("invalid_argument: load_optimizer_states: ") &&
                          Contains("/none") && Contains("; loaded; "));
}

TEST_CASE("states cannot be saved without an optimizer, nor where no file can be") {
  const Folder folder;
  LocalJob job({.workers = 1, .servers = 2});
  const auto said = job.run([&](KVStore& kv) {
    std::string text;
    for (const char* file : {"/states", "/no/such/folder"}) {
      try {
        kv.save_optimizer_states(folder.path() + file);
      } catch (const Error& error) {
        text += std::string(name(error.code())) + ": " + error.what() + "; ";
      }
      kv.set_optimizer(adam);
    }
    return text;
  });
  CHECK_THAT(said[0], Contains("invalid_argument: save_optimizer_states: the store has no") &&
                          Contains("internal: ") && Contains("/no/such/folder"));
}

TEST_CASE("a new learning rate reaches every server, and the momentum stays") {
  LocalJob job(size(2, 3));
  CHECK(job.run([](KVStore& kv) {
    Floats values(count);
    init(kv, Floats(2 * count, 0));
    Optimizer sgd{"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}};
    sgd.factors["b"] = {.learning_rate = 2, .wd = 1};
    Floats half(count, 0.5F);
    for (const double rate : {1.0, 0.0, 0.25}) {
      sgd.parameters["learning_rate"] = rate;
      kv.set_optimizer(sgd);
      kv.push({"a", "b"}, {tensor(half), tensor(half)}).wait();
    }
    // v: -1, -0.5, -0.25 - 0.25; for "b" twice that.
    const Floats all = values_of(kv);
    const auto [low, high] = std::minmax_element(all.begin(), all.begin() + count);
    const auto [low_b, high_b] = std::minmax_element(all.begin() + count, all.end());
    return text_of({*low, *high, *low_b, *high_b});
  }) == Said(2, "-2 -2 -4 -4"));
}

TEST_CASE("workers that set different optimizers are all told at once") {
  LocalJob job({});
  const auto said = job.run([](KVStore& kv) {
    kv.set_optimizer({kv.rank() == 0 ? "sgd" : "sdg"});
    return std::string("no error");
  });
  CHECK(said[0] == said[1]);
  CHECK_THAT(said[0],
             Contains("mismatch: set_optimizer: worker 1 passed 'sdg', but worker 0 passed 'sgd'"));
}

TEST_CASE("lamb that is set first updates large values as one process does") {
  const auto run = [](KVStore& kv) {
    kv.set_optimizer({"lamb", {{"learning_rate", 0.1}}});
    init(kv, ramp());
    train(kv, 0, 4);
    return values_of(kv);
  };
  const Floats alone = run(*KVStore::create("local"));
  LocalJob job(size(2, 3));
  CHECK(job.run([&](KVStore& kv) { return compare(run(kv), alone); }) == Said(2, "right"));
}

TEST_CASE("lamb that is set after large values says what to do") {
  LocalJob job(size(2, 2));
  const auto said = job.run([](KVStore& kv) {
    init(kv, ramp());
    kv.set_optimizer({"lamb"});
    train(kv, 0, 1);
    return std::string("no error");
  });
  CHECK_THAT(said[0], Contains("lamb needs the norm of the whole value") &&
                          Contains("call set_optimizer before"));
}

TEST_CASE("any number of workers that share a batch learn what one learns with all of it") {
  for (const char* rule : {"sgd", "adam", "rmsprop"}) {
    for (const auto& [workers, servers] : {std::pair{1, 1}, {2, 3}, {4, 2}}) {
      const Optimizer optimizer{rule, {{"learning_rate", 0.05}, {"wd", 0.01}}};
      const auto run = [&](KVStore& kv) {
        init(kv, ramp());
        kv.set_optimizer(optimizer);
        train(kv, 0, 5);
        return values_of(kv);
      };
      const Floats alone = run(*KVStore::create("local"));
      LocalJob job(size(workers, servers));
      INFO(rule << ", " << workers << " workers, " << servers << " servers");
      CHECK(job.run([&](KVStore& kv) { return compare(run(kv), alone); }) ==
            Said(static_cast<std::size_t>(workers), "right"));
    }
  }
}

TEST_CASE("asynchronous workers save and load, too") {
  const Folder folder;
  const std::string path = folder.path() + "/states";
  LocalJob job(size(2, 2));
  const auto said = job.run(
      [&](KVStore& kv) {
        init(kv, ramp());
        kv.set_optimizer(adam);
        // Worker 1 alone trains, with all of each gradient.
        if (kv.rank() == 1) train_with(1, kv, 0, 3);
        kv.barrier();
        if (kv.rank() == 0) kv.save_optimizer_states(path, true);
        kv.barrier();
        // Changes of the states from here on are not in the file.
        if (kv.rank() == 1) train_with(1, kv, 7, 9);
        kv.barrier();
        kv.load_optimizer_states(path);
        give(kv, trained_alone(3));
        if (kv.rank() == 1) train_with(1, kv, 3, 6);
        kv.barrier();
        return compare(values_of(kv), trained_alone(6));
      },
      "dist_async");
  CHECK(said == Said(2, "right"));
}

TEST_CASE("lamb that comes from a file keeps values whole on all workers") {
  const Folder folder;
  const std::string path = folder.path() + "/states";
  const Optimizer lamb{"lamb", {{"learning_rate", 0.1}}};
  const auto alone = KVStore::create("local");
  init(*alone, ramp());
  alone->set_optimizer(lamb);
  train(*alone, 0, 3);
  alone->save_optimizer_states(path, true);
  const Floats half = values_of(*alone);
  train(*alone, 3, 5);
  LocalJob job(size(2, 3));
  CHECK(job.run([&](KVStore& kv) {
    kv.load_optimizer_states(path);
    Floats other(count);
    // A key that the file does not have, and of which worker 1 speaks first.
    if (kv.rank() == 0) kv.barrier();
    const Pending pending = kv.broadcast("c", tensor(other), 0);
    if (kv.rank() == 1) kv.barrier();
    pending.wait();
    Floats mine = gradient(0, 2);
    kv.push({"c"}, {tensor(mine)}).wait();
    init(kv, half);
    train(kv, 3, 5);
    return compare(values_of(kv), values_of(*alone));
  }) == Said(2, "right"));
}

TEST_CASE("lamb from a file whose load fails keeps no values whole") {
  const Folder folder;
  const std::string path = folder.path() + "/states";
  const auto alone = KVStore::create("local");
  init(*alone, ramp());
  alone->set_optimizer({"lamb"});
  train(*alone, 0, 1);
  alone->save_optimizer_states(path, true);
  LocalJob job(size(2, 2));
  const auto said = job.run([&](KVStore& kv) {
    try {
      kv.rank() == 0 ? kv.load_optimizer_states(path) : kv.set_optimizer({"sgd"});
      return std::string("no mismatch");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::mismatch) throw;
    }
    // Worker 0, which has read the file, speaks first of this key.
    Floats values(count);
    if (kv.rank() == 1) kv.barrier();
    const Pending pending = kv.broadcast("c", tensor(values), 0);
    if (kv.rank() == 0) kv.barrier();
    pending.wait();
    kv.set_optimizer({"lamb"});
    kv.push({"c"}, {tensor(values)}).wait();
    return std::string("no error");
  });
  CHECK_THAT(said[0], Contains("lamb needs the norm of the whole value"));
}
