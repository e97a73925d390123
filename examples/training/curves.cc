#include "training/curves.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tutti/error.h"
#include "tutti/version.h"

namespace training {
namespace {

namespace fs = std::filesystem;

nlohmann::json to_json(const EpochResult& result) {
  nlohmann::json json{{"epoch", result.epoch},
                      {"train_loss", result.train_loss},
                      {"train_accuracy", result.train_accuracy},
                      {"step_loss", result.step_loss},
                      {"samples_per_second", result.samples_per_second},
                      {"all_samples_per_second", result.all_samples_per_second}};
  if (result.test_accuracy) json["test_accuracy"] = *result.test_accuracy;
  return json;
}

/// Runs a program. Returns its exit status, or -1 if it could not be started.
int run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) {
    return -1;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

void check_writable(const fs::path& file) {
  const bool fresh = !fs::exists(file);
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       "cannot write " + file.string() + ": " + std::strerror(errno));
  }
  close(fd);
  if (fresh) fs::remove(file);
}

void write_json(const fs::path& file, const Settings& settings, const History& history) {
  nlohmann::json json{{"network", settings.network},
                      {"dataset", settings.dataset},
                      {"kv_store", settings.kv_store},
                      {"build_type", tutti::build_type()},
                      {"workers", history.workers},
                      {"nodes", history.nodes},
                      {"work_loads", settings.work_loads},
                      {"batch_size", settings.batch_size},
                      {"lr", settings.lr},
                      {"momentum", settings.momentum},
                      {"seed", settings.seed},
                      {"parameters", history.parameters},
                      {"steps", history.steps},
                      {"gradient_bytes_reduced", history.gradient_bytes},
                      {"weights_sha256", history.weights_sha256}};
  for (const EpochResult& result : history.epochs) {
    json["epochs"].push_back(to_json(result));
  }
  std::ofstream stream(file);
  stream << json.dump(1) << '\n';
  stream.close();
  if (!stream) {
    throw tutti::Error(tutti::ErrorCode::internal, "writing " + file.string() + " failed");
  }
}

void draw(const fs::path& json, const fs::path& image) {
  constexpr int no_matplotlib = 3;  // the exit status of plot_curves.py
  const std::array scripts{fs::path(TUTTI_EXAMPLES_SCRIPTS),
                           fs::path(TUTTI_EXAMPLES_SCRIPTS_INSTALLED)};
  const fs::path script = scripts[fs::exists(scripts[0] / "plot_curves.py") ? 0 : 1];
  // The first python3 in PATH may lack matplotlib while the system's has it.
  int code = no_matplotlib;
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    code = run({python, script / "plot_curves.py", "--out", image, json});
    if (code != no_matplotlib && code != -1) break;
  }
  if (code == 0) return;
  throw tutti::Error(
      tutti::ErrorCode::internal,
      "drawing " + image.string() + " failed" +
          (code == no_matplotlib ? ": python3 has no matplotlib (apt install python3-matplotlib)"
                                 : " (plot_curves.py ended with " + std::to_string(code) + ")") +
          "; the numbers are in " + json.string());
}

}  // namespace training
