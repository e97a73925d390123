#pragma once
#include <cuda.h>
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>

/// The stand-in for the driver, which the loader found as libcuda.so.1. Tests with the tag [gpu] do
/// without what it alone can do: they run on a real GPU, too.
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

}  // namespace standin
