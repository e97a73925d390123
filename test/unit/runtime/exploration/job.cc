#include "job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory_resource>
#include <optional>
#include <utility>

#include "runtime/executor.h"
#include "runtime/progress_lock.h"

namespace tutti::test {
namespace {

using base::Clock;
using runtime::Call;
using namespace std::chrono_literals;

constexpr std::size_t most_calls = 3;

struct Rules {
  std::vector<Call> calls;
  bool replays = true;
  bool rings = true;  ///< the peer, when it arrives at a gate; otherwise it sends by MPI
};

class Job final : public Shared {
 public:
  Job(const Rules& rules, std::size_t users)
      : rules_(rules),
        executor_(rules.replays, escaped_),
        lock_(executor_, bell_, true),
        users_(users) {
    at_ = this;
    const auto keep = [](base::Driver*) {};
    driver_ = {&lock_, keep, std::pmr::polymorphic_allocator<base::Driver>(&memory_)};
    for (std::size_t i = 0; i < completions_.size(); ++i) {
      completions_[i].emplace(1, "a call", driver_);
      if (i < rules_.calls.size()) rules_.calls[i].completion = &*completions_[i];
    }
  }

  static Job& at() { return *at_; }

  std::size_t bytes() const override { return sizeof *this; }
  std::string what_is_wrong() const override {
    if (executor_.lateness() > longest_lateness) return "a deadline was met too late";
    if (executor_.has_done_all() && ended_ == users_) return {};
    return fmt::format("all sleep; {} of {} user threads have not ended, and not all is done",
                       users_ - ended_, users_);
  }

  void run_lock() {
    lock_.run();
    joined_.settle();
  }
  /// Returns false if the store is closed.
  bool submit(std::size_t call) {
    threads().step_at_leisure("submits");
    if (executor_.is_departing()) return false;
    executor_.submit(&rules_.calls[call]);
    lock_.serve_inbox();
    return true;
  }
  void submit_all() {
    for (std::size_t call = 0; call < rules_.calls.size(); ++call) submit(call);
  }
  void wait(std::size_t call) {
    threads().step_at_leisure("waits");
    completion(call).wait_until(Clock::time_point::max());
  }
  bool wait_a_little(std::size_t call) {
    const auto deadline = Clock::now() + 1ms;
    threads().may_come(deadline.time_since_epoch().count());
    return completion(call).wait_until(deadline);
  }
  void close() {
    threads().step("submits its departure");
    executor_.depart(&*completions_[most_calls]);
    lock_.serve_inbox();
    completions_[most_calls]->wait_until(Clock::time_point::max());
    joined_.wait_until(Clock::time_point::max());
    lock_.close();
    executor_.end();
  }
  void arrive(std::size_t gate) {
    if (rules_.calls[gate].escapes) {
      escaped_.wait_until(Clock::time_point::max());
      executor_.plan();
      bell_.ring();
    }
    if (!rules_.rings) {
      // This pauses, because polls at leisure would never end.
      threads().pause(std::chrono::nanoseconds(1ms).count());
      executor_.peer_arrives();
      return;
    }
    threads().step_at_leisure("arrives at a gate");
    executor_.peer_arrives();
    bell_.ring_for_data();
  }
  void end_user() { ++ended_; }

 private:
  static constexpr Clock::duration longest_lateness = 100ms;
  static Threads& threads() { return *Threads::current(); }
  base::Completion& completion(std::size_t call) { return *completions_[call]; }

