// Any process of a job may end, at any moment. No process waits for it for ever, and each of the
// others hears which one it was.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ps/scheduler/registry.h"
#include "tutti/version.h"
#include "unit/ps/durable/simulated_server.h"

using namespace tutti;
using namespace tutti::ps;

namespace {

using Node = Registry::Node;

constexpr std::uint64_t job_number = 99;
/// The nodes of two workers and two servers.
constexpr Node nodes[] = {1, 2, 3, 4};
/// A process that is started again has the number of the former one and this.
constexpr Node again = 10;

/// A job, and how one of its processes ends.
struct Course {
  bool asynchronous = false;
  bool durable = false;      ///< its servers
  bool comes_again = false;  ///< the process is started again where that is of use
  bool is_told = false;      ///< to end, so it says so; otherwise its connection ends
  Node victim = 1;           ///< 0: the scheduler
  std::size_t moment = 0;    ///< after so many messages
};

struct Step {
  std::optional<ToScheduler> says;
  bool (*ends_it)(const FromScheduler&);  ///< the answer that it waits for
};

template <typename Message>
bool is(const FromScheduler& said) {
  return std::holds_alternative<Message>(said);
}

/// A process, which sends its next message as soon as it has its last answer.
struct Process {
  Register self;
  std::vector<Step> steps;
  std::size_t at = 0;
  bool has_said = false;
  bool is_over = false;
  bool closes = false;              ///< its connection is about to end
  std::vector<std::string> told{};  ///< of processes that ended

  bool may_speak() const { return !is_over && !has_said && steps[at].says; }
  bool has_finished() const { return self.role == Role::worker && at + 1 == steps.size(); }
  void hear(const FromScheduler& said);
};

void Process::hear(const FromScheduler& said) {
  if (is_over) return;
  if (const auto* const refused = std::get_if<Refused>(&said))
    told.push_back(refused->failure.text);
  if (const auto* const lost = std::get_if<Lost>(&said)) {
    told.push_back(fmt::format("{} {} is lost", name(lost->role), lost->rank));
    const bool goes_on = self.asynchronous && lost->role == Role::worker;
    is_over = lost->role == Role::scheduler || (self.role == Role::worker && !goes_on);
  }
  is_over = is_over || is<Refused>(said) || is<End>(said);
  closes = is_over;
  if ((has_said || !steps[at].says) && !is_over && steps[at].ends_it(said)) {
    ++at;
    has_said = false;
  }
}

/// A scheduler and its processes, whose messages come in an order that is drawn.
class EndingJob {
 public:
  EndingJob(const Course& course, unsigned seed) : course_(course), random_(seed) {
    for (const Node node : nodes) start(node, node, {0});
  }

  /// Plays until everything is over.
  void play();
  void check();

 private:
  void start(Node node, Node like, Brought brings);
  void speak(Process& process, Node node);
  bool advance();
  void end_victim();
  void let_time_pass();
  void start_again();
  std::string waiting() const;
  bool ends_well() const;

