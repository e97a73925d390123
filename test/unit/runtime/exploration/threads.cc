#include "threads.h"

#include <fmt/format.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/failure.h"

namespace tutti::test {
namespace {

constexpr Time start = 1'000'000'000'000;
/// The time that a yield takes while no other thread has anything to do.
constexpr Time quiet = 20'000;
Threads* playing = nullptr;
alignas(16) std::array<std::byte, 1024> heap;

/// Wipes the memory below the stack. So a function finds its variables always in the same state
/// before it sets them, and equal states have equal stacks.
__attribute__((noinline)) void wipe_below() {
  std::array<std::byte, 2048> below;
  below.fill(std::byte{0});
  asm volatile("" : : "r"(below.data()) : "memory");
}

/// Below all that its caller keeps on the stack.
__attribute__((noinline)) const std::byte* stack_pointer() {
  return static_cast<const std::byte*>(__builtin_frame_address(0));
}

}  // namespace

Threads* Threads::current() {
  return playing;
}

Threads::Threads(Shared& shared, std::vector<ThreadBody> bodies, const Search& search)
    : shared_(shared), bodies_(std::move(bodies)), search_(search) {
  base::check(bodies_.size() <= most_threads, "there is room for so many threads");
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    stacks_.push_back(std::make_unique<std::byte[]>(stack_bytes));
  }
  for (std::size_t i = bodies_.size(); i < most_threads; ++i) state_.threads[i].mode = Mode::over;
  state_.now = start;
}

Found Threads::explore(Shared& shared, std::vector<ThreadBody> bodies, const Search& search) {
  Threads threads(shared, std::move(bodies), search);
  threads.try_all();
  threads.found_.states = threads.on_the_way_.size();
  return threads.found_;
}

void Threads::try_all() {
  arrive();
  while (!way_.empty() && found_.wrong.empty() && !found_.gave_up) {
    Choice& here = way_.back();
    if (here.next == here.options.size()) {
      on_the_way_.at(here.mark) = false;
      way_.pop_back();
      continue;
    }
    restore(here.copy);
    take(here.options[here.next++]);
    ++found_.steps;
    if (found_.wrong.empty()) arrive();
  }
  if (!found_.wrong.empty()) found_.path = path();
}

void Threads::arrive() {
  std::vector<std::size_t> all = options();
  Copy copy = this->copy();
  const Mark mark = this->mark(copy);
  const auto [known, fresh] = on_the_way_.try_emplace(mark, !all.empty());
  if (!fresh) {
    // Other threads end it if they can run.
    if (known->second && all.size() == 1) found_.wrong = "a thread goes round and round";
    return;
  }
  found_.gave_up = on_the_way_.size() > search_.most_states;
  if (!all.empty()) return way_.push_back({mark, std::move(copy), std::move(all)});
  ++found_.ends;
  found_.wrong = shared_.what_is_wrong();
}

void Threads::take(std::size_t option) {
  if (option == clock()) {
    state_.now = state_.deadline;
    return;
  }
  if (option != state_.running && may_run(self())) ++state_.preemptions;
  state_.running = option;
  if (self().mode == Mode::yields) state_.now += quiet;
  if (self().mode == Mode::sleeps && !may_run(self())) state_.now = self().until;
  playing = this;
  if (::_setjmp(outside_) == 0) {
    if (self().stack != nullptr) ::_longjmp(self().registers, 1);
    ucontext_t context;
    ::getcontext(&context);
    context.uc_stack.ss_sp = stacks_[state_.running].get();
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    ::makecontext(&context, &Threads::enter, 0);
    ::setcontext(&context);
  }
  playing = nullptr;
}

void Threads::enter() {
  Threads& threads = *playing;
  threads.bodies_[threads.state_.running].run();
  threads.self().mode = Mode::over;
  threads.self().stack = threads.top(threads.state_.running);
  ::_longjmp(threads.outside_, 1);
}

void Threads::step(const char* what, const volatile void* at) {
  Thread& own = self();
  own.what = what;
  own.where = at == nullptr ? 0 : place(at);
  own.stack = stack_pointer();
  if (::_setjmp(own.registers) == 0) ::_longjmp(outside_, 1);
  wipe_below();
}

