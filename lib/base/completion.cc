#include "base/completion.h"

#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "tutti/error.h"
#include "tutti/pending.h"

namespace tutti::base {
namespace {

thread_local bool running_callback = false;

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

bool ends_store(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.code() == ErrorCode::peer_lost;
  } catch (...) {
    return false;
  }
}

}  // namespace

CallbackScope::CallbackScope() : before_(std::exchange(running_callback, true)) {}

CallbackScope::~CallbackScope() {
  running_callback = before_;
}

void refuse_in_callback(std::string_view what) {
  if (!running_callback) return;
  throw Error(ErrorCode::invalid_argument,
              std::string(what) +
                  " inside a callback or a deleter: these run on the communication thread, which "
                  "would wait for itself; make this call on a thread of the program");
}

void abort_in_callback() {
  if (!running_callback) return;
  log().critical(
      "a callback or a deleter destroyed the last owner of this store, and the store cannot wait "
      "for its own threads there; the process ends; keep an owner until the program has waited "
      "for its calls");
  std::abort();
}

Completion::Completion(std::size_t parts, What what, std::weak_ptr<Driver> driver,
                       std::shared_ptr<const StreamOrder> order)
    : what_(std::move(what)),
      driver_(std::move(driver)),
      order_(std::move(order)),
      open_parts_(parts),
      unissued_parts_(parts),
      done_(parts == 0) {}

Completion::~Completion() {
  const Lock lock(mutex_);
  if (!error_ || error_seen_) return;
  // The loss that ended the store has been logged. Its calls need not log it again.
  const auto level = ends_store(error_) ? spdlog::level::debug : spdlog::level::warn;
  log().log(level, "{} failed and nobody waited: {}", what(), text_of(error_));
}

bool Completion::is_in_callback() {
  return running_callback;
}

void Completion::issue() {
  const Lock lock(mutex_);
  if (--unissued_parts_ == 0) changed_.notify_all();
}

void Completion::finish(std::exception_ptr error) {
  if (settle(std::move(error))) call_back();
}

bool Completion::settle(std::exception_ptr error) {
  std::size_t open = open_parts_.load();
  while (!error && open > 1) {
    if (open_parts_.compare_exchange_weak(open, open - 1)) return false;
  }
  const Lock lock(mutex_);
  if (error && !error_) error_ = std::move(error);
  if (--open_parts_ > 0) return false;
  done_.store(true, std::memory_order_release);
  changed_.notify_all();
  return !callbacks_.empty();
}

void Completion::call_back() {
  const CallbackScope scope;
  Lock lock(mutex_);
  // Callbacks run one after the other and in order, even those that are added meanwhile. A callback
  // keeps its place in the list until it has run, so that `then` appends behind it.
  while (!callbacks_.empty()) {
    Callback callback = std::move(callbacks_.front());
    const std::exception_ptr outcome = error_;
    lock.unlock();
    run(callback, outcome);
    callback = nullptr;
    lock.lock();
    callbacks_.pop_front();
  }
}

bool Completion::wait_until(Clock::time_point deadline) {
  if (!is_done()) {
    fork_guard_.check();
    waited_for_.store(true, std::memory_order_relaxed);
    if (const auto driver = driver_.lock()) driver->drive(*this, deadline);
  }
  Lock lock(mutex_);
  while (open_parts_ > 0) {
    if (!changed_.wait_until(lock, deadline) && open_parts_ > 0) return false;
  }
  throw_if_failed();
  return true;
}

void Completion::throw_if_failed() {
  if (!error_) return;
  error_seen_ = true;
  std::rethrow_exception(error_);
}

void Completion::wait_on(DeviceStream stream) {
  if (order_ == nullptr) {
    wait_until(Clock::time_point::max());
    return;
  }
  fork_guard_.check();
  order_->check(stream);
  if (!is_done()) {
    waited_for_.store(true, std::memory_order_relaxed);
    if (const auto driver = driver_.lock()) driver->wake(*this);
  }
  {
    // No deadline is needed: the store itself ends every call.
    Lock lock(mutex_);
    while (open_parts_ > 0 && unissued_parts_ > 0) {
      changed_.wait_until(lock, Clock::time_point::max());
    }
    if (open_parts_ == 0) return throw_if_failed();
  }
  order_->hold_back(stream);
}

bool Completion::look() noexcept {
  if (!is_done() && !fork_guard_.is_in_child()) {
    if (const auto driver = driver_.lock()) driver->ask(*this);
  }
  return is_done();
}

void Completion::then(Callback callback) {
  if (!is_done()) fork_guard_.check();
  std::exception_ptr outcome;
  if (keep(callback, outcome)) {
    if (const auto driver = driver_.lock()) driver->attend(*this);
    return;
  }
  const CallbackScope scope;
  run(callback, outcome);
}

bool Completion::keep(Callback& callback, std::exception_ptr& outcome) {
  const Lock lock(mutex_);
  outcome = error_;
  const bool later = open_parts_ > 0 || !callbacks_.empty();
  if (later) callbacks_.push_back(std::move(callback));
  return later;
}

void Completion::run(const Callback& callback, const std::exception_ptr& error) {
  if (error) error_seen_ = true;
  try {
    callback(error);
  } catch (...) {
    log().error("a callback of {} threw: {}", what(), text_of(std::current_exception()));
  }
}

}  // namespace tutti::base

namespace tutti {

Pending::Pending() : completion_(std::make_shared<base::Completion>(0, "a finished call")) {}

namespace {

void refuse_in_callback(const base::Completion& completion) {
  if (base::Completion::is_in_callback() && !completion.is_done()) {
    throw Error(ErrorCode::invalid_argument,
                "wait for " + completion.what() +
                    " inside a callback or a deleter: these run on the communication thread, "
                    "which would wait for itself; submit calls there, but wait on another thread");
  }
}

}  // namespace

void Pending::wait() const {
  refuse_in_callback(*completion_);
  // No deadline is needed: the store itself ends every call (timeout, peer_lost).
  completion_->wait_until(base::Clock::time_point::max());
}

bool Pending::wait_for(std::chrono::nanoseconds limit) const {
  refuse_in_callback(*completion_);
  const base::Clock::time_point now = base::Clock::now();
  const bool endless = limit > base::Clock::time_point::max() - now;
  return completion_->wait_until(endless ? base::Clock::time_point::max() : now + limit);
}

void Pending::wait_on(DeviceStream stream) const {
  if (stream.is_none()) {
    throw Error(ErrorCode::invalid_argument,
                "wait_on of " + completion_->what() +
                    " got a DeviceStream that refers to no stream; pass a stream, or "
                    "DeviceStream::legacy() for CUDA's default stream");
  }
  refuse_in_callback(*completion_);
  completion_->wait_on(stream);
}

bool Pending::done() const noexcept {
  return completion_->look();
}

void Pending::then(Callback callback) const {
  completion_->then(std::move(callback));
}

}  // namespace tutti
