// A worker that others are killed beside. It checks every value to the last bit.
//
//   steps TYPE PHASE STEPS [LARGE [PAUSE]]
//
// TYPE   dist_sync or dist_async
// PHASE  what it does STEPS times:
//        start    nothing: it says that it is there, and a moment later creates its store
//        init     init of another key each time
//        push, pull, pushpull, barrier
//        end      nothing: it closes its store, a moment after worker 0
//        unseen   once, before it says that it is there: pushpull; it never waits for it, lets the
//                 job lose a node, and does not close its store
//        mixed    push, and pull of what the optimizer has made of it
//        mixed-after-N  the same, where an earlier job has made N steps
//        each     as mixed, and it says every step
//        found    once: it says how many such steps an earlier job has made
//        late     as mixed; what a time limit ends is called again
// LARGE  elements of the larger key (2,000,000)
// PAUSE  milliseconds between steps (0)
//
// The smaller key is "small", or what STEPS_KEY says, and gradients are 1, or STEPS_GRADIENT.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace {

using namespace tutti;
using namespace std::chrono_literals;
using Floats = std::vector<float>;

constexpr int wrong_values = 3;
constexpr int caught_status = 42;
constexpr float momentum = 0.5F;

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

Tensor over(Floats& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}, DType::f32};
}

std::string name_of_small() {
  const char* const name = std::getenv("STEPS_KEY");
  return name == nullptr ? "small" : name;
}

float gradient() {
  const char* const text = std::getenv("STEPS_GRADIENT");
  return text == nullptr ? 1 : std::strtof(text, nullptr);
}

/// One weight under sgd with momentum, as the servers compute it.
class Weight {
 public:
  void push(float sum) {
    velocity_ = momentum * velocity_ - sum;
    value_ += velocity_;
  }
  float value() const { return value_; }

 private:
  float value_ = 0;
  float velocity_ = 0;
};

class Program {
 public:
  Program(KVStore& store, std::size_t large, int pause)
      : store_(store), small_(5), large_(large), pause_(pause) {}

  void run(const std::string& named, int steps);

 private:
  void prepare();
  void push() { store_.push(keys_, {over(small_gradient_), over(large_gradient_)}).wait(); }
  void push_until_done(const Key& key, Floats& gradient);
  void pull() { store_.pull(keys_, {over(small_), over(large_)}).wait(); }
  void step(const std::string& phase, int i);
  void check(float expected) const;
  void mixed(int i);
  void find();
  void meet_in_the_end(int steps);
  void lose_unseen();
  bool together() const { return store_.type().find("async") == std::string::npos; }

  KVStore& store_;
  const std::vector<Key> keys_{name_of_small(), "large"};
  Floats small_;
  Floats large_;
  const std::chrono::milliseconds pause_;
  bool may_be_late_ = false;
  Floats small_gradient_ = Floats(small_.size(), gradient());
  Floats large_gradient_ = Floats(large_.size(), gradient());
  Weight weight_;
};

void Program::prepare() {
  store_.set_optimizer({"sgd", {{"learning_rate", 1}, {"momentum", momentum}}});
  store_.init(keys_, {over(small_), over(large_)});
}

void Program::check(float expected) const {
  for (const Floats* values : {&small_, &large_}) {
    const auto wrong =
        std::find_if(values->begin(), values->end(), [&](float v) { return v != expected; });
    if (wrong == values->end()) continue;
    say("worker " + std::to_string(store_.rank()) + " got " + std::to_string(*wrong) + " for " +
        std::to_string(expected));
    std::exit(wrong_values);
  }
}

/// One key at a time: of several, some may have been pushed.
void Program::push_until_done(const Key& key, Floats& gradient) {
  for (;;) {
    try {
      return store_.push({key}, {over(gradient)}).wait();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timeout) throw;
      say(std::string("it pushes again: ") + error.what());
    }
  }
}

void Program::mixed(int i) {
  if (may_be_late_) {
    push_until_done(keys_[0], small_gradient_);
    push_until_done(keys_[1], large_gradient_);
  } else {
    push();
  }
  if (!together()) return;
  weight_.push(static_cast<float>(store_.num_workers()) * gradient());
  pull();
  check(weight_.value());
  if (i % 10 == 0) say("step " + std::to_string(i));
}

void Program::find() {
  constexpr int most = 1'000'000;
  pull();
  int steps = 0;
  while (weight_.value() != small_[0] && ++steps < most) weight_.push(gradient());
  check(weight_.value());
  say("an earlier job has made " + std::to_string(steps) + " steps");
}

/// The order of updates is not fixed, but all gradients are equal.
void Program::meet_in_the_end(int steps) {
  store_.barrier();
  for (int i = 0; i < steps * store_.num_workers(); ++i) weight_.push(gradient());
  pull();
  check(weight_.value());
}

/// The last call was for nothing, and no call says so.
void Program::lose_unseen() {
  while (store_.num_dead_node() == 0) std::this_thread::sleep_for(10ms);
}

void Program::step(const std::string& phase, int i) {
  if (phase == "init") {
    Floats value{1};
    store_.init({"key" + std::to_string(i)}, {over(value)});
  } else if (phase == "push") {
    push();
  } else if (phase == "pull") {
    pull();
  } else if (phase == "pushpull") {
    store_.pushpull("large", over(large_gradient_), over(large_)).wait();
  } else if (phase == "barrier") {
    store_.barrier();
  } else if (phase == "mixed" || phase == "each" || phase == "late") {
    mixed(i);
    if (phase == "each") say("made " + std::to_string(i + 1) + " steps");
  }
}

void Program::run(const std::string& named, int steps) {
  const std::string phase = named.substr(0, named.find('-'));
  const std::string after = "mixed-after-";
  const int before = named.starts_with(after) ? std::stoi(named.substr(after.size())) : 0;
  may_be_late_ = phase == "late";
  prepare();
  for (int i = 0; i < before; ++i)
    weight_.push(static_cast<float>(store_.num_workers()) * gradient());
  // A call that came after the loss would say so.
  if (phase == "unseen") store_.pushpull("large", over(large_gradient_), over(large_));
  say("worker " + std::to_string(store_.rank()) + " is in " + phase);
  for (int i = 0; i < steps; ++i) {
    step(phase, i);
    std::this_thread::sleep_for(pause_);
    if (i % 10 == 0 && phase == "mixed" && !together()) say("step " + std::to_string(i));
  }
  if (phase == "mixed" && !together()) meet_in_the_end(steps);
  if (phase == "found") find();
  if (phase == "unseen") lose_unseen();
  if (phase == "end" && store_.rank() != 0) std::this_thread::sleep_for(1s);
}

struct Size {
  std::size_t large = 2'000'000;
  int pause = 0;
};

int run(const std::string& type, const std::string& phase, int steps, const Size& size) {
  if (phase == "start") {
    say("a worker is in start");
    std::this_thread::sleep_for(500ms);
  }
  try {
    {
      const auto store = KVStore::create(type);
      Program(*store, size.large, size.pause).run(phase, steps);
      say("worker " + std::to_string(store->rank()) + " closes its store");
      if (phase != "unseen") store->close();
    }
    say("finished, and all values were right");
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "caught %s: %s\n", std::string(name(error.code())).c_str(), error.what());
    return caught_status;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  Size size;
  if (argc > 4) size.large = std::strtoul(argv[4], nullptr, 10);
  if (argc > 5) size.pause = std::atoi(argv[5]);
  return run(argv[1], argv[2], std::atoi(argv[3]), size);
}
