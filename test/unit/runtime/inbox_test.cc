#include "runtime/inbox.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "tutti/error.h"

using namespace tutti;
using namespace tutti::runtime;

namespace {

std::shared_ptr<CallList> calls(std::initializer_list<Key> keys) {
  auto list = std::make_shared<CallPool>()->take(keys.size());
  std::transform(keys.begin(), keys.end(), list->calls.begin(), [](const Key& key) {
    TensorCall call;
    call.key = key;
    return call;
  });
  return list;
}

std::vector<Submission> taken(Inbox& inbox) {
  std::vector<Submission> submissions;
  inbox.take(submissions);
  return submissions;
}

std::vector<Key> keys_of(const std::vector<Submission>& submissions) {
  std::vector<Key> keys;
  for (const Submission& submission : submissions) {
    for (const TensorCall& call : std::get<std::shared_ptr<CallList>>(submission)->calls) {
      keys.push_back(call.key);
    }
  }
  return keys;
}

}  // namespace

TEST_CASE("a list with a key in flight submits nothing of it") {
  Inbox inbox(3);
  inbox.submit(calls({"a"}));
  CHECK_THROWS_AS(inbox.submit(calls({"b", "a", "c"})), Error);
  CHECK(taken(inbox).size() == 1);
  inbox.submit(calls({"b", "c"}));
  CHECK(keys_of(taken(inbox)) == std::vector<Key>{"b", "c"});
  CHECK(inbox.in_flight() == std::vector<Key>{"a", "b", "c"});
}

TEST_CASE("the error about a key in flight names the call that the program has made") {
  Inbox inbox(3);
  const auto list = calls({"a"});
  list->open("allreduce", {});
  inbox.submit(list);
  CHECK_THROWS_WITH(inbox.submit(calls({"a"})),
                    "key 'a' is already in flight on rank 3: its allreduce is not done; wait for "
                    "that call before the key's next call");
}

TEST_CASE("a released key may be used again") {
  Inbox inbox(3);
  inbox.submit(calls({"a"}));
  const auto first = taken(inbox);
  const TensorCall* const call = &std::get<std::shared_ptr<CallList>>(first[0])->calls[0];
  inbox.release({&call, 1});
  inbox.submit(calls({"a"}));
  CHECK(taken(inbox).size() == 1);
}

TEST_CASE("keys are told apart in whatever order they come again") {
  Inbox inbox(3);
  const auto pass = [&](std::initializer_list<Key> keys) {
    const std::vector<Key> before = inbox.in_flight();
    const auto list = calls(keys);
    inbox.submit(list);
    CHECK(inbox.in_flight().size() == before.size() + keys.size());
    for (const TensorCall& call : list->calls) {
      const TensorCall* const over = &call;
      inbox.release({&over, 1});
    }
    CHECK(inbox.in_flight() == before);
  };
  pass({"a", "b", "c"});
  inbox.submit(calls({"b"}));
  pass({"c", "a"});
  pass({"a", "d", "c"});
  CHECK_THROWS_AS(inbox.submit(calls({"a", "b"})), Error);
  CHECK_THROWS_AS(inbox.submit(calls({"a", "c", "a"})), Error);
  CHECK(inbox.in_flight() == std::vector<Key>{"b"});
}

TEST_CASE(
    "submissions of several threads at once are each taken once, while another thread takes") {
  constexpr int users = 3;
  constexpr int each = 5000;
  Inbox inbox(3);
  std::atomic<int> busy{users};
  std::vector<std::thread> threads;
  threads.reserve(users);
  for (int user = 0; user < users; ++user) {
    threads.emplace_back([&inbox, &busy, user] {
      for (int i = 0; i < each; ++i) {
        inbox.submit(calls({user * each + i}));
      }
      --busy;
    });
  }
  std::set<Key> keys;
  std::size_t count = 0;
  const auto take = [&] {
    for (const Submission& submission : taken(inbox)) {
      ++count;
      keys.insert(std::get<std::shared_ptr<CallList>>(submission)->calls.front().key);
    }
  };
  while (busy > 0) take();
  for (std::thread& thread : threads) thread.join();
  take();
  constexpr std::size_t all = std::size_t{users} * each;
  CHECK(count == all);
  CHECK(keys.size() == all);
}

TEST_CASE(
    "a dead inbox throws the error of which it died and gives back the submissions not taken") {
  Inbox inbox(3);
  inbox.submit(calls({"a"}));
  const auto left = inbox.die(std::make_exception_ptr(Error(ErrorCode::peer_lost, "rank 3 died")));
  CHECK(left.size() == 1);
  CHECK_THROWS_WITH(inbox.submit(calls({"b"})), "rank 3 died");
  CHECK_THROWS_WITH(inbox.submit(JoinCall{}), "rank 3 died");
}
