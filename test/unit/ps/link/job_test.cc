#include "ps/link/job.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "ps/link/job_key.h"
#include "unit/errors.h"
#include "unit/folder.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

namespace {

/// 64 digits, none of them like another key's.
std::string key(char last = '0') {
  return "d1f0c2a95e7b4836" + std::string(47, '0') + last;
}

/// The job of an environment that is right but for these; nothing: not set.
Job job_with(const std::map<std::string, std::optional<std::string>>& changes) {
  std::map<std::string, std::optional<std::string>> all{
      {"DMLC_ROLE", "server"},       {"TUTTI_JOB_KEY", key()}, {"DMLC_PS_ROOT_URI", "10.0.0.1"},
      {"DMLC_PS_ROOT_PORT", "9000"}, {"DMLC_NUM_WORKER", "3"}, {"DMLC_NUM_SERVER", "2"}};
  for (const auto& [name, value] : changes) all[name] = value;
  std::vector<std::pair<std::string, std::string>> variables;
  for (const auto& [name, value] : all) {
    if (value) variables.emplace_back(name, *value);
  }
  return Job::from(variables);
}

}  // namespace

TEST_CASE("a process reads its place in the job from the environment") {
  const Job job = job_with({{"DMLC_RANK", "1"}});
  CHECK(job.role == Role::server);
  CHECK(job.root == "10.0.0.1");
  CHECK(job.port == 9000);
  CHECK(job.size.workers == 3);
  CHECK(job.size.servers == 2);
  CHECK(job.wanted_rank == 1);
  CHECK(job.big_count == 1'000'000);
  CHECK(job.has_secret);
  CHECK(job_with({{"DMLC_ROLE", std::nullopt}}).role == Role::worker);
}

TEST_CASE("a variable that is missing is named, and who sets it") {
  for (const char* name :
       {"DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER"}) {
    CHECK_THAT(text_of(ErrorCode::invalid_argument,
                       [&] {
                         job_with({{name, ""}});
                       }),
               Contains(std::string(name) + " is not set") && Contains("launch.py --mode ps"));
  }
}

TEST_CASE("a value that is not usable is refused with its variable") {
  const std::pair<const char*, const char*> bad[] = {{"DMLC_ROLE", "master"},
                                                     {"DMLC_PS_ROOT_PORT", "0"},
                                                     {"DMLC_PS_ROOT_PORT", "x"},
                                                     {"DMLC_NUM_WORKER", "-1"},
                                                     {"DMLC_NUM_SERVER", "0"},
                                                     {"DMLC_RANK", "first"},
                                                     {"MXNET_KVSTORE_BIGARRAY_BOUND", "0"}};
  for (const auto& [name, value] : bad) {
    CHECK_THAT(text_of(ErrorCode::invalid_argument,
                       [name = name, value = value] {
                         job_with({{name, value}});
                       }),
               Contains(std::string(name) + "='" + value + "' is not usable"));
  }
}

TEST_CASE("a key that is not usable is refused, and not repeated") {
  for (const std::string& bad :
       {"0123456789abcdeg" + std::string(48, '0'), key().substr(1), key() + "0", std::string()}) {
    const std::string text = text_of(ErrorCode::invalid_argument, [&] {
      job_with({{"TUTTI_JOB_KEY", bad}});
    });
    CHECK_THAT(text, Contains("TUTTI_JOB_KEY is not usable; it takes 64 digits"));
    if (!bad.empty()) CHECK_THAT(text, !Contains(bad));
  }
}

TEST_CASE("a key that everybody can guess is refused, wherever it comes from") {
  const Folder folder;
  const std::string path = folder.path() + "/key";
  for (const std::string repeated : {"00", "ff", "5a"}) {
    std::string weak;
    for (int i = 0; i < 32; ++i) weak += repeated;
    std::ofstream(path) << weak << "\n";
    ::chmod(path.c_str(), 0600);
    const std::map<std::string, std::optional<std::string>> given[] = {
        {{"TUTTI_JOB_KEY", weak}}, {{"TUTTI_JOB_KEY", std::nullopt}, {"TUTTI_JOB_KEY_FILE", path}}};
    for (const auto& changes : given) {
      CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { job_with(changes); }),
                 Contains("it repeats one byte") && Contains("openssl rand"));
    }
  }
}

