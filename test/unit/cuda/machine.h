#pragma once
#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" [[gnu::weak]] void __tsan_acquire(void* address);

/// The stand-in for the driver, which the loader found as libcuda.so.1. Tests with the tag [gpu]
/// use only functions that a driver has, too, so they also run on a real GPU.
namespace standin {

/// A function that only the stand-ins have.
template <typename Function>
Function* function(const char* library, const char* name) {
  void* const loaded = ::dlopen(library, RTLD_NOW);
  REQUIRE(loaded != nullptr);
  auto* const found = reinterpret_cast<Function*>(::dlsym(loaded, name));
  REQUIRE(found != nullptr);
  return found;
}

/// Plays this machine with these faults, in the words of standin/settings.h, until it is destroyed.
class Playing {
 public:
  explicit Playing(const std::string& machine, const std::string& faults = "") {
    configure(machine, faults);
  }
  ~Playing() { configure("", ""); }
  Playing(const Playing&) = delete;
  Playing& operator=(const Playing&) = delete;

 private:
  static void configure(const std::string& machine, const std::string& faults) {
    function<void(const char*, const char*)>("libcuda.so.1", "standin_configure")(machine.c_str(),
                                                                                  faults.c_str());
    function<decltype(cuInit)>("libcuda.so.1", "cuInit")(0);
  }
};

/// Makes an object that is never destroyed, because work that hangs may still use it. It counts as
/// no leak, for it is found from here.
template <typename T, typename... Arguments>
T& never_freed(Arguments&&... arguments) {
  static auto& all = *new std::vector<T*>;
  return *all.emplace_back(new T(std::forward<Arguments>(arguments)...));
}

/// Whether this build has the thread sanitizer.
inline bool is_sanitized() {
  return __tsan_acquire != nullptr;
}

/// Runs the test of this name in a process of its own, and returns what the process said. Fails if
/// the process did not run the test.
inline std::string said_by(const std::string& test) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  // Catch takes a plain comma for an "or", and a plain bracket for the beginning of a tag.
  std::string name;
  for (const char letter : test) {
    if (letter == ',' || letter == '[' || letter == '\\') name += '\\';
    name += letter;
  }
  FILE* const process =
      ::popen(("'" + self + "' '" + name + "' --durations yes 2>&1").c_str(), "r");
  REQUIRE(process != nullptr);
  std::string said;
  std::array<char, 4096> part{};
  while (const std::size_t bytes = std::fread(part.data(), 1, part.size(), process)) {
    said.append(part.data(), bytes);
  }
  ::pclose(process);
  INFO(said);
  REQUIRE(said.find(" s: " + test + '\n') != std::string::npos);  // the test's duration
  return said;
}

}  // namespace standin
