#include "python/mxnet/failures.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "tutti/error.h"

namespace tutti::python::mxnet {
namespace {

struct KeptFailure {
  std::string words;
  std::exception_ptr error;
};

/// A lost rank fails every key in flight, each with a text of its own.
constexpr std::size_t most_kept = 1024;

struct Failures {
  std::mutex mutex;                      ///< level 5
  std::deque<KeptFailure> newest_first;  ///< guarded by mutex
  /// Whether the program was told of any error; guarded by mutex.
  bool was_told = false;
};

/// The object is never destroyed, because the engine's threads use it until the process ends.
Failures& failures() {
  static auto* const all = new Failures;
  return *all;
}

std::string words_for(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    return "tutti." + std::string(name(ours.code())) + ": " + ours.what();
  } catch (const std::exception& other) {
    return other.what();
  }
}

}  // namespace

std::string remember(const std::exception_ptr& error) {
  std::string words = words_for(error);
  Failures& all = failures();
  const std::lock_guard lock(all.mutex);
  all.newest_first.push_front({words, error});
  if (all.newest_first.size() > most_kept) all.newest_first.pop_back();
  return words;
}

std::exception_ptr recall(const std::string& words) {
  Failures& all = failures();
  const std::lock_guard lock(all.mutex);
  const auto found =
      std::find_if(all.newest_first.begin(), all.newest_first.end(),
                   [&](const KeptFailure& failure) { return failure.words == words; });
  if (found == all.newest_first.end()) return nullptr;
  all.was_told = true;
  return found->error;
}

std::string untold() {
  Failures& all = failures();
  const std::lock_guard lock(all.mutex);
  return all.was_told || all.newest_first.empty() ? "" : all.newest_first.back().words;
}

}  // namespace tutti::python::mxnet
