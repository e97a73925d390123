// A worker that does what each line of its standard input says, and says behind "= " what came of
// it.
//
//   create TYPE   makes a store
//   sum           init of "w" with 5, and pushpull of 1 there
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

#include "tutti/tutti.h"

namespace {

using namespace tutti;

void say(const std::string& text) {
  std::printf("= %s\n", text.c_str());
  std::fflush(stdout);
}

std::string sum(KVStore& store) {
  float first = 5;
  float one = 1;
  store.init({"w"}, {Tensor(&first, {1}, DType::f32)});
  store.pushpull("w", Tensor(&one, {1}, DType::f32), Tensor(&one, {1}, DType::f32)).wait();
  return "summed " + std::to_string(static_cast<int>(one));
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
                   const std::string& type) {
  if (word == "create") {
    store = KVStore::create(type);
    return "created " + std::to_string(store->rank());
  }
  if (word == "sum") return sum(*store);
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
    std::string type;
    words >> word >> type;
    if (word == "exit") break;
    if (word == "quit") ::_exit(0);
    try {
      say(answer(store, word, type));
    } catch (const Error& error) {
      say("caught " + std::string(name(error.code())) + ": " + error.what());
    }
  }
  return 0;
}
