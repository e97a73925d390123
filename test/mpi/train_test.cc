// The training program, started as users start it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

struct Outcome {
  int status = 0;
  std::string output;  ///< standard output and error
};

Outcome run(const std::string& command) {
  INFO(command);
  Outcome outcome;
  std::FILE* pipe = popen(("timeout 100 " + command + " 2>&1 < /dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    outcome.output += static_cast<char>(c);
  }
  outcome.status = pclose(pipe);
  return outcome;
}

const std::string train = TUTTI_TRAIN;
const std::string with_mpi = train + " --kv-store dist_sync_mpi";

/// Every rank's hash, as printed.
std::vector<std::string> hashes(const std::string& output) {
  static const std::regex line("rank [0-9]+ weights sha256 ([0-9a-f]{64})");
  std::vector<std::string> all;
  for (std::sregex_iterator it(output.begin(), output.end(), line), end; it != end; ++it) {
    all.push_back((*it)[1]);
  }
  return all;
}

/// A run that must succeed, with the same weights on each of `ranks`; its numbers.
Json numbers(const std::string& command, std::size_t ranks) {
  const fs::path file = fs::temp_directory_path() / ("tutti-train-" + std::to_string(getpid()));
  const Outcome outcome = run(command + " --json " + file.string());
  INFO(command << "\n" << outcome.output);
  REQUIRE(outcome.status == 0);
  const auto found = hashes(outcome.output);
  CHECK(found.size() == ranks);
  CHECK(std::set(found.begin(), found.end()).size() == 1);
  Json json = Json::parse(std::ifstream(file));
  fs::remove(file);
  CHECK(json["weights_sha256"] == found.front());
  CHECK(json["gradient_bytes_reduced"] ==
        4 * json["parameters"].get<std::size_t>() * json["steps"].get<std::size_t>());
  return json;
}

std::string mpirun(std::size_t ranks) {
  return "mpirun -n " + std::to_string(ranks) + " ";
}

/// Over the means of epochs and over single steps.
double largest_difference(const Json& a, const Json& b) {
  REQUIRE(a["epochs"].size() == b["epochs"].size());
  double largest = 0;
  for (std::size_t i = 0; i < a["epochs"].size(); ++i) {
    const Json& x = a["epochs"][i];
    const Json& y = b["epochs"][i];
    largest =
        std::max(largest, std::abs(x["train_loss"].get<double>() - y["train_loss"].get<double>()));
    REQUIRE(x["step_loss"].size() == y["step_loss"].size());
    for (std::size_t k = 0; k < x["step_loss"].size(); ++k) {
      largest = std::max(
          largest, std::abs(x["step_loss"][k].get<double>() - y["step_loss"][k].get<double>()));
    }
  }
  return largest;
}

}  // namespace

TEST_CASE("four workers reach 95 % on the digits and say so") {
  const Outcome outcome = run(mpirun(4) + with_mpi + " --network lenet --dataset digits");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  std::smatch accuracy;
  REQUIRE(
      std::regex_search(outcome.output, accuracy, std::regex("Epoch 19: Test_acc (0\\.[0-9]{6})")));
  CHECK(std::stod(accuracy[1]) >= 0.95);
  CHECK(hashes(outcome.output) == std::vector(4, hashes(outcome.output).at(0)));
  CHECK_THAT(outcome.output,
             Contains("bytes reduced 241187200 = 4 bytes x 131080 parameters x 460 steps"));
}

TEST_CASE("n workers train like one process with n times the batch") {
  const std::string network = GENERATE("mlp", "lenet");
  const std::string options = " --epochs 4 --network " + network + " --batch-size ";
  for (std::size_t n = 1; n <= 8; ++n) {
    // Other numbers of workers are as good with the larger network alone.
    if (network == "mlp" && n != 2 && n != 3) continue;
    INFO(n << " workers, " << network);
    const Json many = numbers(mpirun(n) + with_mpi + options + "12", n);
    const Json one = numbers(train + options + std::to_string(12 * n), 1);
    CHECK(many["workers"] == n);
    CHECK(largest_difference(many, one) < 1e-4);
  }
}

