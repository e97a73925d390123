#pragma once
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

// Runs production code as threads, in every order of their steps. A step is all that a thread does
// from one operation on shared memory up to the next: an atomic operation, taking a mutex, sleeping
// on a futex or a condition. The operations arrive here through hooks.cc, so that the code under
// test is compiled as it is. Memory is sequentially consistent.
//
// All threads run on one thread of the system. A state is a copy of their stacks and of the memory
// that they share, so going back to an earlier state is copying it back.
namespace tutti::test {

/// Time in nanoseconds. It stands still while any thread can run, except for deadlines that may
/// come.
using Time = std::int64_t;

struct ThreadBody {
  std::string name;
  std::function<void()> run;
};

/// The state that the threads share. All of it lies in this object, which may be copied byte by
/// byte, and in the memory that the threads take from the heap.
class Shared {
 public:
  virtual ~Shared() = default;
  virtual std::size_t bytes() const = 0;
  /// Called when nothing happens any more. Says what is wrong with that. Empty if nothing is.
  virtual std::string what_is_wrong() const = 0;
};

constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

struct Search {
  /// A sleep that is as long or longer is no way to find work that is there.
  Time too_long = 100'000'000;
  std::size_t most_states = 20'000'000;
  /// So often others go first though the thread that took the last step can go on.
  std::size_t most_preemptions = any_number;
};

struct Found {
  std::size_t states = 0, steps = 0, ends = 0;
  bool gave_up = false;           ///< too many states
  std::string wrong;              ///< empty: nothing
  std::vector<std::string> path;  ///< the steps that lead to it
};

class Threads {
 public:
  /// Tries every order, from each state once. Stops at the first state that is wrong.
  static Found explore(Shared& shared, std::vector<ThreadBody> bodies, const Search& search);
  /// Those that run now; null outside their code.
  static Threads* current();

  /// This must not be.
  [[noreturn]] void fail(const char* what);
  bool is_shared(const volatile void* at) const { return place(at) < shared_.bytes(); }
  /// The calling thread is about to do that. Others may go first.
  void step(const char* what, const volatile void* at = nullptr);
  /// Blocks while `*word == value`, until it is woken by one of `bits` or the time comes.
  void sleep(const volatile std::uint32_t* word, std::uint32_t value, std::uint32_t bits,
             Time until);
  void wake(const volatile void* at, std::uint32_t bits);
  /// Does the same as `step`, but may take any time: nobody waits until it has happened.
  void step_at_leisure(const char* what);
  /// Goes on when no other thread can run, except at leisure. A yield lets the others go first.
  void yield();
  /// Goes on after that time.
  void pause(Time time);
  /// Goes on once no other thread has had anything to do for long.
  void await_quiet();
  void lock(const void* mutex);
  bool try_lock(const void* mutex);
  void unlock(const void* mutex);
  /// Returns false if the time came first.
  bool wait(const void* condition, const void* mutex, Time until);
  Time now() const { return state_.now; }
  /// From now on the clock may jump there, even if threads can run.
  void may_come(Time time);
  /// Memory that is part of the state. None of it is given back.
  void* allocate(std::size_t bytes);
  static bool has_allocated(const void* at);

 private:
  static constexpr std::size_t most_threads = 6;
  static constexpr std::size_t stack_bytes = std::size_t{32} << 10;

  enum class Mode : std::uint8_t { ready, at_leisure, yields, locks, sleeps, awaits_quiet, over };
  struct Thread {
    Mode mode = Mode::ready;
    bool woken = false;
    std::uint32_t bits = 0;
    const volatile void* at = nullptr;  ///< what it waits for
    Time until = 0;
    const std::byte* stack = nullptr;  ///< its lowest byte; null: the thread has not begun
    const char* what = "begins";       ///< its next step
    std::uint64_t where = 0;
    std::jmp_buf registers{};
  };
  /// Beside the stacks and the shared memory.
  struct State {
    Thread threads[most_threads];
    const void* held[most_threads] = {};  ///< mutexes
    Time now = 0;
    Time deadline = 0;  ///< may come; past: none
    std::size_t allocated = 0;
    std::size_t running = 0;  ///< took the last step
    std::size_t preemptions = 0;
  };
  struct Copy {
    State state;
    std::vector<std::byte> memory;
  };
  struct Mark {
    std::uint64_t a = 0, b = 0;
    bool operator==(const Mark&) const = default;
  };
  struct MarkHash {
    std::size_t operator()(const Mark& mark) const { return mark.a; }
  };
  /// A state on the way, and who may go on from there.
  struct Choice {
    Mark mark;
    Copy copy;
    std::vector<std::size_t> options;
    std::size_t next = 0;
  };

  Threads(Shared& shared, std::vector<ThreadBody> bodies, const Search& search);
  void try_all();
  void arrive();
  void take(std::size_t option);
  static void enter();
  std::vector<std::size_t> options();
  bool end_quiet();
  bool may_run(const Thread& thread) const;
  bool sleeps_a_little(const Thread& thread) const;
  bool is_held(const volatile void* mutex) const;
  std::size_t clock() const { return bodies_.size(); }
  bool is_bounded() const { return search_.most_preemptions != any_number; }
  Thread& self() { return state_.threads[state_.running]; }
  void block(Mode mode, const char* what, const volatile void* at, Time until);

  Copy copy() const;
  void restore(const Copy& copy);
  Mark mark(const Copy& copy) const;
  std::vector<std::string> path() const;
  std::byte* top(std::size_t thread) const { return stacks_[thread].get() + stack_bytes; }
  std::size_t place(const volatile void* at) const;

  Shared& shared_;
  const std::vector<ThreadBody> bodies_;
  const Search search_;
  std::vector<std::unique_ptr<std::byte[]>> stacks_;
  State state_;
  std::jmp_buf outside_{};
  std::unordered_map<Mark, bool, MarkHash> on_the_way_;  ///< of every state seen
  std::vector<Choice> way_;
  Found found_;
};

}  // namespace tutti::test
