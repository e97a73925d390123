#include "ps/local_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <utility>

#include "net/sockets.h"
#include "ps/scheduler/scheduler.h"
#include "ps/server/server_process.h"
#include "ps/worker/membership.h"

namespace tutti {
namespace {

std::uint16_t free_port() {
  return net::port_of(net::listen_tcp("127.0.0.1"));
}

void set(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

ps::Job job_of(const LocalJob::Size& size) {
  set("DMLC_ROLE", "worker");
  set("DMLC_PS_ROOT_URI", "127.0.0.1");
  set("DMLC_PS_ROOT_PORT", std::to_string(free_port()));
  set("DMLC_NUM_WORKER", std::to_string(size.workers));
  set("DMLC_NUM_SERVER", std::to_string(size.servers));
  set("TUTTI_JOB_KEY", "a4c1" + std::string(60, 'a'));
  const std::vector<std::pair<std::string, std::string>> variables = [] {
    std::vector<std::pair<std::string, std::string>> all;
    for (const char* name : {"DMLC_ROLE", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT",
                             "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "TUTTI_JOB_KEY"}) {
      all.emplace_back(name, std::getenv(name));
    }
    return all;
  }();
  ps::Job job = ps::Job::from(variables);
  job.big_count = size.big_count;
  job.most_waiting_bytes = size.most_waiting_bytes;
  job.most_waiting_requests = size.most_waiting_requests;
  if (size.resends) job.resend_after = std::chrono::milliseconds(1000);
  return job;
}

std::string said_by(const std::function<std::string()>& role) {
  try {
    return role();
  } catch (const Error& error) {
    return fmt::format("{}: {}", name(error.code()), error.what());
  }
}

}  // namespace

Options LocalJob::options() {
  using namespace std::chrono_literals;
  Options options;
  options.create_timeout = 10s;
  options.key_timeout = 60s;  // on a busy machine the thread sanitizer takes 30 s for 160 MiB
  options.heartbeat_timeout = 5s;
  return options;
}

LocalJob::LocalJob(const Size& size) : job_(job_of(size)) {
  ps::Memberships::of_process().allow(job_, size.workers);
  ends_.resize(static_cast<std::size_t>(size.servers) + 1);
  // The servers start first. No process depends on the order.
  for (int i = 1; i <= size.servers - size.played; ++i) {
    start(static_cast<std::size_t>(i), [this, size, i] {
      ps::Job mine = job_;
      mine.role = ps::Role::server;
      mine.wanted_rank = i - 1;
      Options of_server = options();
      of_server.encrypt = size.encrypts;
      of_server.heartbeat_timeout = size.heartbeat_timeout;
      ps::run_server(mine, of_server, size.durability);
      return "";
    });
  }
  start(0, [this, size] {
    ps::Job mine = job_;
    mine.role = ps::Role::scheduler;
    Options of_scheduler = options();
    of_scheduler.create_timeout = size.create_timeout;
    of_scheduler.key_timeout = size.key_timeout;
    of_scheduler.heartbeat_timeout = size.heartbeat_timeout;
    of_scheduler.stall_report_after = size.key_timeout / 8;
    of_scheduler.encrypt = size.encrypts;
    return ps::run_scheduler(mine, of_scheduler) ? "" : "the job did not end well";
  });
}

void LocalJob::start(std::size_t at, std::function<std::string()> role) {
  threads_.emplace_back([this, at, role = std::move(role)] { ends_[at] = said_by(role); });
}

void LocalJob::join() {
  ps::Memberships::of_process().leave(job_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

LocalJob::~LocalJob() {
  join();
}

const std::vector<std::string>& LocalJob::ends() {
  join();
  return ends_;
}

std::string LocalJob::run_one(const Work& work, const std::string& type, const Options& of_worker) {
  return said_by([&] {
    const auto store = KVStore::create(type, of_worker);
    return work(*store);
  });
}

std::vector<std::string> LocalJob::run(const Work& work, const std::string& type,
                                       const Options& of_workers) const {
  std::vector<std::string> said(static_cast<std::size_t>(job_.size.workers));
  std::vector<std::thread> workers;
  workers.reserve(said.size());
  for (std::string& mine : said) {
    workers.emplace_back([&] {
      std::string* place = &mine;
      std::string words = run_one(
          [&](KVStore& store) {
            place = &said[static_cast<std::size_t>(store.rank())];
            return said_by([&] { return work(store); });
          },
          type, of_workers);
      *place = std::move(words);
    });
  }
  for (std::thread& worker : workers) worker.join();
  return said;
}

std::string text_of(const std::vector<float>& values) {
  return fmt::format("{}", fmt::join(values, " "));
}

}  // namespace tutti