TEST_CASE("two devices in each of two workers train like four workers") {
  const std::string network = GENERATE("mlp", "lenet");
  const std::string options = with_mpi + " --epochs 4 --network " + network;
  const Json two = numbers(mpirun(2) + options + " --devices 2 --batch-size 24", 2);
  const Json four = numbers(mpirun(4) + options + " --batch-size 12", 4);
  CHECK(largest_difference(two, four) < 1e-4);
}

TEST_CASE("one altered sample of one worker changes the weights of all") {
  const fs::path altered = fs::temp_directory_path() / ("tutti-digits-" + std::to_string(getpid()));
  fs::copy(TUTTI_DIGITS, altered);
  const std::string options = with_mpi + " --epochs 1 --network mlp";
  const auto before = hashes(run(mpirun(3) + options).output);
  {
    // The middle of the first image, which is one for training and read by one worker in an epoch.
    std::fstream images(altered / "digits-images-idx3-ubyte",
                        std::ios::in | std::ios::out | std::ios::binary);
    images.seekp(16 + 4 * 8 + 4);
    images.put(16);
  }
  std::set<std::string> after;
  for (const std::size_t changed : {0U, 1U, 2U}) {
    std::string command = "mpirun";
    for (std::size_t rank = 0; rank < 3; ++rank) {
      command += (rank == 0 ? " -n 1 " : " : -n 1 ") + options;
      if (rank == changed) command += " --data-dir " + altered.string();
    }
    const auto found = hashes(run(command).output);
    REQUIRE(found.size() == 3);
    CHECK(std::set(found.begin(), found.end()).size() == 1);
    after.insert(found.front());
  }
  fs::remove_all(altered);
  // One of the three workers has that sample in its shard; at the others nobody looks at it.
  CHECK(after.size() == 2);
  CHECK(after.contains(before.at(0)));
}

TEST_CASE("workers that were started differently are all told so") {
  const Outcome outcome =
      run("mpirun -n 1 " + with_mpi + " : -n 2 " + with_mpi + " --batch-size 8");
  CHECK(outcome.status != 0);
  CHECK_THAT(outcome.output,
             Contains("workers must agree on the --batch-size: rank 0 has 16, rank 1 has 8"));
}

TEST_CASE("processes of an mpirun that train alone are warned") {
  const Outcome outcome = run(mpirun(2) + train + " --network mlp --epochs 1");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output,
             Contains("each process works alone; 'dist_sync_mpi' sums over all of them"));
}

TEST_CASE("standard output that cannot be written to is an error") {
  const Outcome outcome =
      run("sh -c '" + train + " --benchmark 1 --epochs 1 --dataset mnist > /dev/full'");
  CHECK(WEXITSTATUS(outcome.status) == 1);
  CHECK_THAT(outcome.output, Contains("No space left on device"));
}

TEST_CASE("a benchmark needs no data and tells each worker's speed") {
  const Outcome outcome =
      run(mpirun(2) + with_mpi + " --benchmark 1 --epochs 1 --dataset mnist --batch-size 4");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK(std::regex_search(
      outcome.output, std::regex("Epoch 0: [0-9]+ samples/s together, by worker: [0-9]+ [0-9]+")));
  CHECK_THAT(outcome.output, !Contains("Test_acc"));
}

TEST_CASE("the smallest program sums over its processes") {
  const Outcome outcome = run(mpirun(3) + TUTTI_HELLO);
  CHECK(outcome.status == 0);
  for (const char* line :
       {"rank 0 of 3: weight 0.5, gradient 3", "rank 1 of 3: weight 0.5, gradient 3",
        "rank 2 of 3: weight 0.5, gradient 3"}) {
    CHECK_THAT(outcome.output, Contains(line));
  }
}