/// None if nothing happens any more.
std::vector<std::size_t> Threads::options() {
  std::vector<std::size_t> all;
  const auto add_all = [&](const auto& may) {
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      if (may(state_.threads[i])) all.push_back(i);
    }
  };
  const auto has_mode = [](Mode mode) {
    return [mode](const Thread& thread) { return thread.mode == mode; };
  };
  do {
    add_all([this](const Thread& thread) { return may_run(thread); });
    if (all.empty()) add_all(has_mode(Mode::yields));
    if (all.empty()) add_all([this](const Thread& thread) { return sleeps_a_little(thread); });
    add_all(has_mode(Mode::at_leisure));
  } while (all.empty() && end_quiet());
  // The same thread goes on first, so that paths are easy to read.
  const auto own = std::find(all.begin(), all.end(), state_.running);
  if (own != all.end()) std::rotate(all.begin(), own, own + 1);
  if (may_run(self()) && state_.preemptions == search_.most_preemptions) all.resize(1);
  if (state_.deadline > state_.now) all.push_back(clock());
  return all;
}

bool Threads::may_run(const Thread& thread) const {
  switch (thread.mode) {
    case Mode::ready:
      return true;
    case Mode::locks:
      return !is_held(thread.at);
    case Mode::sleeps:
      return thread.woken || thread.until <= state_.now;
    case Mode::at_leisure:
    case Mode::yields:
    case Mode::awaits_quiet:
    case Mode::over:
      break;
  }
  return false;
}

/// Whether this thread sleeps and wakes next: only the first of the sleeping threads does.
bool Threads::sleeps_a_little(const Thread& thread) const {
  return thread.mode == Mode::sleeps && thread.until < state_.now + search_.too_long &&
         std::none_of(std::begin(state_.threads), std::end(state_.threads),
                      [&](const Thread& other) {
                        return other.mode == Mode::sleeps && other.until < thread.until;
                      });
}

bool Threads::end_quiet() {
  bool any = false;
  for (Thread& thread : state_.threads) {
    if (thread.mode != Mode::awaits_quiet) continue;
    thread.mode = Mode::ready;
    any = true;
  }
  return any;
}

bool Threads::is_held(const volatile void* mutex) const {
  return std::find(std::begin(state_.held), std::end(state_.held), mutex) != std::end(state_.held);
}

void Threads::block(Mode mode, const char* what, const volatile void* at, Time until) {
  self().mode = mode;
  self().at = at;
  self().until = until;
  self().woken = false;
  step(what, at);
  self().mode = Mode::ready;
}

void Threads::step_at_leisure(const char* what) {
  block(Mode::at_leisure, what, nullptr, 0);
}

void Threads::fail(const char* what) {
  found_.wrong = what;
  ::_longjmp(outside_, 1);
}

void Threads::yield() {
  block(Mode::yields, "goes on after a yield", nullptr, 0);
}

void Threads::pause(Time time) {
  block(Mode::sleeps, "goes on after a pause", nullptr, now() + time);
}

void Threads::await_quiet() {
  block(Mode::awaits_quiet, "begins", nullptr, 0);
}

void Threads::sleep(const volatile std::uint32_t* word, std::uint32_t value, std::uint32_t bits,
                    Time until) {
  step("sleeps on", word);
  if (*word != value || until <= state_.now) return;
  self().bits = bits;
  block(Mode::sleeps, "wakes by", word, until);
}

void Threads::wake(const volatile void* at, std::uint32_t bits) {
  step("wakes who sleeps on", at);
  for (Thread& thread : state_.threads) {
    if (thread.mode == Mode::sleeps && thread.at == at && (thread.bits & bits) != 0) {
      thread.woken = true;
    }
  }
}

void Threads::lock(const void* mutex) {
  block(Mode::locks, "locks", mutex, 0);
  *std::find(std::begin(state_.held), std::end(state_.held), nullptr) = mutex;
}

