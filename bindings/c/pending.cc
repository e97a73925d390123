#include <chrono>
#include <cmath>

#include "guard.h"
#include "handles.h"

using tutti::c::answered;
using tutti::c::at;
using tutti::c::guarded;

int tutti_pending_wait(const tutti_pending* pending) {
  return guarded([&] { at(pending, "tutti_pending_wait", "pending").pending.wait(); });
}

int tutti_pending_wait_for(const tutti_pending* pending, double seconds, int* done) {
  return guarded([&] {
    constexpr const char* function = "tutti_pending_wait_for";
    // The longest wait that a clock with 63 bits of nanoseconds can count from now on.
    constexpr double most = 100.0 * 365 * 24 * 3600;
    int& is_done = at(done, function, "done");
    const tutti::Pending& call = at(pending, function, "pending").pending;
    if (std::isnan(seconds) || seconds < 0) {
      throw tutti::Error(tutti::ErrorCode::invalid_argument,
                         "tutti_pending_wait_for: seconds is below 0 or no number");
    }
    const std::chrono::duration<double> limit(std::min(seconds, most));
    try {
      is_done = call.wait_for(std::chrono::duration_cast<std::chrono::nanoseconds>(limit)) ? 1 : 0;
    } catch (...) {
      // The wait has thrown. Either that is the call's own error, or this thread may not wait.
      if (call.done()) is_done = 1;
      throw;
    }
  });
}

int tutti_pending_wait_on(const tutti_pending* pending, void* stream) {
  return guarded([&] {
    at(pending, "tutti_pending_wait_on", "pending")
        .pending.wait_on(static_cast<CUstream_st*>(stream));
  });
}

int tutti_pending_done(const tutti_pending* pending) {
  return answered(
      -1, [&] { return at(pending, "tutti_pending_done", "pending").pending.done() ? 1 : 0; });
}

int tutti_pending_then(const tutti_pending* pending, tutti_callback callback, void* context) {
  return guarded([&] {
    constexpr const char* function = "tutti_pending_then";
    at(callback, function, "callback");
    at(pending, function, "pending")
        .pending.then([callback, context](const std::exception_ptr& outcome) {
          if (!outcome) return callback(context, nullptr);
          tutti::c::ErrorView error(outcome);
          callback(context, &error.get());
        });
  });
}

void tutti_pending_destroy(tutti_pending* pending) {
  delete pending;
}
