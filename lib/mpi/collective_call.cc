#include "mpi/collective_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <list>
#include <thread>

#include "base/clock.h"
#include "base/doorbell.h"
#include "base/mutex.h"
#include "base/wait_limits.h"
#include "mpi/checked.h"
#include "tutti/error.h"

namespace tutti::mpi {
namespace {

/// The time to go on after `look` has thrown. A rank that fails sends the reason before it ends,
/// and the reason may still arrive.
constexpr auto last_words = std::chrono::milliseconds(500);

/// Tests a call until it is done, and returns true, or until `limit` has passed, and returns false.
/// It tests often at first, and then less and less often, up to 2 ms apart. So ranks that wait long
/// for a late one leave it the processor.
bool done_within(std::chrono::milliseconds limit, const Communicator::Look& look,
                 CollectiveCall& call, const char* name) {
  base::Doorbell never;
  const auto start = base::Clock::now();
  auto deadline = start + limit;
  std::exception_ptr hopeless;
  while (!call.poll(name)) {
    const auto now = base::Clock::now();
    const auto waited = now - start;
    if (now > deadline && hopeless) std::rethrow_exception(hopeless);
    if (now > deadline) return false;
    if (waited < std::chrono::microseconds(100)) {
      std::this_thread::yield();
      continue;
    }
    try {
      if (look && !hopeless) look();
    } catch (const Error&) {
      hopeless = std::current_exception();
      deadline = std::min(deadline, now + last_words);
    }
    never.wait(never.ticket(),
               now + std::min<base::Clock::duration>(waited / 8, std::chrono::milliseconds(2)));
  }
  return true;
}

/// The calls that were given up. MPI may still read and write their memory. A process has one list,
/// as it has one MPI.
struct LeftOpen {
  base::Mutex mutex{5};
  std::list<std::shared_ptr<CollectiveCall>> calls TUTTI_GUARDED_BY(mutex);
};

LeftOpen& left_open() {
  static auto* const only = new LeftOpen;
  return *only;
}

void keep(const std::shared_ptr<CollectiveCall>& call) {
  const base::Lock lock(left_open().mutex);
  left_open().calls.push_back(call);
}

}  // namespace

bool CollectiveCall::poll(const char* name) {
  int done = 0;
  for (int i = 0; i < calls_a_look && done == 0; ++i) {
    checked(MPI_Test(&request, &done, MPI_STATUS_IGNORE), name);
  }
  return done != 0;
}

void wait_for(const std::shared_ptr<CollectiveCall>& call, const char* name,
              std::chrono::milliseconds limit, const std::string& waiting_for,
              const Communicator::Look& look) {
  bool done = false;
  try {
    done = done_within(limit, look, *call, name);
  } catch (const Error&) {
    keep(call);
    throw;
  }
  if (done) return;
  keep(call);
  throw Error(ErrorCode::timeout,
              fmt::format("waited {} for {}", base::create_limit(limit), waiting_for));
}

bool poll_left_open() {
  const base::Lock lock(left_open().mutex);
  left_open().calls.remove_if([](const auto& call) { return call->poll("MPI_Test"); });
  return !left_open().calls.empty();
}

}  // namespace tutti::mpi