bool Threads::try_lock(const void* mutex) {
  step("tries to lock", mutex);
  if (is_held(mutex)) return false;
  *std::find(std::begin(state_.held), std::end(state_.held), nullptr) = mutex;
  return true;
}

void Threads::unlock(const void* mutex) {
  *std::find(std::begin(state_.held), std::end(state_.held), mutex) = nullptr;
}

bool Threads::wait(const void* condition, const void* mutex, Time until) {
  unlock(mutex);
  self().bits = ~std::uint32_t{0};
  block(Mode::sleeps, "wakes by", condition, until);
  const bool woken = self().woken;
  lock(mutex);
  return woken;
}

void Threads::may_come(Time time) {
  state_.deadline = time;
}

void* Threads::allocate(std::size_t bytes) {
  const std::size_t at = (state_.allocated + 15) / 16 * 16;
  base::check(at + bytes <= heap.size(), "the heap of a state is large enough");
  state_.allocated = at + bytes;
  return heap.data() + at;
}

bool Threads::has_allocated(const void* at) {
  return at >= heap.data() && at < heap.data() + heap.size();
}

Threads::Copy Threads::copy() const {
  Copy copy{state_, {}};
  const auto add = [&](const std::byte* from, const std::byte* to) {
    copy.memory.insert(copy.memory.end(), from, to);
  };
  const auto* const shared = reinterpret_cast<const std::byte*>(&shared_);
  add(shared, shared + shared_.bytes());
  add(heap.data(), heap.data() + state_.allocated);
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    if (state_.threads[i].stack != nullptr) add(state_.threads[i].stack, top(i));
  }
  return copy;
}

void Threads::restore(const Copy& copy) {
  state_ = copy.state;
  const std::byte* from = copy.memory.data();
  const auto take = [&](std::byte* to, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    from += bytes;
  };
  take(reinterpret_cast<std::byte*>(&shared_), shared_.bytes());
  take(heap.data(), state_.allocated);
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    if (state_.threads[i].stack == nullptr) continue;
    const auto bytes = static_cast<std::size_t>(top(i) - state_.threads[i].stack);
    take(top(i) - bytes, bytes);
  }
}

Threads::Mark Threads::mark(const Copy& copy) const {
  Mark mark;
  const auto add = [&](const void* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, static_cast<const std::byte*>(from) + i, std::min(bytes - i, sizeof word));
      mark.a = (mark.a ^ word) * 0x9E3779B97F4A7C15ULL;
      mark.a ^= mark.a >> 32;
      mark.b = (mark.b + word) * 0xD6E8FEB86659FD93ULL;
      mark.b ^= mark.b >> 29;
    }
  };
  const auto add_number = [&](std::uint64_t number) { add(&number, sizeof number); };
  for (const Thread& thread : copy.state.threads) {
    add_number(static_cast<std::uint64_t>(thread.mode) * 2 + (thread.woken ? 1 : 0));
    if (thread.mode == Mode::over) continue;
    // The registers; the rest of `registers` is not used.
    if (thread.stack != nullptr) add(&thread.registers, 8 * sizeof(std::uint64_t));
  }
  add(copy.state.held, sizeof copy.state.held);
  if (is_bounded()) add_number(copy.state.preemptions * most_threads + copy.state.running);
  add_number(static_cast<std::uint64_t>(copy.state.now));
  add_number(static_cast<std::uint64_t>(std::max(copy.state.deadline, copy.state.now)));
  add(copy.memory.data(), copy.memory.size());
  return mark;
}

std::size_t Threads::place(const volatile void* at) const {
  return static_cast<std::size_t>(static_cast<const volatile std::byte*>(at) -
                                  reinterpret_cast<const std::byte*>(&shared_));
}

std::vector<std::string> Threads::path() const {
  std::vector<std::string> path;
  for (const Choice& choice : way_) {
    const std::size_t taken = choice.options[choice.next - 1];
    if (taken == clock()) {
      path.emplace_back("the time comes");
      continue;
    }
    const Thread& thread = choice.copy.state.threads[taken];
    path.push_back(fmt::format("{}: {} {}", bodies_[taken].name, thread.what, thread.where));
  }
  return path;
}

}  // namespace tutti::test