TEST_CASE("a key file is read only where its owner alone may use it") {
  const Folder folder;
  const std::string path = folder.path() + "/key";
  std::ofstream(path) << key('a') << "\n";
  ::chmod(path.c_str(), 0644);
  const auto in_file = [&](std::optional<std::string> in_variable = std::nullopt) {
    return job_with({{"TUTTI_JOB_KEY_FILE", path}, {"TUTTI_JOB_KEY", std::move(in_variable)}});
  };
  CHECK_THAT(text_of(ErrorCode::invalid_argument, in_file),
             Contains("TUTTI_JOB_KEY_FILE) is not usable: its mode is 0644"));
  ::chmod(path.c_str(), 0600);
  CHECK(in_file().has_secret);
  CHECK(in_file().secret == job_with({{"TUTTI_JOB_KEY", key('a')}}).secret);
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { in_file(key('b')); }),
             Contains("name different keys"));
}

namespace {

/// The job of a user who has this home, and gives no key.
Job job_at(const std::optional<std::string>& home) {
  return job_with({{"TUTTI_JOB_KEY", std::nullopt}, {"HOME", home}});
}

std::string problem_at(const std::optional<std::string>& home) {
  return text_of(ErrorCode::invalid_argument, [&] { job_at(home); });
}

unsigned mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

}  // namespace

TEST_CASE("processes without a key share one that is their user's alone") {
  const Folder home;
  const Job job = job_at(home.path());
  CHECK_FALSE(job.has_secret);
  CHECK(job.secret != net::Secret{});
  CHECK(job_at(home.path()).secret == job.secret);
  CHECK(mode_of(home.path() + "/.cache/tutti") == 0700);
  CHECK(mode_of(home.path() + "/.cache/tutti/job-key") == 0600);
  const Folder other;
  CHECK(job_at(other.path()).secret != job.secret);
}

TEST_CASE("processes that begin at the same time make one key") {
  for (int round = 0; round < 20; ++round) {
    const Folder home;
    std::vector<net::Secret> found(4);
    std::vector<std::thread> processes;
    processes.reserve(found.size());
    for (net::Secret& mine : found) {
      processes.emplace_back([&] { mine = secret_of_user(home.path()); });
    }
    for (std::thread& one : processes) one.join();
    CHECK(std::set<net::Secret>(found.begin(), found.end()).size() == 1);
    const std::filesystem::directory_iterator files(home.path() + "/.cache/tutti");
    CHECK(std::distance(begin(files), end(files)) == 1);
  }
}

TEST_CASE("a user's key that others may have read or written is not used, and the text says why") {
  const Folder home;
  job_at(home.path());
  const std::string folder = home.path() + "/.cache/tutti";
  const std::string file = folder + "/job-key";
  ::chmod(file.c_str(), 0640);
  CHECK_THAT(problem_at(home.path()),
             Contains("its mode is 0640") && Contains("makes another one"));
  ::chmod(file.c_str(), 0600);
  ::chmod(folder.c_str(), 0770);
  CHECK_THAT(problem_at(home.path()), Contains("may write to its folder; chmod 700 it") &&
                                          Contains("Set TUTTI_JOB_KEY for all processes"));
  ::chmod(folder.c_str(), 0700);
  std::filesystem::rename(file, file + "2");
  std::filesystem::create_symlink(file + "2", file);
  CHECK_THAT(problem_at(home.path()), Contains("it is a link"));
  std::filesystem::remove(file);
  std::ofstream(file) << "short";
  ::chmod(file.c_str(), 0600);
  CHECK_THAT(problem_at(home.path()), Contains("64 digits") && Contains("makes another one"));
  std::filesystem::rename(folder, folder + "2");
  std::filesystem::create_directory_symlink(folder + "2", folder);
  CHECK_THAT(problem_at(home.path()), Contains("cannot be used"));
}