  const Course course_;
  std::mt19937 random_;
  std::map<Node, Process> processes_;
  std::size_t messages_ = 0;
  bool has_ended_ = false;
  bool victim_was_there_ = false;
  bool victim_had_finished_ = false;
  bool was_complete_ = false;
  bool is_back_ = false;
  bool is_given_up_ = false;
  std::string victim_;
  std::vector<Node> concerned_;  ///< those that needed the victim when it ended
  Registry registry_{{.workers = 2, .servers = 2},
                     1'000'000,
                     [this](Node node, const FromScheduler& said) {
                       const auto it = processes_.find(node);
                       if (it != processes_.end()) it->second.hear(said);
                     },
                     job_number};
};

void EndingJob::start(Node node, Node like, Brought brings) {
  const bool is_worker = like <= 2;
  Register self{is_worker ? Role::worker : Role::server,
                static_cast<int>((like - 1) % 2),
                2,
                2,
                version(),
                is_worker && course_.asynchronous,
                "127.0.0.1",
                70};
  self.durable = !is_worker && course_.durable;
  if (!is_worker) self.brings = {std::move(brings)};
  std::vector<Step> steps{{self, is<Welcome>}};
  if (is_worker) {
    steps.push_back({Locate{{{"w", 12, DType::f32}}}, is<Located>});
    for (int i = 0; i < 2; ++i) steps.push_back({BarrierArrival{}, is<BarrierRelease>});
    steps.push_back({Finished{}, is<End>});
  } else {
    steps.push_back({Ready{}, is<Begin>});
    steps.push_back({std::nullopt, is<End>});
  }
  processes_.emplace(node, Process{.self = self, .steps = std::move(steps)});
}

void EndingJob::speak(Process& process, Node node) {
  process.has_said = true;
  ++messages_;
  registry_.receive(node, *process.steps[process.at].says);
}

/// One process says something, or its connection ends. False: none has anything to say.
bool EndingJob::advance() {
  std::vector<Node> able;
  for (const auto& [node, process] : processes_) {
    // A process that comes late finds no scheduler.
    const bool speaks = process.may_speak() && !registry_.is_over();
    if (speaks || process.closes) able.push_back(node);
  }
  if (able.empty()) return false;
  const Node node = able[random_() % able.size()];
  Process& process = processes_.at(node);
  if (process.closes) {
    process.closes = false;
    registry_.lose(node, "its connection ended");
  } else {
    speak(process, node);
  }
  return true;
}

void EndingJob::end_victim() {
  has_ended_ = true;
  was_complete_ = registry_.is_complete();
  if (course_.victim == 0) {
    victim_ = "scheduler 0";
  } else {
    const Process& process = processes_.at(course_.victim);
    victim_was_there_ = process.at > 0 || process.has_said;
    victim_had_finished_ = process.is_over || (process.has_finished() && process.has_said);
    victim_ = fmt::format("{} {}", name(process.self.role), process.self.rank);
    processes_.erase(course_.victim);
  }
  for (const auto& [node, process] : processes_) {
    if (!process.is_over && !(process.has_finished() && process.has_said))
      concerned_.push_back(node);
  }
  if (course_.victim == 0) return registry_.stop("it was ended by SIGTERM");
  if (course_.is_told && victim_was_there_) registry_.receive(course_.victim, Stopping{"SIGTERM"});
  registry_.lose(course_.victim, "its connection ended");
}

void EndingJob::start_again() {
  is_back_ = true;
  start(course_.victim + again, course_.victim, {registry_.has_begun() ? job_number : 0});
}

/// The scheduler acts on the time limits that have passed. No process may wait without such a
/// limit.
void EndingJob::let_time_pass() {
  const std::vector<int> away = registry_.servers_away();
  const bool lacks_one = has_ended_ && !is_back_ && (!registry_.is_complete() || !away.empty());
  if (lacks_one && course_.comes_again) return start_again();
  if (!registry_.is_complete()) return registry_.give_up_waiting();
  if (away.empty()) FAIL("nobody waits for these with a time limit: " << waiting());
  is_given_up_ = true;
  registry_.give_up_on_server(away.front(), std::chrono::seconds(300));
}

std::string EndingJob::waiting() const {
  std::string all;
  for (const auto& [node, process] : processes_) {
    if (process.is_over) continue;
    all += fmt::format("{} {} at its step {}; ", name(process.self.role), process.self.rank,
                       process.at);
  }
  return all;
}

void EndingJob::play() {
  while (!registry_.is_over()) {
    if (!has_ended_ && messages_ == course_.moment) end_victim();
    if (!registry_.is_over() && !advance()) let_time_pass();
  }
  while (advance()) continue;
}

bool EndingJob::ends_well() const {
  if (course_.victim == 0) return false;
  if (is_back_ || victim_had_finished_) return true;
  // The workers need a durable server that is away no more once they have finished.
  const bool is_awaited = course_.victim > 2 && course_.durable && was_complete_;
  return is_awaited && !is_given_up_;
}

void EndingJob::check() {
  for (const auto& [node, process] : processes_) {
    // One that had not registered finds no scheduler any more.
    if (process.at > 0 || process.has_said) CHECK(process.is_over);
  }
  CHECK(registry_.trouble().empty() == ends_well());
  if (ends_well()) return;
  const bool is_missed = course_.victim != 0 && !victim_was_there_;
  const std::string word = is_missed                              ? "gave up waiting"
                           : course_.victim == 0 || was_complete_ ? victim_ + " is lost"
                                                                  : victim_ + " came and went";
  for (const Node node : concerned_) {
    const Process& process = processes_.at(node);
    if (process.at == 0 && !process.has_said) continue;
    INFO(fmt::format("node {} was told: {}", node, fmt::join(process.told, "; ")));
    CHECK(std::ranges::any_of(process.told, [&](const std::string& told) {
      return told.find(word) != std::string::npos;
    }));
  }
}

/// How many messages a job has that ends well.
constexpr std::size_t messages = 4 + 2 + 2 * 4;

}  // namespace

TEST_CASE("whichever process ends at whichever moment, none waits for it, and all hear which") {
  const Quiet quiet;
  std::size_t tried = 0;
  for (unsigned bits = 0; bits < 16; ++bits) {
    Course course{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    for (course.victim = 0; course.victim <= std::size(nodes); ++course.victim) {
      for (course.moment = 0; course.moment < messages; ++course.moment) {
        for (unsigned seed = 0; seed < 8; ++seed, ++tried) {
          INFO("asynchronous " << course.asynchronous << ", durable " << course.durable
                               << ", comes again " << course.comes_again << ", told "
                               << course.is_told << ", victim " << course.victim << ", moment "
                               << course.moment << ", seed " << seed);
          EndingJob job(course, seed);
          job.play();
          job.check();
        }
      }
    }
  }
  CHECK(tried == 16 * 5 * messages * 8);
}
