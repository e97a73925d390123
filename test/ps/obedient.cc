// A worker that does what each line of its standard input says, and says behind "= " what came of
// it.
//
//   create TYPE   makes a store
//   sum [COUNT]   init of "w" with so many elements (1), each 5, and pushpull of 1 there
//   keys COUNT    init, push and pull of so many keys, of one element each
//   close
//   fork          starts a child that sleeps, and says its process
//   exit          returns from main
//   quit          leaves by _exit
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace {

using namespace tutti;

void say(const std::string& text) {
  std::printf("= %s\n", text.c_str());
  std::fflush(stdout);
}

Tensor over(std::vector<float>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}, DType::f32};
}

std::string sum(KVStore& store, std::size_t count) {
  std::vector<float> first(count, 5);
  std::vector<float> ones(count, 1);
  store.init({"w"}, {over(first)});
  store.pushpull("w", over(ones), over(ones)).wait();
  return "summed " + std::to_string(static_cast<int>(ones[0]));
}

std::string use_keys(KVStore& store, std::size_t count) {
  constexpr std::size_t at_once = 1000;
  std::vector<float> values(at_once, 1);
  std::vector<Values> tensors;
  tensors.reserve(at_once);
  for (float& value : values) tensors.emplace_back(Tensor(&value, {}, DType::f32));
  for (std::size_t named = 0; named < count;) {
    std::vector<Key> names;
    while (names.size() < at_once) names.emplace_back("key " + std::to_string(named++));
    store.init(names, tensors);
    store.push(names, tensors);
    store.pull(names, tensors).wait();
  }
  return "used " + std::to_string(count);
}

std::string start_child() {
  const pid_t child = ::fork();
  if (child > 0) return "forked " + std::to_string(child);
  // Its parent's standard output would be open for as long as this is there.
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  ::sleep(60);
  ::_exit(0);
}

std::string answer(std::unique_ptr<KVStore>& store, const std::string& word,
                   const std::string& argument) {
  if (word == "create") {
    store = KVStore::create(argument);
    return "created " + std::to_string(store->rank());
  }
  if (word == "sum") return sum(*store, argument.empty() ? 1 : std::stoul(argument));
  if (word == "keys") return use_keys(*store, std::stoul(argument));
  if (word == "close") {
    store->close();
    return "closed";
  }
  if (word == "fork") return start_child();
  return "unknown " + word;
}

}  // namespace

int main() {
  std::unique_ptr<KVStore> store;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string word;
    std::string argument;
    words >> word >> argument;
    if (word == "exit") break;
    if (word == "quit") ::_exit(0);
    try {
      say(answer(store, word, argument));
    } catch (const Error& error) {
      say("caught " + std::string(name(error.code())) + ": " + error.what());
    }
  }
  return 0;
}
