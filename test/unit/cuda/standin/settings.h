#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

/// The settings of a stand-in. The environment variable STANDIN_GPU says which machine it plays,
/// and STANDIN_FAULTS what fails. A store refuses variables that begin with TUTTI_ and that it does
/// not know.
namespace standin {

enum class Engine { h2d, d2h, d2d, kernel, nccl };
inline constexpr std::size_t engines = 5;

/// How long an engine takes: delay + bytes / rate. It does one thing at a time.
struct Speed {
  double rate = 0;   ///< bytes a second; 0: as fast as the host can
  double delay = 0;  ///< seconds
};

/// "devices=2 driver=12020 h2d=10e9 h2d_delay=5e-6 kernel=300e9 shared=/tmp/gpus"
struct Machine {
  int devices = 1;
  int driver = 13000;
  std::array<Speed, engines> speed;
  /// A file through which processes share the devices' engines; empty: each has its own.
  std::string shared;
};
/// Throws std::invalid_argument for a word that it does not know.
Machine read_machine(const std::string& words);

/// How a call fails. `late`: the call succeeds, and the work that it enqueued fails. `skip`: it
/// does nothing and says that all is well, as if the program had left it out and had gone on.
struct Fault {
  enum class Kind { at_once, late, hang, skip };
  Kind kind = Kind::at_once;
  int error = 0;
};

/// "cuMemAlloc#2=2 cuLaunchKernel#1=late:700 cuEventQuery#3=hang cuStreamWaitEvent#0=skip":
/// the n-th call of a function, which has no version at its end; #0: every call.
class Faults {
 public:
  explicit Faults(const std::string& words);
  /// Counts a call of the function: its fault, if it has one.
  std::optional<Fault> next(const std::string& function);
  /// How many calls of the function were counted.
  int calls(const std::string& function) const;

 private:
  struct Planned {
    int call = 0;
    Fault fault;
  };
  std::multimap<std::string, Planned> planned_;
  std::map<std::string, int> calls_;
};

}  // namespace standin