  static Job* at_;
  Rules rules_;
  base::Doorbell bell_;
  base::Completion escaped_{1, "an escape"};  ///< which nobody drives
  runtime::Executor executor_;
  runtime::ProgressLock lock_;
  // The memory of the driver is in this object, because a count in it changes with each wait.
  std::array<std::byte, 128> driver_bytes_{};
  std::pmr::monotonic_buffer_resource memory_{driver_bytes_.data(), driver_bytes_.size()};
  std::shared_ptr<base::Driver> driver_;
  base::Completion joined_{1, "the end of tutti-exec"};  ///< which nobody drives
  std::array<std::optional<base::Completion>, most_calls + 1> completions_;
  const std::size_t users_;
  std::size_t ended_ = 0;
};

Job* Job::at_ = nullptr;

Scenario scenario(std::string name, Rules rules, std::vector<void (*)(Job&)> users,
                  const Search& search = {}) {
  Scenario made{std::move(name), {}, {}, search};
  const std::size_t gates = rules.calls.size();
  made.bodies.push_back({"tutti-exec", [] { Job::at().run_lock(); }});
  for (std::size_t i = 0; i < users.size(); ++i) {
    made.bodies.push_back({fmt::format("user {}", i + 1), [user = users[i]] {
                             Threads::current()->await_quiet();
                             user(Job::at());
                             Job::at().end_user();
                           }});
  }
  made.bodies.push_back({"peer", [gates] {
                           Threads::current()->await_quiet();
                           for (std::size_t i = 0; i < gates; ++i) Job::at().arrive(i);
                         }});
  made.make = [rules = std::move(rules), count = users.size()] {
    return std::make_unique<Job>(rules, count);
  };
  return made;
}

// If a thread ends that has not waited for all its calls, the program looks now and then whether
// they are done. That moves nothing.
template <std::size_t call>
void submit_and_wait(Job& job) {
  if (job.submit(call)) job.wait(call);
}

template <std::size_t call>
void submit_and_wait_a_little(Job& job) {
  job.submit(call);
  job.wait_a_little(call);
}

template <std::size_t call>
void submit(Job& job) {
  job.submit(call);
}

void wait_for_the_first(Job& job) {
  job.submit_all();
  job.wait(0);
}

void wait_a_little_for_the_first(Job& job) {
  job.submit_all();
  job.wait_a_little(0);
}

void wait_and_close(Job& job) {
  submit_and_wait<0>(job);
  job.close();
}

/// A sleep of 100 ms is allowed: deadlines may be met that late.
Search late(Search search) {
  search.too_long = std::chrono::nanoseconds(101ms).count();
  return search;
}

constexpr Call between_nodes{.is_long = false, .between_nodes = true};
constexpr Call long_between_nodes{.is_long = true, .between_nodes = true};

std::vector<Scenario> of_one_user(const Search& search) {
  return {
      scenario("one waits", {.calls = {{}}}, {submit_and_wait<0>}, search),
      scenario("one waits a little", {.calls = {{}}}, {submit_and_wait_a_little<0>}, search),
      scenario("one waits for the first of three calls", {.calls = {{}, {}, {}}},
               {wait_for_the_first}, search),
      scenario("one waits a little for the first of two calls, a long one",
               {.calls = {{.is_long = true}, {}}}, {wait_a_little_for_the_first}, search),
      scenario("one waits for the first of two calls, before replay",
               {.calls = {{}, {}}, .replays = false}, {wait_for_the_first}, search),
      scenario("one waits for a call with a deleter", {.calls = {{.has_deleter = true}}},
               {submit_and_wait<0>}, search),
      scenario("one waits for the first of two calls, which have callbacks",
               {.calls = {{.has_callback = true}, {.has_callback = true}}}, {wait_for_the_first},
               search),
      scenario("one waits for a long transfer between nodes",
               {.calls = {long_between_nodes}, .rings = false}, {submit_and_wait<0>}, late(search)),
      scenario("one waits for a short transfer between nodes",
               {.calls = {between_nodes}, .rings = false}, {submit_and_wait<0>}, late(search)),
      scenario("one waits and closes", {.calls = {{}}}, {wait_and_close}, search),
  };
}

std::vector<Scenario> of_two_users(const Search& search) {
  return {
      scenario("one waits, another does not", {.calls = {{}, {}}}, {submit_and_wait<0>, submit<1>},
               search),
      scenario("one waits a little, another does not", {.calls = {{}, {}}},
               {submit_and_wait_a_little<0>, submit<1>}, search),
      scenario("two wait", {.calls = {{}, {}}}, {submit_and_wait<0>, submit_and_wait<1>}, search),
      scenario("two wait, and one must, for replay lacks a call",
               {.calls = {{}, {.escapes = true}}}, {submit_and_wait<0>, submit_and_wait<1>},
               search),
      scenario("two wait, and one call has a deleter", {.calls = {{.has_deleter = true}, {}}},
               {submit_and_wait<0>, submit_and_wait<1>}, search),
      scenario("one closes while another waits", {.calls = {{}, {}}},
               {wait_and_close, submit_and_wait<1>}, search),
  };
}

std::vector<Scenario> together(std::vector<Scenario> all, std::vector<Scenario> more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
  return all;
}

}  // namespace

std::vector<Scenario> quick_scenarios() {
  const Search search{.most_preemptions = 0};
  std::vector<Scenario> two = of_two_users(search);
  two.resize(2);
  return together(of_one_user(search), std::move(two));
}

std::vector<Scenario> usual_scenarios() {
  const Search search{.most_preemptions = 1};
  return together(of_one_user(search), of_two_users(search));
}

std::vector<Scenario> slow_scenarios() {
  std::vector<Scenario> one = of_one_user({.most_preemptions = 1});
  one[0].search.most_preemptions = any_number;
  std::vector<Scenario> two = of_two_users({.most_preemptions = 0});
  two[0].search.most_preemptions = 1;
  return together(std::move(one), std::move(two));
}

}  // namespace tutti::test