TEST_CASE("another user's folder or file is none of this user's key") {
  if (::geteuid() != 0) return;
  const Folder home;
  job_at(home.path());
  const std::string folder = home.path() + "/.cache/tutti";
  REQUIRE(::chown((folder + "/job-key").c_str(), 65534, 65534) == 0);
  CHECK_THAT(problem_at(home.path()), Contains("it belongs to another user"));
  REQUIRE(::chown(folder.c_str(), 65534, 65534) == 0);
  CHECK_THAT(problem_at(home.path()), Contains("its folder belongs to another user"));
}

TEST_CASE("without a home that can be written to, a job needs a key, and the text says so") {
  for (const std::optional<std::string>& home :
       {std::optional<std::string>(), std::optional<std::string>(""),
        std::optional<std::string>("/nonexistent"), std::optional<std::string>("/proc")}) {
    CHECK_THAT(problem_at(home), Contains("there is no TUTTI_JOB_KEY, and this user's own key '") &&
                                     Contains("Set TUTTI_JOB_KEY for all processes of the job"));
  }
}

TEST_CASE("the scheduler alone takes over a socket") {
  const auto given = [](const std::string& role, const std::string& number) {
    return job_with({{"DMLC_ROLE", role}, {"TUTTI_LISTEN_FD", number}});
  };
  CHECK(given("scheduler", "7").listener == 7);
  CHECK(job_with({}).listener == -1);
  for (const char* role : {"server", "worker"}) {
    CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { given(role, "7"); }),
               Contains("--listen-fd") && Contains("only for the scheduler"));
  }
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { given("scheduler", "2"); }),
             Contains("TUTTI_LISTEN_FD='2' is not usable"));
}

TEST_CASE("heartbeats are as PS_HEARTBEAT_* say, which may not contradict each other") {
  const Job job = job_with({{"PS_HEARTBEAT_INTERVAL", "2"}, {"PS_HEARTBEAT_TIMEOUT", "7"}});
  const net::Heartbeat heartbeat = job.heartbeat(Options());
  CHECK(heartbeat.beat == std::chrono::seconds(2));
  CHECK(heartbeat.most_missed == 4);
  CHECK(heartbeat.limit == "7 s (PS_HEARTBEAT_TIMEOUT)");
  CHECK(job_with({}).heartbeat(Options()).limit ==
        "30 s (heartbeat_timeout, TUTTI_HEARTBEAT_SECONDS)");
  CHECK(job_with({}).silence_limit(Options()) == Options().heartbeat_timeout);
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [] {
                       job_with({{"PS_HEARTBEAT_INTERVAL", "4"}, {"PS_HEARTBEAT_TIMEOUT", "7"}});
                     }),
             Contains("contradict each other"));
}

TEST_CASE("PS_RESEND and its like say what is sent again, and what is lost on purpose") {
  CHECK_FALSE(job_with({}).resend_after);
  CHECK(job_with({{"PS_RESEND", "1"}}).resend_after == std::chrono::milliseconds(1000));
  const Job job = job_with({{"PS_RESEND", "1"},
                            {"PS_RESEND_TIMEOUT", "20"},
                            {"PS_DROP_MSG", "10"},
                            {"PS_DELAY_MSG", "5"},
                            {"PS_DUPLICATE_MSG", "3"},
                            {"PS_VERBOSE", "2"}});
  CHECK(job.resend_after == std::chrono::milliseconds(20));
  CHECK(job.faults.drop == 10);
  CHECK(job.faults.delay == 5);
  CHECK(job.faults.duplicate == 3);
  CHECK(job.verbose == 2);
}

TEST_CASE("messages that nothing sends again are not lost on purpose") {
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [] {
                       job_with({{"PS_DROP_MSG", "10"}});
                     }),
             Contains("PS_DROP_MSG") && Contains("set PS_RESEND=1, too"));
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [] {
                       job_with({{"PS_RESEND", "1"}, {"PS_DROP_MSG", "99"}});
                     }),
             Contains("PS_DROP_MSG='99' is not usable; it takes a whole number from 0 to 90"));
}
