#include "ps/job.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <vector>

#include "unit/errors.h"
#include "unit/folder.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

namespace {

/// The job of an environment that is right but for these; an empty value: not set.
Job job_with(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> all{{"DMLC_ROLE", "server"},
                                         {"DMLC_PS_ROOT_URI", "10.0.0.1"},
                                         {"DMLC_PS_ROOT_PORT", "9000"},
                                         {"DMLC_NUM_WORKER", "3"},
                                         {"DMLC_NUM_SERVER", "2"}};
  for (const auto& [name, value] : changes) all[name] = value;
  std::vector<std::pair<std::string, std::string>> variables;
  for (const auto& [name, value] : all) {
    if (!value.empty()) variables.emplace_back(name, value);
  }
  return Job::from(variables);
}

}  // namespace

TEST_CASE("a process reads its place in the job from the environment") {
  const Job job = job_with({{"DMLC_RANK", "1"}, {"TUTTI_JOB_KEY", std::string(64, '0')}});
  CHECK(job.role == Role::server);
  CHECK(job.root == "10.0.0.1");
  CHECK(job.port == 9000);
  CHECK(job.company.workers == 3);
  CHECK(job.company.servers == 2);
  CHECK(job.wanted_rank == 1);
  CHECK(job.big_count == 1'000'000);
  CHECK(job.has_secret);
  CHECK(job_with({{"DMLC_ROLE", ""}}).role == Role::worker);
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
  const std::string key = "0123456789abcdeg" + std::string(48, '0');
  const std::string text = text_of(ErrorCode::invalid_argument, [&] {
    job_with({{"TUTTI_JOB_KEY", key}});
  });
  CHECK_THAT(text, Contains("TUTTI_JOB_KEY is not usable") && !Contains("abcdeg"));
}

TEST_CASE("a key file is read only where its owner alone may use it") {
  const Folder folder;
  const std::string path = folder.path() + "/key";
  std::ofstream(path) << std::string(64, 'a') << "\n";
  ::chmod(path.c_str(), 0644);
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] {
                       job_with({{"TUTTI_JOB_KEY_FILE", path}});
                     }),
             Contains("TUTTI_JOB_KEY_FILE) is not usable: its mode is 0644"));
  ::chmod(path.c_str(), 0600);
  const Job job = job_with({{"TUTTI_JOB_KEY_FILE", path}});
  CHECK(job.has_secret);
  CHECK(job.secret == job_with({{"TUTTI_JOB_KEY", std::string(64, 'a')}}).secret);
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument,
              [&] {
                job_with({{"TUTTI_JOB_KEY_FILE", path}, {"TUTTI_JOB_KEY", std::string(64, 'b')}});
              }),
      Contains("give different keys"));
}

TEST_CASE("heartbeats are as PS_HEARTBEAT_* say, which may not contradict each other") {
  const Job job = job_with({{"PS_HEARTBEAT_INTERVAL", "2"}, {"PS_HEARTBEAT_TIMEOUT", "7"}});
  const net::Heartbeat heartbeat = job.heartbeat(Options());
  CHECK(heartbeat.beat == std::chrono::seconds(2));
  CHECK(heartbeat.most_missed == 4);
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
             Contains("PS_DROP_MSG") && Contains("set PS_RESEND=1 too"));
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [] {
                       job_with({{"PS_RESEND", "1"}, {"PS_DROP_MSG", "99"}});
                     }),
             Contains("PS_DROP_MSG='99' is not usable; it takes a whole number from 0 to 90"));
}
